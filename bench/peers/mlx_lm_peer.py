"""mlx-lm on the CPU, on the weights of a GGUF file: speed at depth, and logits.

Settings as mlx_lm's own: prompts in steps of 2,048 tokens, the next step queued before one is done,
quantized caches as `--kv-bits --quantized-kv-start 0` makes them (groups of 64). Activations and
plain caches are float32: on x86 mlx converts every half-precision number in software, and is slower
with it. Its CPU backend computes on one thread and has no setting for more.
"""

import copy
import functools

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx.utils import tree_map
from mlx_lm.generate import maybe_quantize_kv_cache
from mlx_lm.models.cache import make_prompt_cache

import mlx_gguf
import peer

# Cache names as on ringkeep's command line -> bits.
CACHE_BITS = {"f16": None, "8": 8, "6": 6, "5": 5, "4": 4, "3": 3, "2": 2}
CACHE_GROUP = 64
PROMPT_STEP = 2048


def system_info() -> str:
    return (f"mlx {mx.__version__}, mlx-lm {mlx_lm.__version__}, CPU, one thread, float32, weights "
            f"in groups of {mlx_gguf.GROUP}")


@functools.cache
def _load(model_path):
    """One copy of the weights for all caches."""
    mx.set_default_device(mx.cpu)
    return mlx_gguf.load(model_path, mx.float32, quantized=True)


def _duplicate(cache):
    """A cache whose arrays are its own, so that it is written to without another copy."""
    result = copy.copy(cache)
    result.keys, result.values = tree_map(
        lambda array: array if array is None else array + 0, (cache.keys, cache.values))
    mx.eval([array for array in (result.keys, result.values) if array is not None])
    return result


class MlxLm(peer.Peer):
    """One model and its caches; `codec` names their type. Raises what mlx-lm raises for a codec."""

    CODECS = CACHE_BITS

    def __init__(self, model_path, codec="f16", threads=1, n_ctx=0):
        """`threads` and `n_ctx` are there for the interface: one thread it is, and caches grow."""
        if codec not in CACHE_BITS:
            raise ValueError(f"no cache of {codec} bits")
        self.model = _load(str(model_path))
        self.vocab_size = self.model.args.vocab_size
        self.bits = CACHE_BITS[codec]
        self._quantize(make_prompt_cache(self.model))  # a refusal comes before the first step
        self.clear()
        self.feed([0, 0])  # compiles what mlx compiles at the first call
        self.clear()

    def clear(self):
        self.cache = make_prompt_cache(self.model)

    def _quantize(self, cache):
        maybe_quantize_kv_cache(cache, quantized_kv_start=0, kv_group_size=CACHE_GROUP,
                                kv_bits=self.bits)

    def forward(self, tokens):
        """[tokens, vocab], yet to be computed."""
        result = self.model(mx.array(np.asarray(tokens, np.int32))[None], cache=self.cache)[0]
        self._quantize(self.cache)
        return result

    def feed(self, tokens):
        """Of all tokens but the last the caches alone are computed, as in generate_step."""
        for start in range(0, len(tokens) - 1, PROMPT_STEP):
            self.forward(tokens[start:min(start + PROMPT_STEP, len(tokens) - 1)])
            mx.eval([cache.state for cache in self.cache])
            mx.clear_cache()
        self.step(tokens[-1:])

    def step(self, tokens):
        before = []
        for token in tokens:
            now = self.forward([token])
            mx.async_eval(now)
            mx.eval(before)
            before = now
        mx.eval(before)

    def fill(self, depth, seed=0):
        self.clear()
        self.feed(self.speed_tokens(depth, seed))
        return self.cache

    def restore(self, filled):
        self.cache = [_duplicate(cache) for cache in filled]

    def logits(self, tokens, block=64):
        self.clear()
        for start in range(0, len(tokens), block):
            yield start, np.array(self.forward(tokens[start:start + block]))


def main():
    """Writes mlx-lm's logits of given token ids, as `ringkeep logits` does."""
    args = peer.logits_parser(main.__doc__, CACHE_BITS).parse_args()
    tokens = peer.read_tokens(args.tokens_file)
    peer.write_logits(MlxLm(args.model, args.codec, args.threads), tokens, args.output)


if __name__ == "__main__":
    main()
