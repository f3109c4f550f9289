// Weights of every format with random values, for the tests of ops.linear.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "base/dtype.h"
#include "kernels/select/select.h"
#include "quant/weight_spec.h"

namespace ringkeep::kernels {

using quant::ScaleKind;
using quant::WeightKind;
using quant::WeightRows;
using quant::WeightSpec;

inline std::vector<WeightSpec> all_specs() {
  std::vector<WeightSpec> specs = {{.kind = WeightKind::dense_f32},
                                   {.kind = WeightKind::dense_f16},
                                   {.kind = WeightKind::dense_bf16}};
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {16, 32, 64, 128}) {
      for (const auto scale :
           {ScaleKind::f16, ScaleKind::bf16, ScaleKind::f32, ScaleKind::two_level}) {
        specs.push_back({WeightKind::symmetric, bits, group, 1 << (bits - 1), scale});
        specs.push_back({WeightKind::affine, bits, group, 0, scale});
      }
    }
  }
  specs.push_back(
      {WeightKind::symmetric, 4, 32, quant::kE2m1Zero, ScaleKind::bf16, quant::CodeKind::e2m1});
  return specs;
}

struct Random {
  std::mt19937 engine{12345};
  float normal() { return std::normal_distribution<float>()(engine); }
  int below(int n) { return int(engine() % unsigned(n)); }
};

// Random codes and scales whose values are exact in the spec's types.
inline WeightRows random_rows(const WeightSpec& spec, int64_t rows, int64_t cols, Random& random) {
  WeightRows w{.spec = spec,
               .rows = rows,
               .cols = cols,
               .codes = {},
               .scales = {},
               .biases = {},
               .sub_scales = {},
               .sub_mins = {},
               .supers = {},
               .super_mins = {},
               .dense = {}};
  const auto number = [&](float size) {
    const float value = random.normal() * size;
    return spec.scale == ScaleKind::bf16 || spec.kind == WeightKind::dense_bf16
               ? bf16_to_float(float_to_bf16(value))
               : f16_to_float(float_to_f16(value));
  };
  const auto fill = [](auto& part, int64_t n, auto make) {
    part.resize(size_t(n));
    for (auto& value : part) value = make();
  };
  if (spec.dense()) {
    fill(w.dense, rows * cols, [&] { return number(0.05f); });
    return w;
  }
  const int64_t groups = rows * cols / spec.group;
  const int64_t supers = rows * cols / quant::kSuperCols;
  const bool affine = spec.kind == WeightKind::affine;
  const float size = 0.1f / float(1 << spec.bits);
  fill(w.codes, rows * cols, [&] { return uint8_t(random.below(1 << spec.bits)); });
  if (spec.scale != ScaleKind::two_level) {
    fill(w.scales, groups, [&] { return number(size); });
    if (affine) fill(w.biases, groups, [&] { return number(0.05f); });
    return w;
  }
  fill(w.supers, supers, [&] { return number(size / 32); });
  if (affine) {
    fill(w.sub_scales, groups, [&] { return int8_t(random.below(spec.bits == 2 ? 16 : 64)); });
    fill(w.super_mins, supers, [&] { return number(0.05f / 32); });
    fill(w.sub_mins, groups, [&] { return uint8_t(random.below(spec.bits == 2 ? 16 : 64)); });
  } else {
    fill(w.sub_scales, groups, [&] { return int8_t(random.below(256) - 128); });
  }
  return w;
}

struct Matrix {
  WeightRows logical;
  std::vector<float> values;  // [rows, cols]
  std::vector<std::byte> bytes;
  PackedTensor packed;

  Matrix(const Ops& ops, const WeightSpec& spec, int64_t rows, int64_t cols, Random& random)
      : logical(random_rows(spec, rows, cols, random)),
        values(size_t(rows * cols)),
        bytes(ops.weight_bytes(spec, rows, cols)) {
    quant::dequantize(logical, values.data());
    ops.pack_rows(bytes.data(), rows, cols, 0, logical);
    packed = {spec, rows, cols, bytes.data()};
  }
};

inline std::vector<float> normals(int64_t n, Random& random) {
  std::vector<float> x(size_t(n), 0.0f);
  for (auto& value : x) value = random.normal();
  return x;
}

struct Backends : testing::Test {
  Ops ops = cpu_backend();
  Ops reference = ref_backend();
  std::unique_ptr<Device> device = make_cpu_device(1);
  std::unique_ptr<Device> threaded = make_cpu_device(2);
  Exec exec{*device};
  Exec exec2{*threaded};
  Random random;

  // Without the kernels that this machine has no unit for.
  Backends() {
    std::erase_if(ops.grouped_linear, [](const auto& kernel) { return !kernel.supports({}); });
    std::erase_if(ops.linear, [](const auto& kernel) { return !kernel.supports({.rows = 64}); });
  }
};

}  // namespace ringkeep::kernels
