#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/kv_fixture.h"

namespace ringkeep::kernels::testing {
namespace {

// What is asked of one attention call over a Cache.
struct Problem {
  int heads = 4;
  float softcap = 0.0f;
  bool sinks = false;
  int64_t window = 0;
  int64_t keep = 0;
  int64_t chunk_size = 0;
  std::vector<std::pair<int64_t, int64_t>> spans;  // bidirectional [first, last]
};

class Attention : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device = make_cpu_device(2);
  std::unique_ptr<Device> single = make_cpu_device(1);
  Exec exec{*device};
  Exec exec1{*single};
  Ops ref = ref_ops();
  Ops cpu = cpu_ops();
  // Every kernel of the table but the reference.
  KernelTable<AttentionParams> kernels{cpu.attention.begin(), cpu.attention.end() - 1};
};

std::vector<float> queries(const Cache& cache, const Problem& problem, int64_t rows) {
  return gaussian(rows * problem.heads * cache.geometry.k_dim, 99);
}

std::vector<float> sinks_of(const Problem& problem) {
  std::vector<float> sinks(problem.heads);
  for (int i = 0; i < problem.heads; ++i) sinks[i] = 0.5f * static_cast<float>(i) - 0.5f;
  return sinks;
}

std::vector<int64_t> span_ends(const Problem& problem, int64_t first, int64_t rows) {
  std::vector<int64_t> ends(rows);
  for (int64_t i = 0; i < rows; ++i) {
    ends[i] = first + i;
    for (const auto& [begin, end] : problem.spans)
      if (first + i >= begin && first + i <= end) ends[i] = end;
  }
  return ends;
}

// Rows [first, first + rows) with q of the whole sequence; `pages` default to all of the cache.
std::vector<float> attend(const KernelTable<AttentionParams>& table, Exec& exec, const Cache& cache,
                          const Problem& problem, const std::vector<float>& q, int64_t first,
                          int64_t rows, const std::vector<PageRef>* pages = nullptr) {
  const auto& g = cache.geometry;
  const std::vector<int64_t> ends = span_ends(problem, first, rows);
  const std::vector<float> sinks = sinks_of(problem);
  if (pages == nullptr) pages = &cache.pages;
  const KvSegment segment{.row0 = 0,
                          .rows = rows,
                          .index0 = first,
                          .pages = pages->data(),
                          .n_pages = static_cast<int64_t>(pages->size()),
                          .span_end = problem.spans.empty() ? nullptr : ends.data()};
  std::vector<float> out(rows * problem.heads * g.v_dim, NAN);
  AttentionParams p;
  p.geometry = g;
  p.storage = cache.storage.data();
  p.page_stride = static_cast<int64_t>(cache.page_bytes);
  p.heads = problem.heads;
  p.q_stride = problem.heads * g.k_dim;
  p.q = q.data() + first * p.q_stride;
  p.out = out.data();
  p.out_stride = problem.heads * g.v_dim;
  p.scale = 1.0f / std::sqrt(static_cast<float>(g.k_dim)) * 2.0f;
  p.softcap = problem.softcap;
  p.sinks = problem.sinks ? sinks.data() : nullptr;
  p.window = problem.window;
  p.keep = problem.keep;
  p.chunk_size = problem.chunk_size;
  p.segments = &segment;
  p.n_segments = 1;
  run(table, p, exec);
  return out;
}

// Attention over floats, by its definition, in double precision.
std::vector<float> plain(const Cache& cache, const Problem& problem, const std::vector<float>& q,
                         const std::vector<float>& k, const std::vector<float>& v) {
  const auto& g = cache.geometry;
  const std::vector<int64_t> ends = span_ends(problem, 0, cache.tokens);
  const double scale = 1.0f / std::sqrt(static_cast<float>(g.k_dim)) * 2.0f;
  std::vector<float> out(cache.tokens * problem.heads * g.v_dim);
  for (int64_t i = 0; i < cache.tokens; ++i)
    for (int h = 0; h < problem.heads; ++h) {
      const int kv = h / (problem.heads / g.kv_heads);
      std::vector<double> weight(cache.tokens, 0.0);
      double total = problem.sinks ? std::exp(sinks_of(problem)[h]) : 0.0;
      for (int64_t j = 0; j < cache.tokens; ++j) {
        const bool seen = problem.chunk_size > 0
                              ? visible_chunked(i, j, problem.chunk_size)
                              : visible(i, j, problem.window, problem.keep, ends[i]);
        if (!seen) continue;
        double score = 0;
        for (int d = 0; d < g.k_dim; ++d)
          score += double(q[(i * problem.heads + h) * g.k_dim + d]) *
                   k[(j * g.kv_heads + kv) * g.k_dim + d];
        score *= scale;
        if (problem.softcap > 0) score = problem.softcap * std::tanh(score / problem.softcap);
        weight[j] = std::exp(score);
        total += weight[j];
      }
      for (int d = 0; d < g.v_dim; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < cache.tokens; ++j)
          sum += weight[j] * v[(j * g.kv_heads + kv) * g.v_dim + d];
        out[(i * problem.heads + h) * g.v_dim + d] = static_cast<float>(sum / total);
      }
    }
  return out;
}

// Largest distance of two heads' outputs, relative to the rms norm of a row of V.
double distance(const std::vector<float>& a, const std::vector<float>& b, const Cache& cache) {
  double worst = 0, square = 0;
  for (float x : cache.v) square += double(x) * x;
  const int dim = cache.geometry.v_dim;
  const double norm = std::sqrt(square / static_cast<double>(cache.v.size() / dim));
  for (size_t i = 0; i < a.size(); i += dim) {
    double d = 0;
    for (int j = 0; j < dim; ++j) d += std::pow(double(a[i + j]) - b[i + j], 2);
    worst = std::max(worst, std::isfinite(d) ? std::sqrt(d) : INFINITY);
  }
  return worst / norm;
}

void expect_same_bits(const std::vector<float>& a, const float* b, const std::string& what) {
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << what << " at " << i;
}

std::vector<KvGeometry> geometries() {
  std::vector<KvGeometry> all;
  for (const KvCodec& c : {kF16, h(8), h(6), h(5), h(4), h(3), h(2)})
    all.push_back({1, 256, 256, c, c});
  for (int dim : {64, 80, 96, 112, 128, 192, 512}) {
    all.push_back({2, dim, dim, h(8), h(8)});
    all.push_back({2, dim, dim, h(4), h(3)});
    all.push_back({2, dim, dim, kF16, kF16});
  }
  all.push_back({1, 192, 128, h(6), h(4)});
  all.push_back({1, 64, 96, kF16, h(4)});
  all.push_back({1, 128, 64, h(5), kF16});
  for (int bits : {8, 6, 5, 4, 3, 2}) {
    all.push_back({1, 128, 128, affine(bits, 64), affine(bits, 32)});
    all.push_back({1, 128, 192, h(bits, 64), h(bits, 32)});
  }
  all.push_back({1, 80, 112, affine(8, 16), affine(4, 16)});
  return all;
}

Problem windowed(int64_t window, int64_t keep) {
  Problem problem;
  problem.heads = 2;
  problem.window = window;
  problem.keep = keep;
  return problem;
}

std::vector<Problem> problems() {
  std::vector<Problem> all{Problem{}};
  for (int64_t window : {1, 4, 63, 64, 65})
    for (int64_t keep : {0, 1, 4, 70}) all.push_back(windowed(window, keep));
  Problem capped = windowed(0, 0), sinks = windowed(20, 0), spans = windowed(30, 0),
          page = windowed(0, 0);
  capped.softcap = 3.0f;
  sinks.sinks = true;
  spans.spans = {{5, 20}, {60, 100}};
  page.spans = {{64, 127}};
  for (const Problem& problem : {capped, sinks, spans, page}) all.push_back(problem);
  for (int64_t size : {1, 50, 64, 128}) {
    all.emplace_back();
    all.back().chunk_size = size;
  }
  return all;
}

// Rounding Q to 8 bits (of its largest element) moves a score of these rows by a percent or two,
// and the weights with it; P is off by 1/510 of its largest.
constexpr double kRounding = 0.03;

TEST_F(Attention, ReferenceIsPlainAttentionOverTheRowsReadBack) {
  for (const KvGeometry& g : geometries()) {
    Problem problem = windowed(40, 3);
    problem.heads = 2 * g.kv_heads;
    problem.softcap = 20.0f;
    problem.sinks = true;
    Cache cache(cpu, exec, g, 70, 5);
    std::vector<float> k, v;
    cache.read(ref.kv_read, exec, k, v);
    const auto q = queries(cache, problem, cache.tokens);
    const auto expected = plain(cache, problem, q, k, v);
    const auto actual = attend(ref.attention, exec, cache, problem, q, 0, cache.tokens);
    const bool floats = g.k.scheme == KvScheme::f16 && g.v.scheme == KvScheme::f16;
    EXPECT_LT(distance(actual, expected, cache), floats ? 1e-5 : kRounding) << name(g);
  }
}

TEST_F(Attention, ReferenceFollowsTheVisibilityRule) {
  for (const Problem& problem : problems()) {
    Cache cache(cpu, exec, {1, 32, 32, kF16, kF16}, 135, 5);
    std::vector<float> k, v;
    cache.read(ref.kv_read, exec, k, v);
    const auto q = queries(cache, problem, cache.tokens);
    const auto actual = attend(ref.attention, exec, cache, problem, q, 0, cache.tokens);
    EXPECT_LT(distance(actual, plain(cache, problem, q, k, v), cache), 1e-5)
        << "window " << problem.window << " keep " << problem.keep << " chunk "
        << problem.chunk_size;
  }
}

// Every row of the table against the reference. Sums in another order and a P that falls on the
// other side of a half are all that may differ.
TEST_F(Attention, KernelsAreTheReferenceForEveryCodecAndSize) {
  for (const KvGeometry& g : geometries())
    for (int group : {1, 3, 4}) {
      Problem problem = windowed(group == 4 ? 200 : 0, 3);
      problem.heads = group * g.kv_heads;
      problem.softcap = group == 3 ? 5.0f : 0.0f;
      problem.sinks = group == 1;
      Cache cache(cpu, exec, g, 70 + 60 * group, 17);
      const auto q = queries(cache, problem, cache.tokens);
      const int64_t first = cache.tokens - 2;
      const auto expected = attend(ref.attention, exec, cache, problem, q, first, 2);
      for (const auto& kernel : kernels)
        EXPECT_LT(distance(attend({kernel}, exec, cache, problem, q, first, 2), expected, cache),
                  1e-3)
            << kernel.name << " " << name(g) << " group " << group;
    }
}

TEST_F(Attention, KernelsFollowTheVisibilityRule) {
  for (const auto& [k, v] : {std::pair{kF16, kF16}, {h(8), h(4)}})
    for (const Problem& problem : problems()) {
      Cache cache(cpu, exec, {1, 64, 48, k, v}, 135, 5);
      const auto q = queries(cache, problem, cache.tokens);
      const auto expected = attend(ref.attention, exec, cache, problem, q, 0, cache.tokens);
      for (const auto& kernel : kernels)
        EXPECT_LT(
            distance(attend({kernel}, exec, cache, problem, q, 0, cache.tokens), expected, cache),
            1e-3)
            << kernel.name << " window " << problem.window << " keep " << problem.keep;
    }
}

TEST_F(Attention, GroupsOfOneToEightHeads) {
  for (int group = 1; group <= 8; ++group)
    for (const KvCodec& codec : {kF16, h(8)}) {
      Problem problem;
      problem.heads = 2 * group;
      Cache cache(cpu, exec, {2, 64, 64, codec, codec}, 100, 5);
      const auto q = queries(cache, problem, cache.tokens);
      const auto expected = attend(ref.attention, exec, cache, problem, q, 97, 3);
      EXPECT_LT(distance(attend(cpu.attention, exec, cache, problem, q, 97, 3), expected, cache),
                1e-3)
          << group;
    }
}

// The promise of the product: chunk, threads and batch do not show in a single bit.
TEST_F(Attention, RowsDoNotDependOnChunkOrThreads) {
  for (const auto& [k, v] :
       {std::pair{kF16, kF16}, {h(8), h(8)}, {h(6), h(4)}, {affine(4, 32), h(3, 32)}}) {
    const KvGeometry g{1, 64, 96, k, v};
    for (const Ops* ops : {&ref, &cpu})
      for (const Problem& shape : {windowed(0, 0), windowed(70, 5), windowed(300, 0)}) {
        if (ops == &ref && shape.window == 300) continue;
        Problem problem = shape;
        problem.heads = 3;
        problem.sinks = true;
        const int64_t tokens = ops == &ref ? 70 : 600;
        Cache cache(cpu, exec, g, tokens, 21);
        const auto q = queries(cache, problem, tokens);
        const int64_t width = problem.heads * g.v_dim;
        const auto whole = attend(ops->attention, exec, cache, problem, q, 0, tokens);
        for (int64_t chunk : {1, 7, 64})
          for (int64_t first = 0; first < tokens; first += chunk) {
            const int64_t rows = std::min(chunk, tokens - first);
            expect_same_bits(attend(ops->attention, exec, cache, problem, q, first, rows),
                             whole.data() + first * width, name(g));
          }
        expect_same_bits(attend(ops->attention, exec1, cache, problem, q, 0, tokens), whole.data(),
                         "one thread");
        expect_same_bits(attend(ops->attention, exec1, cache, problem, q, tokens - 1, 1),
                         whole.data() + (tokens - 1) * width, "one thread, one row");
      }
  }
}

TEST_F(Attention, RowsDoNotDependOnTheBatch) {
  const KvGeometry g{1, 64, 64, h(8), h(4)};
  const Problem problem = windowed(100, 4);
  Cache cache(cpu, exec, g, 300, 8);
  const auto q = queries(cache, problem, cache.tokens);
  // Four segments of unlike lengths over the same pages, rows in another order than the segments.
  const std::vector<std::array<int64_t, 3>> parts{
      {3, 1, 299}, {4, 9, 100}, {0, 3, 17}, {13, 2, 255}};
  std::vector<KvSegment> segments;
  std::vector<float> batch_q(15 * 2 * 64), out(15 * 2 * 64, NAN);
  for (const auto& [row0, rows, index0] : parts) {
    segments.push_back({row0, rows, index0, cache.pages.data(),
                        static_cast<int64_t>(cache.pages.size()), nullptr});
    std::copy_n(q.begin() + index0 * 128, rows * 128, batch_q.begin() + row0 * 128);
  }
  for (Exec* with : {&exec, &exec1}) {
    AttentionParams p;
    p.geometry = g;
    p.storage = cache.storage.data();
    p.page_stride = static_cast<int64_t>(cache.page_bytes);
    p.heads = 2;
    p.q = batch_q.data();
    p.q_stride = p.out_stride = 128;
    p.out = out.data();
    p.scale = 1.0f / 8.0f * 2.0f;
    p.window = problem.window;
    p.keep = problem.keep;
    p.segments = segments.data();
    p.n_segments = static_cast<int64_t>(segments.size());
    run(cpu.attention, p, *with);
    for (const auto& [row0, rows, index0] : parts)
      expect_same_bits(attend(cpu.attention, exec, cache, problem, q, index0, rows),
                       out.data() + row0 * 128, "batch");
  }
}

// A ring has dropped the pages between the pinned ones and the window, and their slots hold other
// rows.
TEST_F(Attention, PagesOutOfSightMayBeMissing) {
  for (const Ops* ops : {&ref, &cpu})
    for (const auto& [k, v] : {std::pair{kF16, kF16}, {h(8), h(4)}}) {
      const Problem problem = windowed(100, 70);
      Cache cache(cpu, exec, {1, 64, 64, k, v}, 700, 8);
      const auto q = queries(cache, problem, cache.tokens);
      const auto expected = attend(ops->attention, exec, cache, problem, q, 640, 20);
      std::vector<PageRef> kept;
      for (const PageRef& page : cache.pages) {
        const bool seen = page.logical < 2 || page.logical >= (640 - 99) / kPageTokens;
        if (seen)
          kept.push_back(page);
        else
          std::memset(cache.storage.data() + page.physical * cache.page_bytes, 0xFF,
                      cache.page_bytes);
      }
      ASSERT_LT(kept.size(), cache.pages.size());
      expect_same_bits(attend(ops->attention, exec, cache, problem, q, 640, 20, &kept),
                       expected.data(), "ring");
    }
}

}  // namespace
}  // namespace ringkeep::kernels::testing
