// Configurations of adapters: what they mean, and what is refused by name.
#include "checkpoint/adapter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/files.h"

namespace ringkeep::testing {
namespace {

using checkpoint::AdapterConfig;
using checkpoint::AdapterFormat;
using checkpoint::parse_adapter_config;
using nlohmann::json;

json peft() {
  return {{"peft_type", "LORA"},
          {"r", 8},
          {"lora_alpha", 16},
          {"bias", "none"},
          {"target_modules", {"q_proj"}},
          {"fan_in_fan_out", false},
          {"modules_to_save", nullptr},
          {"init_lora_weights", true},
          {"loftq_config", json::object()},
          {"lora_dropout", 0.1}};
}

json mlx() {
  return {{"fine_tune_type", "lora"},
          {"num_layers", 4},
          {"iters", 100},
          {"lora_parameters",
           {{"rank", 8}, {"scale", 20.0}, {"dropout", 0.0}, {"keys", {"self_attn.q_proj"}}}}};
}

Result<AdapterConfig> parse(const json& config) { return parse_adapter_config(config.dump(), "c"); }

TEST(AdapterConfig, ScalesOfPeft) {
  json config = peft();
  EXPECT_EQ(parse(config)->scale_of("model.layers.0.self_attn.q_proj"), 2.0);
  config["use_rslora"] = true;
  EXPECT_EQ(parse(config)->scale_of("model.layers.0.self_attn.q_proj"), 16.0 / std::sqrt(8.0));
  config["use_rslora"] = false;
  // The first match counts; a name is the end of a module's, behind a dot.
  const std::string patterns =
      R"(, "rank_pattern": {"layers.1.self_attn.q_proj": 4, "q_proj": 2, "proj": 1},
          "alpha_pattern": {"v_proj": 3, "model.layers.0.self_attn.k_proj": 6.5}})";
  std::string text = config.dump();
  text = text.substr(0, text.size() - 1) + patterns;
  const auto parsed = parse_adapter_config(text, "c").value();
  EXPECT_EQ(parsed.rank_of("model.layers.1.self_attn.q_proj"), 4);
  EXPECT_EQ(parsed.rank_of("model.layers.11.self_attn.q_proj"), 2);
  EXPECT_EQ(parsed.rank_of("q_proj"), 2);
  EXPECT_EQ(parsed.rank_of("model.layers.1.mlp.down_proj"), 8);
  EXPECT_EQ(parsed.scale_of("model.layers.1.self_attn.q_proj"), 4.0);
  EXPECT_EQ(parsed.scale_of("model.layers.5.self_attn.v_proj"), 3.0 / 8);
  EXPECT_EQ(parsed.scale_of("model.layers.0.self_attn.k_proj"), 6.5 / 8);
  EXPECT_EQ(parsed.scale_of("model.layers.10.self_attn.k_proj"), 2.0);
}

TEST(AdapterConfig, PeftRefusesByName) {
  const std::pair<const char*, json> wrong[] = {{"peft_type", "LOHA"},
                                                {"peft_type", 3},
                                                {"r", 0},
                                                {"r", 1025},
                                                {"r", "8"},
                                                {"r", nullptr},
                                                {"lora_alpha", nullptr},
                                                {"lora_alpha", 1e300},
                                                {"use_dora", true},
                                                {"fan_in_fan_out", true},
                                                {"bias", "all"},
                                                {"bias", "lora_only"},
                                                {"lora_bias", true},
                                                {"modules_to_save", {"lm_head"}},
                                                {"init_lora_weights", "pissa"},
                                                {"init_lora_weights", "olora"},
                                                {"layer_replication", {{0, 4}, {2, 5}}},
                                                {"trainable_token_indices", {1, 2}},
                                                {"target_parameters", {"mlp.experts.gate_up_proj"}},
                                                {"alora_invocation_tokens", {5}},
                                                {"use_qalora", true},
                                                {"a_field_to_come", 1},
                                                {"rank_pattern", {{"q_proj", 0}}},
                                                {"rank_pattern", {{"q_proj", 2.5}}},
                                                {"rank_pattern", {{".*q_proj", 4}}},
                                                {"rank_pattern", 3},
                                                {"alpha_pattern", {{"(q|k)_proj", 4}}},
                                                {"alpha_pattern", {{"q_proj", "4"}}}};
  for (const auto& [field, value] : wrong) {
    json config = peft();
    config[field] = value;
    EXPECT_INPUT_ERROR(parse(config), std::string("c: ") + field);
  }
}

TEST(AdapterConfig, FieldsThatAreOffAreNoMatter) {
  json config = peft();
  config["a_field_to_come"] = nullptr;
  config["another"] = false;
  config["one_more"] = json::array();
  config["unsloth_version"] = "2026.1";
  config["init_lora_weights"] = "gaussian";
  EXPECT_TRUE(parse(config).ok());
}

TEST(AdapterConfig, Mlx) {
  const auto config = parse(mlx()).value();
  EXPECT_EQ(config.format, AdapterFormat::mlx);
  EXPECT_EQ(config.rank_of("any"), 8);
  EXPECT_EQ(config.scale_of("any"), 20.0);
  EXPECT_EQ(config.last_layers, 4);
  json all = mlx();
  all["num_layers"] = -1;
  all["lora_parameters"]["keys"] = nullptr;
  EXPECT_EQ(parse(all)->last_layers, 0);
  EXPECT_TRUE(parse(all)->keys.empty());
}

TEST(AdapterConfig, MlxRefusesByName) {
  const std::pair<const char*, json> outer[] = {
      {"fine_tune_type", "dora"}, {"fine_tune_type", "full"}, {"num_layers", nullptr},
      {"num_layers", -2},         {"num_layers", 1e9},        {"lora_parameters", 3}};
  for (const auto& [field, value] : outer) {
    json config = mlx();
    config[field] = value;
    EXPECT_INPUT_ERROR(parse(config), std::string("c: ") + field);
  }
  const std::pair<const char*, json> inner[] = {
      {"rank", 0},  {"rank", nullptr}, {"scale", nullptr}, {"scale", "x"},
      {"alpha", 8}, {"keys", 3},       {"keys", {1}},      {"keys", json::array()}};
  for (const auto& [field, value] : inner) {
    json config = mlx();
    config["lora_parameters"][field] = value;
    EXPECT_INPUT_ERROR(parse(config), std::string("c: lora_parameters: ") + field);
  }
}

TEST(AdapterConfig, WhatIsNone) {
  EXPECT_INPUT_ERROR(parse_adapter_config("", "c"), "c: not valid JSON");
  EXPECT_INPUT_ERROR(parse_adapter_config("[1]", "c"), "c: expected an object");
  EXPECT_INPUT_ERROR(parse_adapter_config("{}", "c"), "neither");
  EXPECT_INPUT_ERROR(parse_adapter_config(std::string(100000, '['), "c"), "c: not valid JSON");
}

TEST(AdapterFolder, NamesWhatIsMissing) {
  const TempFolder folder;
  EXPECT_INPUT_ERROR(checkpoint::open_adapter(folder / "none"), "no such folder");
  EXPECT_INPUT_ERROR(checkpoint::open_adapter(folder.path()), "adapter_config.json");
  folder.write("adapter_config.json", peft().dump());
  EXPECT_INPUT_ERROR(checkpoint::open_adapter(folder.path()), "adapter_model.safetensors");
  folder.write("adapter_model.bin", "pickle");
  EXPECT_INPUT_ERROR(checkpoint::open_adapter(folder.path()), "adapter_model.bin");
  folder.write("adapter_model.safetensors", "short");
  EXPECT_INPUT_ERROR(checkpoint::open_adapter(folder.path()), "too short");
  folder.write("adapter_model.safetensors", Bytes().u64(2).raw("{}").data);
  EXPECT_INPUT_ERROR(checkpoint::open_adapter(folder.path()), "no tensors");
  const std::string file = folder.write("adapter.gguf", "GGUF");
  EXPECT_INPUT_ERROR(checkpoint::open_adapter(file), "expected a folder");
}

// Another factor, another scale: another identity.
TEST(AdapterFolder, TheSumFollowsTheContent) {
  const TempFolder folder;
  const auto write = [&](float value, int alpha) {
    json config = peft();
    config["lora_alpha"] = alpha;
    folder.write("adapter_config.json", config.dump());
    const std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    folder.write("adapter_model.safetensors",
                 Bytes().u64(header.size()).raw(header).put(value).data);
    return checkpoint::open_adapter(folder.path())->sha256;
  };
  const std::string one = write(1.0f, 16);
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(write(1.0f, 16), one);
  EXPECT_NE(write(2.0f, 16), one);
  EXPECT_NE(write(1.0f, 8), one);
}

}  // namespace
}  // namespace ringkeep::testing
