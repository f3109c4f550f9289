// Writes one safetensors file, with a checksum of all of it in its metadata.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/result.h"
#include "base/sha256.h"

namespace ringkeep::checkpoint {

// A tensor to write. `type` is the format's name: "U8", "F16", "I32", ...
struct SafetensorsEntry {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;
  size_t bytes = 0;
};

// The metadata key under which the checksum stands: SHA-256, in hexadecimal, of the whole file with
// the digits of the checksum itself replaced by zeros.
inline constexpr const char* kChecksumKey = "sha256";

class SafetensorsWriter {
 public:
  // The file appears under `path` once finish() is through. Errors (runtime): see AtomicFile.
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::map<std::string, std::string> metadata,
                                          std::span<const SafetensorsEntry> entries);
  // The tensors' bytes, in the order of the entries, in pieces of any size.
  Status write(std::span<const std::byte> bytes);
  // All bytes must have been written.
  Status finish();
  const std::string& sha256() const { return digits_; }  // after finish(): the file's checksum

 private:
  explicit SafetensorsWriter(AtomicFile file) : file_(std::move(file)) {}
  AtomicFile file_;
  Sha256 sum_;
  size_t checksum_at_ = 0;  // offset of its digits in the file
  size_t left_ = 0;         // bytes of tensors still to come
  std::string digits_;
};

// Compares the checksum of a file that parse_safetensors() accepted. Errors (input) begin with
// `name`: none there, or another one than the bytes have.
Status check_safetensors_sum(std::span<const std::byte> bytes,
                             const std::map<std::string, std::string>& metadata,
                             const std::string& name);

}  // namespace ringkeep::checkpoint
