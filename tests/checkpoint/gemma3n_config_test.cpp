// Configurations of the published Gemma 3n models (tests/golden/gemma3n).
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"
#include "checkpoint/hf_gemma3n.h"

namespace ringkeep::checkpoint {
namespace {

ModelConfig published(const std::string& name) {
  auto config =
      parse_hf_config(testing::read_file(testing::golden("../gemma3n/" + name + ".json")));
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? std::move(config).value() : ModelConfig{};
}

TEST(Gemma3nConfig, PublishedModels) {
  for (const char* name : {"e2b", "e4b"}) {
    const ModelConfig config = published(name);
    const bool large = name == std::string("e4b");
    EXPECT_EQ(config.family, "gemma3n");
    ASSERT_EQ(config.layers.size(), large ? 35u : 30u);
    EXPECT_EQ(config.attention_scale, 1.0f);
    EXPECT_EQ(config.attention_softcap, 0.0f);
    EXPECT_EQ(config.logit_softcap, 30.0f);
    EXPECT_FLOAT_EQ(config.embedding_scale, std::sqrt(2048.0f));
    EXPECT_EQ(config.activation, Activation::gelu_tanh);
    EXPECT_TRUE(config.qk_norm && config.v_norm && config.tied_embeddings);
    EXPECT_FALSE(config.norm_weight_plus_one);
    EXPECT_EQ(config.layer_embedding, 256);
    EXPECT_EQ(config.layer_vocab, 262144);
    EXPECT_EQ(config.vocab_size, 262400);
    EXPECT_EQ(config.altup_streams, 4);
    EXPECT_EQ(config.altup_active, 0);
    EXPECT_EQ(config.altup_clip, 120.0f);
    EXPECT_TRUE(config.altup_scale_output);
    EXPECT_EQ(config.laurel_rank, 64);
    for (size_t i = 0; i < config.layers.size(); ++i) {
      const LayerSpec& layer = config.layers[i];
      const bool full = i % 5 == 4;
      EXPECT_EQ(layer.donor, i < 20 ? -1 : full ? 19 : 18) << i;
      EXPECT_EQ(layer.rope.theta, full ? 1e6 : 1e4);
      EXPECT_EQ(layer.kv_heads, 2);
      EXPECT_EQ(layer.k_dim, 256);
      EXPECT_EQ(ffn_hidden_of(config, layer), large ? 16384 : 8192);
      ASSERT_EQ(layer.gate_deviations.has_value(), i < 10) << i;
      if (i < 10) {
        EXPECT_NEAR(*layer.gate_deviations, 1.6448536f, 1e-6);
      }
      if (i < 20) {
        EXPECT_EQ(layer.window, full ? 0 : 512);
      }
    }
  }
}

// Values of a printed table (Abramowitz and Stegun, 26.5 and 26.1).
TEST(Gemma3nConfig, NormalQuantiles) {
  EXPECT_NEAR(normal_quantile(0.5), 0.0, 1e-12);
  EXPECT_NEAR(normal_quantile(0.9), 1.281551565545, 1e-11);
  EXPECT_NEAR(normal_quantile(0.95), 1.644853626951, 1e-11);
  EXPECT_NEAR(normal_quantile(0.025), -1.959963984540, 1e-11);
  EXPECT_NEAR(normal_quantile(0.999), 3.090232306168, 1e-11);
}

// What transformers assumes where keys are absent.
TEST(Gemma3nConfig, Defaults) {
  const auto config = parse_hf_config(
      R"({"model_type": "gemma3n_text", "hidden_size": 64, "num_hidden_layers": 25})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->layers[0].window, 512);
  EXPECT_EQ(config->layers[0].rope.theta, 1e4);
  EXPECT_EQ(config->layers[4].rope.theta, 1e6);
  EXPECT_EQ(config->layers[4].kind, LayerKind::full);
  EXPECT_EQ(config->layers[10].donor, 8);
  EXPECT_EQ(config->layers[24].donor, 9);
  EXPECT_TRUE(config->layers[9].gate_deviations.has_value());
  EXPECT_FALSE(config->layers[10].gate_deviations.has_value());
  EXPECT_EQ(config->ffn_hidden, 16384);
  EXPECT_EQ(config->logit_softcap, 30.0f);
  EXPECT_EQ(config->layer_vocab, 262144);
  const auto unclipped = parse_hf_config(
      R"({"model_type": "gemma3n_text", "hidden_size": 64, "num_hidden_layers": 5,
          "num_kv_shared_layers": 0, "altup_coef_clip": null, "final_logit_softcapping": null})");
  ASSERT_TRUE(unclipped.ok()) << unclipped.error().message;
  EXPECT_EQ(unclipped->altup_clip, 0.0f);
  EXPECT_EQ(unclipped->logit_softcap, 0.0f);
  EXPECT_FALSE(unclipped->layers[0].gate_deviations.has_value());  // too few layers
}

}  // namespace
}  // namespace ringkeep::checkpoint
