// The demo model's own file, where it is present (scripts/get-demo-model). The expected values are
// what gguf-py 0.19 prints for it.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/checkpoint.h"

namespace ringkeep::checkpoint {
namespace {

class DemoModel : public testing::Test {
 protected:
  void SetUp() override {
    if (!resolve("demo").ok()) FAIL() << "the demo model is missing: run scripts/get-demo-model";
  }
};

TEST_F(DemoModel, Configuration) {
  const auto opened = open("demo");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const ModelConfig& config = opened.value().config;
  EXPECT_EQ(config.family, "gemma3");
  EXPECT_EQ(config.vocab_size, 262144);
  EXPECT_EQ(config.hidden, 640);
  EXPECT_EQ(config.ffn_hidden, 2048);
  EXPECT_EQ(config.trained_context, 32768);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-6f);
  EXPECT_FLOAT_EQ(config.embedding_scale, std::sqrt(640.0f));
  EXPECT_FLOAT_EQ(config.attention_scale, 1.0f / 16.0f);
  EXPECT_EQ(config.activation, Activation::gelu_tanh);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_FALSE(config.norm_weight_plus_one);
  EXPECT_FALSE(config.attention_bias);
  ASSERT_EQ(config.layers.size(), 18u);
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerSpec& layer = config.layers[i];
    const bool full = i % 6 == 5;
    EXPECT_EQ(layer.kind, full ? LayerKind::full : LayerKind::sliding) << i;
    EXPECT_EQ(layer.window, full ? 0 : 512) << i;
    EXPECT_EQ(layer.heads, 4);
    EXPECT_EQ(layer.kv_heads, 1);
    EXPECT_EQ(layer.k_dim, 256);
    EXPECT_EQ(layer.v_dim, 256);
    EXPECT_EQ(layer.rope.rotary_dim, 256);
    EXPECT_EQ(layer.rope.theta, full ? 1e6 : 1e4) << i;
    EXPECT_EQ(layer.rope.scaling, RopeSpec::Scaling::none);
  }
}

TEST_F(DemoModel, Tensors) {
  const auto opened = open("demo");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const TensorTable& table = opened.value().table;
  EXPECT_EQ(table.tensors.size(), 236u);
  const std::byte* file = table.files.at(0).bytes().data();
  const auto expect = [&](const char* name, quant::SourceType type, std::vector<int64_t> shape,
                          ptrdiff_t offset, size_t bytes) {
    const auto* tensor = table.find(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->type, type) << name;
    EXPECT_EQ(tensor->shape, shape) << name;
    EXPECT_EQ(tensor->data - file, offset) << name;
    EXPECT_EQ(tensor->bytes, bytes) << name;
  };
  using quant::SourceType;
  expect("output_norm.weight", SourceType::f32, {640}, 6525120, 2560);
  expect("token_embd.weight", SourceType::q8_0, {262144, 640}, 6527680, 178257920);
  expect("blk.0.attn_k.weight", SourceType::q5_0, {256, 640}, 184785600, 112640);
  expect("blk.0.attn_output.weight", SourceType::q4_k, {640, 1024}, 184901824, 368640);
  expect("blk.0.ffn_down.weight", SourceType::q6_k, {640, 2048}, 185896128, 1075200);
}

TEST_F(DemoModel, Tokenizer) {
  const auto opened = open("demo", {.weights = false});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_TRUE(opened.value().table.tensors.empty());
  const TokenizerData& data = opened.value().tokenizer;
  EXPECT_EQ(data.kind, TokenizerData::Kind::spm_bpe);
  ASSERT_EQ(data.pieces.size(), 262144u);
  ASSERT_EQ(data.scores.size(), 262144u);
  ASSERT_EQ(data.types.size(), 262144u);
  EXPECT_EQ(data.pieces[0], "<pad>");
  EXPECT_EQ(data.pieces[200], "<b>");
  EXPECT_EQ(data.pieces[238 + 0xf0], "<0xF0>");
  EXPECT_EQ(data.types[238 + 0xf0], TokenType::byte);
  EXPECT_EQ(data.pieces[138], "  ");  // user-defined: as it is matched in the text
  EXPECT_EQ(data.types[138], TokenType::user_defined);
  EXPECT_EQ(data.types[5], TokenType::user_defined);
  EXPECT_EQ(data.types[2], TokenType::control);
  EXPECT_EQ(data.bos, 2);
  EXPECT_EQ(data.eos, 1);
  EXPECT_EQ(data.unk, 3);
  EXPECT_EQ(data.pad, 0);
  EXPECT_TRUE(data.add_bos);
  EXPECT_FALSE(data.add_eos);
  EXPECT_FALSE(data.add_space_prefix);
  EXPECT_EQ(data.end_of_generation, (std::vector<int32_t>{1, 106}));
  EXPECT_TRUE(data.chat_template.empty());
}

TEST_F(DemoModel, MetadataSummarisesArrays) {
  const auto opened = open("demo", {.weights = false});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto& metadata = opened.value().metadata;
  ASSERT_EQ(metadata.size(), 33u);
  EXPECT_EQ(metadata[0], (std::pair<std::string, std::string>{"general.architecture", "gemma3"}));
  bool found = false;
  for (const auto& [key, value] : metadata)
    if (key == "tokenizer.ggml.tokens") {
      found = true;
      EXPECT_EQ(value, "262144 x string: \"<pad>\", \"<eos>\", \"<bos>\", \"<unk>\", ...");
    }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace ringkeep::checkpoint
