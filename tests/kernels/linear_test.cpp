// Every row of ops.linear and ops.embed, over every weight format: against a plain double product
// of the dequantized weights, against the reference, and against itself alone, in a batch and on
// more threads.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/linear_fixture.h"

namespace ringkeep::kernels {
namespace {

// y [rows, n] of one weight with one kernel.
std::vector<float> product(const Kernel<LinearParams>& kernel, Exec& exec, const Matrix& w,
                           const std::vector<float>& x, bool exact, const float* bias = nullptr) {
  const int64_t rows = int64_t(x.size()) / w.packed.cols;
  std::vector<float> y(size_t(rows * w.packed.rows), NAN);
  const LinearOutput output{&w.packed, bias, y.data(), w.packed.rows};
  const LinearParams params{x.data(), w.packed.cols, rows, &output, 1, exact};
  if (kernel.supports(params))
    kernel.run(params, exec);
  else
    y.clear();
  return y;
}

double norm(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double(x[i]) * double(x[i]);
  return std::sqrt(sum);
}

// |y - y*| where y* is the exact product, in units of the bound that the arithmetic promises:
// rounding of x to half a step of max/127/256 (packed), or of 2^-24 of each partial sum (float).
void expect_close_to_exact(const Matrix& w, const std::vector<float>& x,
                           const std::vector<float>& y, bool exact) {
  const int64_t k = w.packed.cols, n = w.packed.rows;
  const bool floats = exact || w.packed.spec.dense();
  for (int64_t r = 0; r < int64_t(x.size()) / k; ++r) {
    const float* row = &x[size_t(r * k)];
    float max = 0;
    for (int64_t i = 0; i < k; ++i) max = std::max(max, std::abs(row[i]));
    for (int64_t o = 0; o < n; ++o) {
      const float* weights = &w.values[size_t(o * k)];
      double expected = 0;
      for (int64_t i = 0; i < k; ++i) expected += double(weights[i]) * double(row[i]);
      const double w_norm = norm(weights, k);
      const double step = floats ? 0 : double(max) / 127 / 256;
      // Rounding errors of x are independent; of the float sums, at most linear in their number.
      double bound = step * w_norm * 3 + 0x1p-24 * 64 * w_norm * norm(row, k);
      if (w.packed.spec.kind == WeightKind::affine && !floats)  // scale * dot and bias * sum cancel
        bound += 0x1p-24 * 64 * 0.2 * std::sqrt(double(k)) * norm(row, k);
      ASSERT_NEAR(double(y[size_t(r * n + o)]), expected, bound) << "row " << r << " output " << o;
    }
  }
}

using LinearTest = Backends;
using EmbedTest = Backends;

TEST_F(EmbedTest, PackedRowsAreTheDequantizedRows) {
  const float scale = 25.25f;
  for (const auto& spec : all_specs()) {
    SCOPED_TRACE(quant::describe(spec));
    for (const int64_t rows : {1, 15, 16, 17, 40}) {
      const Matrix w(ops, spec, rows, 256, random);
      std::vector<int32_t> tokens(size_t(rows), 0);
      for (int32_t t = 0; t < rows; ++t) tokens[size_t(t)] = int32_t(rows) - 1 - t;
      for (const auto& kernel : ops.embed) {
        std::vector<float> out(w.values.size());
        kernel.run({&w.packed, tokens.data(), rows, scale, out.data()}, exec2);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < 256; ++c)
            ASSERT_EQ(out[size_t(r * 256 + c)],
                      scale * w.values[size_t(tokens[size_t(r)]) * 256 + size_t(c)])
                << kernel.name << " row " << r << " column " << c;
      }
    }
  }
}

TEST_F(EmbedTest, PackingInPiecesIsPackingAtOnce) {
  const WeightSpec spec{WeightKind::affine, 5, 32, 0, ScaleKind::two_level};
  constexpr int64_t kRows = 90, kCols = 1536;
  const Matrix whole(ops, spec, kRows, kCols, random);
  std::vector<std::byte> pieces(whole.bytes.size());
  for (int64_t row0 = 0; row0 < kRows; row0 += 16) {
    const int64_t n = std::min<int64_t>(16, kRows - row0);
    WeightRows part{.spec = spec,
                    .rows = n,
                    .cols = kCols,
                    .codes = {},
                    .scales = {},
                    .biases = {},
                    .sub_scales = {},
                    .sub_mins = {},
                    .supers = {},
                    .super_mins = {},
                    .dense = {}};
    const auto cut = [&](const auto& from, auto& to) {
      const auto width = int64_t(from.size()) / kRows;
      to.assign(from.begin() + row0 * width, from.begin() + (row0 + n) * width);
    };
    cut(whole.logical.codes, part.codes);
    cut(whole.logical.sub_scales, part.sub_scales);
    cut(whole.logical.sub_mins, part.sub_mins);
    cut(whole.logical.supers, part.supers);
    cut(whole.logical.super_mins, part.super_mins);
    ops.pack_rows(pieces.data(), kRows, kCols, row0, part);
  }
  EXPECT_EQ(pieces, whole.bytes);
}

TEST_F(LinearTest, EveryFormatIsCloseToTheExactProduct) {
  for (const auto& spec : all_specs()) {
    SCOPED_TRACE(quant::describe(spec));
    const Matrix w(ops, spec, 19, 512, random);
    const auto x = normals(17 * 512, random);
    for (const auto& kernel : ops.linear) {
      for (const bool exact : {false, true}) {
        SCOPED_TRACE(std::string(kernel.name) + (exact ? ", exact" : ""));
        const auto y = product(kernel, exec, w, x, exact);
        if (!y.empty()) expect_close_to_exact(w, x, y, exact);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A target without fused multiply-add rounds differently from the reference.
bool fused() { return explain(cpu_backend()).find("SSE4") == std::string::npos; }

TEST_F(LinearTest, EveryKernelIsTheReferenceBitForBit) {
  if (!fused()) GTEST_SKIP() << "no fused multiply-add";
  for (const auto& spec : all_specs()) {
    SCOPED_TRACE(quant::describe(spec));
    for (const int64_t n : {1, 16, 40}) {
      const Matrix w(ops, spec, n, 256, random);
      const auto bias = normals(n, random);
      for (const int64_t rows : {1, 2, 3, 4, 7, 8, 15, 16, 33}) {
        const auto x = normals(rows * 256, random);
        for (const bool exact : {false, true}) {
          const auto expected = product(reference.linear[0], exec, w, x, exact, bias.data());
          for (const auto& kernel : ops.linear) {
            const auto y = product(kernel, exec, w, x, exact, bias.data());
            if (y.empty()) continue;
            ASSERT_EQ(y, expected)
                << kernel.name << " n " << n << " rows " << rows << " exact " << exact;
          }
        }
      }
    }
  }
}

// Enough columns for several sections, and outputs for panels that are full and that are not.
TEST_F(LinearTest, WideMatricesAreTheReferenceAndTheExactProduct) {
  constexpr int64_t kCols = 1536;
  for (const auto& spec : all_specs()) {
    if (spec.group == 64) continue;  // as 128
    SCOPED_TRACE(quant::describe(spec));
    const Matrix w(ops, spec, 83, kCols, random);
    std::vector<int32_t> tokens(83);
    std::iota(tokens.begin(), tokens.end(), 0);
    std::vector<float> rows(w.values.size());
    ops.embed[0].run({&w.packed, tokens.data(), 83, 1.0f, rows.data()}, exec);
    ASSERT_EQ(rows, w.values);
    for (const int64_t n : {1, 3, 6}) {
      const auto x = normals(n * kCols, random);
      for (const bool exact : {false, true}) {
        const auto expected = product(reference.linear[0], exec, w, x, exact);
        expect_close_to_exact(w, x, expected, exact);
        for (const auto& kernel : ops.linear) {
          const auto y = product(kernel, exec2, w, x, exact);
          if (y.empty() || !fused()) continue;
          ASSERT_EQ(y, expected) << kernel.name << " rows " << n << " exact " << exact;
        }
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(LinearTest, RowsDoNotDependOnBatchOrThreads) {
  for (const auto& spec : all_specs()) {
    SCOPED_TRACE(quant::describe(spec));
    const Matrix w(ops, spec, 83, 512, random);
    const auto x = normals(33 * 512, random);
    std::vector<float> alone;
    for (int64_t r = 0; r < 33; ++r) {
      const std::vector<float> row(x.begin() + r * 512, x.begin() + (r + 1) * 512);
      const auto y = product(ops.linear.front().supports({row.data(), 512, 1, nullptr, 0, false})
                                 ? ops.linear.front()
                                 : ops.linear[1],
                             exec, w, row, false);
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (const auto& kernel : ops.linear) {
      if (kernel.name == reference.linear[0].name && !fused()) continue;
      EXPECT_EQ(product(kernel, exec, w, x, false), alone) << kernel.name;
      EXPECT_EQ(product(kernel, exec2, w, x, false), alone) << kernel.name << ", 2 threads";
    }
  }
}

TEST_F(LinearTest, SeveralOutputsAndStridesAreSeparateProducts) {
  const Matrix a(ops, {WeightKind::symmetric, 5, 32, 16, ScaleKind::f16}, 40, 512, random);
  const Matrix b(ops, {WeightKind::symmetric, 6, 16, 32, ScaleKind::two_level}, 17, 512, random);
  const Matrix c(ops, {.kind = WeightKind::dense_bf16}, 100, 512, random);
  const auto bias = normals(17, random);
  for (const int64_t rows : {1, 3, 20}) {
    const int64_t stride = 520, y_stride = 128;
    const auto x = normals(rows * stride, random);
    std::vector<float> dense;
    for (int64_t r = 0; r < rows; ++r)
      dense.insert(dense.end(), x.begin() + r * stride, x.begin() + r * stride + 512);
    for (const auto& kernel : ops.linear) {
      std::vector<float> ya(size_t(rows * y_stride), -7.0f), yb = ya, yc = ya;
      const LinearOutput outputs[] = {{&a.packed, nullptr, ya.data(), y_stride},
                                      {&b.packed, bias.data(), yb.data(), y_stride},
                                      {&c.packed, nullptr, yc.data(), y_stride}};
      const LinearParams params{x.data(), stride, rows, outputs, 3, false};
      if (!kernel.supports(params)) continue;
      kernel.run(params, exec2);
      const auto expect = [&](const Matrix& w, const std::vector<float>& y, const float* bias_of) {
        const auto single = product(kernel, exec, w, dense, false, bias_of);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t o = 0; o < y_stride; ++o)
            ASSERT_EQ(y[size_t(r * y_stride + o)],
                      o < w.packed.rows ? single[size_t(r * w.packed.rows + o)] : -7.0f)
                << kernel.name << " row " << r << " output " << o;
      };
      expect(a, ya, nullptr);
      expect(b, yb, bias.data());
      expect(c, yc, nullptr);
    }
  }
}

TEST_F(LinearTest, ExtremeRowsStayApart) {
  const Matrix w(ops, {WeightKind::affine, 4, 64, 0, ScaleKind::f16}, 20, 256, random);
  auto x = normals(20 * 256, random);
  std::fill(x.begin(), x.begin() + 256, 0.0f);                        // row 0: zeros
  std::fill(x.begin() + 256, x.begin() + 512, 1e-40f);                // row 1: denormal
  x[2 * 256 + 5] = INFINITY;                                          // row 2
  x[3 * 256 + 9] = NAN;                                               // row 3
  for (int64_t i = 4 * 256; i < 5 * 256; ++i) x[size_t(i)] *= 1e30f;  // row 4
  for (const auto& kernel : ops.linear) {
    const auto y = product(kernel, exec, w, x, false);
    if (y.empty()) continue;
    for (int o = 0; o < 20; ++o) {
      EXPECT_EQ(y[size_t(o)], 0.0f) << kernel.name;
      EXPECT_EQ(y[size_t(20 + o)], 0.0f) << kernel.name;
      EXPECT_TRUE(std::isnan(y[size_t(40 + o)])) << kernel.name;
      EXPECT_TRUE(std::isnan(y[size_t(60 + o)])) << kernel.name;
      EXPECT_TRUE(std::isfinite(y[size_t(80 + o)])) << kernel.name;
    }
    const std::vector<float> rest(x.begin() + 4 * 256, x.end());
    const std::vector<float> tail(y.begin() + 4 * 20, y.end());
    expect_close_to_exact(w, rest, tail, false);
  }
}

}  // namespace
}  // namespace ringkeep::kernels
