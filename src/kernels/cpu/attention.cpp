// Attention on the codes of the cache. The rows that share a KV head (tokens x heads of the group)
// form blocks, which in decoding take several heads together; a block visits its pages in ascending
// order, head after head, unpacking each once. Pages are summed
// in splits of kSplitPages at fixed token indices, each from an empty state, and splits are merged
// in ascending order, whether one thread walks them all (many blocks) or several share them
// (decode): so a row's result depends on its index and the cache alone. With a hot tier the first
// rows of a block read a page from the hot tier and the others from the cold one; what a row adds
// does not depend on the rows beside it.
#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/api/host_kv.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/register.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
#include "kernels/cpu/simd.h"
// After simd.h: they follow the target.
#include "kernels/cpu/attention_parts-inl.h"
#include "kernels/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
RK_TARGET_ATTRIBUTES()
namespace ringkeep::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE

void Attend(const AttentionParams&, Exec&) {}

#else

constexpr int kTasksPerThread = 8;  // wanted, so that threads end together

class Attention {
 public:
  Attention(const AttentionParams& p, const HostKvLayout& layout, const HostKvLayout& hot,
            const AttentionPlan& plan)
      : p_(p),
        plan_(plan),
        cold_(layout, p.storage, p.page_stride, p.segments),
        hot_(hot, p.hot.storage, p.hot.page_stride, p.hot.segments) {}

  // q [k_dim] of one row and head to position `at`.
  void PrepareQuery(const Queries& queries, int64_t at, const float* q) const {
    const HostKvPlane& k = cold_.k;
    const F32 d;
    HWY_ALIGN float x[kMaxHeadDim];
    std::memcpy(x, q, k.dim * sizeof(float));
    if (k.codec.rotated()) Hadamard(x, k.dim);
    if (queries.any_floats) std::memcpy(queries.floats + at * k.dim, x, k.dim * sizeof(float));
    if (queries.groups == 0) return;
    auto largest = hn::Zero(d);
    for (int i = 0; i < k.dim; i += kLanes) largest = hn::Max(largest, hn::Abs(hn::Load(d, x + i)));
    const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
    queries.unit[at] = top / 127.0f * p_.scale;
    const auto inverse = hn::Set(d, top > 0.0f ? 127.0f / top : 0.0f);
    const I32 di;
    const hn::Rebind<int8_t, F32> d8;
    const int group = k.dim / queries.groups;
    for (int g = 0; g < queries.groups; ++g) {
      auto sum = hn::Zero(di);
      for (int i = g * group; i < (g + 1) * group; i += kLanes) {
        const auto whole = hn::NearestInt(hn::Mul(hn::Load(d, x + i), inverse));
        sum = hn::Add(sum, whole);
        hn::StoreU(hn::DemoteTo(d8, whole), d8, queries.bytes + at * k.dim + i);
      }
      queries.sums[at * queries.groups + g] = hn::GetLane(hn::SumOfLanes(di, sum));
    }
  }

  // Sums of the split's pages into state and out, which it resets. Pages up to `end_page` are
  // visited next.
  void RunSplit(const Block& block, const Split& split, int64_t end_page, const Queries& queries,
                Workspace& w, RowState* state, float* out) const {
    Reset(block, state, out);
    const KvSegment& segment = p_.segments[block.segment];
    for (int64_t page = split.first_page; page < split.last_page; ++page) {
      const PageRef ref = segment.pages[page];
      uint64_t visible[kBlockRows];
      int first = block.rows, last = 0;  // rows that see something of the page
      for (int r = 0; r < block.rows; ++r) {
        visible[r] = plan_.visible_tokens(block, r, ref.logical);
        if (visible[r] == 0) continue;
        first = std::min(first, r);
        last = r + 1;
      }
      if (last == 0) continue;
      const int hot = std::clamp(plan_.hot_rows(block, ref.logical), first, last);
      const int32_t hot_page = first < hot ? hot_.find(block.segment, ref.logical) : 0;
      for (int i = 0; i < block.kv_heads; ++i) {
        const int kv_head = block.kv_head + i;
        const ptrdiff_t row = ptrdiff_t{i} * block.rows;
        const HeadRows rows{block.first_query + row, state + row, out + row * cold_.v.dim};
        if (first < hot) {
          Ahead nothing;
          VisitPage(hot_, hot_.head(hot_page, kv_head), nothing, first, hot, visible, queries, rows,
                    w);
        }
        if (hot == last) continue;
        Ahead ahead;
        if (i + 1 < block.kv_heads)
          ahead = cold_.ahead(ref.physical, kv_head + 1);
        else if (page + 1 < end_page)
          ahead = cold_.ahead(segment.pages[page + 1].physical, block.kv_head);
        VisitPage(cold_, cold_.head(ref.physical, kv_head), ahead, hot, last, visible, queries,
                  rows, w);
      }
    }
  }

  // Nothing seen yet.
  void Reset(const Block& block, RowState* state, float* out) const {
    std::fill_n(state, block.all_rows(), RowState());
    std::memset(out, 0, sizeof(float) * block.all_rows() * cold_.v.dim);
  }

  // total and out take in a split.
  void Merge(int rows, const RowState* split, const float* part, RowState* total,
             float* out) const {
    const int dim = cold_.v.dim;
    for (int r = 0; r < rows; ++r) {
      if (split[r].top == -INFINITY) continue;
      const float top = std::max(total[r].top, split[r].top);
      const float a = Exp2(total[r].top - top);
      const float b = Exp2(split[r].top - top);
      total[r].total = total[r].total * a + split[r].total * b;
      total[r].top = top;
      Blend(out + r * dim, a, part + r * dim, b, dim);
    }
  }

  // Divides by the sum of weights, adds the sinks' to it, rotates back and writes the rows out.
  void Finish(const Block& block, const RowState* total, float* out) const {
    const HostKvPlane& v = cold_.v;
    const F32 d;
    for (int r = 0; r < block.all_rows(); ++r) {
      float* row = out + r * v.dim;
      const RowTarget target = plan_.target(block, r);
      float top = total[r].top;
      float sum = total[r].total;
      if (p_.sinks != nullptr) {
        const float sink = p_.sinks[target.head] * kLog2E;
        top = std::max(top, sink);
        sum = sum * Exp2(total[r].top - top) + Exp2(sink - top);
      }
      const float factor = sum > 0.0f ? Exp2(total[r].top - top) / sum : 0.0f;
      for (int i = 0; i < v.dim; i += kLanes)
        hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor)), d, row + i);
      if (v.codec.rotated()) Hadamard(row, v.dim);
      std::memcpy(p_.out + target.row * p_.out_stride + target.head * v.dim, row,
                  v.dim * sizeof(float));
    }
  }

 private:
  // Where the rows of one head of a block are.
  struct HeadRows {
    int64_t query;    // position of the first among the prepared ones
    RowState* state;  // [rows]
    float* out;       // [rows][v_dim]
  };

  // What a page of a tier adds to rows [first, last) of a head, of which the first and the last see
  // it. `data`: the head's in the page.
  void VisitPage(const Tier& tier, const std::byte* data, Ahead& ahead, int first, int last,
                 const uint64_t* visible, const Queries& queries, const HeadRows& rows,
                 Workspace& w) const {
    Scores(tier, data, ahead, rows.query + first, last - first, queries, w,
           w.score + first * kPageTokens);
    uint64_t seen = 0;
    for (int r = first; r < last;) {
      const int together = last - r >= kSoftmaxRows ? kSoftmaxRows : 1;
      bool all_see = true;
      for (int i = r; i < r + together; ++i) all_see &= visible[i] != 0;
      const int n = all_see ? together : 1;
      for (int i = r; i < r + n; ++i) seen |= visible[i];
      float* score = w.score + r * kPageTokens;
      float units[kSoftmaxRows];
      for (int i = 0; i < n; ++i)
        units[i] = tier.k.groups == 0 ? p_.scale : queries.unit[rows.query + r + i];
      if (n == kSoftmaxRows) {
        Softmax<kSoftmaxRows>(score, visible + r, units, p_.softcap, rows.state + r, w.alpha + r);
      } else if (visible[r] != 0) {
        Softmax<1>(score, visible + r, units, p_.softcap, rows.state + r, w.alpha + r);
      } else {
        w.alpha[r] = 1.0f;
        std::memset(score, 0, kPageTokens * sizeof(float));
      }
      r += n;
    }
    Values(tier, data, ahead, first, last, std::bit_width(seen), w, rows.out);
  }

  // score [rows][64] = q . k in units of the queries'
  void Scores(const Tier& tier, const std::byte* head, Ahead& ahead, int64_t query, int rows,
              const Queries& queries, Workspace& w, float* score) const {
    const HostKvPlane& k = tier.k;
    if (k.groups == 0) {
      const auto* keys = reinterpret_cast<const hwy::float16_t*>(head + k.codes);
      for (int r = 0; r < rows; r += kTileRows) {
        const float* q = queries.floats + (query + r) * k.dim;
        float* to = score + r * kPageTokens;
        switch (std::min(rows - r, kTileRows)) {
          case 1: KeyDotsHalf<1>(keys, k.dim, q, ahead, to); break;
          case 2: KeyDotsHalf<2>(keys, k.dim, q, ahead, to); break;
          case 3: KeyDotsHalf<3>(keys, k.dim, q, ahead, to); break;
          default: KeyDotsHalf<4>(keys, k.dim, q, ahead, to); break;
        }
      }
      return;
    }
    const bool affine = k.codec.scheme == KvScheme::affine;
    const int32_t zero_point = affine ? 0 : 128;
    LoadHalves(head + k.scales, k.groups * kPageTokens, w.k_scale);
    if (affine) LoadHalves(head + k.biases, k.groups * kPageTokens, w.k_bias);
    const uint8_t* tile = Unpack(k, tier.k_map, head, w.k_tile);
    HWY_ALIGN int32_t dots[kTileRows * kPageTokens];
    for (int r = 0; r < rows; r += kTileRows) {
      const int n = std::min(rows - r, kTileRows);
      for (int g = 0; g < k.groups; ++g) {
        const int8_t* q = queries.bytes + (query + r) * k.dim;
        const int first = g * k.group, last = first + k.group;
        switch (n) {
          case 1: KeyDots<1>(tile, k.dim, first, last, q, ahead, dots); break;
          case 2: KeyDots<2>(tile, k.dim, first, last, q, ahead, dots); break;
          case 3: KeyDots<3>(tile, k.dim, first, last, q, ahead, dots); break;
          default: KeyDots<4>(tile, k.dim, first, last, q, ahead, dots); break;
        }
        AddGroup(dots, n, zero_point, queries.sums + (query + r) * k.groups + g, k.groups,
                 w.k_scale + g * kPageTokens, affine ? w.k_bias + g * kPageTokens : nullptr, g == 0,
                 score + r * kPageTokens);
      }
    }
  }

  // |scale| of V, and what its biases and the middles of its codes add to a token's channels.
  void LoadValueScales(const HostKvPlane& v, const std::byte* head, Workspace& w) const {
    const F32 d;
    LoadHalves(head + v.scales, v.groups * kPageTokens, w.v_scale);
    if (v.codec.scheme != KvScheme::affine) return;
    LoadHalves(head + v.biases, v.groups * kPageTokens, w.v_bias);
    const float middle = static_cast<float>(1 << (v.codec.bits - 1));
    for (int i = 0; i < v.groups * kPageTokens; i += kLanes) {
      const auto scale = hn::LoadU(d, w.v_scale + i);
      const auto offset =
          hn::IfThenElse(hn::Lt(scale, hn::Zero(d)), hn::Set(d, middle - 1.0f), hn::Set(d, middle));
      hn::StoreU(hn::MulAdd(scale, offset, hn::LoadU(d, w.v_bias + i)), d, w.v_bias + i);
      hn::StoreU(hn::Abs(scale), d, w.v_scale + i);
    }
  }

  // out[r] = out[r] * alpha[r] + weights[r] . V for rows [first, last) and the first `tokens`
  // tokens
  void Values(const Tier& tier, const std::byte* head, Ahead& ahead, int first, int last,
              int tokens, Workspace& w, float* out) const {
    const HostKvPlane& v = tier.v;
    if (v.groups == 0) {
      const auto* values = reinterpret_cast<const hwy::float16_t*>(head + v.codes);
      for (int r = first; r < last; r += kTileRows) {
        const float* weight = w.score + r * kPageTokens;
        float* to = out + r * v.dim;
        switch (std::min(last - r, kTileRows)) {
          case 1: ValueRowsHalf<1>(values, v.dim, tokens, weight, w.alpha + r, ahead, to); break;
          case 2: ValueRowsHalf<2>(values, v.dim, tokens, weight, w.alpha + r, ahead, to); break;
          case 3: ValueRowsHalf<3>(values, v.dim, tokens, weight, w.alpha + r, ahead, to); break;
          default: ValueRowsHalf<4>(values, v.dim, tokens, weight, w.alpha + r, ahead, to); break;
        }
      }
      return;
    }
    LoadValueScales(v, head, w);
    const bool affine = v.codec.scheme == KvScheme::affine;
    const int stride = v.groups * kPageTokens;
    for (int g = 0; g < v.groups; ++g) {
      const float* scale = w.v_scale + g * kPageTokens;
      for (int r = first; r < last;) {
        const float* weight = w.score + r * kPageTokens;
        uint8_t* p = w.p + r * stride + g * kPageTokens;
        float* unit = w.p_unit + g * kBlockRows + r;
        const bool together = last - r >= kSoftmaxRows;
        if (together)
          WeightBytes<kSoftmaxRows>(weight, scale, p, stride, unit);
        else
          WeightBytes<1>(weight, scale, p, stride, unit);
        r += together ? kSoftmaxRows : 1;
      }
      for (int r = first; r < last; ++r)
        w.p_bias[g * kBlockRows + r] =
            affine ? WeightedBias(w.score + r * kPageTokens, w.v_bias + g * kPageTokens) : 0.0f;
    }
    const uint8_t* tile = Unpack(v, tier.v_map, head, w.v_tile);
    for (int r = first; r < last; r += kTileRows) {
      for (int g = 0; g < v.groups; ++g) switch (std::min(last - r, kTileRows)) {
          case 1: ValueRows<1>(v, tile, tokens, r, g, w, ahead, out); break;
          case 2: ValueRows<2>(v, tile, tokens, r, g, w, ahead, out); break;
          case 3: ValueRows<3>(v, tile, tokens, r, g, w, ahead, out); break;
          default: ValueRows<4>(v, tile, tokens, r, g, w, ahead, out); break;
        }
    }
  }

  template <int kRows>
  void ValueRows(const HostKvPlane& v, const uint8_t* tile, int tokens, int r, int g,
                 const Workspace& w, Ahead& ahead, float* out) const {
    const ValueUpdate update{w.alpha + r, w.p_unit + g * kBlockRows + r,
                             w.p_bias + g * kBlockRows + r};
    const uint8_t* p = w.p + (r * v.groups + g) * kPageTokens;
    const int stride = v.groups * kPageTokens;
    float* to = out + r * v.dim;
    for_value_tiles(g * v.group, (g + 1) * v.group, [&](auto vectors, int channel) HWY_ATTR {
      ValueDots<kRows, decltype(vectors)::value>(tile, v.dim, channel, tokens, p, stride, update,
                                                 ahead, to);
    });
  }

  template <int kRows>
  void ValueRowsHalf(const hwy::float16_t* values, int dim, int tokens, const float* weight,
                     const float* alpha, Ahead& ahead, float* out) const {
    for_value_tiles(0, dim, [&](auto vectors, int channel) HWY_ATTR {
      ValueDotsHalf<kRows, decltype(vectors)::value>(values, dim, channel, tokens, weight, alpha,
                                                     ahead, out);
    });
  }

  // Tiles of the channels [first, last) that do not cross the begin of 64: body(vectors, channel).
  template <typename Body>
  HWY_INLINE static void for_value_tiles(int first, int last, const Body& body) {
    constexpr int kTile = kTileVectors * kLanes, kWidth = kValueBlocks * kKvLanes;
    int channel = first;
    while (channel < last) {
      if (channel + kTile <= last && channel % kWidth + kTile <= kWidth) {
        body(std::integral_constant<int, kTileVectors>(), channel);
        channel += kTile;
      } else {
        body(std::integral_constant<int, 1>(), channel);
        channel += kLanes;
      }
    }
  }

  const AttentionParams& p_;
  const AttentionPlan& plan_;
  const Tier cold_;
  const Tier hot_;  // the cold layout, and never visited, where there is no hot tier
};

void Attend(const AttentionParams& p, Exec& exec) {
  const HostKvLayout layout(p.geometry);
  const HostKvLayout hot(p.hot.storage != nullptr ? p.hot.geometry : p.geometry);
  RK_CHECK(p.hot.storage == nullptr || tiers_fit(p.geometry, p.hot.geometry));
  const int threads = exec.pool().threads();
  const AttentionPlan plan(p, threads);

  // One block of memory: queries, a workspace a thread, the partial sums of shared splits.
  Queries queries;
  Workspace* workspaces = nullptr;
  RowState* states = nullptr;
  float* parts = nullptr;
  const auto carve = [&](std::byte* base) {
    Carver carver(base);
    queries = Queries::Carve(carver, layout, hot, plan.queries());
    workspaces = carver.take<Workspace>(threads);
    for (int thread = 0; thread < threads; ++thread) {
      const Workspace workspace =
          Workspace::Carve(carver, layout, hot, kBlockRows, plan.most_rows());
      if (workspaces != nullptr) workspaces[thread] = workspace;
    }
    states = carver.take<RowState>(plan.split_rows());
    parts = carver.take<float>(plan.split_rows() * layout.v.dim);
    return carver.bytes();
  };
  carve(exec.scratch(carve(nullptr)));

  const Attention attention(p, layout, hot, plan);
  exec.pool().parallel_for(plan.query_tasks(), [&](int64_t task, int) {
    plan.for_queries(task, [&](int64_t at, const RowTarget& of) {
      attention.PrepareQuery(queries, at, p.q + of.row * p.q_stride + of.head * layout.k.dim);
    });
  });

  const auto& blocks = plan.blocks();
  const auto& splits = plan.splits();
  if (!plan.shared()) {
    exec.pool().parallel_for(static_cast<int64_t>(blocks.size()), [&](int64_t task, int thread) {
      const Block& block = blocks[blocks.size() - 1 - task];  // the longest first
      Workspace& w = workspaces[thread];
      attention.Reset(block, w.out_state, w.out);
      const int64_t end = splits[block.last_split - 1].last_page;
      for (int64_t s = block.first_split; s < block.last_split; ++s) {
        attention.RunSplit(block, splits[s], end, queries, w, w.part_state, w.part);
        attention.Merge(block.all_rows(), w.part_state, w.part, w.out_state, w.out);
      }
      attention.Finish(block, w.out_state, w.out);
    });
    return;
  }
  // Runs of splits, so that a thread knows which page it reads next.
  const int64_t count = static_cast<int64_t>(splits.size());
  const int64_t run = std::max<int64_t>(1, count / (threads * kTasksPerThread));
  exec.pool().parallel_for((count + run - 1) / run, [&](int64_t task, int thread) {
    const int64_t last = std::min(count, (task + 1) * run) - 1;
    for (int64_t s = task * run; s <= last; ++s) {
      const Split& split = splits[s];
      const Block& block = blocks[split.block];
      const int64_t end = splits[std::min<int64_t>(last, block.last_split - 1)].last_page;
      attention.RunSplit(block, split, end, queries, workspaces[thread], states + split.first_row,
                         parts + split.first_row * layout.v.dim);
    }
  });
  exec.pool().parallel_for(static_cast<int64_t>(blocks.size()), [&](int64_t task, int thread) {
    const Block& block = blocks[task];
    Workspace& w = workspaces[thread];
    attention.Reset(block, w.out_state, w.out);
    for (int64_t s = block.first_split; s < block.last_split; ++s)
      attention.Merge(block.all_rows(), states + splits[s].first_row,
                      parts + splits[s].first_row * layout.v.dim, w.out_state, w.out);
    attention.Finish(block, w.out_state, w.out);
  });
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ringkeep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringkeep::kernels::cpu {
namespace {

HWY_EXPORT(Attend);

}  // namespace

void add_attention_kernels(Ops& ops) {
  ops.attention.push_back({"cpu", fixed_vectors, RK_RUN(Attend)});
}

}  // namespace ringkeep::kernels::cpu
#endif
