// AltUp's exchange between streams, magnitudes and sparse gates: every row of the op tables against
// the definitions in float64, and invariance over rows and threads.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/select/select.h"

namespace ringkeep::kernels {
namespace {

std::vector<float> random(int64_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(engine);
  return values;
}

class AltUp : public testing::TestWithParam<int> {  // threads
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(GetParam());
  Exec exec_{*device_};
  Ops ops_ = cpu_backend();
};

struct Shape {
  int streams;
  int64_t rows, cols;
  size_t at(int i, int64_t r, int64_t c) const {
    return static_cast<size_t>((i * rows + r) * cols + c);
  }
};
constexpr Shape kShapes[] = {{4, 5, 64}, {4, 33, 1003}, {3, 7, 17}, {1, 2, 5}, {8, 3, 40}};

// Row `r` of every stream as a problem of one row.
std::vector<float> row_of(const std::vector<float>& x, const Shape& shape, int64_t r) {
  std::vector<float> row;
  for (int i = 0; i < shape.streams; ++i)
    for (int64_t c = 0; c < shape.cols; ++c) row.push_back(x[shape.at(i, r, c)]);
  return row;
}

TEST_P(AltUp, Predict) {
  for (const Shape& shape : kShapes) {
    const int n = shape.streams;
    const auto x = random(n * shape.rows * shape.cols, 1, 3.0f);
    const auto m = random(shape.rows * n, 2), coefs = random(n * n * n, 3, 0.5f);
    for (const auto& kernel : ops_.altup_predict) {
      auto got = x;
      AltUpPredictParams p{.x = got.data(),
                           .streams = n,
                           .rows = shape.rows,
                           .cols = shape.cols,
                           .modalities = m.data(),
                           .coefs = coefs.data()};
      kernel.run(p, exec_);
      for (int64_t r = 0; r < shape.rows; ++r)
        for (int i = 0; i < n; ++i)
          for (int64_t c = 0; c < shape.cols; ++c) {
            double want = x[shape.at(i, r, c)], size = std::fabs(want);
            for (int j = 0; j < n; ++j)
              for (int k = 0; k < n; ++k) {
                const double term = double{coefs[static_cast<size_t>((i * n + j) * n + k)]} *
                                    m[static_cast<size_t>(r * n + k)] * x[shape.at(j, r, c)];
                want += term;
                size += std::fabs(term);
              }
            ASSERT_NEAR(got[shape.at(i, r, c)], want, 1e-6 * (1 + size)) << kernel.name;
          }
      const int64_t last = shape.rows - 1;  // a row alone: the same bits
      auto alone = row_of(x, shape, last);
      p.x = alone.data();
      p.rows = 1;
      p.modalities += last * n;
      kernel.run(p, exec_);
      ASSERT_EQ(alone, row_of(got, shape, last)) << kernel.name;
    }
  }
}

TEST_P(AltUp, Correct) {
  for (const Shape& shape : kShapes) {
    const int n = shape.streams;
    const auto x = random(n * shape.rows * shape.cols, 1, 3.0f);
    const auto activated = random(shape.rows * shape.cols, 4, 3.0f);
    const auto m = random(shape.rows * n, 2), coefs = random(n * n, 3, 0.5f);
    for (const int active : {0, n - 1})
      for (const auto& kernel : ops_.altup_correct) {
        auto got = x;
        AltUpCorrectParams p{.x = got.data(),
                             .streams = n,
                             .active = active,
                             .rows = shape.rows,
                             .cols = shape.cols,
                             .modalities = m.data(),
                             .coefs = coefs.data(),
                             .activated = activated.data()};
        kernel.run(p, exec_);
        for (int64_t r = 0; r < shape.rows; ++r)
          for (int i = 0; i < n; ++i)
            for (int64_t c = 0; c < shape.cols; ++c) {
              double factor = 1.0;
              for (int k = 0; k < n; ++k)
                factor += double{coefs[static_cast<size_t>(i * n + k)]} *
                          m[static_cast<size_t>(r * n + k)];
              const double was = x[shape.at(i, r, c)];
              const double innovation = double{activated[static_cast<size_t>(r * shape.cols + c)]} -
                                        x[shape.at(active, r, c)];
              ASSERT_NEAR(got[shape.at(i, r, c)], was + factor * innovation,
                          2e-6 * (1 + std::fabs(was) + std::fabs(factor * innovation) +
                                  std::fabs(innovation)))
                  << kernel.name << " stream " << i;
            }
        const int64_t last = shape.rows - 1;
        auto alone = row_of(x, shape, last);
        p.x = alone.data();
        p.rows = 1;
        p.modalities += last * n;
        p.activated += last * shape.cols;
        kernel.run(p, exec_);
        ASSERT_EQ(alone, row_of(got, shape, last)) << kernel.name;
      }
  }
}

double rms(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  return std::sqrt(sum / static_cast<double>(n));
}

// A row takes another's size; one that is nearly nothing is not blown up to it.
TEST_P(AltUp, MatchRms) {
  const int64_t rows = 9;
  for (const int64_t cols : {1, 7, 16, 64, 1003}) {
    const auto like = random(rows * cols, 5, 4.0f);
    auto x = random(rows * cols, 6);
    std::fill_n(x.begin() + cols, cols, 0.0f);
    for (int64_t i = 0; i < cols; ++i) x[static_cast<size_t>(2 * cols + i)] *= 1e-5f;
    for (const auto& kernel : ops_.match_rms) {
      auto got = x;
      const float floor = 1e-5f;
      kernel.run({like.data(), rows, cols, floor, got.data()}, exec_);
      for (int64_t r = 0; r < rows; ++r) {
        const double size = std::max(rms(x.data() + r * cols, cols), std::sqrt(double{floor}));
        const double factor = rms(like.data() + r * cols, cols) / size;
        for (int64_t i = r * cols; i < (r + 1) * cols; ++i) {
          const double want = factor * x[static_cast<size_t>(i)];
          ASSERT_NEAR(got[static_cast<size_t>(i)], want, 2e-6 * (1 + std::fabs(want)))
              << kernel.name << " row " << r;
        }
      }
    }
  }
}

// Of normal values the share above the quantile stays, less the cut; the others are 0.
TEST_P(AltUp, GaussianTopK) {
  for (const auto& [deviations, share] :
       {std::pair(1.6448536f, 0.05), {0.0f, 0.5}, {-1.0f, 0.8413}}) {
    const int64_t rows = 4, cols = 20011;
    auto x = random(rows * cols, 7, 2.0f);
    for (float& value : x) value += 3.0f;
    for (const auto& kernel : ops_.gaussian_topk) {
      auto got = x;
      kernel.run({got.data(), rows, cols, deviations}, exec_);
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = x.data() + r * cols;
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < cols; ++i) sum += row[i];
        for (int64_t i = 0; i < cols; ++i) squares += std::pow(row[i] - sum / cols, 2);
        const double cut = sum / cols + deviations * std::sqrt(squares / cols);
        int64_t above = 0;
        for (int64_t i = 0; i < cols; ++i) {
          const float y = got[static_cast<size_t>(r * cols + i)];
          ASSERT_NEAR(y, std::max(0.0, row[i] - cut), 2e-5) << kernel.name;
          above += y > 0;
        }
        EXPECT_NEAR(static_cast<double>(above) / cols, share, 0.01) << kernel.name;
      }
      auto alone = std::vector<float>(x.begin() + cols, x.begin() + 2 * cols);
      kernel.run({alone.data(), 1, cols, deviations}, exec_);
      ASSERT_EQ(alone, std::vector<float>(got.begin() + cols, got.begin() + 2 * cols));
    }
  }
}

TEST_P(AltUp, ScaledSums) {
  const auto x = random(21, 7), y = random(21, 8);
  for (const auto& kernel : ops_.add) {
    auto got = y;
    kernel.run({.x = x.data(), .y = got.data(), .n = 21, .scale = 0.25f}, exec_);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], 0.25 * (x[i] + y[i]), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, AltUp, testing::Values(1, 2));

}  // namespace
}  // namespace ringkeep::kernels
