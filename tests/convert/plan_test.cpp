// What a conversion will write, from headers alone: rules, stacked experts, shards, names.
#include "convert/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "convert/blocks.h"

namespace ringkeep::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kConfig = R"({"model_type": "llama", "torch_dtype": "bfloat16"})";

// A checkpoint of tensors in memory, in the order they are added.
class Source {
 public:
  Source() {
    checkpoint_.format = checkpoint::Format::safetensors;
    checkpoint_.path = "SRC";
    checkpoint_.config.family = "llama";
    storage_.reserve(1000);
  }
  Source& add(const std::string& name, std::vector<int64_t> shape, float value = 0.5f) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    storage_.emplace_back(size_t(elements), value);
    quant::SourceTensor tensor{.name = name, .type_name = "F32", .shape = std::move(shape)};
    tensor.data = reinterpret_cast<const std::byte*>(storage_.back().data());
    tensor.bytes = size_t(elements) * 4;
    tensor.file = int(storage_.size());
    checkpoint_.table.tensors[name] = tensor;
    return *this;
  }
  Result<Plan> plan(Options options = {}, const std::string& config = kConfig) {
    return make_plan(checkpoint_, config, options);
  }
  checkpoint::Checkpoint checkpoint_;

 private:
  std::vector<std::vector<float>> storage_;
};

const PlannedModule& find(const Plan& plan, const std::string& name) {
  for (const PlannedModule& planned : plan.modules)
    if (planned.module.name == name) return planned;
  ADD_FAILURE() << "no module " << name;
  return plan.modules.front();
}

TEST(Override, ReadsBitsGroupAndKeep) {
  EXPECT_EQ(Override::parse("a=b=6:32", 64)->setting(), (Setting{6, 32}));
  EXPECT_EQ(Override::parse("x=8", 128)->setting(), (Setting{8, 128}));
  EXPECT_TRUE(Override::parse("x=keep", 64)->setting().keep());
  EXPECT_TRUE(Override::parse("a=b=6:32", 64)->matches("is a=b"));
  const Override rule = *Override::parse(R"(layers\.(0|1)\..*_proj$=4)", 64);
  EXPECT_TRUE(rule.matches("model.layers.1.mlp.up_proj"));
  EXPECT_FALSE(rule.matches("model.layers.11.mlp.up_proj"));
  EXPECT_FALSE(rule.matches("model.layers.1.mlp.up_proj.extra"));
}

TEST(Override, RefusesWhatIsNone) {
  for (const char* text : {"", "=4", "x", "x=", "x=1", "x=7", "x=9", "x=4:", "x=4:16", "x=4:33",
                           "x=04x", "x=-4", "x=keep:64", "x=4:64:2", "[=4"}) {
    const auto rule = Override::parse(text, 64);
    ASSERT_FALSE(rule.ok()) << text;
    EXPECT_EQ(rule.error().kind, ErrorKind::usage);
    EXPECT_THAT(rule.error().message, HasSubstr("--override"));
  }
}

TEST(Override, AnExpressionThatExplodesDoesNotHang) {
  const Override rule = *Override::parse("^(a+)+$=4", 64);
  EXPECT_FALSE(rule.matches(std::string(200, 'a') + "b"));
}

TEST(Plan, DefaultsByKind) {
  Source source;
  source.add("model.embed_tokens.weight", {96, 64})
      .add("lm_head.weight", {96, 64})
      .add("model.layers.0.self_attn.q_proj.weight", {64, 64})
      .add("model.layers.0.self_attn.q_proj.bias", {64})
      .add("model.layers.0.mlp.gate.weight", {4, 64})
      .add("model.layers.0.mlp.gate_proj.weight", {64, 64})
      .add("model.layers.0.input_layernorm.weight", {64})
      .add("vision_tower.encoder.fc1.weight", {64, 64})
      .add("model.layers.0.self_attn.rotary_emb.inv_freq", {32});
  const Plan plan = *source.plan({.asked = {3, 32}});
  const auto setting = [&](const char* name) { return find(plan, name).setting; };
  EXPECT_EQ(setting("model.embed_tokens.weight"), (Setting{6, 32}));
  EXPECT_EQ(setting("lm_head.weight"), (Setting{6, 32}));
  EXPECT_EQ(setting("model.layers.0.self_attn.q_proj.weight"), (Setting{3, 32}));
  EXPECT_EQ(setting("model.layers.0.mlp.gate.weight"), (Setting{8, 64}));
  EXPECT_EQ(setting("model.layers.0.mlp.gate_proj.weight"), (Setting{3, 32}));
  for (const char* kept :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.0.input_layernorm.weight",
        "vision_tower.encoder.fc1.weight"}) {
    EXPECT_TRUE(setting(kept).keep()) << kept;
    EXPECT_EQ(find(plan, kept).type, quant::SourceType::bf16);
  }
  EXPECT_THAT(plan.left_out, ElementsAre("model.layers.0.self_attn.rotary_emb.inv_freq"));
  const Plan wide = *source.plan({.asked = {8, 32}});
  EXPECT_EQ(find(wide, "lm_head.weight").setting, (Setting{8, 32}));
}

TEST(Plan, EntriesHaveTheSizesOfMlx) {
  Source source;
  source.add("model.layers.0.mlp.up_proj.weight", {48, 128});
  const Plan plan = *source.plan({.asked = {3, 64}});
  const auto& entries = plan.modules[0].entries;
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(entries[0].type, "U32");
  EXPECT_THAT(entries[0].shape, ElementsAre(48, 12));
  EXPECT_EQ(entries[1].name, "model.layers.0.mlp.up_proj.scales");
  EXPECT_EQ(entries[1].type, "BF16");
  EXPECT_THAT(entries[2].shape, ElementsAre(48, 2));
  EXPECT_EQ(plan.bytes, size_t(48 * 12 * 4 + 2 * 48 * 2 * 2));
}

TEST(Plan, AHeadBesideTiedEmbeddingsIsLeftOut) {
  Source source;
  source.add("model.embed_tokens.weight", {96, 64}).add("lm_head.weight", {96, 64});
  source.checkpoint_.config.tied_embeddings = true;
  EXPECT_THAT(source.plan()->left_out, ElementsAre("lm_head.weight"));
}

TEST(Plan, ShardsAreFilledInOrderAndNeverCutAModule) {
  Source source;
  for (int i = 0; i < 10; ++i)
    source.add(fmt::format("model.layers.{}.mlp.up_proj.weight", i), {64 * (i % 4 + 1), 64});
  for (const int64_t limit : {1, 3000, 7000, 1 << 30}) {
    const Plan plan = *source.plan({.shard_bytes = limit});
    size_t next = 0;
    for (const Shard& shard : plan.shards) {
      EXPECT_EQ(shard.first, next);
      size_t bytes = 0;
      for (size_t i = shard.first; i < shard.last; ++i) bytes += plan.modules[i].bytes;
      EXPECT_EQ(bytes, shard.bytes);
      EXPECT_TRUE(bytes <= size_t(limit) || shard.last == shard.first + 1);
      if (shard.last < plan.modules.size()) {  // the next would not have fitted
        EXPECT_GT(bytes + plan.modules[shard.last].bytes, size_t(limit));
      }
      next = shard.last;
    }
    EXPECT_EQ(next, 10u);
  }
  EXPECT_EQ(source.plan({.shard_bytes = 1})->shards[9].file, "model-00010-of-00010.safetensors");
  EXPECT_EQ(source.plan()->shards[0].file, "model.safetensors");
}

// Each expert holds its own number, so that the order of the stack shows.
TEST(Experts, AreStackedUnderTheNamesOfMlxLm) {
  Source source;
  for (int e = 10; e >= 0; --e) {
    const std::string p = fmt::format("model.layers.0.block_sparse_moe.experts.{}.", e);
    source.add(p + "w1.weight", {2, 64}, float(e))
        .add(p + "w2.weight", {3, 32}, float(e) + 100)
        .add(p + "w3.weight", {2, 64}, float(e) + 200);
    source.add(fmt::format("model.layers.1.mlp.experts.{}.up_proj.weight", e), {2, 64});
  }
  const Plan plan = *source.plan({.asked = {8, 32}});
  ASSERT_EQ(plan.modules.size(), 4u);
  EXPECT_EQ(find(plan, "model.layers.1.mlp.switch_mlp.up_proj.weight").module.kind, Kind::experts);
  for (const auto& [part, rows, base] :
       {std::tuple{"gate_proj", 2, 0.0f}, {"down_proj", 3, 100.0f}, {"up_proj", 2, 200.0f}}) {
    const auto& planned =
        find(plan, fmt::format("model.layers.0.block_sparse_moe.switch_mlp.{}.weight", part));
    EXPECT_EQ(planned.module.shape[0], 11);
    EXPECT_EQ(planned.module.shape[1], rows);
    ASSERT_EQ(planned.module.parts.size(), 11u);
    for (int e = 0; e < 11; ++e)
      EXPECT_EQ(quant::to_floats(planned.module.parts[size_t(e)])[0], base + float(e));
  }
}

TEST(Experts, FusedGateAndUpOfGemmaAreCut) {
  Source source;
  source.add("model.layers.0.experts.gate_up_proj", {3, 4, 64})
      .add("model.layers.0.experts.down_proj", {3, 64, 32});
  auto& fused = source.checkpoint_.table.tensors["model.layers.0.experts.gate_up_proj"];
  auto* values = reinterpret_cast<float*>(const_cast<std::byte*>(fused.data));
  for (int i = 0; i < 3 * 4 * 64; ++i) values[i] = float(i / 64);  // the row's number
  const Plan plan = *source.plan({.asked = {8, 32}});
  const auto& up = find(plan, "model.layers.0.experts.switch_glu.up_proj.weight").module;
  const auto& gate = find(plan, "model.layers.0.experts.switch_glu.gate_proj.weight").module;
  EXPECT_THAT(up.shape, ElementsAre(3, 2, 64));
  for (int e = 0; e < 3; ++e) {
    EXPECT_EQ(quant::to_floats(gate.parts[size_t(e)])[0], float(4 * e));
    EXPECT_EQ(quant::to_floats(up.parts[size_t(e)])[64], float(4 * e + 3));
  }
}

TEST(Experts, GapsAndUnknownFormsAreTold) {
  const auto message = [](std::vector<std::pair<std::string, std::vector<int64_t>>> tensors) {
    Source source;
    for (auto& [name, shape] : tensors) source.add(name, shape);
    const auto plan = source.plan();
    EXPECT_FALSE(plan.ok());
    return plan.ok() ? std::string() : plan.error().message;
  };
  const std::string p = "model.layers.0.mlp.experts.";
  EXPECT_THAT(message({{p + "0.up_proj.weight", {2, 64}}, {p + "2.up_proj.weight", {2, 64}}}),
              HasSubstr("expected experts 0 to 2, found 2"));
  EXPECT_THAT(message({{p + "0.up_proj.weight", {2, 64}}, {p + "1.up_proj.weight", {3, 64}}}),
              HasSubstr("experts.1.up_proj.weight: expected the shape [2, 64]"));
  EXPECT_THAT(message({{p + "0.fc1.weight", {2, 64}}}), HasSubstr("no name in mlx-lm"));
  EXPECT_THAT(message({{p + "gate_up_proj", {2, 3, 64}}}), HasSubstr("do not halve"));
}

TEST(Experts, BlocksGoThroughThePartsInOrder) {
  Source source;
  for (int e = 0; e < 3; ++e)
    source.add(fmt::format("model.layers.0.mlp.experts.{}.up_proj.weight", e), {1500, 64},
               float(e));
  const Plan plan = *source.plan({.asked = {8, 32}});
  int64_t at = 0;
  for (const Block& block : blocks_of(plan.modules[0])) {
    EXPECT_EQ(block.at, at);
    EXPECT_EQ(block.at, int64_t(block.part) * 1500 + block.row0);
    at += block.rows;
  }
  EXPECT_EQ(at, 4500);
}

TEST(Config, NamesModulesAsMlxLmDoes) {
  EXPECT_EQ(mlx_name("model.layers.0.mlp", false), "model.layers.0.mlp");
  EXPECT_EQ(mlx_name("language_model.model.layers.0", false), "language_model.model.layers.0");
  EXPECT_EQ(mlx_name("model.language_model.layers.0.mlp", true),
            "language_model.model.layers.0.mlp");
  EXPECT_EQ(mlx_name("lm_head", true), "language_model.lm_head");
  EXPECT_EQ(mlx_name("model.vision_tower.fc1", true), "vision_tower.fc1");

  Source source;
  source.add("model.language_model.embed_tokens.weight", {96, 64})
      .add("model.language_model.layers.0.mlp.up_proj.weight", {64, 64});
  const Plan plan = *source.plan();
  const auto config = nlohmann::json::parse(
      *config_text(plan, R"({"z": 1e-06, "a": [1, 2.5], "rope_theta": 1000000.0})"));
  EXPECT_EQ(config["quantization"]["bits"], 4);
  EXPECT_EQ(config["quantization"]["mode"], "affine");
  for (const char* name :
       {"model.language_model.embed_tokens", "language_model.model.embed_tokens"}) {
    EXPECT_EQ(config["quantization"][name]["bits"], 6);
    EXPECT_EQ(config["quantization_config"][name]["group_size"], 64);
  }
  EXPECT_FALSE(config["quantization"].contains("model.language_model.layers.0.mlp.up_proj"));
  EXPECT_EQ(config["z"], 1e-06);
  EXPECT_FALSE(config_text(plan, R"({"x": Infinity})").ok());
}

TEST(Config, TypeIsStatedOrAsked) {
  Source source;
  source.add("model.norm.weight", {64});
  EXPECT_EQ(source.plan({}, R"({"dtype": "float16"})")->dtype, quant::SourceType::f16);
  EXPECT_EQ(source.plan({}, R"({"text_config": {"torch_dtype": "bfloat16"}})")->dtype,
            quant::SourceType::bf16);
  EXPECT_EQ(source.plan({}, "{}")->dtype, std::nullopt);
  const Plan plan = *source.plan({.dtype = quant::SourceType::f32}, R"({"dtype": "float16"})");
  EXPECT_EQ(plan.dtype, quant::SourceType::f32);
  EXPECT_THAT(*config_text(plan, R"({"dtype": "float16"})"), HasSubstr("float32"));
}

}  // namespace
}  // namespace ringkeep::convert
