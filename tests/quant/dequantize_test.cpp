// Every source format against the values that the gguf and mlx packages give it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "base/dtype.h"
#include "quant/source_tensor.h"

namespace ringkeep::quant {
namespace {

struct Golden {
  std::string type;
  SourceTensor tensor;
  std::vector<std::byte> data, scales, biases;
  std::vector<float> values;
};

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  if (text == "-") return bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(std::byte(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

SourceType type_of(const std::string& name) {
  if (name == "MLX") return SourceType::mlx_affine;
  if (name == "MLX_MXFP4") return SourceType::mlx_mxfp4;
  for (int t = 0; t < int(SourceType::mlx_affine); ++t)
    if (name == source_type_name(SourceType(t))) return SourceType(t);
  ADD_FAILURE() << "unknown type " << name;
  return SourceType::other;
}

std::vector<Golden> goldens() {
  std::ifstream file(RK_SOURCE_DIR "/tests/golden/quant/dequantize.txt");
  std::vector<Golden> cases;
  std::string line;
  std::getline(file, line);  // the versions
  while (std::getline(file, line)) {
    Golden golden;
    int64_t rows = 0, cols = 0;
    std::istringstream header(line);
    header >> golden.type >> golden.tensor.bits >> golden.tensor.group >> rows >> cols;
    const auto next = [&] {
      std::getline(file, line);
      return from_hex(line);
    };
    golden.data = next();
    golden.scales = next();
    golden.biases = next();
    const auto values = next();
    golden.values.resize(values.size() / 4);
    std::memcpy(golden.values.data(), values.data(), values.size());
    golden.tensor.name = golden.type;
    golden.tensor.type = type_of(golden.type);
    golden.tensor.shape = {rows, cols};
    cases.push_back(std::move(golden));
  }
  for (auto& golden : cases) {
    golden.tensor.data = golden.data.data();
    golden.tensor.bytes = golden.data.size();
    golden.tensor.scale_type = SourceType::f32;
    golden.tensor.scales = golden.scales.data();
    golden.tensor.biases = golden.biases.data();
  }
  return cases;
}

std::string title(const Golden& golden) {
  return golden.type + " bits " + std::to_string(golden.tensor.bits) + " group " +
         std::to_string(golden.tensor.group);
}

TEST(Dequantize, AgreesBitForBitWithTheReferencePackages) {
  const auto cases = goldens();
  ASSERT_EQ(cases.size(), 13u + 18u + 2u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(title(golden));
    ASSERT_TRUE(spec_of(golden.tensor).ok());
    const WeightRows rows = decode_rows(golden.tensor, 0, golden.tensor.rows());
    std::vector<float> out(golden.values.size());
    dequantize(rows, out.data());
    EXPECT_EQ(out, golden.values);
    EXPECT_EQ(to_floats(golden.tensor), golden.values);
  }
}

TEST(Dequantize, AnyRangeOfRowsIsPartOfTheWhole) {
  for (const auto& golden : goldens()) {
    SCOPED_TRACE(title(golden));
    const int64_t cols = golden.tensor.cols();
    std::vector<float> out(size_t(cols), 0.0f);
    dequantize(decode_rows(golden.tensor, 1, 1), out.data());
    EXPECT_THAT(out, testing::ElementsAreArray(golden.values.begin() + cols, golden.values.end()));
  }
}

TEST(RowsOf, ATensorOverPartOfTheMemory) {
  for (const auto& golden : goldens()) {
    SCOPED_TRACE(title(golden));
    const int64_t cols = golden.tensor.cols(), count = golden.tensor.rows() - 1;
    const SourceTensor part = rows_of(golden.tensor, 1, count);
    EXPECT_THAT(part.shape, testing::ElementsAre(count, cols));
    EXPECT_THAT(to_floats(part),
                testing::ElementsAreArray(golden.values.begin() + cols, golden.values.end()));
  }
  const float values[] = {1, 2, 3, 4};
  SourceTensor bias;
  bias.shape = {4};
  bias.data = reinterpret_cast<const std::byte*>(values);
  bias.bytes = sizeof(values);
  EXPECT_THAT(to_floats(rows_of(bias, 1, 2)), testing::ElementsAre(2.0f, 3.0f));
}

TEST(MatrixOf, OneOfAStack) {
  for (const auto& golden : goldens()) {
    SCOPED_TRACE(title(golden));
    const int64_t cols = golden.tensor.cols();
    SourceTensor stack = golden.tensor;
    stack.shape = {2, 1, cols};
    const SourceTensor second = matrix_of(stack, 1);
    EXPECT_THAT(second.shape, testing::ElementsAre(1, cols));
    EXPECT_THAT(to_floats(second),
                testing::ElementsAreArray(golden.values.begin() + cols, golden.values.end()));
  }
}

TEST(Dequantize, TransposedMatrices) {
  const float stored[] = {1, 2, 3, 4, 5, 6};  // [cols 3, rows 2]
  SourceTensor tensor;
  tensor.shape = {2, 3};
  tensor.transposed = true;
  tensor.data = reinterpret_cast<const std::byte*>(stored);
  tensor.bytes = sizeof(stored);
  EXPECT_THAT(decode_rows(tensor, 0, 2).dense, testing::ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_THAT(decode_rows(tensor, 1, 1).dense, testing::ElementsAre(2, 4, 6));

  const float wide[] = {1, 2, 3, 4, 5, 6, 7, 8};  // [cols 2, rows 4]
  tensor.shape = {4, 2};
  tensor.data = reinterpret_cast<const std::byte*>(wide);
  tensor.bytes = sizeof(wide);
  const SourceTensor lower = rows_of(tensor, 1, 3);
  EXPECT_THAT(lower.shape, testing::ElementsAre(3, 2));
  EXPECT_THAT(decode_rows(lower, 0, 3).dense, testing::ElementsAre(2, 6, 3, 7, 4, 8));
  EXPECT_THAT(decode_rows(rows_of(lower, 1, 2), 1, 1).dense, testing::ElementsAre(4, 8));
}

TEST(Dequantize, MlxScalesOfEveryTypeMeanTheirValue) {
  for (auto& golden : goldens()) {
    if (golden.tensor.type != SourceType::mlx_affine) continue;
    SCOPED_TRACE(title(golden));
    const size_t n = golden.scales.size() / 4;
    std::vector<uint16_t> scales(n), biases(n);
    for (size_t i = 0; i < n; ++i) {  // exact: the goldens hold f16 numbers
      float value;
      std::memcpy(&value, &golden.scales[4 * i], 4);
      scales[i] = float_to_f16(value);
      std::memcpy(&value, &golden.biases[4 * i], 4);
      biases[i] = float_to_f16(value);
    }
    golden.tensor.scale_type = SourceType::f16;
    golden.tensor.scales = reinterpret_cast<const std::byte*>(scales.data());
    golden.tensor.biases = reinterpret_cast<const std::byte*>(biases.data());
    EXPECT_EQ(spec_of(golden.tensor)->scale, ScaleKind::f16);
    EXPECT_EQ(to_floats(golden.tensor), golden.values);
  }
}

TEST(SpecOf, NamesTheTensorItRefuses) {
  SourceTensor tensor;
  tensor.name = "blk.0.ffn_up.weight";
  tensor.shape = {8, 48};
  const auto message = [&] {
    const auto spec = spec_of(tensor);
    EXPECT_FALSE(spec.ok());
    return spec.ok() ? std::string() : spec.error().message;
  };
  tensor.type = SourceType::q8_0;
  EXPECT_THAT(message(),
              testing::AllOf(testing::HasSubstr("blk.0.ffn_up.weight"), testing::HasSubstr("48")));
  tensor.type = SourceType::q6_k;
  EXPECT_THAT(message(), testing::HasSubstr("256"));
  tensor.type = SourceType::other;
  tensor.type_name = "IQ2_XS";
  EXPECT_THAT(message(), testing::HasSubstr("IQ2_XS"));
  tensor.type = SourceType::mlx_affine;
  tensor.bits = 7;
  tensor.group = 32;
  EXPECT_THAT(message(), testing::HasSubstr("7 bits"));
  tensor.type = SourceType::f16;
  tensor.shape = {2, 8, 48};
  EXPECT_THAT(message(), testing::HasSubstr("3 dimensions"));
}

TEST(SourceRowBytes, FollowsTheBlocks) {
  EXPECT_EQ(source_row_bytes(SourceType::f32, 3), 12u);
  EXPECT_EQ(source_row_bytes(SourceType::bf16, 3), 6u);
  EXPECT_EQ(source_row_bytes(SourceType::q4_0, 64), 36u);
  EXPECT_EQ(source_row_bytes(SourceType::q4_0, 65), 0u);
  EXPECT_EQ(source_row_bytes(SourceType::q6_k, 512), 420u);
  EXPECT_EQ(source_row_bytes(SourceType::q6_k, 128), 0u);
  EXPECT_EQ(source_row_bytes(SourceType::other, 256), 0u);
}

TEST(QuantizeRows, ErrorStaysWithinHalfAStep) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.1f, 1.0f);
  std::vector<float> in(3 * 256);
  for (auto& x : in) x = normal(random);
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {16, 32, 64, 128}) {
      const WeightRows rows = quantize_rows(in.data(), 3, 256, bits, group);
      std::vector<float> out(in.size());
      dequantize(rows, out.data());
      for (size_t i = 0; i < in.size(); ++i) {
        const float step = rows.scales[i / size_t(group)];
        // Half a step, and the rounding of scale and bias to f16 at the ends of the range.
        const float rounding =
            0x1p-11f * (std::abs(rows.biases[i / size_t(group)]) + step * float((1 << bits) - 1));
        EXPECT_LE(std::abs(out[i] - in[i]), 0.5f * step + rounding);
      }
    }
  }
  const std::vector<float> constant(64, 0.75f);
  std::vector<float> out(64);
  dequantize(quantize_rows(constant.data(), 1, 64, 4, 64), out.data());
  EXPECT_EQ(out, constant);
}

}  // namespace
}  // namespace ringkeep::quant
