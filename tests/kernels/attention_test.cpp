#include <gtest/gtest.h>

#include <array>

#include "kernels/attention_fixture.h"

namespace ringkeep::kernels::testing {
namespace {

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

TEST_F(Attention, ReferenceIsPlainAttentionOverTheRowsReadBack) {
  for (const KvGeometry& g : geometries()) {
    Problem problem = windowed(40, 3);
    problem.heads = 2 * g.kv_heads;
    problem.softcap = 20.0f;
    problem.sinks = true;
    Cache cache(cpu, exec, g, 70, 5);
    Rows rows;
    cache.read(ref.kv_read, exec, rows.k, rows.v);
    const auto q = queries(cache, problem, cache.tokens);
    const auto expected = plain(cache, problem, q, rows);
    const auto actual = attend(ref.attention, exec, cache, problem, q, 0, cache.tokens);
    const bool floats = g.k.scheme == KvScheme::f16 && g.v.scheme == KvScheme::f16;
    EXPECT_LT(distance(actual, expected, cache), floats ? 1e-5 : kRounding) << name(g);
  }
}

TEST_F(Attention, ReferenceFollowsTheVisibilityRule) {
  for (const Problem& problem : problems()) {
    Cache cache(cpu, exec, {1, 32, 32, kF16, kF16}, 135, 5);
    Rows rows;
    cache.read(ref.kv_read, exec, rows.k, rows.v);
    const auto q = queries(cache, problem, cache.tokens);
    const auto actual = attend(ref.attention, exec, cache, problem, q, 0, cache.tokens);
    EXPECT_LT(distance(actual, plain(cache, problem, q, rows), cache), 1e-5)
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

TEST_F(Attention, KernelsAreTheReferenceForEveryGroup) {
  for (int dim : kDims)
    for (const KvCodec& codec : codecs_of(dim)) {
      Problem problem;
      problem.heads = 2;
      Cache cache(cpu, exec, {1, dim, dim, codec, codec}, 75, 3);
      const auto q = queries(cache, problem, cache.tokens);
      const auto expected = attend(ref.attention, exec, cache, problem, q, 73, 2);
      for (const auto& kernel : kernels)
        EXPECT_LT(distance(attend({kernel}, exec, cache, problem, q, 73, 2), expected, cache), 1e-3)
            << kernel.name << " " << name(cache.geometry);
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

// A few rows visit the pages of several heads together, many rows head by head.
TEST_F(Attention, RowsDoNotDependOnTheHeadsBesideThem) {
  for (const auto& [k, v] :
       {std::pair{kF16, kF16}, {h(8), h(8)}, {h(6), h(4)}, {affine(4, 32), h(3, 32)}})
    for (const int kv_heads : {2, 5, 8}) {
      Problem problem = windowed(400, 5);
      problem.heads = 3 * kv_heads;
      problem.sinks = true;
      Cache cache(cpu, exec, {kv_heads, 64, 96, k, v}, 600, 21);
      const auto q = queries(cache, problem, cache.tokens);
      const int64_t width = problem.heads * cache.geometry.v_dim, many = 40;
      const int64_t begin = cache.tokens - many;
      const auto whole = attend(cpu.attention, exec, cache, problem, q, begin, many);
      for (Exec* with : {&exec, &exec1})
        for (int64_t chunk : {1, 4})
          for (int64_t row = 0; row < many; row += chunk)
            expect_same_bits(attend(cpu.attention, *with, cache, problem, q, begin + row, chunk),
                             whole.data() + row * width, name(cache.geometry));
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
