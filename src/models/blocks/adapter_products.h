// What LoRA adapters add to the outputs of a linear op: y += B (A x), for the runs of rows that go
// through one. A row's result depends on that row and its adapter alone, bit for bit.
#pragma once

#include <span>
#include <vector>

#include "kernels/api/ops.h"
#include "weights/adapter.h"

namespace ringkeep::models {

// Rows [row0, row0 + rows) of a step go through `adapter`.
struct AdapterRows {
  int64_t row0 = 0;
  int64_t rows = 0;
  const weights::Adapter* adapter = nullptr;
};

class AdapterProducts {
 public:
  // Bytes for adapters of these sizes in steps of max_rows rows, and for the logits of head_rows.
  static size_t bytes(const weights::AdapterSizes& sizes, int64_t max_rows, int64_t head_rows);
  // Makes room for such an adapter beside those there is room for. On failure (runtime) nothing
  // changes.
  Status reserve(const weights::AdapterSizes& sizes, int64_t max_rows, int64_t head_rows,
                 kernels::Device& device);
  size_t bytes() const { return hidden_.size() + delta_.size(); }

  // Adds to the outputs of `p`, which has run, for the rows of `runs`: ascending, within p.rows.
  void add(const kernels::LinearParams& p, std::span<const AdapterRows> runs,
           const kernels::Ops& ops, kernels::Exec& exec);

 private:
  void add_run(const kernels::LinearParams& p, const AdapterRows& run, const kernels::Ops& ops,
               kernels::Exec& exec);

  kernels::DeviceBuffer hidden_;  // A x: [rows, ranks of all outputs]
  kernels::DeviceBuffer delta_;   // B A x: [rows, outputs]
};

}  // namespace ringkeep::models
