"""llama.cpp through llama-cpp-python's low-level interface: speed at depth, and logits.

Settings as llama-bench's: micro-batches of 512, flash attention on, a sliding-window cache of the
window's size only (swa_full off), greedy ids that do not matter.
"""

import ctypes

import llama_cpp
import numpy as np

import peer

# Cache names as on ringkeep's command line -> ggml tensor types.
CACHE_TYPES = {
    "f16": llama_cpp.GGML_TYPE_F16,
    "8": llama_cpp.GGML_TYPE_Q8_0,
    "4": llama_cpp.GGML_TYPE_Q4_0,
}
MICRO_BATCH = 512
SEGMENT = 512  # tokens that see each other while a deep cache is filled


@llama_cpp.llama_log_callback
def _quiet(level, text, user_data):
    pass


def system_info() -> str:
    return llama_cpp.llama_print_system_info().decode()


class LlamaCpp(peer.Peer):
    """One context over a model file; `codec` names the cache's type."""

    CODECS = CACHE_TYPES

    def __init__(self, model_path, codec="f16", threads=2, n_ctx=8192, flash_attention=True,
                 outputs=1):
        if codec not in CACHE_TYPES:
            raise ValueError(f"no cache of {codec} bits")
        self._keep_alive = _quiet
        llama_cpp.llama_log_set(_quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(str(model_path).encode(), model_params)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {model_path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        self.segment = n_ctx if llama_cpp.llama_model_n_swa(self.model) > 0 else SEGMENT
        params.n_seq_max = -(-n_ctx // self.segment)
        params.kv_unified = True
        params.n_batch = MICRO_BATCH
        params.n_ubatch = MICRO_BATCH
        params.n_threads = threads
        params.n_threads_batch = threads
        params.type_k = CACHE_TYPES[codec]
        params.type_v = CACHE_TYPES[codec]
        params.flash_attn_type = (llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash_attention
                                  else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED)
        params.swa_full = False
        params.no_perf = True
        params.n_outputs_max = max(outputs, params.n_seq_max)
        self.ctx = llama_cpp.llama_init_from_model(self.model, params)
        if not self.ctx:
            raise RuntimeError(f"llama.cpp cannot make a context with a {codec} cache")
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(
            llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(MICRO_BATCH, 0, 1)
        self.position = 0

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.ctx)
        llama_cpp.llama_model_free(self.model)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.ctx), True)
        self.position = 0

    def _decode(self, tokens, every_logit=False, sequence=0):
        """One micro-batch; logits of the last row, or of every row."""
        n = len(tokens)
        self.batch.n_tokens = n
        for i, token in enumerate(tokens):
            self.batch.token[i] = int(token)
            self.batch.pos[i] = self.position + i
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = sequence
            self.batch.logits[i] = every_logit or i == n - 1
        status = llama_cpp.llama_decode(self.ctx, self.batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status} at position {self.position}")
        self.position += n

    def feed(self, tokens, sequence=0):
        for start in range(0, len(tokens), MICRO_BATCH):
            self._decode(tokens[start:start + MICRO_BATCH], sequence=sequence)
        llama_cpp.llama_synchronize(self.ctx)

    def step(self, tokens):
        for token in tokens:
            self.feed([token])

    def fill(self, depth, seed=0):
        """Feeds `depth` tokens and returns the state there, for `speed`.

        Without windows the tokens go in as sequences of SEGMENT tokens at their positions, which
        become one: what is measured later is the same, and filling takes time in proportion.
        """
        self.clear()
        tokens = self.speed_tokens(depth, seed)
        for segment, start in enumerate(range(0, depth, self.segment)):
            self.feed(tokens[start:start + self.segment], sequence=segment)
        memory = llama_cpp.llama_get_memory(self.ctx)
        for segment in range(1, -(-depth // self.segment)):
            llama_cpp.llama_memory_seq_cp(memory, segment, 0, -1, -1)
            llama_cpp.llama_memory_seq_rm(memory, segment, -1, -1)
        size = llama_cpp.llama_state_get_size(self.ctx)
        state = (ctypes.c_uint8 * size)()
        written = llama_cpp.llama_state_get_data(self.ctx, state, size)
        return depth, state, written

    def restore(self, filled):
        self.clear()
        self.position, state, written = filled
        if llama_cpp.llama_state_set_data(self.ctx, state, written) != written:
            raise RuntimeError("llama.cpp did not take its own state back")

    def logits(self, tokens, block=64):
        """Yields (first position, float32 [rows, vocab]) for every token; needs outputs >= block."""
        self.clear()
        for start in range(0, len(tokens), block):
            rows = tokens[start:start + block]
            self._decode(rows, every_logit=True)
            pointer = llama_cpp.llama_get_logits(self.ctx)
            yield start, np.ctypeslib.as_array(
                pointer, shape=(len(rows), self.vocab_size)).astype(np.float32, copy=True)


def main():
    """Writes llama.cpp's logits of given token ids, as `ringkeep logits` does."""
    parser = peer.logits_parser(main.__doc__, CACHE_TYPES)
    parser.add_argument("--no-flash-attention", action="store_true")
    args = parser.parse_args()
    tokens = peer.read_tokens(args.tokens_file)
    engine = LlamaCpp(args.model, args.codec, args.threads, n_ctx=len(tokens) + MICRO_BATCH,
                      flash_attention=not args.no_flash_attention, outputs=64)
    peer.write_logits(engine, tokens, args.output)
    engine.close()


if __name__ == "__main__":
    main()
