// A K balance measured on a text (`ringkeep calibrate`), and the small file that holds it: its
// format is in docs/kv-codecs.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "weights/balance.h"

namespace ringkeep::weights {

struct Calibration {
  std::string family;             // of the model it was measured on
  std::string norms_sha256;       // see norms_fingerprint()
  KeyBalance balance;             // [layers]: [kv_heads, k_dim], empty where a layer has no keys
  std::vector<int64_t> kv_heads;  // [layers] rows of each balance
  std::string text_sha256;        // of the text, for information
  int64_t tokens = 0;             // that were measured
};

// SHA-256 of the norm weights of the model as floats: the same whatever the file format and the
// bits of its matrices, another one for another training. Errors (input): a norm is missing.
Result<std::string> norms_fingerprint(const checkpoint::Checkpoint& checkpoint);

// The bytes of the file.
std::string encode_calibration(const Calibration& calibration);

// Errors (input) begin with `name`: not such a file, another version, truncated, edited (the
// factors have a SHA-256), factors that are not finite, or beyond what calibration can give.
Result<Calibration> parse_calibration(std::span<const std::byte> bytes, const std::string& name);

// Whether the factors belong to that model: errors (input) name the first field that differs. The
// norms are compared where the checkpoint was opened with its weights.
Status check_fits(const Calibration& calibration, const checkpoint::Checkpoint& checkpoint,
                  const std::string& name);

// Reads, parses and checks the file.
Result<Calibration> load_calibration(const std::string& path,
                                     const checkpoint::Checkpoint& checkpoint);

}  // namespace ringkeep::weights
