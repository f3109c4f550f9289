// Caches saved to files and read from them.
#include "base/mapped_file.h"
#include "engine/engine_state.h"
#include "engine/mlx_cache.h"

namespace ringkeep::engine {

Fingerprint Engine::State::fingerprint() {
  return make_fingerprint({.checkpoint = checkpoint,
                           .tokenizer = tokenizer_sum,
                           .balance = *balance,
                           .plan = store->plan(),
                           .adapter = options.adapter < 0
                                          ? "none"
                                          : adapters[static_cast<size_t>(options.adapter)].sha256(),
                           .exact = options.exact,
                           .weight_bits = options.weight_bits,
                           .weight_group = options.weight_group});
}

Status Engine::save_cache(std::span<const int32_t> tokens, const std::string& path) {
  State& s = *state_;
  RK_CHECK(s.prefixes != nullptr, "there is no prefix cache");
  const auto hit = s.prefixes->find(tokens, s.salt_with(s.options.adapter, 0), /*whichever=*/true);
  if (!hit)
    return make_error(ErrorKind::refused,
                      "{}: not saved: a snapshot of {} tokens does not fit --prefix-cache-bytes {}",
                      path, tokens.size(), plan().prefix_cache_bytes);
  const kv::SequenceId sequence = RK_TRY(s.store->thaw(hit->snapshot, hit->length));
  Status status = write_saved_state(
      s.access(), sequence, tokens.first(static_cast<size_t>(hit->length)), s.fingerprint(), path);
  s.store->close(sequence);
  return status;
}

Result<LoadedCache> Engine::load_cache(const std::string& path) {
  State& s = *state_;
  RK_CHECK(s.prefixes != nullptr, "there is no prefix cache");
  const MappedFile file = RK_TRY(MappedFile::open(path));
  LoadedCache loaded;
  kv::SequenceId sequence = -1;
  if (RK_TRY(holds_mlx_cache(file.bytes(), path))) {
    const MlxCache cache = RK_TRY(parse_mlx_cache(file.bytes(), path));
    RK_TRY(check_mlx_keys(config(), plan().max_length(), path));
    sequence = RK_TRY(restore_mlx_cache(s.access(), cache, path));
    loaded.length = cache.length;
    loaded.note = describe_rounding(cache);
    auto snapshot = s.store->freeze(sequence);
    if (snapshot.ok()) loaded.snapshot = *snapshot;
  } else {
    const SavedState state = RK_TRY(parse_saved_state(file.bytes(), path));
    RK_TRY(check_saved_state_sum(file.bytes(), path));
    for (const int32_t token : state.tokens)
      if (token < 0 || token >= config().vocab_size)
        return input_error("{}: token {} is outside the vocabulary of {}", path, token,
                           config().vocab_size);
    sequence = RK_TRY(restore_saved_state(s.access(), state, s.fingerprint(), path));
    loaded.length = static_cast<int64_t>(state.tokens.size());
    if (s.prefixes->insert(state.tokens, s.salt_with(s.options.adapter, 0), sequence))
      loaded.tokens = state.tokens;
  }
  const size_t bytes = s.store->freeze_bytes(sequence);
  s.store->close(sequence);
  if (!loaded.snapshot && loaded.tokens.empty())
    return make_error(ErrorKind::refused, "{}: it needs {} bytes, --prefix-cache-bytes is {}", path,
                      bytes, plan().prefix_cache_bytes);
  return loaded;
}

}  // namespace ringkeep::engine
