#include "cli/convert_calibration.h"

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "base/sha256.h"
#include "cli/options.h"
#include "cli/text_windows.h"
#include "models/input_statistics.h"
#include "models/model.h"

namespace ringkeep::cli {
namespace {

constexpr int64_t kChunk = 512;

}  // namespace

std::string calibration_label(const CalibrationText& text) {
  return fmt::format("sha256 {}, {} tokens in windows of {}", sha256_hex(text.text).substr(0, 16),
                     text.tokens, text.ctx);
}

Result<convert::Importance> measure_importance(const std::string& model,
                                               const CalibrationText& text, int threads,
                                               const std::function<bool()>& stop, bool quiet) {
  checkpoint::Checkpoint checkpoint = RK_TRY(checkpoint::open(model));
  if (!text.ids && checkpoint.tokenizer.kind == TokenizerData::Kind::none)
    return input_error("{}: the checkpoint has no tokenizer ({}): give --calibration-ids",
                       checkpoint.path, checkpoint.tokenizer.note);
  CacheFlags flags;
  flags.ctx = text.ctx;
  flags.chunk = kChunk;
  RuntimeOptions runtime;
  runtime.threads = threads;
  Session session = RK_TRY(start(std::move(checkpoint), flags, runtime));
  engine::Engine& engine = *session.engine;
  Windows windows =
      text.ids
          ? RK_TRY(token_windows(
                RK_TRY(parse_token_ids(text.text, engine.config().vocab_size, "--calibration-ids")),
                engine))
          : RK_TRY(text_windows(text.text, engine));

  models::InputStatistics statistics;
  std::optional<Progress> progress;
  if (!quiet) progress.emplace("calibrate", static_cast<double>(text.tokens));
  engine.model().observe_inputs(&statistics);
  const auto head = static_cast<int64_t>(windows.head.size());
  int64_t done = 0;
  while (done < text.tokens) {
    if (stop()) return make_error(ErrorKind::interrupted, "interrupted");
    const auto window = windows.next(std::min(engine.plan().ctx, text.tokens - done + head));
    if (window.empty()) break;
    const auto size = static_cast<int64_t>(window.size());
    RK_TRY(engine.logits(window, kChunk, size - 1, size, [](auto, auto) {}));
    done += size - head;
    if (progress) progress->update(static_cast<double>(done));
  }
  engine.model().observe_inputs(nullptr);
  return statistics.by_module(engine.model().weights(), engine.checkpoint());
}

}  // namespace ringkeep::cli
