// One attention call over a Cache, its definition in double precision, and how far results are
// apart.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/kv_fixture.h"

namespace ringkeep::kernels::testing {

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

inline std::vector<float> queries(const Cache& cache, const Problem& problem, int64_t rows) {
  return gaussian(rows * problem.heads * cache.geometry.k_dim, 99);
}

inline std::vector<float> sinks_of(const Problem& problem) {
  std::vector<float> sinks(problem.heads);
  for (int i = 0; i < problem.heads; ++i) sinks[i] = 0.5f * static_cast<float>(i) - 0.5f;
  return sinks;
}

inline std::vector<int64_t> span_ends(const Problem& problem, int64_t first, int64_t rows) {
  std::vector<int64_t> ends(rows);
  for (int64_t i = 0; i < rows; ++i) {
    ends[i] = first + i;
    for (const auto& [begin, end] : problem.spans)
      if (first + i >= begin && first + i <= end) ends[i] = end;
  }
  return ends;
}

// Rows [first, first + rows) with q of the whole sequence; `pages` (and hot_pages, with a hot tier)
// default to all of the cache.
inline std::vector<float> attend(const KernelTable<AttentionParams>& table, Exec& exec,
                                 const Cache& cache, const Problem& problem,
                                 const std::vector<float>& q, int64_t first, int64_t rows,
                                 const std::vector<PageRef>* pages = nullptr,
                                 const std::vector<PageRef>* hot_pages = nullptr) {
  const auto& g = cache.geometry;
  const std::vector<int64_t> ends = span_ends(problem, first, rows);
  const std::vector<float> sinks = sinks_of(problem);
  if (pages == nullptr) pages = &cache.pages;
  if (hot_pages == nullptr) hot_pages = &cache.hot_pages;
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
  KvSegment hot = segment;
  hot.pages = hot_pages->data();
  hot.n_pages = static_cast<int64_t>(hot_pages->size());
  if (cache.hot)
    p.hot = {*cache.hot, cache.hot_storage.data(), static_cast<int64_t>(cache.hot_page_bytes),
             &hot};
  run(table, p, exec);
  return out;
}

// Attention over floats, by its definition, in double precision. `hot` are the rows of the newest
// pages.
inline std::vector<float> plain(const Cache& cache, const Problem& problem,
                                const std::vector<float>& q, const Rows& cold, const Rows& hot) {
  const auto& g = cache.geometry;
  const std::vector<int64_t> ends = span_ends(problem, 0, cache.tokens);
  const double scale = 1.0f / std::sqrt(static_cast<float>(g.k_dim)) * 2.0f;
  const auto rows_of = [&](int64_t i, int64_t j) -> const Rows& {
    return j / 64 >= i / 64 - 1 ? hot : cold;
  };
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
        const std::vector<float>& k = rows_of(i, j).k;
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
          sum += weight[j] * rows_of(i, j).v[(j * g.kv_heads + kv) * g.v_dim + d];
        out[(i * problem.heads + h) * g.v_dim + d] = static_cast<float>(sum / total);
      }
    }
  return out;
}

inline std::vector<float> plain(const Cache& cache, const Problem& problem,
                                const std::vector<float>& q, const Rows& rows) {
  return plain(cache, problem, q, rows, rows);
}

// Largest distance of two heads' outputs, relative to the rms norm of a row of V.
inline double distance(const std::vector<float>& a, const std::vector<float>& b,
                       const Cache& cache) {
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

inline void expect_same_bits(const std::vector<float>& a, const float* b, const std::string& what) {
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << what << " at " << i;
}

inline Problem windowed(int64_t window, int64_t keep) {
  Problem problem;
  problem.heads = 2;
  problem.window = window;
  problem.keep = keep;
  return problem;
}

inline std::vector<Problem> problems() {
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
inline constexpr double kRounding = 0.03;

}  // namespace ringkeep::kernels::testing
