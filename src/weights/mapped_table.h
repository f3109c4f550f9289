// A table of which a step reads a few rows only, such as per-layer embeddings: it stays in the
// mapped file, in whatever type it is stored, and takes no memory of its own.
#pragma once

#include <span>

#include "base/thread_pool.h"
#include "quant/source_tensor.h"

namespace ringkeep::weights {

class MappedTable {
 public:
  MappedTable() = default;
  // `source` is a matrix of a type that quant::spec_of takes, and outlives the table.
  explicit MappedTable(const quant::SourceTensor& source) : source_(&source) {}

  explicit operator bool() const { return source_ != nullptr; }
  int64_t cols() const { return source_->cols(); }
  // out[r] = scale * table[rows[r]], on the host: [rows.size(), cols].
  void read(std::span<const int32_t> rows, float scale, float* out, ThreadPool& pool) const;

 private:
  const quant::SourceTensor* source_ = nullptr;
};

}  // namespace ringkeep::weights
