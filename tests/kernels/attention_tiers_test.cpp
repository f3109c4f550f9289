// Attention that reads the newest pages from a hot tier.
#include <gtest/gtest.h>

#include <array>

#include "kernels/attention_fixture.h"

namespace ringkeep::kernels::testing {
namespace {

using AttentionTiers = Attention;

// 4 bits with 8 or 16 in the hot pages, a half without a tier of its own, f16 and affine halves,
// groups.
std::vector<std::pair<KvGeometry, KvGeometry>> tiers() {
  std::vector<std::pair<KvGeometry, KvGeometry>> all;
  for (const auto& [k, v] : {std::pair{h(4), h(3)},
                             {h(8), h(4)},
                             {h(6), h(8)},
                             {kF16, h(4)},
                             {h(5), kF16},
                             {affine(4, 16), h(2)},
                             {h(4, 16), affine(8, 16)},
                             {h(6, 32), h(3, 16)}})
    for (int bits : {8, 16}) {
      const KvGeometry g{2, 64, 96, k, v};
      all.emplace_back(g, hot_of(g, bits));
    }
  return all;
}

std::string tier_name(const KvGeometry& cold, const KvGeometry& hot) {
  return name(cold) + ", hot " + name(hot);
}

TEST_F(AttentionTiers, ReferenceIsPlainAttentionOverTheRowsReadBack) {
  for (const auto& [cold, hot] : tiers()) {
    Problem problem = windowed(170, 3);
    problem.heads = 4;
    problem.sinks = true;
    Cache cache(cpu, exec, cold, 260, 5, hot);
    Rows cold_rows, hot_rows;
    cache.read(ref.kv_read, exec, cold_rows.k, cold_rows.v);
    cache.read(ref.kv_read, exec, hot_rows.k, hot_rows.v, true);
    const auto q = queries(cache, problem, cache.tokens);
    const auto actual = attend(ref.attention, exec, cache, problem, q, 0, cache.tokens);
    EXPECT_LT(distance(actual, plain(cache, problem, q, cold_rows, hot_rows), cache), kRounding)
        << tier_name(cold, hot);
    // The tiers matter: rows of one or the other alone are further away.
    if (cold.v.bits > 3) continue;
    EXPECT_GT(distance(actual, plain(cache, problem, q, cold_rows), cache), 2 * kRounding);
    EXPECT_GT(distance(actual, plain(cache, problem, q, hot_rows), cache), 2 * kRounding);
  }
}

TEST_F(AttentionTiers, KernelsAreTheReferenceForEveryCodecAndSize) {
  for (int dim : kDims)
    for (int bits : {6, 5, 4, 3, 2})
      for (int hot_bits : {8, 16}) {
        const int v_dim = dim == 64 ? 128 : dim - 16;
        const KvGeometry cold{1, dim, v_dim, h(bits), h(std::max(2, bits - 1))};
        Problem problem;
        problem.heads = 3;
        problem.sinks = dim == 96;
        problem.softcap = dim == 128 ? 5.0f : 0.0f;
        Cache cache(cpu, exec, cold, 200, 17, hot_of(cold, hot_bits));
        const auto q = queries(cache, problem, cache.tokens);
        // Rows 189 to 191 read page 1 hot, the next ones cold.
        const auto expected = attend(ref.attention, exec, cache, problem, q, 189, 6);
        for (const auto& kernel : kernels)
          EXPECT_LT(distance(attend({kernel}, exec, cache, problem, q, 189, 6), expected, cache),
                    1e-3)
              << kernel.name << " " << tier_name(cold, *cache.hot);
      }
}

TEST_F(AttentionTiers, KernelsFollowTheVisibilityRule) {
  std::vector<Problem> all = problems();
  Problem far = windowed(0, 0);  // a span over three pages: rows read what comes after them hot
  far.spans = {{70, 250}};
  all.push_back(far);
  for (const auto& [cold, hot] : tiers())
    for (const Problem& problem : all) {
      if (problem.heads % 2 != 0) continue;
      Cache cache(cpu, exec, cold, 259, 5, hot);
      const auto q = queries(cache, problem, cache.tokens);
      for (const int64_t first : {0, 120, 183}) {
        const int64_t rows = problem.spans.empty() ? 12 : cache.tokens - first;
        const auto expected = attend(ref.attention, exec, cache, problem, q, first, rows);
        for (const auto& kernel : kernels)
          EXPECT_LT(
              distance(attend({kernel}, exec, cache, problem, q, first, rows), expected, cache),
              1e-3)
              << kernel.name << " " << tier_name(cold, hot) << " window " << problem.window
              << " keep " << problem.keep << " chunk " << problem.chunk_size;
      }
      if (problem.spans.empty() && cold.k.bits != 4) break;  // the others hold for every codec
    }
}

// Hot and cold rows of a block share its pages; a row does not notice.
TEST_F(AttentionTiers, RowsDoNotDependOnChunkOrThreads) {
  for (const auto& [cold, hot] : tiers())
    for (const Ops* ops : {&ref, &cpu})
      for (const Problem& shape : {windowed(0, 0), windowed(150, 5)}) {
        Problem problem = shape;
        problem.sinks = true;
        const int64_t tokens = ops == &ref ? 200 : 600;
        Cache cache(cpu, exec, cold, tokens, 21, hot);
        const auto q = queries(cache, problem, tokens);
        const int64_t width = problem.heads * cold.v_dim;
        const int64_t begin = ops == &ref ? 180 : 0;
        const auto whole = attend(ops->attention, exec, cache, problem, q, begin, tokens - begin);
        for (int64_t chunk : {1, 7, 64})
          for (int64_t first = begin; first < tokens; first += chunk)
            expect_same_bits(attend(ops->attention, exec, cache, problem, q, first,
                                    std::min(chunk, tokens - first)),
                             whole.data() + (first - begin) * width, tier_name(cold, hot));
        expect_same_bits(attend(ops->attention, exec1, cache, problem, q, begin, tokens - begin),
                         whole.data(), "one thread");
      }
}

TEST_F(AttentionTiers, RowsDoNotDependOnTheBatch) {
  const KvGeometry cold{1, 64, 64, h(4), h(3)};
  for (const int bits : {8, 16}) {
    const Problem problem = windowed(200, 4);
    Cache cache(cpu, exec, cold, 300, 8, hot_of(cold, bits));
    const auto q = queries(cache, problem, cache.tokens);
    // Ragged segments over the same pages, rows in another order than the segments.
    const std::vector<std::array<int64_t, 3>> parts{
        {3, 1, 299}, {4, 9, 187}, {0, 3, 17}, {13, 2, 255}};
    std::vector<KvSegment> segments, hot_segments;
    std::vector<float> batch_q(15 * 2 * 64), out(15 * 2 * 64, NAN);
    for (const auto& [row0, rows, index0] : parts) {
      segments.push_back({row0, rows, index0, cache.pages.data(),
                          static_cast<int64_t>(cache.pages.size()), nullptr});
      hot_segments.push_back(segments.back());
      const int64_t skipped = std::max<int64_t>(0, index0 / kPageTokens - 1);
      hot_segments.back().pages = cache.hot_pages.data() + skipped;
      hot_segments.back().n_pages = static_cast<int64_t>(cache.hot_pages.size()) - skipped;
      std::copy_n(q.begin() + index0 * 128, rows * 128, batch_q.begin() + row0 * 128);
    }
    AttentionParams p;
    p.geometry = cold;
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
    p.hot = {*cache.hot, cache.hot_storage.data(), static_cast<int64_t>(cache.hot_page_bytes),
             hot_segments.data()};
    run(cpu.attention, p, exec);
    for (const auto& [row0, rows, index0] : parts)
      expect_same_bits(attend(cpu.attention, exec, cache, problem, q, index0, rows),
                       out.data() + row0 * 128, "batch");
  }
}

// Of the hot pages only the newest exist, of the cold ones no row reads the newest.
TEST_F(AttentionTiers, PagesOfTheOtherTierAreNotRead) {
  for (const Ops* ops : {&ref, &cpu})
    for (const auto& [cold, hot] : tiers()) {
      const Problem problem = windowed(0, 0);
      Cache cache(cpu, exec, cold, 700, 8, hot);
      const auto q = queries(cache, problem, cache.tokens);
      const auto expected = attend(ops->attention, exec, cache, problem, q, 650, 20);
      const int64_t newest = 650 / kPageTokens - 1;
      const std::vector<PageRef> kept(cache.hot_pages.begin() + newest, cache.hot_pages.end());
      const auto spoil = [](std::byte* page, size_t bytes) { std::memset(page, 0xFF, bytes); };
      for (const PageRef& page : cache.hot_pages)
        if (page.logical < newest)
          spoil(cache.hot_storage.data() + page.physical * cache.hot_page_bytes,
                cache.hot_page_bytes);
      for (const PageRef& page : cache.pages)
        if (page.logical >= newest)
          spoil(cache.storage.data() + page.physical * cache.page_bytes, cache.page_bytes);
      expect_same_bits(
          attend(ops->attention, exec, cache, problem, q, 650, 20, &cache.pages, &kept),
          expected.data(), tier_name(cold, hot));
    }
}

}  // namespace
}  // namespace ringkeep::kernels::testing
