// The linear op: quantizes x once for all outputs, cuts the work into tasks (an output, some of its
// blocks, some rows of x) and runs them on the pool.
#include <algorithm>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/register.h"

namespace ringkeep::kernels::cpu {
namespace {

constexpr int64_t kMostTasksPerThread = 64;  // a task begins without what was asked for ahead
constexpr int kMaxOutputs = 8;               // of a call; a decode step allocates nothing here

bool packed(const LinearParams& p, const LinearOutput& out) {
  return !p.exact && !out.weight->spec.dense();
}

size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The tasks of one output: blocks in steps of `step`, rows in steps of kTaskRows.
struct Share {
  int64_t blocks = 0;
  int64_t step = 1;
  int64_t tasks = 0;  // along blocks
};

Share share_of(const LinearOutput& out, int64_t rows, int threads) {
  const PackedTensor& w = *out.weight;
  Share share;
  share.blocks = (w.rows + kRowBlock - 1) / kRowBlock;
  const size_t block_bytes = std::max<size_t>(1, host_weight_bytes(w.spec, kRowBlock, w.cols));
  if (rows > 4) {
    // Many rows make even one block a task; two of them share x in the nearest cache.
    share.step = std::clamp<int64_t>(share.blocks / (threads * kTasksPerThread), 1, 2);
  } else {
    const int64_t least = std::max(int64_t((kTaskBytes + block_bytes - 1) / block_bytes),
                                   share.blocks / (threads * kMostTasksPerThread));
    share.step = stream_step(w, least, share.blocks, threads);
  }
  share.tasks = (share.blocks + share.step - 1) / share.step;
  return share;
}

// `run_packed`: null where every row is of a prompt, and rounded as such.
void linear(const LinearParams& p, Exec& exec, PackedRun run_packed) {
  if (p.rows == 0 || p.n_outputs == 0) return;
  ThreadPool& pool = exec.pool();
  const int64_t cols = p.outputs[0].weight->cols;
  const bool coarse = run_packed == nullptr;
  bool any_packed = false;
  Share shares[kMaxOutputs];
  RK_CHECK(p.n_outputs <= kMaxOutputs, "{} outputs", p.n_outputs);
  int64_t block_tasks = 0;
  for (int o = 0; o < p.n_outputs; ++o) {
    RK_CHECK(p.outputs[o].weight->cols == cols, "outputs of {} and {} columns", cols,
             p.outputs[o].weight->cols);
    any_packed |= packed(p, p.outputs[o]);
    shares[o] = share_of(p.outputs[o], p.rows, pool.threads());
    block_tasks += shares[o].tasks;
  }

  QuantizedX q;
  CoarseX coarse_q;
  const auto place = [&](std::byte* memory) {
    return coarse ? coarse_q.place(p.rows, cols, memory) : place_quantized(q, p.rows, cols, memory);
  };
  const size_t x_bytes = any_packed ? round_up(place(nullptr)) : 0;
  const size_t thread_bytes = round_up(float_scratch_bytes(cols));
  std::byte* scratch = exec.scratch(x_bytes + thread_bytes * size_t(pool.threads()));
  if (any_packed) {
    place(scratch);
    constexpr int64_t kRows = CoarseX::kTile;
    pool.parallel_for((p.rows + kRows - 1) / kRows, [&](int64_t task, int) {
      const int64_t row0 = task * kRows, n = std::min(kRows, p.rows - row0);
      if (!coarse) return quantize_x(p.x, p.x_stride, row0, n, q);
      const float* rows[CoarseX::kTile];
      for (int64_t r = 0; r < n; ++r) rows[r] = p.x + (row0 + r) * p.x_stride;
      coarse_quantize(rows, int(n), coarse_q, row0);
    });
  }

  const int64_t row_tasks = (p.rows + kTaskRows - 1) / kTaskRows;
  pool.parallel_for(block_tasks * row_tasks, [&](int64_t task, int thread) {
    const int64_t row0 = task / block_tasks * kTaskRows;
    const int64_t n = std::min(kTaskRows, p.rows - row0);
    int64_t t = task % block_tasks;
    int o = 0;
    for (; t >= shares[o].tasks; ++o) t -= shares[o].tasks;
    const Share& share = shares[o];
    const int64_t block0 = t * share.step;
    const int64_t block1 = std::min(share.blocks, block0 + share.step);
    std::byte* mine = scratch + x_bytes + thread_bytes * size_t(thread);
    if (packed(p, p.outputs[o]) && coarse) {
      LinearOutput out = p.outputs[o];
      out.y += row0 * out.y_stride;
      coarse_run(out, coarse_q, row0, n, block0, block1, mine);
    } else if (packed(p, p.outputs[o])) {
      run_packed(p.outputs[o], q, row0, n, block0, block1, mine);
    } else {
      float_run(p.outputs[o], p.x, p.x_stride, row0, n, block0, block1, mine);
    }
  });
}

// Rows [first, first + n) of all outputs.
void linear_rows(const LinearParams& p, int64_t first, int64_t n, Exec& exec,
                 void (*run)(const LinearParams&, Exec&)) {
  if (n <= 0) return;
  RK_CHECK(p.n_outputs <= kMaxOutputs, "{} outputs", p.n_outputs);
  LinearOutput outputs[kMaxOutputs];
  for (int o = 0; o < p.n_outputs; ++o) {
    outputs[o] = p.outputs[o];
    outputs[o].y += first * outputs[o].y_stride;
  }
  LinearParams part = p;
  part.x += first * p.x_stride;
  part.rows = n;
  part.outputs = outputs;
  run(part, exec);
}

void simd_linear(const LinearParams& p, Exec& exec) {
  const auto fine = [](const LinearParams& part, Exec& exec) { linear(part, exec, packed_run); };
  const auto coarse = [](const LinearParams& part, Exec& exec) { linear(part, exec, nullptr); };
  const int64_t fine_rows = p.exact ? p.rows : std::min(p.fine_rows, p.rows);
  linear_rows(p, 0, fine_rows, exec, +fine);
  linear_rows(p, fine_rows, p.rows - fine_rows, exec, +coarse);
}

// Rows of prompts in bf16; the others, and weights that bf16 does not hold, as everywhere.
void amx_linear(const LinearParams& p, Exec& exec) {
  const auto fine = [](const LinearParams& part, Exec& exec) {
    linear(part, exec, part.rows >= kAmxRows ? amx_run : packed_run);
  };
  const bool coarse = !p.exact && p.fine_rows < p.rows && amx_bf16_available() &&
                      std::all_of(p.outputs, p.outputs + p.n_outputs, amx_bf16_takes);
  const int64_t fine_rows = coarse ? p.fine_rows : p.rows;
  linear_rows(p, 0, fine_rows, exec, +fine);
  linear_rows(p, fine_rows, p.rows - fine_rows, exec, amx_bf16_linear);
}

}  // namespace

int64_t stream_step(const PackedTensor& w, int64_t least, int64_t blocks, int threads) {
  const int64_t panel = w.spec.dense() ? 1 : host_layout(w.spec, w.cols).panel_blocks;
  const int64_t panels = (least + panel - 1) / panel * panel;
  const int64_t even = blocks / (threads * kTasksPerThread) / panel * panel;
  const int64_t most = std::max(even, std::min(panel, blocks / threads));
  return std::max<int64_t>(1, std::min(panels, most));
}

void add_linear_kernels(Ops& ops) {
  ops.coarse_prompts = amx_available() ? amx_bf16_available() : vectors_available();
  ops.linear.push_back({"amx",
                        [](const LinearParams& p) {
                          return amx_available() && (p.rows >= kAmxRows || p.fine_rows < p.rows);
                        },
                        amx_linear});
  ops.linear.push_back({"simd", fixed_vectors, simd_linear});
}

}  // namespace ringkeep::kernels::cpu
