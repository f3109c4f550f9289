// `convert --calibration`: runs the source over a text and measures the inputs of its matrices.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "convert/convert.h"

namespace ringkeep::cli {

struct CalibrationText {
  std::string text;  // its content
  bool ids = false;  // token ids instead of text
  int64_t tokens = 8192;
  int64_t ctx = 0;
};

// The name of the measurement: what must be the same for an unfinished conversion to go on.
std::string calibration_label(const CalibrationText& text);

// Loads the model, runs it with an f16 cache, and lets it go. Errors: as of loading; input (no
// tokenizer), interrupted.
Result<convert::Importance> measure_importance(const std::string& model,
                                               const CalibrationText& text, int threads,
                                               const std::function<bool()>& stop, bool quiet);

}  // namespace ringkeep::cli
