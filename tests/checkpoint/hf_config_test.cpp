#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"

namespace ringkeep::checkpoint {
namespace {

using nlohmann::json;

ModelConfig parsed(const json& config) {
  auto result = parse_hf_config(config.dump());
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? std::move(result).value() : ModelConfig{};
}

json base(const char* model_type) {
  return {{"model_type", model_type}, {"hidden_size", 64},
          {"num_hidden_layers", 4},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"intermediate_size", 96},
          {"vocab_size", 100},        {"max_position_embeddings", 1024}};
}

// Configurations saved by transformers, as they are and with the derived layer types taken out.
TEST(HfConfig, LayerTypesAgreeWithTransformers) {
  const json goldens = json::parse(testing::read_file(testing::golden("configs.json")));
  ASSERT_EQ(goldens.size(), 5u);
  for (const json& golden : goldens)
    for (const bool with_types : {true, false}) {
      json source = golden["config"];
      if (!with_types) source.erase("layer_types");
      const ModelConfig config = parsed(source);
      const auto& types = golden["layer_types"];
      EXPECT_EQ(config.tied_embeddings, golden["tied"].get<bool>()) << config.family;
      ASSERT_EQ(config.layers.size(), types.size()) << config.family;
      for (size_t i = 0; i < types.size(); ++i) {
        const LayerSpec& layer = config.layers[i];
        const std::string type = types[i];
        const LayerKind kind = type == "full_attention"      ? LayerKind::full
                               : type == "sliding_attention" ? LayerKind::sliding
                                                             : LayerKind::recurrent;
        EXPECT_EQ(layer.kind, kind) << config.family << " " << i;
        EXPECT_EQ(layer.note, kind == LayerKind::recurrent ? type : "");
        EXPECT_EQ(layer.window,
                  kind == LayerKind::sliding ? source["sliding_window"].get<int64_t>() : 0);
        EXPECT_EQ(layer.k_dim, source["head_dim"].get<int>());
        EXPECT_EQ(layer.kv_heads, 2);
      }
    }
}

TEST(HfConfig, RopeOfTheGoldens) {
  const json goldens = json::parse(testing::read_file(testing::golden("configs.json")));
  const ModelConfig gemma = parsed(goldens[0]["config"]);
  EXPECT_EQ(gemma.layers[0].rope.theta, 10000.0);
  EXPECT_EQ(gemma.layers[0].rope.scaling, RopeSpec::Scaling::none);
  EXPECT_EQ(gemma.layers[5].rope.theta, 1e6);
  EXPECT_EQ(gemma.layers[5].rope.scaling, RopeSpec::Scaling::linear);
  EXPECT_EQ(gemma.layers[5].rope.factor, 8.0);
  EXPECT_FLOAT_EQ(gemma.attention_scale, 1.0f / 12.0f);  // query_pre_attn_scalar 144
  EXPECT_FLOAT_EQ(gemma.embedding_scale, 8.0f);
  EXPECT_TRUE(gemma.norm_weight_plus_one);
  EXPECT_TRUE(gemma.qk_norm);
  EXPECT_EQ(gemma.family, "gemma3");

  const ModelConfig qwen = parsed(goldens[1]["config"]);
  EXPECT_EQ(qwen.layers[0].rope.scaling, RopeSpec::Scaling::yarn);
  EXPECT_EQ(qwen.layers[0].rope.original_context, 256);
  EXPECT_DOUBLE_EQ(qwen.layers[0].rope.attention_factor, 0.1 * std::log(4.0) + 1.0);
  EXPECT_EQ(qwen.layers[5].rope, qwen.layers[0].rope);
  EXPECT_TRUE(qwen.qk_norm);

  const ModelConfig llama = parsed(goldens[2]["config"]);
  EXPECT_EQ(llama.layers[0].rope.scaling, RopeSpec::Scaling::llama3);
  EXPECT_EQ(llama.layers[0].rope.original_context, 512);
  EXPECT_EQ(llama.layers[0].rope.high_freq_factor, 4.0);
  EXPECT_EQ(llama.layers[0].rope.theta, 500000.0);

  EXPECT_EQ(parsed(goldens[4]["config"]).layers[3].rope.rotary_dim, 64);  // a quarter of 256
}

TEST(HfConfig, OldStyleRope) {
  json config = base("gemma3_text");
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 8}};
  config["rope_local_base_freq"] = 9000;
  const ModelConfig gemma = parsed(config);
  EXPECT_EQ(gemma.layers[0].rope.theta, 9000.0);
  EXPECT_EQ(gemma.layers[0].rope.scaling, RopeSpec::Scaling::none);

  config = base("llama");
  config["rope_theta"] = 500000;
  config["rope_scaling"] = {{"rope_type", "yarn"},
                            {"factor", 8.0},
                            {"mscale", 0.707},
                            {"mscale_all_dim", 1.0},
                            {"beta_fast", 16}};
  config["original_max_position_embeddings"] = 128;
  const RopeSpec rope = parsed(config).layers[0].rope;
  EXPECT_EQ(rope.theta, 500000.0);
  EXPECT_EQ(rope.original_context, 128);
  EXPECT_EQ(rope.beta_fast, 16.0);
  EXPECT_DOUBLE_EQ(rope.attention_factor,
                   (0.0707 * std::log(8.0) + 1.0) / (0.1 * std::log(8.0) + 1.0));
  config["rope_scaling"]["attention_factor"] = 1.25;
  EXPECT_EQ(parsed(config).layers[0].rope.attention_factor, 1.25);
}

TEST(HfConfig, SlidingWindows) {
  json config = base("mistral");
  config["sliding_window"] = nullptr;
  EXPECT_EQ(parsed(config).layers[0].kind, LayerKind::full);
  config["sliding_window"] = 32;
  EXPECT_EQ(parsed(config).layers[3].window, 32);
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention",
                           "sliding_attention"};
  EXPECT_EQ(parsed(config).layers[2].kind, LayerKind::full);
  EXPECT_EQ(parsed(config).layers[3].kind, LayerKind::sliding);
  config["sliding_window"] = nullptr;
  EXPECT_INPUT_ERROR(parse_hf_config(config.dump()),
                     "layer 1 is sliding_attention, but sliding_window");
  config["layer_types"] = {"full_attention"};
  EXPECT_INPUT_ERROR(parse_hf_config(config.dump()), "layer_types: 1 entries for 4 layers");

  json gemma = base("gemma3_text");
  gemma["sliding_window_pattern"] = 2;
  gemma["sliding_window"] = 8;
  EXPECT_EQ(parsed(gemma).layers[1].kind, LayerKind::full);
  EXPECT_EQ(parsed(gemma).layers[2].kind, LayerKind::sliding);
  json qwen = base("qwen3");
  qwen["sliding_window"] = 8;  // without use_sliding_window
  EXPECT_EQ(parsed(qwen).layers[3].kind, LayerKind::full);
}

// What the published gemma-3-4b-it leaves out of its text_config has the family's defaults.
TEST(HfConfig, NestedGemmaWithDefaults) {
  const json config = {{"model_type", "gemma3"},
                       {"architectures", {"Gemma3ForConditionalGeneration"}},
                       {"vision_config", {{"hidden_size", 1152}}},
                       {"text_config",
                        {{"model_type", "gemma3_text"},
                         {"hidden_size", 2560},
                         {"num_hidden_layers", 34},
                         {"intermediate_size", 10240},
                         {"sliding_window", 1024},
                         {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}}}};
  const ModelConfig gemma = parsed(config);
  EXPECT_EQ(gemma.family, "gemma3");
  EXPECT_EQ(gemma.layers[0].heads, 8);
  EXPECT_EQ(gemma.layers[0].kv_heads, 4);
  EXPECT_EQ(gemma.layers[0].k_dim, 256);
  EXPECT_EQ(gemma.layers[0].window, 1024);
  EXPECT_EQ(gemma.layers[33].kind, LayerKind::sliding);
  EXPECT_EQ(gemma.layers[29].kind, LayerKind::full);
  EXPECT_EQ(gemma.layers[29].rope.factor, 8.0);
  EXPECT_EQ(gemma.vocab_size, 262208);
  EXPECT_FLOAT_EQ(gemma.attention_scale, 1.0f / 16.0f);
  EXPECT_TRUE(gemma.tied_embeddings);
}

TEST(HfConfig, HybridsNameTheirRecurrentLayers) {
  const auto notes = [](const json& config) {
    std::vector<std::string> result;
    for (const LayerSpec& layer : parsed(config).layers)
      result.push_back(layer.kind == LayerKind::recurrent ? layer.note
                                                          : layer_kind_name(layer.kind));
    return result;
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes(base("qwen3_next")),
            (Notes{"linear_attention", "linear_attention", "linear_attention", "full"}));
  json config = base("granitemoehybrid");
  config["layer_types"] = {"mamba", "attention", "mamba", "mamba"};
  EXPECT_EQ(notes(config), (Notes{"mamba", "full", "mamba", "mamba"}));
  config = base("jamba");
  config["attn_layer_period"] = 4;
  config["attn_layer_offset"] = 2;
  EXPECT_EQ(notes(config), (Notes{"mamba", "mamba", "full", "mamba"}));
  config = base("lfm2");
  config["full_attn_idxs"] = {1};
  EXPECT_EQ(notes(config), (Notes{"conv", "full", "conv", "conv"}));
  config = base("nemotron_h");
  config["hybrid_override_pattern"] = "M*-M";
  EXPECT_EQ(notes(config), (Notes{"mamba", "full", "cacheless", "mamba"}));
  EXPECT_EQ(notes(base("falcon_h1"))[3], "attention + mamba");
  config = base("gemma3n_text");
  config["sliding_window"] = 8;
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                           "sliding_attention"};
  config["num_kv_shared_layers"] = 2;
  const ModelConfig shared = parsed(config);
  EXPECT_EQ(shared.layers[2].kind, LayerKind::shared);
  EXPECT_EQ(shared.layers[2].donor, 1);
  EXPECT_EQ(shared.layers[3].donor, 0);
}

TEST(HfConfig, DefaultsOfTheDenseFamilies) {
  json config = base("qwen2");
  config["use_sliding_window"] = true;
  config["sliding_window"] = 16;
  config["max_window_layers"] = 3;
  ModelConfig model = parsed(config);
  EXPECT_TRUE(model.attention_bias);
  EXPECT_EQ(model.layers[2].kind, LayerKind::full);
  EXPECT_EQ(model.layers[3].window, 16);

  config = base("gemma2");  // absent soft-caps have the family's values, null is none
  model = parsed(config);
  EXPECT_EQ(model.attention_softcap, 50.0f);
  EXPECT_EQ(model.logit_softcap, 30.0f);
  EXPECT_EQ(model.layers[0].window, 4096);
  EXPECT_EQ(model.layers[1].kind, LayerKind::full);
  EXPECT_FLOAT_EQ(model.attention_scale, 1.0f / 16.0f);
  config["attn_logit_softcapping"] = config["final_logit_softcapping"] = nullptr;
  EXPECT_EQ(parsed(config).attention_softcap, 0.0f);
  EXPECT_EQ(parsed(config).logit_softcap, 0.0f);

  model = parsed(base("olmo3"));
  EXPECT_TRUE(model.qk_norm_whole);
  EXPECT_EQ(model.layers[0].window, 4096);
  EXPECT_EQ(model.layers[3].kind, LayerKind::full);
  EXPECT_FALSE(parsed(base("olmo2")).layers[0].window);

  model = parsed(base("cohere2"));
  EXPECT_EQ(model.norm, NormKind::layer);
  EXPECT_FLOAT_EQ(model.logit_scale, 0.0625f);
  EXPECT_EQ(model.layers[2].rope.rotary_dim, 16);
  EXPECT_EQ(model.layers[3].rope.rotary_dim, 0);  // the full one
  EXPECT_TRUE(model.tied_embeddings);

  config = base("smollm3");
  config["use_sliding_window"] = true;
  config["sliding_window"] = 16;
  model = parsed(config);
  EXPECT_EQ(model.layers[2].rope.theta, 2e6);
  EXPECT_EQ(model.layers[2].kind, LayerKind::full);
  EXPECT_EQ(model.layers[3].rope.rotary_dim, 0);
  EXPECT_EQ(model.layers[3].window, 16);

  config = base("ministral3");
  config["rope_parameters"] = {{"rope_type", "yarn"},
                               {"factor", 16.0},
                               {"rope_theta", 1e6},
                               {"mscale", 1.0},
                               {"mscale_all_dim", 1.0},
                               {"llama_4_scaling_beta", 0.1},
                               {"original_max_position_embeddings", 512}};
  model = parsed(config);
  EXPECT_EQ(model.layers[0].rope.attention_factor, 1.0);
  EXPECT_FLOAT_EQ(model.query_scale_beta, 0.1f);
  EXPECT_EQ(model.query_scale_context, 512);
}

TEST(HfConfig, Llama4) {
  json config = base("llama4_text");
  config["attention_chunk_size"] = 24;
  config["no_rope_layers"] = json::array();  // as the first release wrote it: none are named
  config["attn_temperature_tuning"] = 4;
  ModelConfig model = parsed(config);
  EXPECT_EQ(model.family, "llama4");
  EXPECT_TRUE(model.qk_norm && model.qk_norm_unweighted);
  EXPECT_FALSE(model.expert_renormalize || model.shared_expert_gate);
  EXPECT_TRUE(model.expert_sigmoid_input && model.query_scale_no_rope);
  EXPECT_EQ(model.query_scale_context, 8192);
  EXPECT_EQ(model.query_scale_shift, 1);
  EXPECT_FLOAT_EQ(model.query_scale_beta, 0.1f);
  EXPECT_EQ(model.experts, 16);
  EXPECT_EQ(model.experts_used, 1);
  EXPECT_EQ(model.expert_hidden, 96);
  EXPECT_EQ(model.shared_expert_hidden, 96);
  EXPECT_EQ(model.ffn_hidden, 96);  // no layer is dense
  for (size_t i = 0; i < 4; ++i) {
    const LayerSpec& layer = model.layers[i];
    EXPECT_TRUE(layer.experts);
    EXPECT_EQ(layer.kind, i == 3 ? LayerKind::full : LayerKind::chunked);
    EXPECT_EQ(layer.window, i == 3 ? 0 : 24);
    EXPECT_EQ(layer.rope.rotary_dim, i == 3 ? 0 : layer.k_dim);
    EXPECT_EQ(layer.rope.theta, 500000.0);
  }

  config["interleave_moe_layer_step"] = 2;
  config["intermediate_size_mlp"] = 160;
  config["no_rope_layers"] = {1, 0, 1, 1};
  config["attn_temperature_tuning"] = false;
  config["use_qk_norm"] = false;
  model = parsed(config);
  EXPECT_FALSE(model.qk_norm);
  EXPECT_EQ(model.query_scale_beta, 0.0f);
  EXPECT_EQ(model.ffn_hidden, 160);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(model.layers[i].experts, i % 2 == 1);
    EXPECT_EQ(model.layers[i].kind, i == 1 ? LayerKind::full : LayerKind::chunked);
  }

  // layer_types and moe_layers go before the rules.
  config["layer_types"] = {"full_attention", "chunked_attention", "full_attention",
                           "full_attention"};
  config["moe_layers"] = json::array();
  model = parsed(config);
  EXPECT_EQ(model.experts, 0);
  EXPECT_EQ(model.shared_expert_hidden, 0);
  EXPECT_EQ(model.layers[0].kind, LayerKind::full);
  EXPECT_EQ(model.layers[1].kind, LayerKind::chunked);
  EXPECT_EQ(model.layers[1].rope.rotary_dim, 0);

  config.erase("layer_types");
  config["attention_chunk_size"] = nullptr;  // no chunks
  EXPECT_EQ(parsed(config).layers[0].kind, LayerKind::full);
  config.erase("attention_chunk_size");
  EXPECT_EQ(parsed(config).layers[0].window, 8192);

  config["interleave_moe_layer_step"] = 0;  // says nothing beside moe_layers
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 64}};
  EXPECT_GT(parsed(config).layers[0].rope.attention_factor, 1.2);
  config["use_qk_norm"] = true;  // and the norm takes the factor out again
  EXPECT_EQ(parsed(config).layers[0].rope.attention_factor, 1.0);

  json outer = {{"model_type", "llama4"}, {"text_config", config}, {"vision_config", {{"a", 1}}}};
  outer["text_config"].erase("model_type");
  EXPECT_EQ(parsed(outer).family, "llama4");
}

TEST(HfConfig, Experts) {
  json config = base("qwen3_moe");
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3};
  ModelConfig model = parsed(config);
  EXPECT_EQ(model.experts, 128);
  EXPECT_EQ(model.experts_used, 8);
  EXPECT_EQ(model.expert_hidden, 768);
  EXPECT_FALSE(model.expert_renormalize);
  EXPECT_TRUE(model.qk_norm);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(model.layers[i].experts, i == 1);

  model = parsed(base("qwen2_moe"));
  EXPECT_EQ(model.experts, 60);
  EXPECT_EQ(model.shared_expert_hidden, 5632);
  EXPECT_TRUE(model.attention_bias);

  config = base("gpt_oss");
  config["head_dim"] = 64;
  config["rope_scaling"] = {{"rope_type", "yarn"},
                            {"factor", 32.0},
                            {"truncate", false},
                            {"original_max_position_embeddings", 4096}};
  model = parsed(config);
  EXPECT_EQ(model.experts, 128);
  EXPECT_EQ(model.experts_used, 4);
  EXPECT_EQ(model.expert_hidden, 96);
  EXPECT_TRUE(model.attention_sinks && model.attention_bias && model.expert_bias);
  EXPECT_EQ(model.activation, Activation::clamped_swiglu);
  EXPECT_FLOAT_EQ(model.swiglu_limit, 7.0f);
  EXPECT_EQ(model.norm_eps, 1e-5f);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(model.layers[i].window, i % 2 == 0 ? 128 : 0);
    EXPECT_EQ(model.layers[i].rope.theta, 150000.0);
    EXPECT_FALSE(model.layers[i].rope.truncate);
    EXPECT_TRUE(model.layers[i].experts);
  }
  // The published model: pairs up to 8.09 turn as trained, those from 17.4 on 32 times slower.
  const auto turns = rope_frequencies(model.layers[0].rope);
  const auto plain = [](int i) { return std::pow(150000.0, -i / 32.0); };
  EXPECT_FLOAT_EQ(turns[8], float(plain(8)));
  EXPECT_LT(turns[9], plain(9) * 0.999);
  EXPECT_GT(turns[17], plain(17) / 32 * 1.001);
  EXPECT_FLOAT_EQ(turns[18], float(plain(18) / 32));
}

// Phi-4-mini's proportions: 96 of 128 channels turn, the attention factor follows from the ratio of
// the contexts.
TEST(HfConfig, LongRope) {
  json config = base("phi3");
  config["head_dim"] = 16;
  config["partial_rotary_factor"] = 0.75;
  config["original_max_position_embeddings"] = 128;
  config["rope_scaling"] = {{"type", "longrope"},
                            {"short_factor", {1, 1, 1, 1, 1, 1.5}},
                            {"long_factor", {1, 2, 3, 4, 5, 6}}};
  const RopeSpec rope = parsed(config).layers[1].rope;
  EXPECT_EQ(rope.rotary_dim, 12);
  EXPECT_EQ(rope.original_context, 128);
  EXPECT_EQ(rope.factors[5], 1.5f);
  EXPECT_EQ(rope.long_factors[5], 6.0f);
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1.0 + std::log(8.0) / std::log(128.0)));
  config["rope_scaling"]["type"] = "su";
  EXPECT_EQ(parsed(config).layers[1].rope, rope);
  config["rope_scaling"]["type"] = "yarn";
  EXPECT_INPUT_ERROR(parse_hf_config(config.dump()), "\"yarn\" scaling with long_factor");
  config["rope_scaling"] = {{"type", "su"}, {"short_factor", {1}}, {"long_factor", {1}}};
  EXPECT_INPUT_ERROR(parse_hf_config(config.dump()), "an array of 6 positive numbers");
}

TEST(HfConfigRefuses, OptionsOfFamiliesThatAreNotThere) {
  const auto with = [](const char* family, const char* key, const json& value) {
    json config = base(family);
    config[key] = value;
    return parse_hf_config(config.dump());
  };
  EXPECT_INPUT_ERROR(with("cohere2", "use_qk_norm", true), "use_qk_norm = true is not supported");
  EXPECT_INPUT_ERROR(with("cohere2", "layer_norm_bias", true), "layer_norm_bias");
  EXPECT_INPUT_ERROR(with("cohere2", "use_parallel_block", false), "use_parallel_block = false");
  EXPECT_INPUT_ERROR(with("cohere2", "rotary_pct", 0.5), "rotary_pct = 0.5");
  EXPECT_INPUT_ERROR(with("phi3", "lm_head_bias", true), "lm_head_bias");
  EXPECT_INPUT_ERROR(with("qwen2", "use_mrope", true), "use_mrope");
  EXPECT_INPUT_ERROR(with("smollm3", "no_rope_layers", {1, 0}),
                     "no_rope_layers: expected an array of 4 flags");
  EXPECT_INPUT_ERROR(with("smollm3", "no_rope_layers", {1, 0, "x", 1}), "no_rope_layers[2]");
  EXPECT_INPUT_ERROR(with("ministral3", "rope_theta", 1e6), "expected rope_parameters");
  EXPECT_INPUT_ERROR(with("gpt_oss", "rope_theta", 1e6), "expected rope_scaling");
  EXPECT_INPUT_ERROR(with("qwen3_moe", "use_sliding_window", true), "use_sliding_window = true");
  EXPECT_INPUT_ERROR(with("qwen3_moe", "mlp_only_layers", {4}), "indices of 4 layers");
  EXPECT_INPUT_ERROR(with("qwen3_moe", "num_experts_per_tok", 129), "num_experts_per_tok");
}

TEST(HfConfig, PythonsInfinityIsRead) {
  std::string text = base("falcon_h1").dump();
  text.insert(
      1, "\"time_step_limit\": [0.0, Infinity, -Infinity, NaN], \"s\": \"NaN \\\" Infinity\",");
  EXPECT_TRUE(parse_hf_config(text).ok());
}

TEST(HfConfigRefuses, WhatItCannotRead) {
  EXPECT_INPUT_ERROR(parse_hf_config("{"), "not valid JSON near byte");
  EXPECT_INPUT_ERROR(parse_hf_config("[]"), "expected an object");
  EXPECT_INPUT_ERROR(parse_hf_config("{}"), "model_type");
  json config = base("mamba");
  config.erase("num_attention_heads");
  EXPECT_INPUT_ERROR(parse_hf_config(config.dump()), "expected num_attention_heads, found none");
  const auto with = [](const char* key, const json& value) {
    json changed = base("llama");
    changed[key] = value;
    return parse_hf_config(changed.dump());
  };
  EXPECT_INPUT_ERROR(with("quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}),
                     "\"gptq\"");
  EXPECT_INPUT_ERROR(with("quantization_config", {{"quant_method", "fp8"}}), "\"fp8\"");
  EXPECT_INPUT_ERROR(with("num_hidden_layers", 1 << 20),
                     "num_hidden_layers: expected an integer from 1 to 4096");
  EXPECT_INPUT_ERROR(with("num_hidden_layers", "4"), "found \"4\"");
  EXPECT_INPUT_ERROR(with("hidden_size", -1), "hidden_size");
  EXPECT_INPUT_ERROR(with("num_key_value_heads", 3), "multiple of num_key_value_heads 3");
  EXPECT_INPUT_ERROR(with("rope_scaling", {{"rope_type", "dynamic"}}), "RoPE scaling \"dynamic\"");
  EXPECT_INPUT_ERROR(with("rope_scaling", {{"rope_type", "longrope"}}),
                     "short_factor: expected an array of 8 positive numbers, found nothing");
  EXPECT_INPUT_ERROR(with("rope_scaling", {{"rope_type", "llama3"}}), "without a factor");
  EXPECT_INPUT_ERROR(with("hidden_act", "relu2"), "activation \"relu2\"");
  EXPECT_INPUT_ERROR(with("mlp_bias", true), "mlp_bias");
}

}  // namespace
}  // namespace ringkeep::checkpoint
