#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/mapped_file.h"
#include "kernels/kv_fixture.h"

namespace ringkeep::kernels::testing {
namespace {

const std::vector<KvCodec> kCodecs = [] {
  std::vector<KvCodec> all{kF16};
  for (int bits : {8, 6, 5, 4, 3, 2}) {
    all.push_back(h(bits));
    all.push_back(h(bits, 32));
    all.push_back(affine(bits, 32));
  }
  return all;
}();

double rms_error(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (x[i] - y[i]) * double(x[i] - y[i]);
    norm += x[i] * double(x[i]);
  }
  return std::sqrt(error / norm);
}

class KvCodecTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device = make_cpu_device(2);
  Exec exec{*device};
  Ops ref = ref_ops();
  Ops cpu = cpu_ops();
};

TEST_F(KvCodecTest, PageHoldsCodesAndScalesAndNothingElse) {
  EXPECT_EQ(ref.kv_page_bytes({1, 256, 256, h(8), h(8)}), 64u * 2 * (256 + 2));
  EXPECT_EQ(ref.kv_page_bytes({1, 256, 256, kF16, kF16}), 64u * 2 * 512);
  EXPECT_EQ(ref.kv_page_bytes({8, 128, 64, h(6), h(4)}), 64u * 8 * (96 + 2 + 32 + 2));
  EXPECT_EQ(ref.kv_page_bytes({2, 192, 128, affine(4, 64), h(3, 32)}),
            64u * 2 * (96 + 3 * 4 + 48 + 4 * 2));
}

TEST_F(KvCodecTest, RefusalsNameTheDimTheGroupAndOneThatWouldDo) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  EXPECT_EQ(ref.kv_supported({1, 256, 256, h(8), kF16}), "");
  EXPECT_EQ(ref.kv_supported({1, 80, 112, h(4), affine(4, 16)}), "");
  EXPECT_THAT(ref.kv_supported({1, 96, 96, affine(4, 64), affine(4, 64)}),
              AllOf(HasSubstr("64"), HasSubstr("96"), HasSubstr("32")));
  EXPECT_THAT(ref.kv_supported({1, 128, 80, h(8), affine(8, 32)}),
              AllOf(HasSubstr("V"), HasSubstr("80"), HasSubstr("32"), HasSubstr("16 does")));
  EXPECT_THAT(ref.kv_supported({1, 100, 128, kF16, kF16}), HasSubstr("100"));
  EXPECT_THAT(ref.kv_supported({1, 1024, 128, kF16, kF16}), HasSubstr("1024"));
  EXPECT_THAT(ref.kv_supported({1, 128, 128, h(7), h(8)}), HasSubstr("7"));
  EXPECT_NE(ref.kv_supported({0, 128, 128, h(8), h(8)}), "");
}

// Writing every code of a plane and reading them back: no two share a bit, none lies outside.
TEST_F(KvCodecTest, CodesDoNotOverlap) {
  for (bool value : {false, true})
    for (int bits : {8, 6, 5, 4, 3, 2}) {
      const KvGeometry g{1, 80, 80, h(bits), h(bits)};
      const HostKvLayout layout(g);
      const HostKvPlane& plane = value ? layout.v : layout.k;
      std::vector<std::byte> page(layout.page_bytes, std::byte{0xA5});
      std::mt19937 random(bits);
      std::vector<int> codes(kPageTokens * 80);
      for (int& code : codes) code = random() & ((1 << bits) - 1);
      for (int t = 0; t < kPageTokens; ++t)
        for (int d = 0; d < 80; ++d) set_code(plane, page.data(), t, d, codes[t * 80 + d]);
      for (int t = 0; t < kPageTokens; ++t)
        for (int d = 0; d < 80; ++d) {
          ASSERT_EQ(get_code(plane, page.data(), t, d), codes[t * 80 + d])
              << bits << " " << t << " " << d;
        }
      const size_t first = plane.codes, last = plane.codes + 8 * 80 * bits;
      std::fill_n(page.begin() + first, last - first, std::byte{0xA5});
      EXPECT_EQ(page, std::vector<std::byte>(page.size(), std::byte{0xA5}));
    }
}

// The grids as CODECS describes them, in double precision and by brute force.
struct Grid {
  std::vector<double> levels;
  std::vector<double> steps;
};

Grid grid_of(int bits, const std::vector<double>& x) {
  Grid grid;
  double largest = 0, square = 0;
  for (double v : x) largest = std::max(largest, std::abs(v)), square += v * v;
  const double rms = std::sqrt(square / x.size());
  const int half = 1 << (bits - 1);
  if (bits == 8) {
    for (int q = -127; q <= 127; ++q) grid.levels.push_back(q);
    grid.steps = {f16_to_float(float_to_f16(static_cast<float>(largest / 127)))};
  } else if (bits > 4) {
    for (int q = -half; q < half; ++q) grid.levels.push_back(q + 0.5);
    for (int i = 0; i < 25; ++i)
      grid.steps.push_back(largest / (half - 0.5) * (0.3 + 0.75 * i / 24));
  } else {
    const std::vector<double> positive = bits == 4
                                             ? std::vector<double>{6, 18, 31, 44, 58, 75, 96, 127}
                                         : bits == 3 ? std::vector<double>{14, 45, 79, 127}
                                                     : std::vector<double>{38, 127};
    for (double l : positive) grid.levels.push_back(l), grid.levels.push_back(-l);
    const double top = bits == 4 ? 2.7326 : bits == 3 ? 2.1520 : 1.5104;
    for (int i = 0; i < 14; ++i) grid.steps.push_back(rms * top / 127 * (0.8 + 0.5 * i / 13));
  }
  return grid;
}

std::vector<double> round_trip(int bits, const std::vector<double>& x) {
  const Grid grid = grid_of(bits, x);
  double best = INFINITY;
  std::vector<double> kept;
  for (double step : grid.steps) {
    std::vector<double> q;
    double error = 0;
    for (double v : x) {
      double nearest = grid.levels[0];
      for (double l : grid.levels)
        if (std::abs(v - l * step) < std::abs(v - nearest * step)) nearest = l;
      q.push_back(nearest);
      error += (v - nearest * step) * (v - nearest * step);
    }
    if (error < best) best = error, kept = q;
  }
  double scale = grid.steps[0];
  if (bits != 8) {
    double xq = 0, qq = 0;
    for (size_t i = 0; i < x.size(); ++i) xq += x[i] * kept[i], qq += kept[i] * kept[i];
    scale = xq / qq;
  }
  for (double& q : kept) q *= scale;
  return kept;
}

std::vector<double> rotate(const float* x, int dim) {  // by the definition of the Hadamard matrix
  const int block = dim & -dim;
  std::vector<double> y(dim);
  for (int i = 0; i < dim; ++i)
    for (int j = i / block * block; j < (i / block + 1) * block; ++j)
      y[i] += (__builtin_popcount((i % block) & (j % block)) % 2 ? -1.0 : 1.0) * x[j];
  for (double& v : y) v /= std::sqrt(block);
  return y;
}

TEST_F(KvCodecTest, RoundTripIsThatOfTheGrid) {
  for (int dim : {64, 80, 256})
    for (int bits : {8, 6, 5, 4, 3, 2})
      for (int group : {0, dim == 80 ? 16 : 32}) {
        Cache cache(ref, exec, {1, dim, dim, h(bits, group), h(bits, group)}, 20, 7);
        std::vector<float> k, v;
        cache.read(ref.kv_read, exec, k, v);
        double far = 0, norm = 0;
        for (int t = 0; t < 20; ++t) {
          const std::vector<double> x = rotate(cache.k.data() + t * dim, dim);
          const std::vector<double> y = rotate(k.data() + t * dim, dim);
          const int n = group ? group : dim;
          for (int g = 0; g < dim; g += n) {
            const auto expected = round_trip(bits, {x.begin() + g, x.begin() + g + n});
            for (int i = 0; i < n; ++i) {
              far += std::pow(y[g + i] - expected[i], 2);
              norm += std::pow(x[g + i], 2);
            }
          }
        }
        // Half-precision scales differ by 2^-11 at most; of exact ties (the largest element of a
        // uniform row has one) either is right.
        EXPECT_LT(std::sqrt(far / norm), bits == 6 || bits == 5 ? 5e-3 : 1e-3)
            << bits << " bits, group " << group << ", dim " << dim;
      }
}

TEST_F(KvCodecTest, ErrorsOfGaussianRowsAreTheKnownOnes) {
  const std::vector<std::pair<int, double>> expected{{8, .0072}, {6, .0265}, {5, .0543},
                                                     {4, .0975}, {3, .186},  {2, .343}};
  for (const auto& [bits, error] : expected) {
    Cache cache(ref, exec, {1, 256, 256, h(bits), h(bits)}, 100, 3);
    std::vector<float> k, v;
    cache.read(ref.kv_read, exec, k, v);
    EXPECT_NEAR(rms_error(cache.k, k), error, error * .06) << bits;
    EXPECT_NEAR(rms_error(cache.v, v), error, error * .06) << bits;
  }
  Cache cache(ref, exec, {1, 256, 256, kF16, kF16}, 64, 3);
  std::vector<float> k, v;
  cache.read(ref.kv_read, exec, k, v);
  for (size_t i = 0; i < k.size(); ++i) ASSERT_EQ(k[i], f16_to_float(float_to_f16(cache.k[i])));
}

TEST_F(KvCodecTest, AffineIsThatOfMlx) {
  const auto text = read_text_file(RK_SOURCE_DIR "/tests/golden/kv/affine.json", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.error().message;
  const auto golden = nlohmann::json::parse(*text);
  for (const auto& item : golden["cases"]) {
    const int bits = item["bits"], group = item["group"];
    const std::vector<float> row = golden["rows"][item["row"].get<std::string>()];
    const std::vector<int> codes = item["codes"];
    const int dim = static_cast<int>(row.size());
    Cache cache(ref, exec, {1, dim, dim, affine(bits, group), affine(bits, group)}, 1, 0);
    cache.k = cache.v = row;
    cache.append(ref.kv_append, exec, 0, 1);
    std::vector<float> k, v;
    cache.read(ref.kv_read, exec, k, v);
    const HostKvLayout layout(cache.geometry);
    for (int d = 0; d < dim; ++d) {
      const float scale = item["scales"][d / group], bias = item["biases"][d / group];
      const float value =
          f16_to_float(float_to_f16(scale)) * codes[d] + f16_to_float(float_to_f16(bias));
      ASSERT_EQ(get_code(layout.k, cache.storage.data(), 0, d), codes[d])
          << item["row"] << bits << " " << d;
      ASSERT_NEAR(k[d], value, 1e-6f * std::abs(value));
      ASSERT_EQ(k[d], v[d]);
    }
  }
}

TEST_F(KvCodecTest, RowsAreEncodedAloneAndOverwritten) {
  for (const KvCodec& codec : kCodecs) {
    const KvGeometry g{2, 96, 64, codec, codec};
    Cache whole(ref, exec, g, 70, 11);
    Cache pieces(ref, exec, g, 70, 12);  // other rows first
    pieces.k = whole.k;
    pieces.v = whole.v;
    for (int64_t first = 69; first >= 0; --first) pieces.append(ref.kv_append, exec, first, 1);
    EXPECT_EQ(std::memcmp(whole.storage.data(), pieces.storage.data(), whole.page_bytes * 2 - 64),
              0)
        << describe(codec);
  }
}

// Pages are the same bytes whichever kernel wrote them, so a saved cache reads the same everywhere.
TEST_F(KvCodecTest, KernelsWriteTheBytesOfTheReference) {
  for (int dim : kDims)
    for (const KvCodec& codec : codecs_of(dim)) {
      const KvGeometry g{1, dim, dim, codec, codec};
      Cache expected(ref, exec, g, 67, 31, hot_of(g, 16));
      for (size_t i = 0; i + 1 < cpu.kv_append.size(); ++i) {
        const auto& kernel = cpu.kv_append[i];
        Cache actual(cpu, exec, g, 67, 32, hot_of(g, 16));
        actual.k = expected.k;
        actual.v = expected.v;
        for (int64_t first : {50, 0, 20})
          actual.append({kernel}, exec, first, first == 50 ? 17 : 30);
        ASSERT_EQ(
            std::memcmp(expected.storage.data(), actual.storage.data(), actual.page_bytes * 2), 0)
            << kernel.name << " " << name(g);
        ASSERT_EQ(std::memcmp(expected.hot_storage.data(), actual.hot_storage.data(),
                              actual.hot_page_bytes * 3),
                  0)
            << kernel.name << " " << name(*actual.hot);
      }
    }
}

// The second encoding is what the hot codecs alone would have stored.
TEST_F(KvCodecTest, HotRowsAreThoseOfTheirOwnCodec) {
  for (const Ops* ops : {&ref, &cpu})
    for (const int bits : {8, 16}) {
      const KvGeometry g{2, 96, 64, h(4), h(3, 32)};
      Cache both(*ops, exec, g, 70, 11, hot_of(g, bits));
      Cache hot(*ops, exec, hot_of(g, bits), 70, 11);
      Cache cold(*ops, exec, g, 70, 11);
      EXPECT_EQ(std::memcmp(both.storage.data(), cold.storage.data(), cold.page_bytes * 2), 0);
      Rows a, b;
      both.read(ref.kv_read, exec, a.k, a.v, true);
      hot.read(ref.kv_read, exec, b.k, b.v);
      EXPECT_EQ(a.k, b.k);
      EXPECT_EQ(a.v, b.v);
      EXPECT_LT(rms_error(both.k, a.k), bits == 8 ? 1e-2 : 5e-4);
    }
}

TEST_F(KvCodecTest, RotatedRowsTooLargeForHalvesAreReported) {
  for (const Ops* ops : {&ref, &cpu}) {
    const KvGeometry g{1, 64, 64, h(4), h(4)};
    Cache cache(*ops, exec, g, 2, 1, hot_of(g, 16));
    EXPECT_EQ(cache.non_finite, 0);
    std::fill_n(cache.k.begin() + 64, 64, 60000.0f);  // its rotation has one channel of 480,000
    cache.append(ops->kv_append, exec, 0, 2);
    EXPECT_EQ(cache.non_finite, 1);
    Rows rows;
    cache.read(ref.kv_read, exec, rows.k, rows.v, true);
    for (int d = 64; d < 128; ++d) EXPECT_EQ(rows.k[d], 0.0f);
    EXPECT_NEAR(rows.k[3], cache.k[3], 1e-2f);
  }
}

TEST_F(KvCodecTest, ZeroRowsHaveScaleZeroAndTinyOnesStayFinite) {
  for (const KvCodec& codec : kCodecs) {
    Cache cache(ref, exec, {1, 64, 64, codec, codec}, 3, 1);
    for (int d = 0; d < 64; ++d) {
      cache.k[d] = cache.v[d] = 0.0f;
      cache.k[64 + d] = cache.v[64 + d] = 1e-30f * static_cast<float>(d);
      cache.k[128 + d] = cache.v[128 + d] = d % 2 ? 65504.0f : -65504.0f;
    }
    cache.append(cpu.kv_append, exec, 0, 3);
    std::vector<float> k, v;
    cache.read(ref.kv_read, exec, k, v);
    for (int d = 0; d < 64; ++d) {
      EXPECT_EQ(k[d], 0.0f) << describe(codec);
      EXPECT_EQ(v[d], 0.0f);
      EXPECT_NEAR(k[64 + d], 0.0f, 1e-6f);
      EXPECT_TRUE(std::isfinite(v[128 + d])) << describe(codec);
    }
    if (codec.scheme == KvScheme::hadamard) {
      const HostKvLayout layout(cache.geometry);
      uint16_t scale;
      std::memcpy(&scale, cache.storage.data() + scale_offset(layout.k, 0, 0), 2);
      EXPECT_EQ(scale, 0);
    }
    EXPECT_EQ(cache.non_finite, 0);
  }
}

TEST_F(KvCodecTest, NonFiniteRowsAreReportedAndStoredAsZeros) {
  for (float bad : {NAN, INFINITY, -INFINITY, 1e6f})
    for (bool in_v : {false, true})
      for (const KvCodec& codec : kCodecs) {
        Cache cache(ref, exec, {1, 64, 64, codec, codec}, 2, 1);
        ASSERT_EQ(cache.non_finite, 0);
        (in_v ? cache.v : cache.k)[64 + 17] = bad;
        cache.append(cpu.kv_append, exec, 0, 2);
        EXPECT_EQ(cache.non_finite, 1) << describe(codec);
        std::vector<float> k, v;
        cache.read(ref.kv_read, exec, k, v);
        for (int d = 64; d < 128; ++d) EXPECT_EQ((in_v ? v : k)[d], 0.0f);
        EXPECT_NEAR(k[3], cache.k[3], 2.0f);
      }
}

TEST_F(KvCodecTest, DescribeIsTheCodecOfTheCommandLine) {
  EXPECT_EQ(describe(kF16), "f16");
  EXPECT_EQ(describe(h(8)), "8");
  EXPECT_EQ(describe(affine(4, 64)), "affine4:64");
}

}  // namespace
}  // namespace ringkeep::kernels::testing
