// Products with a stack of matrices: all groups share one pass over the pool, so that a single row
// of eight experts keeps every thread reading. The parts of the linear op do the work; so a row's
// result is that of ops.linear, bit for bit.
#include <algorithm>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/register.h"

namespace ringkeep::kernels::cpu {
namespace {

size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Consecutive places of one group that are computed in one way.
struct Part {
  int64_t group = 0;
  int64_t place0 = 0;
  int64_t rows = 0;
  int64_t coarse_row0 = 0;  // coarse: the first of its rows in x as it is rounded
  bool coarse = false;
  bool tiles = false;  // coarse, in bf16 tiles
};

// The tasks of one part and output: `along` blocks in steps of `step` (panels where coarse), times
// rows in steps of kTaskRows.
struct Share {
  int64_t first = 0;  // task, of all
  int64_t along = 0;
  int64_t step = 1;
};

// Hands out consecutive 64-byte aligned pieces of one block; without memory it only counts.
struct Carver {
  std::byte* memory = nullptr;
  size_t used = 0;
  std::byte* take(size_t bytes) {
    std::byte* at = memory != nullptr ? memory + used : nullptr;
    used += round_up(bytes);
    return at;
  }
};

// One call: its parts, and where its scratch memory lies.
class Grouped {
 public:
  Grouped(const GroupedLinearParams& p, bool amx) : p_(p), amx_(amx) {
    for (int o = 0; o < p.n_outputs; ++o) {
      const PackedTensor& w = p.outputs[o].weight->first;
      RK_CHECK(w.cols == cols(), "outputs of {} and {} columns", cols(), w.cols);
      (packed(w) ? any_packed_ : any_float_) = true;
      if (w.spec.dense()) tiled_.terms = 2;  // exact weights deserve it
    }
    tiles_ = amx && !p.exact && amx_bf16_available();
    for (int o = 0; o < p.n_outputs && tiles_; ++o)
      tiles_ = amx_bf16_takes({&p.outputs[o].weight->first, nullptr, nullptr, 0});
    coarse_ = tiles_ || (!amx && any_packed_);
    tiled_.col_tiles = (cols() + 31) / 32;
  }

  void run(Exec& exec) {
    ThreadPool& pool = exec.pool();
    const size_t bytes = place_memory(nullptr, pool.threads());
    place_memory(exec.scratch(bytes), pool.threads());
    make_parts();
    make_shares(pool.threads());
    prepare_rows(pool);
    pool.parallel_for(tasks_, [&](int64_t task, int thread) {
      run_task(task, scratch_ + thread_bytes_ * size_t(thread));
    });
  }

 private:
  int64_t cols() const { return p_.outputs[0].weight->first.cols; }
  bool packed(const PackedTensor& w) const { return !p_.exact && !w.spec.dense(); }
  // At most: every group's fine and coarse rows are parts, none is empty.
  int64_t most_parts() const { return std::min<int64_t>(2 * p_.groups, p_.places); }
  // At most: each coarse part adds less than kRowStep rows to its own.
  int64_t most_coarse_rows() const {
    return p_.places + (TiledX::kRowStep - 1) * std::min<int64_t>(p_.groups, p_.places);
  }

  size_t place_memory(std::byte* memory, int threads) {
    Carver carver{memory};
    parts_ = reinterpret_cast<Part*>(carver.take(sizeof(Part) * size_t(most_parts())));
    shares_ =
        reinterpret_cast<Share*>(carver.take(sizeof(Share) * size_t(most_parts() * p_.n_outputs)));
    if (any_packed_) {
      std::byte* at = carver.take(place_quantized(q_, p_.places, cols(), nullptr));
      if (at != nullptr) place_quantized(q_, p_.places, cols(), at);
    }
    if (coarse_ && !tiles_) {
      std::byte* at = carver.take(coarse_q_.place(most_coarse_rows(), cols(), nullptr));
      if (at != nullptr) coarse_q_.place(most_coarse_rows(), cols(), at);
    }
    if (any_float_ && p_.row_of != nullptr)
      gathered_ = reinterpret_cast<float*>(carver.take(sizeof(float) * size_t(p_.places * cols())));
    if (tiles_) tiled_.data = carver.take(tiled_.bytes(most_coarse_rows()));
    thread_bytes_ = round_up(float_scratch_bytes(cols()));
    if (tiles_) thread_bytes_ = std::max(thread_bytes_, amx_bf16_scratch_bytes(tiled_, cols()));
    scratch_ = carver.take(thread_bytes_ * size_t(threads));
    return carver.used;
  }

  void make_parts() {
    int64_t coarse_rows = 0;
    for (int g = 0; g < p_.groups; ++g) {
      const int64_t first = p_.begin[g], rows = p_.begin[g + 1] - first;
      const int64_t fine = coarse_ ? std::min<int64_t>(p_.fine[g], rows) : rows;
      if (fine > 0) parts_[n_parts_++] = {g, first, fine};
      if (fine == rows) continue;
      parts_[n_parts_++] = {g, first + fine, rows - fine, coarse_rows, true, tiles_};
      coarse_rows += TiledX::padded_rows(rows - fine);
    }
  }

  void make_shares(int threads) {
    int64_t blocks = 0;  // of fine parts
    const auto blocks_of = [](const PackedTensor& w) {
      return (w.rows + kRowBlock - 1) / kRowBlock;
    };
    for (int64_t i = 0; i < n_parts_; ++i)
      for (int o = 0; o < p_.n_outputs && !parts_[i].tiles; ++o)
        blocks += blocks_of(p_.outputs[o].weight->first);
    const int64_t even = std::max<int64_t>(1, blocks / (threads * kTasksPerThread));
    for (int64_t i = 0; i < n_parts_; ++i)
      for (int o = 0; o < p_.n_outputs; ++o) {
        const PackedTensor& w = p_.outputs[o].weight->first;
        Share& share = shares_[i * p_.n_outputs + o];
        share = {tasks_, amx_bf16_panels(w), 1};
        if (!parts_[i].tiles) {
          const size_t block_bytes =
              std::max<size_t>(1, host_weight_bytes(w.spec, kRowBlock, w.cols));
          // Many rows make even one block a task; two of them share x in the nearest cache.
          const int64_t least = int64_t((kTaskBytes + block_bytes - 1) / block_bytes);
          share.step = parts_[i].rows > 4 ? std::min<int64_t>(2, even)
                                          : stream_step(w, least, blocks, threads);
          share.along = (blocks_of(w) + share.step - 1) / share.step;
        }
        tasks_ += share.along * ((parts_[i].rows + kTaskRows - 1) / kTaskRows);
      }
  }

  // x in the forms that the parts read.
  void prepare_rows(ThreadPool& pool) {
    pool.parallel_for(n_parts_, [&](int64_t task, int) {
      const Part& part = parts_[task];
      const IndexedX rows{p_.row_of != nullptr ? p_.x : p_.x + part.place0 * p_.x_stride,
                          p_.x_stride, part.rows,
                          p_.row_of != nullptr ? p_.row_of + part.place0 : nullptr};
      if (part.tiles) {
        const TiledX tiled = tiles_of(part);
        return amx_bf16_fill(tiled, rows, cols(), 0, TiledX::padded_rows(part.rows));
      }
      for (int64_t r = 0; any_packed_ && part.coarse && r < part.rows; r += CoarseX::kTile) {
        const int64_t n = std::min<int64_t>(CoarseX::kTile, part.rows - r);
        const float* tile[CoarseX::kTile];
        for (int64_t i = 0; i < n; ++i) tile[i] = rows.row(r + i);
        coarse_quantize(tile, int(n), coarse_q_, part.coarse_row0 + r);
      }
      for (int64_t r = 0; r < part.rows; ++r) {
        const int64_t place = part.place0 + r;
        if (any_packed_ && !part.coarse) quantize_x(rows.row(r), 0, place, 1, q_);
        if (gathered_ != nullptr) std::copy_n(rows.row(r), cols(), gathered_ + place * cols());
      }
    });
  }

  TiledX tiles_of(const Part& part) const {
    TiledX tiled = tiled_;
    tiled.data = tiled_.tile(part.coarse_row0 / TiledX::kTileRows, 0);
    return tiled;
  }

  void run_task(int64_t task, std::byte* scratch) const {
    const Share* first_share = shares_;
    const Share* share = std::upper_bound(first_share, first_share + n_parts_ * p_.n_outputs, task,
                                          [](int64_t t, const Share& s) { return t < s.first; }) -
                         1;
    const int64_t at = share - shares_;
    const Part& part = parts_[at / p_.n_outputs];
    const GroupedOutput& output = p_.outputs[at % p_.n_outputs];
    const PackedTensor w = output.weight->at(part.group);
    LinearOutput out{&w, output.bias != nullptr ? output.bias + part.group * w.rows : nullptr,
                     output.y, output.y_stride};
    const int64_t row0 = (task - share->first) / share->along * kTaskRows;
    const int64_t rows = std::min(kTaskRows, part.rows - row0);
    const int64_t step0 = (task - share->first) % share->along * share->step;
    if (part.tiles) {
      out.y += part.place0 * out.y_stride;
      return amx_bf16_panel(out, tiles_of(part), step0, row0, row0 + rows, scratch);
    }
    const int64_t first = part.place0 + row0;
    const int64_t block1 = std::min((w.rows + kRowBlock - 1) / kRowBlock, step0 + share->step);
    if (!packed(w)) {
      const float* x = gathered_ != nullptr ? gathered_ : p_.x;
      float_run(out, x, gathered_ != nullptr ? cols() : p_.x_stride, first, rows, step0, block1,
                scratch);
    } else if (part.coarse) {
      out.y += first * out.y_stride;
      coarse_run(out, coarse_q_, part.coarse_row0 + row0, rows, step0, block1, scratch);
    } else {
      (amx_ && rows >= kAmxRows ? amx_run : packed_run)(out, q_, first, rows, step0, block1,
                                                        scratch);
    }
  }

  const GroupedLinearParams& p_;
  bool amx_ = false;
  bool coarse_ = false;  // coarse rows have a way of their own
  bool tiles_ = false;   // which is that
  bool any_packed_ = false;
  bool any_float_ = false;
  Part* parts_ = nullptr;
  int64_t n_parts_ = 0;
  Share* shares_ = nullptr;  // [parts, outputs]
  int64_t tasks_ = 0;
  QuantizedX q_;  // [places]
  CoarseX coarse_q_;
  float* gathered_ = nullptr;  // [places, cols]; null: x itself
  TiledX tiled_;
  std::byte* scratch_ = nullptr;
  size_t thread_bytes_ = 0;
};

void grouped_linear(const GroupedLinearParams& p, Exec& exec, bool amx) {
  if (p.places == 0 || p.n_outputs == 0) return;
  Grouped(p, amx).run(exec);
  exec.grouped_bytes += host_grouped_bytes(p);
}

}  // namespace

void add_grouped_linear_kernels(Ops& ops) {
  ops.grouped_linear.push_back(
      {"amx", [](const GroupedLinearParams&) { return amx_available() && vectors_available(); },
       [](const GroupedLinearParams& p, Exec& exec) { grouped_linear(p, exec, true); }});
  ops.grouped_linear.push_back(
      {"simd", fixed_vectors,
       [](const GroupedLinearParams& p, Exec& exec) { grouped_linear(p, exec, false); }});
}

}  // namespace ringkeep::kernels::cpu
