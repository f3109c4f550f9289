// Mixture of experts: routing against what its definition says; grouped products of every kernel
// against ops.linear on each group's rows, bit for bit, over every weight format; and that matrices
// nobody is routed to are not read at all.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "kernels/linear_fixture.h"

namespace ringkeep::kernels {
namespace {

struct Routes {
  int experts, used;
  std::vector<int32_t> expert, place, row_of, begin, fine;
  std::vector<float> weight;

  Routes(int64_t rows, int experts, int used)
      : experts(experts),
        used(used),
        expert(size_t(rows * used), -1),
        place(expert),
        row_of(expert),
        begin(size_t(experts + 1), -1),
        fine(size_t(experts), -1),
        weight(expert.size(), NAN) {}
  RouteParams params(const std::vector<float>& logits) {
    return {.logits = logits.data(),
            .rows = int64_t(expert.size()) / used,
            .experts = experts,
            .used = used,
            .expert = expert.data(),
            .weight = weight.data(),
            .place = place.data(),
            .row_of = row_of.data(),
            .begin = begin.data(),
            .fine = fine.data()};
  }
};

using RouteTest = Backends;

// The definition in double, expert by expert: an expert is chosen when fewer than `used` are
// better.
TEST_F(RouteTest, ChoosesTheLargestScores) {
  constexpr int64_t kRows = 37;
  for (const int experts : {1, 4, 61, 128}) {
    const int used = std::min(experts, 6);
    auto logits = normals(kRows * experts, random);
    if (experts > 4) std::fill_n(logits.begin(), experts, 0.25f);  // all equal: the first ones
    const auto bias = normals(experts, random), scale = normals(experts, random);
    for (const auto& kernel : ops.route)
      for (int kind = 0; kind < 8; ++kind) {
        Routes out(kRows, experts, used);
        RouteParams p = out.params(logits);
        p.scores = kind % 2 == 0 ? RouteScores::softmax : RouteScores::sigmoid;
        p.renormalize = kind / 2 % 2 == 1;
        p.scale = 1.5f;
        if (kind >= 4) p.choice_bias = bias.data(), p.expert_scale = scale.data();
        kernel.run(p, exec2);
        for (int64_t r = 0; r < kRows; ++r) {
          const float* row = &logits[size_t(r * experts)];
          std::vector<double> scores;
          double sum = 0;
          for (int e = 0; e < experts; ++e) sum += std::exp(double(row[e]));
          for (int e = 0; e < experts; ++e)
            scores.push_back(kind % 2 == 0 ? std::exp(double(row[e])) / sum
                                           : 1 / (1 + std::exp(-double(row[e]))));
          const auto rank = [&](int e) {
            return scores[size_t(e)] + (kind >= 4 ? bias[size_t(e)] : 0);
          };
          std::vector<int> chosen;
          for (int e = 0; e < experts; ++e) {
            int better = 0;
            for (int o = 0; o < experts; ++o)
              better += rank(o) > rank(e) || (rank(o) == rank(e) && o < e);
            if (better < used) chosen.push_back(e);
          }
          double total = 0;
          for (const int e : chosen) total += scores[size_t(e)];
          for (int j = 0; j < used; ++j) {
            const int e = chosen[size_t(j)];
            ASSERT_EQ(out.expert[size_t(r * used + j)], e) << "row " << r << " kind " << kind;
            double weight = scores[size_t(e)] * 1.5 / (p.renormalize ? total : 1);
            if (kind >= 4) weight *= scale[size_t(e)];
            ASSERT_NEAR(out.weight[size_t(r * used + j)], weight, 1e-5 * std::abs(weight));
          }
        }
      }
  }
}

TEST_F(RouteTest, PlacesAreOrderedByExpertThenRow) {
  constexpr int64_t kRows = 50, kFine = 13;
  const auto logits = normals(kRows * 10, random);
  Routes out(kRows, 10, 3);
  RouteParams p = out.params(logits);
  p.fine_rows = kFine;
  ops.route.front().run(p, exec2);
  EXPECT_EQ(out.begin.front(), 0);
  EXPECT_EQ(out.begin.back(), kRows * 3);
  std::set<int32_t> seen;
  for (int64_t s = 0; s < kRows * 3; ++s) {
    const int32_t place = out.place[size_t(s)], e = out.expert[size_t(s)];
    EXPECT_TRUE(seen.insert(place).second);
    EXPECT_EQ(out.row_of[size_t(place)], s / 3);
    EXPECT_GE(place, out.begin[size_t(e)]);
    EXPECT_LT(place, out.begin[size_t(e + 1)]);
    EXPECT_EQ(place < out.begin[size_t(e)] + out.fine[size_t(e)], s / 3 < kFine);
  }
  for (int e = 0; e < 10; ++e)
    EXPECT_TRUE(std::is_sorted(out.row_of.begin() + out.begin[size_t(e)],
                               out.row_of.begin() + out.begin[size_t(e + 1)]));
}

// Weights for what experts read stand at their places, and those for what they give are 1.
TEST_F(RouteTest, WeightsOfInputs) {
  constexpr int64_t kRows = 40;
  auto logits = normals(kRows * 9, random);
  for (size_t e = 0; e < 9; ++e) logits[e] = 20.0f + static_cast<float>(e);  // sigmoids of 1
  for (const auto& kernel : ops.route) {
    Routes plain(kRows, 9, 2), before(kRows, 9, 2);
    std::vector<float> at_place(size_t(kRows) * 2, NAN);
    RouteParams p = plain.params(logits), q = before.params(logits);
    p.scores = q.scores = RouteScores::sigmoid;
    q.place_weight = at_place.data();
    kernel.run(p, exec2);
    kernel.run(q, exec2);
    EXPECT_EQ(before.place, plain.place);
    for (size_t s = 0; s < plain.place.size(); ++s) {
      EXPECT_EQ(at_place[size_t(plain.place[s])], plain.weight[s]);
      EXPECT_EQ(before.weight[s], 1.0f);
    }
    EXPECT_EQ(plain.expert[0], 7);  // though their scores round to 1 as all others do
    EXPECT_EQ(plain.expert[1], 8);
  }
}

// A stack of random matrices.
struct Stack {
  std::vector<Matrix> matrices;
  std::vector<std::byte> bytes;
  PackedStack packed;

  Stack(const Ops& ops, const WeightSpec& spec, int64_t count, int64_t rows, int64_t cols,
        Random& random) {
    const size_t stride = ops.weight_bytes(spec, rows, cols);
    bytes.resize(stride * size_t(count) + 4096);
    for (int64_t e = 0; e < count; ++e) {
      matrices.emplace_back(ops, spec, rows, cols, random);
      std::memcpy(bytes.data() + size_t(e) * stride, matrices.back().bytes.data(), stride);
    }
    packed = {{spec, rows, cols, bytes.data()}, count, stride};
  }
};

// Groups of 0, 1, 2, .. rows of x, some of them fine.
struct Groups {
  std::vector<int32_t> row_of, begin = {0}, fine;
  Groups(const std::vector<int>& sizes, int64_t rows, Random& random) {
    for (const int size : sizes) {
      for (int i = 0; i < size; ++i) row_of.push_back(random.below(int(rows)));
      begin.push_back(int32_t(row_of.size()));
      fine.push_back(size / 3);
    }
  }
};

using GroupedTest = Backends;

// Runs the kernel of ops.linear that goes with one of ops.grouped_linear.
void run_linear(const Ops& ops, const char* name, const LinearParams& p, Exec& exec) {
  for (const auto& kernel : ops.linear) {
    if (std::string(name) == "ref" && std::string(kernel.name) != "ref") continue;
    if (std::string(name) == "simd" && std::string(kernel.name) == "amx") continue;
    if (kernel.supports(p)) return kernel.run(p, exec);
  }
}

TEST_F(GroupedTest, EveryKernelIsLinearOfEachGroup) {
  constexpr int64_t kRows = 40, kCols = 256;
  const std::vector<int> sizes = {0, 1, 3, 0, 8, 35, 2, 17};
  for (const auto& spec : all_specs()) {
    SCOPED_TRACE(quant::describe(spec));
    const auto count = int64_t(sizes.size());
    const Stack a(ops, spec, count, 40, kCols, random), b(ops, spec, count, 17, kCols, random);
    const auto bias = normals(count * 17, random);
    const auto x = normals(kRows * kCols, random);
    const Groups groups(sizes, kRows, random);
    const auto places = int64_t(groups.row_of.size());
    for (const auto& kernel : ops.grouped_linear)
      for (const bool exact : {false, true}) {
        SCOPED_TRACE(std::string(kernel.name) + (exact ? ", exact" : ""));
        std::vector<float> ya(size_t(places * 40), NAN), yb(size_t(places * 17), NAN);
        const GroupedOutput outputs[] = {{&a.packed, nullptr, ya.data(), 40},
                                         {&b.packed, bias.data(), yb.data(), 17}};
        const GroupedLinearParams p{.x = x.data(),
                                    .x_stride = kCols,
                                    .row_of = groups.row_of.data(),
                                    .places = places,
                                    .groups = int(count),
                                    .begin = groups.begin.data(),
                                    .fine = groups.fine.data(),
                                    .outputs = outputs,
                                    .n_outputs = 2,
                                    .exact = exact};
        ASSERT_TRUE(kernel.supports(p));
        kernel.run(p, exec2);
        for (int64_t g = 0; g < count; ++g) {
          const int64_t first = groups.begin[size_t(g)], rows = sizes[size_t(g)];
          if (rows == 0) continue;
          std::vector<float> mine;  // [rows, cols]
          for (int64_t r = first; r < first + rows; ++r)
            mine.insert(mine.end(), &x[size_t(groups.row_of[size_t(r)] * kCols)],
                        &x[size_t(groups.row_of[size_t(r)] * kCols)] + kCols);
          const auto expect = [&](const Stack& stack, const float* bias,
                                  const std::vector<float>& y) {
            const int64_t n = stack.packed.first.rows;
            std::vector<float> expected(size_t(rows * n), NAN);
            const PackedTensor w = stack.packed.at(g);
            const LinearOutput out{&w, bias, expected.data(), n};
            run_linear(ops, kernel.name,
                       {mine.data(), kCols, rows, &out, 1, exact, groups.fine[size_t(g)]}, exec);
            ASSERT_EQ(0, std::memcmp(expected.data(), &y[size_t(first * n)],
                                     expected.size() * sizeof(float)))
                << "group " << g;
          };
          expect(a, nullptr, ya);
          expect(b, bias.data() + g * 17, yb);
        }
      }
  }
}

TEST_F(GroupedTest, PlacesDoNotDependOnEachOtherOrOnThreads) {
  constexpr int64_t kCols = 512, kRows = 9;
  const Stack w(ops, {WeightKind::affine, 4, 32, 0, ScaleKind::two_level}, 4, 96, kCols, random);
  const auto x = normals(kRows * kCols, random);
  for (const bool fine : {true, false})
    for (const auto& kernel : ops.grouped_linear) {
      SCOPED_TRACE(kernel.name);
      const auto product = [&](std::vector<int32_t> begin, Exec& exec, int64_t row0) {
        const int64_t places = begin.back();
        std::vector<int32_t> counts;
        for (size_t g = 0; g < 4; ++g) counts.push_back(fine ? begin[g + 1] - begin[g] : 0);
        std::vector<float> y(size_t(places * 96), NAN);
        const GroupedOutput out{&w.packed, nullptr, y.data(), 96};
        kernel.run({.x = x.data() + row0 * kCols,
                    .x_stride = kCols,
                    .places = places,
                    .groups = 4,
                    .begin = begin.data(),
                    .fine = counts.data(),
                    .outputs = &out,
                    .n_outputs = 1},
                   exec);
        return y;
      };
      const auto all = product({0, 0, 6, 6, 9}, exec, 0);
      EXPECT_EQ(product({0, 0, 6, 6, 9}, exec2, 0), all);
      for (int64_t r = 0; r < kRows; ++r) {
        const auto alone =
            r < 6 ? product({0, 0, 1, 1, 1}, exec, r) : product({0, 0, 0, 0, 1}, exec, r);
        EXPECT_EQ(0, std::memcmp(alone.data(), &all[size_t(r * 96)], 96 * sizeof(float))) << r;
      }
    }
}

// Of four matrices two are there, in places of their own; and groups from the middle on.
TEST_F(GroupedTest, MatricesMayLieInSlots) {
  constexpr int64_t kCols = 256, kOutputs = 48;
  const WeightSpec spec{WeightKind::affine, 4, 32, 0, ScaleKind::two_level};
  const Stack w(ops, spec, 4, kOutputs, kCols, random);
  std::vector<std::byte> bytes(2 * w.packed.stride + 4096);
  const std::vector<int32_t> slot = {-1, 1, -1, 0}, begin = {0, 0, 5, 5, 9}, fine = {0, 5, 0, 2};
  for (const int e : {1, 3})
    std::copy_n(w.matrices[size_t(e)].bytes.data(), w.packed.stride,
                bytes.data() + size_t(slot[size_t(e)]) * w.packed.stride);
  const auto x = normals(9 * kCols, random);
  for (const auto& kernel : ops.grouped_linear) {
    SCOPED_TRACE(kernel.name);
    const auto product = [&](PackedStack stack, int first) {
      if (stack.slot != nullptr) stack.slot += first;
      std::vector<float> y(9 * kOutputs, 0.0f);
      const GroupedOutput out{&stack, nullptr, y.data(), kOutputs};
      kernel.run({.x = x.data(),
                  .x_stride = kCols,
                  .places = 9,
                  .groups = 4 - first,
                  .begin = begin.data() + first,
                  .fine = fine.data() + first,
                  .outputs = &out,
                  .n_outputs = 1},
                 exec2);
      return y;
    };
    const auto all = product(w.packed, 0);
    const PackedStack slots{{spec, kOutputs, kCols, bytes.data()}, 4, w.packed.stride, slot.data()};
    EXPECT_EQ(product(slots, 0), all);
    auto last = all;  // of the last matrix alone
    std::fill_n(last.begin(), 5 * kOutputs, 0.0f);
    EXPECT_EQ(product(slots, 2), last);
  }
}

// Experts without rows lie in pages that cannot be read.
TEST_F(GroupedTest, ReadsNoOtherMatrices) {
  const WeightSpec spec{WeightKind::symmetric, 4, 32, 8, ScaleKind::f16};
  constexpr int64_t kCols = 256, kOutputs = 64, kCount = 8;
  const auto page = size_t(::sysconf(_SC_PAGESIZE));
  const size_t used = ops.weight_bytes(spec, kOutputs, kCols);
  const size_t stride = (used + page - 1) / page * page;
  auto* memory = static_cast<std::byte*>(
      ::mmap(nullptr, stride * kCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  for (int64_t e = 0; e < kCount; ++e)
    ops.pack_rows(memory + size_t(e) * stride, kOutputs, kCols, 0,
                  random_rows(spec, kOutputs, kCols, random));
  const PackedStack stack{{spec, kOutputs, kCols, memory}, kCount, stride};
  for (const int rows : {1, 20}) {
    const auto x = normals(rows * kCols, random);
    const std::vector<int32_t> begin = {0, 0, 0, rows, rows, rows, 2 * rows, 2 * rows, 2 * rows};
    std::vector<int32_t> row_of(size_t(2 * rows)), fine(kCount, 0);
    std::iota(row_of.begin(), row_of.begin() + rows, 0);
    std::iota(row_of.begin() + rows, row_of.end(), 0);
    for (int64_t e = 0; e < kCount; ++e)
      ::mprotect(memory + size_t(e) * stride, stride, e == 2 || e == 5 ? PROT_READ : PROT_NONE);
    for (const auto& kernel : ops.grouped_linear)
      for (const bool exact : {false, true}) {
        std::vector<float> y(size_t(2 * rows * kOutputs));
        const GroupedOutput out{&stack, nullptr, y.data(), kOutputs};
        const int64_t before = exec2.grouped_bytes;
        kernel.run({.x = x.data(),
                    .x_stride = kCols,
                    .row_of = row_of.data(),
                    .places = 2 * rows,
                    .groups = kCount,
                    .begin = begin.data(),
                    .fine = fine.data(),
                    .outputs = &out,
                    .n_outputs = 1,
                    .exact = exact},
                   exec2);
        EXPECT_EQ(exec2.grouped_bytes - before, int64_t(2 * used)) << kernel.name;
      }
  }
  ::munmap(memory, stride * kCount);
}

using CombineTest = Backends;

TEST_F(CombineTest, IsTheWeightedSum) {
  for (const int64_t cols : {1, 16, 31, 640})
    for (const int used : {1, 4}) {
      constexpr int64_t kRows = 21;
      const auto x = normals(kRows * used * cols, random);
      const auto weight = normals(kRows * used, random);
      std::vector<int32_t> place(size_t(kRows * used));
      std::iota(place.begin(), place.end(), 0);
      std::shuffle(place.begin(), place.end(), random.engine);
      std::vector<std::vector<float>> results;
      for (const auto& kernel : ops.combine) {
        std::vector<float> y(size_t(kRows * cols), NAN);
        kernel.run({x.data(), weight.data(), place.data(), kRows, used, cols, y.data()}, exec2);
        for (int64_t r = 0; r < kRows; ++r)
          for (int64_t c = 0; c < cols; ++c) {
            double sum = 0;
            for (int64_t j = r * used; j < (r + 1) * used; ++j)
              sum += double(weight[size_t(j)]) * x[size_t(place[size_t(j)] * cols + c)];
            ASSERT_NEAR(y[size_t(r * cols + c)], sum, 1e-5) << kernel.name;
          }
        results.push_back(std::move(y));
      }
      if (explain(ops).find("SSE4") == std::string::npos)  // which has no fused multiply-add
        EXPECT_EQ(results.front(), results.back());
    }
}

}  // namespace
}  // namespace ringkeep::kernels
