// The op tables of a backend. Each op has rows of {name, supports, run} in order of preference; the
// first row that supports the problem runs. kernels/select fills the tables; tests walk every row
// against the reference.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "kernels/api/device.h"
#include "kernels/api/kv_rows.h"
#include "kernels/api/params.h"
#include "kernels/api/profile.h"

namespace ringkeep::kernels {

// What an op runs with. scratch() is valid until the op returns.
class Exec {
 public:
  explicit Exec(Device& device) : device_(&device) {}
  Device& device() { return *device_; }
  ThreadPool& pool() { return device_->pool(); }
  // At least `bytes`, 64-byte aligned, contents undefined; one block an op.
  std::byte* scratch(size_t bytes);
  size_t scratch_bytes() const { return scratch_.size(); }
  // Bytes of the matrices that grouped products have read so far.
  int64_t grouped_bytes = 0;
  // What run() adds the time of each op to; null (the default): nothing is measured.
  OpProfile* profile = nullptr;

 private:
  Device* device_;
  DeviceBuffer scratch_;
};

template <typename Params>
struct Kernel {
  const char* name;
  bool (*supports)(const Params&);
  void (*run)(const Params&, Exec&);
};
// `supports` of a kernel without constraints.
template <typename Params>
bool always(const Params&) {
  return true;
}
template <typename Params>
using KernelTable = std::vector<Kernel<Params>>;

struct Ops {
  KernelTable<LinearParams> linear;
  KernelTable<RouteParams> route;
  KernelTable<GroupedLinearParams> grouped_linear;
  KernelTable<CombineParams> combine;
  KernelTable<EmbedParams> embed;
  KernelTable<RmsNormParams> rms_norm;
  KernelTable<RopeTableParams> rope_table;
  KernelTable<NormRopeParams> norm_rope;
  KernelTable<GluParams> glu;
  KernelTable<AddParams> add;
  KernelTable<SoftcapParams> softcap;
  KernelTable<GaussianTopKParams> gaussian_topk;
  KernelTable<MatchRmsParams> match_rms;
  KernelTable<AltUpPredictParams> altup_predict;
  KernelTable<AltUpCorrectParams> altup_correct;
  KernelTable<KvAppendParams> kv_append;
  KernelTable<KvReadParams> kv_read;
  KernelTable<AttentionParams> attention;
  // Rows from LinearParams::fine_rows on are rounded more than those before.
  bool coarse_prompts = false;

  // Physical weights: bytes of a packed matrix, and packing rows [row0, row0 + in.rows) of it.
  // row0 and in.rows are multiples of weight_row_block, the last block of the matrix apart.
  int64_t weight_row_block = 1;
  size_t (*weight_bytes)(const quant::WeightSpec&, int64_t rows, int64_t cols) = nullptr;
  void (*pack_rows)(std::byte* data, int64_t rows, int64_t cols, int64_t row0,
                    const quant::WeightRows& in) = nullptr;
  // Physical cache: bytes of a page of one layer; empty string or why the geometry is not possible.
  size_t (*kv_page_bytes)(const KvGeometry&) = nullptr;
  std::string (*kv_supported)(const KvGeometry&) = nullptr;
  // Rows of one layer to the canonical layout of kv_rows.h, and back, bit for bit.
  void (*kv_export)(const KvRowsParams&, Exec&) = nullptr;
  void (*kv_import)(const KvRowsParams&, Exec&) = nullptr;
};

// Runs the first kernel of the table that supports the problem.
template <typename Params>
void run(const KernelTable<Params>& table, const Params& params, Exec& exec) {
  const auto kernel = std::find_if(table.begin(), table.end(),
                                   [&](const auto& kernel) { return kernel.supports(params); });
  RK_CHECK(kernel != table.end(), "no kernel supports the problem");
  if (exec.profile == nullptr) return kernel->run(params, exec);
  const auto start = std::chrono::steady_clock::now();
  kernel->run(params, exec);
  exec.device().sync();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  exec.profile->add(params, time.count());
}

// The physical layouts of the host backends, shared by kernels/ref and kernels/cpu.
// host_weights.cpp and host_kv.cpp document them.
void set_host_layouts(Ops& ops);

}  // namespace ringkeep::kernels
