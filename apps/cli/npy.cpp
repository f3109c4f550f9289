#include "cli/npy.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace ringkeep::cli {

std::string npy_header(int64_t rows, int64_t cols) {
  std::string dict =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  // Magic (6), version (2), length (2) and the dictionary with its newline fill blocks of 64 bytes.
  const size_t unpadded = 10 + dict.size() + 1;
  dict.append((64 - unpadded % 64) % 64, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

Result<NpyWriter> NpyWriter::open(const std::string& path, int64_t rows, int64_t cols) {
  NpyWriter writer;
  writer.path_ = path;
  if (path == "-") {
    writer.file_ = stdout;
  } else {
    std::error_code ignored;
    const auto status = std::filesystem::status(path, ignored);
    const bool in_place =
        std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
    if (!in_place) writer.partial_ = path + ".partial";
    writer.file_ = std::fopen((in_place ? path : writer.partial_).c_str(), "wb");
    if (writer.file_ == nullptr) {
      writer.partial_.clear();
      return writer.failure();
    }
  }
  const std::string header = npy_header(rows, cols);
  if (std::fwrite(header.data(), 1, header.size(), writer.file_) != header.size())
    return writer.failure();
  return writer;
}

NpyWriter::NpyWriter(NpyWriter&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, {})) {}

NpyWriter::~NpyWriter() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (!partial_.empty()) std::remove(partial_.c_str());
}

Error NpyWriter::failure() const {
  return make_error(ErrorKind::runtime, "cannot write {}: {}", path_, std::strerror(errno));
}

Status NpyWriter::write_row(std::span<const float> row) {
  if (std::fwrite(row.data(), sizeof(float), row.size(), file_) != row.size()) return failure();
  return {};
}

Status NpyWriter::finish() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (file == stdout ? std::fflush(file) != 0 : std::fclose(file) != 0) return failure();
  if (partial_.empty()) return {};
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) return failure();
  partial_.clear();
  return {};
}

}  // namespace ringkeep::cli
