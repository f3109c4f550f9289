// Configurations of the published Gemma 4 models (tests/golden/gemma4).
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"

namespace ringkeep::checkpoint {
namespace {

ModelConfig published(const std::string& name) {
  auto config = parse_hf_config(testing::read_file(testing::golden("../gemma4/" + name + ".json")));
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? std::move(config).value() : ModelConfig{};
}

TEST(Gemma4Config, WhatAllHaveInCommon) {
  for (const char* name : {"e2b", "e4b", "12b", "26b_a4b", "31b"}) {
    const ModelConfig config = published(name);
    EXPECT_EQ(config.family, "gemma4") << name;
    EXPECT_EQ(config.attention_scale, 1.0f);
    EXPECT_FLOAT_EQ(config.embedding_scale, std::sqrt(static_cast<float>(config.hidden)));
    EXPECT_EQ(config.logit_softcap, 30.0f);
    EXPECT_EQ(config.activation, Activation::gelu_tanh);
    EXPECT_TRUE(config.qk_norm && config.v_norm && config.tied_embeddings);
    EXPECT_FALSE(config.norm_weight_plus_one);
    for (const LayerSpec& layer : config.layers) {
      const LayerSpec& owner =
          layer.donor < 0 ? layer : config.layers[static_cast<size_t>(layer.donor)];
      const int dim = owner.kind == LayerKind::full ? 512 : 256;
      EXPECT_EQ(layer.k_dim, dim);
      EXPECT_EQ(layer.v_dim, dim);
      EXPECT_EQ(layer.rope.rotary_dim, dim);
      EXPECT_EQ(layer.rope, owner.rope);
      EXPECT_EQ(layer.kv_heads, owner.kv_heads);
    }
  }
}

// The first quarter of a full head's pairs turns, with the frequencies of the whole head.
TEST(Gemma4Config, PairsOfFullLayersTurnInProportion) {
  const ModelConfig config = published("31b");
  const auto full = rope_frequencies(config.layers[5].rope);
  ASSERT_EQ(full.size(), 256u);
  for (size_t i = 0; i < 64; ++i)
    EXPECT_FLOAT_EQ(full[i],
                    static_cast<float>(std::pow(1e6, -2.0 * static_cast<double>(i) / 512)));
  for (size_t i = 64; i < 256; ++i) EXPECT_LT(full[i], 1e-29f);
  const auto sliding = rope_frequencies(config.layers[0].rope);
  ASSERT_EQ(sliding.size(), 128u);
  EXPECT_FLOAT_EQ(sliding[127], static_cast<float>(std::pow(1e4, -254.0 / 256)));
}

TEST(Gemma4Config, SharedCachesAndWideFeedForwards) {
  const ModelConfig e2b = published("e2b");
  ASSERT_EQ(e2b.layers.size(), 35u);
  for (size_t i = 0; i < 35; ++i) {
    const LayerSpec& layer = e2b.layers[i];
    EXPECT_EQ(layer.donor, i < 15 ? -1 : i % 5 == 4 ? 14 : 13);
    EXPECT_EQ(ffn_hidden_of(e2b, layer), i < 15 ? 6144 : 12288);
    EXPECT_FALSE(layer.v_from_k);
  }
  EXPECT_EQ(e2b.ffn_hidden, 12288);
  EXPECT_EQ(e2b.layer_embedding, 256);
  const ModelConfig e4b = published("e4b");
  EXPECT_EQ(e4b.layers[24].donor, 22);
  EXPECT_EQ(e4b.layers[29].donor, 23);
  EXPECT_EQ(ffn_hidden_of(e4b, e4b.layers[41]), 10240);
  EXPECT_EQ(e4b.layer_embedding, 256);
}

TEST(Gemma4Config, ValuesFromKeysAndExperts) {
  const ModelConfig moe = published("26b_a4b");
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(moe.layers[i].v_from_k, i % 6 == 5);
    EXPECT_EQ(moe.layers[i].kv_heads, i % 6 == 5 ? 2 : 8);
  }
  EXPECT_EQ(moe.experts, 128);
  EXPECT_EQ(moe.experts_used, 8);
  EXPECT_EQ(moe.expert_hidden, 704);
  EXPECT_EQ(moe.ffn_hidden, 2112);
  EXPECT_EQ(moe.layer_embedding, 0);
  EXPECT_EQ(published("12b").layers[5].kv_heads, 1);
  EXPECT_EQ(published("31b").experts, 0);
}

// What transformers assumes where keys are absent.
TEST(Gemma4Config, Defaults) {
  const auto config = parse_hf_config(
      R"({"model_type": "gemma4", "text_config": {"hidden_size": 64, "num_hidden_layers": 8}})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->layers[0].window, 512);
  EXPECT_EQ(config->layers[5].kind, LayerKind::full);
  EXPECT_EQ(config->layers[6].kind, LayerKind::sliding);
  EXPECT_EQ(config->layers[7].kind, LayerKind::full);  // the last one, whatever the count
  EXPECT_EQ(config->layers[7].k_dim, 512);
  EXPECT_EQ(config->layers[7].kv_heads, 4);
  EXPECT_EQ(config->layers[7].rope.theta, 1e6);
  EXPECT_EQ(config->layers[7].rope.factors.size(), 256u);
  EXPECT_EQ(config->layers[0].rope.theta, 1e4);
  EXPECT_EQ(config->layer_embedding, 256);
  const auto unified = parse_hf_config(
      R"({"model_type": "gemma4_unified_text", "hidden_size": 64, "num_hidden_layers": 6})");
  ASSERT_TRUE(unified.ok()) << unified.error().message;
  EXPECT_EQ(unified->layers[0].window, 1024);
  EXPECT_EQ(unified->layer_embedding, 0);
}

}  // namespace
}  // namespace ringkeep::checkpoint
