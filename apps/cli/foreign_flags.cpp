#include "cli/foreign_flags.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace ringkeep::cli {
namespace {

struct Advice {
  const char* text;
  std::vector<std::string_view> flags;
};

// As docs/migrating.md has them; a test compares.
const std::vector<Advice>& advice() {
  static const std::vector<Advice> all = {
      {"the model is the first argument, after the command", {"-m", "--model"}},
      {"org/name or org/name:QUANT is the first argument, from the local Hugging Face cache; "
       "nothing is downloaded",
       {"-hf", "-hfr", "--hf-repo"}},
      {"org/name/FILE.gguf is the first argument, from the local Hugging Face cache; nothing is "
       "downloaded",
       {"-hff", "--hf-file"}},
      {"leave it out; nothing is downloaded", {"-hft", "--hf-token", "--offline"}},
      {"not supported: nothing is downloaded", {"-mu", "--model-url"}},
      {"not supported: one model for each server",
       {"--models-dir", "--models-max", "--models-preset"}},
      {"HF_HUB_CACHE or HF_HOME in the environment says where the Hugging Face cache is",
       {"--download-dir"}},
      {"not supported: org/name is what refs/main of the cache names; a snapshot's folder is a "
       "MODEL too",
       {"--revision", "--code-revision", "--tokenizer-revision"}},
      {"not supported: the tokenizer is the checkpoint's", {"--tokenizer", "--tokenizer-mode"}},
      {"leave it out; code of a checkpoint is never run", {"--trust-remote-code"}},
      {"not supported: metadata are taken as the checkpoint has them",
       {"--override-kv", "--hf-overrides"}},
      {"not supported: RoPE is as the checkpoint says",
       {"--rope-freq-base", "--rope-freq-scale", "--rope-scaling", "--rope-scale",
        "--yarn-orig-ctx", "--yarn-ext-factor", "--yarn-attn-factor", "--yarn-beta-fast",
        "--yarn-beta-slow"}},
      {"leave it out; the format is found from the files", {"--load-format"}},
      {"not supported: models generate text, and no others are read", {"--task", "--runner"}},
      {"--kv-key-bits 8 for q8_0, 4 for q4_0; --kv-bits for keys and values",
       {"-ctk", "--cache-type-k"}},
      {"--kv-value-bits 8 for q8_0, 4 for q4_0; --kv-bits for keys and values",
       {"-ctv", "--cache-type-v"}},
      {"--kv-bits 8 for fp8", {"--kv-cache-dtype"}},
      {"--ubatch-size", {"-ub"}},
      {"leave it out; --chunk is the rows of a step", {"-b", "--batch-size"}},
      {"--chunk, the rows of a step", {"--max-num-batched-tokens"}},
      {"leave it out; prompts are always run in steps of --chunk",
       {"--enable-chunked-prefill", "--no-enable-chunked-prefill"}},
      {"--kv-memory BYTES, which all sequences share",
       {"-kvu", "--kv-unified", "--kv-cache-memory-bytes", "--gpu-memory-utilization"}},
      {"leave it out; without --kv-memory each sequence may come to its bound",
       {"-no-kvu", "--no-kv-unified"}},
      {"leave it out; pages have 64 tokens", {"--block-size"}},
      {"leave it out; a sequence that is set back is computed again", {"--swap-space"}},
      {"--max-kv-size N --keep K", {"--context-shift"}},
      {"leave it out; nothing is shifted", {"--no-context-shift"}},
      {"leave it out; a window can be rolled back without", {"--swa-full"}},
      {"--prefix-cache-bytes BYTES",
       {"-cram", "--cache-ram", "-ctxcp", "--ctx-checkpoints", "--swa-checkpoints",
        "--prompt-cache-size", "--prompt-cache-bytes"}},
      {"leave it out; prefixes are shared unless --prefix-cache-bytes is 0",
       {"--enable-prefix-caching"}},
      {"--prefix-cache-bytes 0", {"--no-enable-prefix-caching"}},
      {"leave it out; the common beginning of two prompts is reused, and nothing after it",
       {"--cache-reuse"}},
      {"`ringkeep run --prompt-cache-file`; not in the server", {"--slot-save-path"}},
      {"--parallel", {"--decode-concurrency", "--prompt-concurrency"}},
      {"leave it out; it is always so",
       {"-cb", "--cont-batching", "--enable-prompt-tokens-details"}},
      {"--parallel 1", {"-nocb", "--no-cont-batching"}},
      {"several servers behind a proxy (docs/deploy.md)", {"-dp", "--data-parallel-size"}},
      {"leave it out; --threads is for prompts and replies", {"-tb", "--threads-batch"}},
      {"leave it out; --max-connections bounds connections", {"--threads-http"}},
      {"--header-timeout, --body-timeout, --write-timeout and --idle-timeout",
       {"-to", "--timeout"}},
      {"--expert-memory BYTES: what experts may take, the others stay in the file",
       {"--n-cpu-moe", "-ncmoe", "--cpu-moe", "-cmoe", "-ot", "--override-tensor"}},
      {"leave it out; weights are packed into memory, and --expert-memory all holds all experts "
       "there",
       {"--no-mmap"}},
      {"not supported: memory is not locked", {"--mlock"}},
      {"not supported: start it with numactl", {"--numa"}},
      {"not supported: start it with nice", {"--prio"}},
      {"leave it out; there is no warm-up", {"--warmup", "--no-warmup"}},
      {"--chat-template FILE", {"--chat-template-file"}},
      {"leave it out; the model's own template is used where it has one",
       {"--use-default-chat-template"}},
      {"chat_template_kwargs in each request",
       {"--chat-template-kwargs", "--chat-template-args", "--default-chat-template-kwargs"}},
      {"leave it out; templates are always Jinja", {"--jinja"}},
      {"not supported: templates are always Jinja", {"--no-jinja"}},
      {"--reasoning-parser none leaves reasoning in the text; leave it out for auto, deepseek and "
       "deepseek-legacy",
       {"--reasoning-format"}},
      {"not supported: chat_template_kwargs in each request, where the template can switch "
       "reasoning off",
       {"--reasoning-budget"}},
      {"leave it out; reasoning is found from the chat template, or given with --reasoning-parser",
       {"--enable-reasoning"}},
      {"leave it out; the format is found from the chat template, or given with --tool-call-parser",
       {"--enable-auto-tool-choice"}},
      {"`ringkeep run --system TEXT`; in the server a message of each request",
       {"-sys", "--system-prompt"}},
      {"leave it out; `ringkeep run` is a chat on a terminal, without -p",
       {"-cnv", "--conversation"}},
      {"`ringkeep run --raw`", {"-no-cnv", "--no-conversation"}},
      {"--cors-origin", {"--allowed-origins", "--cors-origins"}},
      {"a proxy does TLS (docs/deploy.md)",
       {"--ssl-key-file", "--ssl-cert-file", "--ssl-keyfile", "--ssl-certfile"}},
      {"not supported: a proxy can take a prefix off", {"--api-prefix", "--root-path"}},
      {"not supported: a proxy can serve files of your own", {"--path"}},
      {"not supported: the page is always at /", {"--no-webui"}},
      {"leave it out; /metrics and /kv are always there", {"--metrics", "--slots"}},
      {"not supported: settings are those of the start", {"--props"}},
      {"not supported: flags are written on the command line", {"--config"}},
      {"-v, -q or --log-format",
       {"--log-level", "--uvicorn-log-level", "-lv", "--verbosity", "--log-verbosity"}},
      {"-q", {"--log-disable", "--disable-log-requests", "--no-enable-log-requests"}},
      {"leave it out; each request has a line in the log, without its text",
       {"--enable-log-requests"}},
      {"not supported: the log is on stderr, 2>FILE keeps it", {"--log-file"}},
      {"--lora FOLDER=SCALE", {"--lora-scaled"}},
      {"--adapter NAME=PATH for each", {"--lora-modules"}},
      {"leave it out; --adapter NAME=PATH is enough", {"--enable-lora"}},
      {"leave it out; weights stay as they are, and --weight-bits quantizes dense ones",
       {"--quantization", "--dtype"}},
      {"seed in each request; --seed of `ringkeep run`", {"-s", "--seed"}},
      {"ignore_eos in each request; --ignore-eos of `ringkeep run`", {"--ignore-eos"}},
      {"leave it out; the sampling of generation_config.json is not read: --temp, --top-p, --top-k "
       "and --min-p are the defaults",
       {"--generation-config"}},
      {"--temp, --top-p, --top-k, --min-p, --repetition-penalty and --max-tokens",
       {"--override-generation-config"}},
      {"leave it out; a request may ask for 20", {"--max-logprobs"}},
      {"leave it out; penalties look at all tokens", {"--repeat-last-n"}},
      {"not supported: the order of samplers is fixed (docs/command-line.md)",
       {"--samplers", "--sampling-seq", "--sampler-seq"}},
      {"not supported: the samplers are --temp, --top-k, --top-p, --min-p and the penalties",
       {"--mirostat", "--mirostat-lr", "--mirostat-ent", "--dry-multiplier", "--dry-base",
        "--dry-allowed-length", "--dry-penalty-last-n", "--dry-sequence-breaker",
        "--xtc-probability", "--xtc-threshold", "--typical", "--dynatemp-range", "--dynatemp-exp"}},
      {"leave it out; it is always on", {"-fa", "--flash-attn"}},
      {"leave it out; there is no GPU yet",
       {"-ngl", "--gpu-layers", "--n-gpu-layers", "-sm", "--split-mode", "-ts", "--tensor-split",
        "-mg", "--main-gpu", "-dev", "--device", "-nkvo", "--no-kv-offload", "--enforce-eager",
        "-tp", "--tensor-parallel-size", "-pp", "--pipeline-parallel-size", "--cpu-offload-gb"}},
      {"not supported: speculative decoding",
       {"-md", "--model-draft", "--draft-model", "--num-draft-tokens", "--speculative-config",
        "--spec-type", "--draft-max", "--draft-min"}},
      {"not supported: images", {"--mmproj", "--limit-mm-per-prompt"}},
      {"not supported: embeddings and ranks",
       {"--embedding", "--embeddings", "--rerank", "--reranking", "--pooling"}},
      {"not for all requests: grammar or response_format in each",
       {"--grammar", "--grammar-file", "--json-schema", "--json-schema-file"}},
      {"leave it out; there is one", {"--guided-decoding-backend"}},
      {"not supported", {"--pipeline"}},
  };
  return all;
}

}  // namespace

std::string foreign_flag_advice(const CLI::App& command, const std::string& flag) {
  for (const Advice& entry : advice())
    if (std::ranges::count(entry.flags, flag) > 0) return entry.text;
  std::string dashes = flag;
  std::ranges::replace(dashes, '_', '-');
  if (dashes == flag) return "";
  if (command.get_option_no_throw(dashes) != nullptr) return "written " + dashes;
  return foreign_flag_advice(command, dashes);
}

}  // namespace ringkeep::cli
