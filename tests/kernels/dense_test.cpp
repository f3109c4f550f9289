// Every row of the dense op tables against the reference row, and invariance over rows and threads.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/select/select.h"

namespace ringkeep::kernels {
namespace {

std::vector<float> random(size_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(engine);
  return values;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& want, float tolerance,
                  const char* name) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * (1.0f + std::fabs(want[i]))) << name << " at " << i;
}

class Dense : public testing::TestWithParam<int> {  // threads
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(GetParam());
  Exec exec_{*device_};
  Ops ops_ = cpu_backend();
};

TEST_P(Dense, RmsNorm) {
  for (const int64_t cols : {1, 7, 16, 17, 64, 640, 1000}) {
    const int64_t rows = 33;
    const auto x = random(static_cast<size_t>(rows * cols), 1, 5.0f);
    const auto weight = random(static_cast<size_t>(cols), 2);
    const auto residual = random(static_cast<size_t>(rows * cols), 3);
    for (const int kind : {0, 1, 2, 3}) {
      const bool with = kind % 2 == 1;  // weights and a residual
      std::vector<float> want(x.size());
      RmsNormParams p{.x = x.data(),
                      .x_stride = cols,
                      .rows = rows,
                      .cols = cols,
                      .weight = with ? weight.data() : nullptr,
                      .eps = 1e-6f,
                      .centred = kind >= 2 && cols > 1,
                      .residual = with ? residual.data() : nullptr,
                      .y = want.data(),
                      .y_stride = cols};
      ops_.rms_norm.back().run(p, exec_);
      for (const auto& kernel : ops_.rms_norm) {
        std::vector<float> got(x.size());
        p.y = got.data();
        kernel.run(p, exec_);
        expect_close(got, want, 2e-6f, kernel.name);
        RmsNormParams one = p;  // a row alone: the same bits
        std::vector<float> alone(static_cast<size_t>(cols));
        one.x += 5 * cols;
        if (with) one.residual += 5 * cols;
        one.rows = 1;
        one.y = alone.data();
        kernel.run(one, exec_);
        for (int64_t i = 0; i < cols; ++i)
          ASSERT_EQ(alone[static_cast<size_t>(i)], got[static_cast<size_t>(5 * cols + i)])
              << kernel.name;
      }
    }
  }
}

// LayerNorm by its definition: mean 0 and variance 1, whatever is added to all channels.
TEST_P(Dense, CentredNormHasNoMean) {
  const int64_t rows = 3, cols = 200;
  auto x = random(static_cast<size_t>(rows * cols), 1, 5.0f);
  for (float& value : x) value += 40.0f;
  for (const auto& kernel : ops_.rms_norm) {
    std::vector<float> y(x.size());
    kernel.run({.x = x.data(),
                .x_stride = cols,
                .rows = rows,
                .cols = cols,
                .eps = 0.0f,
                .centred = true,
                .y = y.data(),
                .y_stride = cols},
               exec_);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < cols; ++i) {
        const double value = y[static_cast<size_t>(r * cols + i)];
        sum += value;
        squares += value * value;
      }
      EXPECT_NEAR(sum / cols, 0.0, 1e-5) << kernel.name;
      EXPECT_NEAR(squares / cols, 1.0, 1e-5) << kernel.name;
    }
  }
}

TEST_P(Dense, NormRopeRotatesPairsAndKeepsNorms) {
  const int heads = 3, dim = 80;
  const int64_t rows = 40;
  for (const int64_t pairs : {int64_t{40}, int64_t{12}, int64_t{0}}) {
    const auto x = random(static_cast<size_t>(rows * heads * dim), 4);
    const auto weight = random(static_cast<size_t>(dim), 5);
    std::vector<int32_t> positions;
    for (int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<int32_t>(r * 997));
    std::vector<float> frequencies;
    for (int64_t i = 0; i < pairs; ++i)
      frequencies.push_back(std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(pairs)));
    std::vector<float> cos(static_cast<size_t>(rows * pairs) + 1), sin(cos.size());
    run(ops_.rope_table,
        RopeTableParams{.positions = positions.data(),
                        .rows = rows,
                        .frequencies = frequencies.data(),
                        .pairs = pairs,
                        .cos = cos.data(),
                        .sin = sin.data()},
        exec_);
    auto want = x;
    NormRopeParams p{.x = want.data(),
                     .x_stride = heads * dim,
                     .rows = rows,
                     .heads = heads,
                     .dim = dim,
                     .transform = {.weight = weight.data(),
                                   .cos = pairs > 0 ? cos.data() : nullptr,
                                   .sin = pairs > 0 ? sin.data() : nullptr,
                                   .pairs = pairs}};
    ops_.norm_rope.back().run(p, exec_);
    for (const auto& kernel : ops_.norm_rope) {
      auto got = x;
      p.x = got.data();
      kernel.run(p, exec_);
      expect_close(got, want, 4e-6f, kernel.name);
      // A multiplication without a norm, by weights of each head.
      const auto weights = random(static_cast<size_t>(heads * dim), 9);
      auto scaled_want = x, scaled = x;
      NormRopeParams scale = p;
      scale.transform.weight = weights.data();
      scale.transform.weight_stride = dim;
      scale.transform.normalize = false;
      scale.x = scaled_want.data();
      ops_.norm_rope.back().run(scale, exec_);
      scale.x = scaled.data();
      kernel.run(scale, exec_);
      expect_close(scaled, scaled_want, 4e-6f, kernel.name);
      for (size_t i = static_cast<size_t>(2 * pairs); i < static_cast<size_t>(dim); ++i)
        ASSERT_EQ(scaled[i], x[i] * weights[i]);  // beyond the rotated channels of the first head
      // A factor of the row comes last.
      const auto factors = random(static_cast<size_t>(rows), 10);
      auto by_row = x;
      scale.transform.row_scale = factors.data();
      scale.x = by_row.data();
      kernel.run(scale, exec_);
      for (size_t i = 0; i < by_row.size(); ++i)
        ASSERT_EQ(by_row[i], scaled[i] * factors[i / static_cast<size_t>(heads * dim)]);
      p.transform.weight = nullptr;  // rotation alone leaves the length of each head as it is
      auto rotated = x;
      p.x = rotated.data();
      kernel.run(p, exec_);
      p.transform.weight = weight.data();
      for (int64_t r = 0; r < rows * heads; ++r) {
        double before = 0, after = 0;
        for (int i = 0; i < dim; ++i) {
          before += std::pow(x[static_cast<size_t>(r * dim + i)], 2);
          after += std::pow(rotated[static_cast<size_t>(r * dim + i)], 2);
        }
        ASSERT_NEAR(after, before, 1e-5 * before);
      }
    }
  }
}

TEST_P(Dense, GatedActivationsOverTheirWholeRange) {
  const int64_t cols = 1003;
  for (const GluKind kind : {GluKind::silu, GluKind::gelu_tanh, GluKind::clamped_swiglu}) {
    std::vector<float> gate;
    for (int64_t i = 0; i < cols; ++i) gate.push_back(-60.0f + 0.12f * static_cast<float>(i));
    const auto up = random(static_cast<size_t>(cols), 6);
    std::vector<float> want(gate.size());
    GluParams p{.gate = gate.data(),
                .up = up.data(),
                .rows = 1,
                .cols = cols,
                .stride = cols,
                .kind = kind,
                .y = want.data(),
                .alpha = 1.702f,
                .limit = 1.5f};
    ops_.glu.back().run(p, exec_);
    for (const auto& kernel : ops_.glu) {
      std::vector<float> got(gate.size());
      p.y = got.data();
      kernel.run(p, exec_);
      expect_close(got, want, 2e-6f, kernel.name);
    }
  }
}

// GPT-OSS's unit at points worked out by hand: cut off above, and at both ends of up.
TEST_P(Dense, ClampedSwiglu) {
  const std::vector<float> gate = {9.0f, 2.0f, -9.0f, 0.0f}, up = {9.0f, -9.0f, 0.5f, 1.0f};
  const double alpha = 1.702, limit = 7.0;
  const double want[] = {7.0 / (1 + std::exp(-alpha * 7.0)) * (limit + 1),
                         2.0 / (1 + std::exp(-alpha * 2.0)) * (-limit + 1),
                         -9.0 / (1 + std::exp(alpha * 9.0)) * 1.5, 0.0};
  for (const auto& kernel : ops_.glu) {
    std::vector<float> y(4);
    kernel.run({gate.data(), up.data(), 1, 4, 4, GluKind::clamped_swiglu, y.data(), 1.702f, 7.0f},
               exec_);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], want[i], 1e-5) << kernel.name << " " << i;
  }
}

TEST_P(Dense, AddWithGates) {
  const auto x = random(21, 7), y = random(21, 8), gate = random(3, 9);
  for (const auto& kernel : ops_.add) {
    std::vector<float> got = y;
    kernel.run({x.data(), got.data(), 21, gate.data(), 7}, exec_);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], y[i] + x[i] / (1 + std::exp(-gate[i / 7])), 1e-6);
  }
}

TEST_P(Dense, Softcap) {
  for (const size_t n : {1u, 15u, 16u, 16384u, 40001u}) {
    auto x = random(n, 10, 40.0f);
    x[0] = n == 1 ? 0.0f : 1e30f;  // far beyond the cap
    for (const auto& kernel : ops_.softcap) {
      std::vector<float> got = x;
      kernel.run({got.data(), static_cast<int64_t>(n), 30.0f}, exec_);
      for (size_t i = 0; i < n; ++i)
        ASSERT_NEAR(got[i], 30.0 * std::tanh(double{x[i]} / 30.0), 1e-5) << kernel.name << " " << i;
      std::vector<float> alone = {x[n - 1]};  // the same bits, wherever a value lies
      kernel.run({alone.data(), 1, 30.0f}, exec_);
      EXPECT_EQ(alone[0], got[n - 1]) << kernel.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, Dense, testing::Values(1, 2));

}  // namespace
}  // namespace ringkeep::kernels
