// Rows of prompts (LinearParams::fine_rows): those before them stay as they are, and theirs are as
// near to the exact product as bf16, or one int8 term, allows, whatever rows are beside them. Where
// a kernel forms them in the tile unit, they are the bits that Intel's manual defines for it, else
// those of the reference.
#include <cmath>

#include "kernels/linear_fixture.h"

namespace ringkeep::kernels {
namespace {

using PromptRowsTest = Backends;

// y [rows, n]; rows from `fine_rows` on are of a prompt. Empty when the kernel does not take them.
std::vector<float> product(const Kernel<LinearParams>& kernel, Exec& exec, const Matrix& w,
                           const std::vector<float>& x, int64_t fine_rows, const float* bias) {
  const int64_t rows = int64_t(x.size()) / w.packed.cols;
  std::vector<float> y(size_t(rows * w.packed.rows), NAN);
  const LinearOutput output{&w.packed, bias, y.data(), w.packed.rows};
  const LinearParams params{x.data(), w.packed.cols, rows, &output, 1, false, fine_rows};
  if (kernel.supports(params))
    kernel.run(params, exec);
  else
    y.clear();
  return y;
}

float bf16(float value) { return bf16_to_float(float_to_bf16(value)); }

// One output as the tile unit forms it: x in `terms` bf16 terms, 32 columns at a time.
float tile_sum(const float* x, const float* w, int64_t k, int terms) {
  float sum = 0;
  for (int64_t first = 0; first < k; first += 32) {
    const int64_t end = std::min(k, first + 32);
    for (int term = 0; term < terms; ++term) {
      float part[2] = {0, 0};
      for (int64_t i = first; i < end; ++i) {
        const float high = bf16(x[i]);
        part[i % 2] = std::fma(term == 0 ? high : bf16(x[i] - high), bf16(w[i]), part[i % 2]);
      }
      sum += part[0] + part[1];
    }
  }
  return sum;
}

TEST_F(PromptRowsTest, StandApartFromFineRowsAndFromEachOther) {
  constexpr int64_t kFine = 3, kRows = 37, kOutputs = 51, kCols = 272;
  for (const WeightSpec& spec : all_specs()) {
    if (spec.group > 16 || spec.scale == ScaleKind::two_level) continue;  // for 272 columns
    SCOPED_TRACE(quant::describe(spec));
    const Matrix w(ops, spec, kOutputs, kCols, random);
    const auto bias = normals(kOutputs, random);
    const auto x = normals(kRows * kCols, random);
    for (const auto& kernel : ops.linear) {
      SCOPED_TRACE(kernel.name);
      const auto y = product(kernel, exec, w, x, kFine, bias.data());
      if (y.empty()) continue;
      EXPECT_EQ(product(kernel, exec2, w, x, kFine, bias.data()), y) << "2 threads";
      for (const int64_t r : {int64_t{0}, kFine - 1, kFine, kFine + 1, kRows - 1}) {
        const std::vector<float> row(x.begin() + r * kCols, x.begin() + (r + 1) * kCols);
        // A single fine row may be another kernel's, and the reference is not like those of targets
        // without fused multiply-add.
        const bool fine = r < kFine, ref = std::string(kernel.name) == "ref";
        const auto& first = fine && !ref ? ops.linear.at(ops.linear.size() - 2) : kernel;
        const auto alone = product(first, exec, w, row, fine ? 1 : 0, bias.data());
        if (alone.empty()) continue;
        for (int64_t o = 0; o < kOutputs; ++o)
          ASSERT_EQ(alone[size_t(o)], y[size_t(r * kOutputs + o)])
              << "row " << r << " output " << o;
      }
    }
  }
}

// The standard deviation of a product with x in terms of a step for every 32 columns, each rounded
// by up to half of it, independently. Those with second terms count as exact.
double rounding_error(const float* x, const float* w, int64_t k) {
  std::vector<double> steps, errors;
  double squares = 0;
  for (int64_t first = 0; first < k; first += 32) {
    double max = 0, weights = 0;
    for (int64_t i = first; i < std::min(k, first + 32); ++i) {
      max = std::max(max, std::abs(double(x[i])));
      weights += double(w[i]) * double(w[i]);
    }
    steps.push_back(max / 127);
    errors.push_back(weights * steps.back() * steps.back() / 12);
    squares += steps.back() * steps.back();
  }
  double sum = 0;
  for (size_t run = 0; run < steps.size(); ++run)
    if (steps[run] * steps[run] <= 4 * squares / double(steps.size()) * 1.001) sum += errors[run];
  return std::sqrt(sum);
}

// Some columns are large, as in the hidden states of real models.
std::vector<float> with_outliers(int64_t rows, int64_t cols, Random& random) {
  std::vector<float> x = normals(rows * cols, random);
  for (int64_t r = 0; r < rows; ++r)
    if (r % 3 != 0) x[size_t(r * cols + 40)] *= 50.0f;
  return x;
}

TEST_F(PromptRowsTest, AreNearTheExactProduct) {
  constexpr int64_t kRows = 5, kOutputs = 40, kCols = 512;
  for (const WeightSpec& spec : all_specs()) {
    SCOPED_TRACE(quant::describe(spec));
    const Matrix w(ops, spec, kOutputs, kCols, random);
    const auto x = with_outliers(kRows, kCols, random);
    for (const auto& kernel : ops.linear) {
      SCOPED_TRACE(kernel.name);
      const auto y = product(kernel, exec, w, x, 0, nullptr);
      if (y.empty()) continue;
      const bool tiles = std::string(kernel.name) == "amx";
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t o = 0; o < kOutputs; ++o) {
          const float* weights = &w.values[size_t(o * kCols)];
          double exact = 0, squares = 0;
          for (int64_t i = 0; i < kCols; ++i) {
            const double part = double(weights[i]) * double(x[size_t(r * kCols + i)]);
            exact += part;
            squares += part * part;
          }
          // In bf16 every product is rounded twice, by up to 2^-9 of itself, independently of the
          // others.
          const double bound =
              (tiles || spec.dense() ? (spec.dense() ? 0x1p-14 : 0x1p-8) * 3 * std::sqrt(squares)
                                     : 6 * rounding_error(&x[size_t(r * kCols)], weights, kCols) +
                                           0x1p-14 * std::sqrt(squares)) +
              1e-4;
          const float got = y[size_t(r * kOutputs + o)];
          ASSERT_NEAR(double(got), exact, bound) << "row " << r << " output " << o;
          if (!tiles || spec.kind == WeightKind::dense_f32 || spec.kind == WeightKind::dense_f16)
            continue;
          const float emulated =
              tile_sum(&x[size_t(r * kCols)], weights, kCols, spec.dense() ? 2 : 1);
          ASSERT_EQ(got, emulated) << "row " << r << " output " << o;
        }
    }
  }
}

// A target without fused multiply-add rounds differently.
TEST_F(PromptRowsTest, AreTheReferenceBitForBit) {
  if (explain(cpu_backend()).find("SSE4") != std::string::npos)
    GTEST_SKIP() << "no fused multiply-add";
  struct Case {
    int64_t rows, cols;  // the second number makes several sections
  };
  for (const WeightSpec& spec : all_specs()) {
    SCOPED_TRACE(quant::describe(spec));
    for (const auto& [rows, cols] :
         {Case{1, 256}, Case{2, 256}, Case{3, 256}, Case{4, 256}, Case{5, 256}, Case{8, 256},
          Case{23, 256}, Case{3, 1536}, Case{9, 1536}}) {
      const Matrix w(ops, spec, 40, cols, random);
      const auto bias = normals(40, random);
      auto x = with_outliers(rows, cols, random);
      if (rows > 4) {
        std::fill_n(x.begin(), 100, 0.0f);            // runs of zeros
        std::fill_n(x.begin() + cols, cols, 1e-40f);  // denormal
        x[size_t(2 * cols + 70)] = INFINITY;
        for (int64_t i = 0; i < cols; ++i) x[size_t(3 * cols + i)] *= 1e30f;
      }
      const auto expected = product(reference.linear[0], exec, w, x, 0, bias.data());
      for (const auto& kernel : ops.linear) {
        if (std::string(kernel.name) == "amx") continue;
        const auto y = product(kernel, exec, w, x, 0, bias.data());
        ASSERT_EQ(y.size(), expected.size());
        for (size_t i = 0; i < y.size(); ++i)
          if (!std::isnan(expected[i]) || !std::isnan(y[i])) {
            ASSERT_EQ(y[i], expected[i])
                << kernel.name << " rows " << rows << " of " << cols << " at " << i;
          }
      }
    }
  }
}

TEST_F(PromptRowsTest, ExactRowsHaveNoPrompt) {
  const Matrix w(ops, {WeightKind::symmetric, 5, 32, 16, ScaleKind::f16}, 40, 512, random);
  const auto x = normals(9 * 512, random);
  for (const auto& kernel : ops.linear) {
    std::vector<float> y[2];
    for (const int64_t fine_rows : {0, 9}) {
      std::vector<float>& to = y[fine_rows / 9];
      to.assign(9 * 40, 0.0f);  // stays where there is no tile unit
      const LinearOutput output{&w.packed, nullptr, to.data(), 40};
      const LinearParams params{x.data(), 512, 9, &output, 1, true, fine_rows};
      if (kernel.supports(params)) kernel.run(params, exec);
    }
    EXPECT_EQ(y[0], y[1]) << kernel.name;
  }
}

}  // namespace
}  // namespace ringkeep::kernels
