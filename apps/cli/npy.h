// Writes a float32 matrix as a NumPy .npy file (format version 1.0), row by row.
// Format: numpy.lib.format, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "base/result.h"

namespace ringkeep::cli {

// The bytes before the data of a little-endian float32 array [rows, cols] in C order.
std::string npy_header(int64_t rows, int64_t cols);

class NpyWriter {
 public:
  // `path` "-" is standard output. A regular file appears under its name only once it is complete.
  // Errors: runtime.
  static Result<NpyWriter> open(const std::string& path, int64_t rows, int64_t cols);
  NpyWriter(NpyWriter&& other) noexcept;
  ~NpyWriter();  // removes an unfinished file

  Status write_row(std::span<const float> row);  // [cols]
  Status finish();                               // after `rows` rows

 private:
  NpyWriter() = default;
  Error failure() const;
  std::FILE* file_ = nullptr;
  std::string path_;
  std::string partial_;  // the name while it is written; empty when written in place
};

}  // namespace ringkeep::cli
