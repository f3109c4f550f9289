// The file of calibrated factors: round trip, and what is refused.
#include "weights/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/sha256.h"
#include "tiny_model.h"

namespace ringkeep::weights {
namespace {

using ringkeep::testing::hybrid_layers;
using ringkeep::testing::TinyModel;
using ringkeep::testing::TinySpec;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class CalibrationFile : public ::testing::Test {
 protected:
  void SetUp() override {
    checkpoint_ = model_.open();
    calibration_.family = "gemma3";
    calibration_.norms_sha256 = norms_fingerprint(checkpoint_).value();
    calibration_.text_sha256 = sha256_hex("text");
    calibration_.tokens = 1234;
    for (size_t i = 0; i < checkpoint_.config.layers.size(); ++i) {
      std::vector<float> c;
      for (const float head : {2.0f, 5.0f})
        for (int j = 0; j < 64; ++j) c.push_back(j % 2 == 0 ? head : 1.0f / head);
      calibration_.balance.push_back(c);
      calibration_.kv_heads.push_back(2);
    }
  }

  static TinySpec spec_of(unsigned seed) {
    return {.layers = hybrid_layers(3, 3), .gemma = true, .seed = seed};
  }

  // The file with one factor changed, and its digest made right again.
  std::string with_factor(size_t layer, size_t i, float value) const {
    Calibration changed = calibration_;
    changed.balance[layer][i] = value;
    return encode_calibration(changed);
  }

  TinyModel model_{spec_of(1)};
  checkpoint::Checkpoint checkpoint_;
  Calibration calibration_;
};

TEST_F(CalibrationFile, RoundTrip) {
  const std::string path = model_.file("c.safetensors");
  std::ofstream(path, std::ios::binary) << encode_calibration(calibration_);
  const auto read = load_calibration(path, checkpoint_);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->balance, calibration_.balance);
  EXPECT_EQ(read->kv_heads, calibration_.kv_heads);
  EXPECT_EQ(read->tokens, 1234);
  EXPECT_EQ(read->text_sha256, calibration_.text_sha256);
}

TEST_F(CalibrationFile, AnotherModelIsRefusedByTheFieldThatDiffers) {
  const auto refused = [&](const Calibration& calibration, const char* field) {
    EXPECT_INPUT_ERROR(check_fits(calibration, checkpoint_, "c"), field);
  };
  Calibration other = calibration_;
  other.family = "llama";
  refused(other, "family is llama, this model has gemma3");
  other = calibration_;
  other.balance.pop_back();
  refused(other, "layers is 2, this model has 3");
  other = calibration_;
  other.kv_heads[1] = 1;
  refused(other, "layer 1 is [1, 128], this model has [2, 64]");
  other = calibration_;
  std::swap(other.balance[2][64], other.balance[2][65]);
  refused(other, "layer 2 has different factors for channels 0 and 32");
  // The same sizes, other weights.
  const auto trained = TinyModel(spec_of(2)).open();
  EXPECT_INPUT_ERROR(check_fits(calibration_, trained, "c"), "norms_sha256");
  EXPECT_TRUE(check_fits(calibration_, TinyModel(spec_of(1)).open(), "c").ok());
}

TEST_F(CalibrationFile, DamageIsRefused) {
  const std::string good = encode_calibration(calibration_);
  ASSERT_TRUE(parse_calibration(bytes_of(good), "c").ok());
  for (size_t size = 0; size < good.size(); size += 7)
    EXPECT_FALSE(parse_calibration(bytes_of(good.substr(0, size)), "c").ok()) << size;
  std::string edited = good;
  edited[good.size() - 2] = static_cast<char>(edited[good.size() - 2] ^ 1);
  EXPECT_INPUT_ERROR(parse_calibration(bytes_of(edited), "c"), "factors_sha256");
  for (const float value : {0.0f, -1.0f, 2000.0f, 1e-4f, NAN, INFINITY})
    EXPECT_INPUT_ERROR(parse_calibration(bytes_of(with_factor(1, 3, value)), "c"),
                       "layers.1.k_balance: factor 3");
  EXPECT_INPUT_ERROR(parse_calibration(bytes_of(with_factor(1, 64, 900.0f)), "c"),
                     "geometric mean of head 1");
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_INPUT_ERROR(
      parse_calibration(bytes_of(replaced("\"version\":\"1\"", "\"version\":\"2\"")), "c"),
      "version: expected \"1\", found \"2\"");
  EXPECT_INPUT_ERROR(parse_calibration(bytes_of(replaced("key calib", "bad calib")), "c"),
                     "format");
  EXPECT_INPUT_ERROR(parse_calibration(bytes_of(replaced("layers.1.", "layers.7.")), "c"),
                     "layers.7.k_balance: expected layers.0");
  EXPECT_INPUT_ERROR(
      parse_calibration(bytes_of(replaced("\"layers\":\"3\"", "\"layers\":\"x\"")), "c"),
      "layers: expected a number");
  EXPECT_INPUT_ERROR(parse_calibration(bytes_of(replaced("F32", "I32")), "c"), "F32");
}

}  // namespace
}  // namespace ringkeep::weights
