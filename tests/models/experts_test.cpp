// A mixture of experts in ragged batches: a sequence's logits do not know about the others, though
// their rows share experts; and a step reads the experts of its rows alone.
#include <gtest/gtest.h>

#include "runner.h"

namespace ringkeep::testing {
namespace {

constexpr int kLayers = 4, kExperts = 8, kUsed = 2, kWidth = 32, kWindow = 40;

// A tiny random GPT-OSS as Hugging Face writes dense ones: windows, sinks, biases.
class TinyGptOss {
 public:
  TinyGptOss() {
    const nlohmann::json config = {
        {"model_type", "gpt_oss"},
        {"vocab_size", kVocab},
        {"hidden_size", kHidden},
        {"intermediate_size", kWidth},
        {"num_hidden_layers", kLayers},
        {"num_attention_heads", kHeads},
        {"num_key_value_heads", kKvHeads},
        {"head_dim", 64},
        {"num_local_experts", kExperts},
        {"num_experts_per_tok", kUsed},
        {"sliding_window", kWindow},
        {"rope_scaling",
         {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}}}};
    folder_.write("config.json", config.dump());
    write_weights();
  }
  checkpoint::Checkpoint open() const {
    return checkpoint::open(folder_.path(), {.tokenizer = false}).value();
  }

 private:
  void write_weights() const {
    std::mt19937 random(3);
    nlohmann::ordered_json header;
    std::string data;
    const auto add = [&](const std::string& name, std::vector<int> shape, float mean, float width) {
      std::normal_distribution<float> normal(mean, width);
      size_t count = 1;
      for (const int extent : shape) count *= static_cast<size_t>(extent);
      Bytes bytes;
      for (size_t i = 0; i < count; ++i) bytes.put(normal(random));
      header[name] = {{"dtype", "F32"},
                      {"shape", shape},
                      {"data_offsets", {data.size(), data.size() + bytes.data.size()}}};
      data += bytes.data;
    };
    const auto biased = [&](const std::string& name, int rows, int cols) {
      add(name + ".weight", {rows, cols}, 0.0f, 1.0f / std::sqrt(static_cast<float>(cols)));
      add(name + ".bias", {rows}, 0.0f, 0.1f);
    };
    add("model.embed_tokens.weight", {kVocab, kHidden}, 0.0f, 0.5f);
    for (int i = 0; i < kLayers; ++i) {
      const std::string p = fmt::format("model.layers.{}.", i);
      biased(p + "self_attn.q_proj", kHeads * 64, kHidden);
      biased(p + "self_attn.k_proj", kKvHeads * 64, kHidden);
      biased(p + "self_attn.v_proj", kKvHeads * 64, kHidden);
      biased(p + "self_attn.o_proj", kHidden, kHeads * 64);
      add(p + "self_attn.sinks", {kHeads}, 0.0f, 1.0f);
      biased(p + "mlp.router", kExperts, kHidden);
      add(p + "mlp.experts.gate_up_proj", {kExperts, kHidden, 2 * kWidth}, 0.0f, 0.3f);
      add(p + "mlp.experts.gate_up_proj_bias", {kExperts, 2 * kWidth}, 0.0f, 0.1f);
      add(p + "mlp.experts.down_proj", {kExperts, kWidth, kHidden}, 0.0f, 0.1f);
      add(p + "mlp.experts.down_proj_bias", {kExperts, kHidden}, 0.0f, 0.1f);
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
        add(p + norm + ".weight", {kHidden}, 1.0f, 0.1f);
    }
    add("model.norm.weight", {kHidden}, 1.0f, 0.1f);
    add("lm_head.weight", {kVocab, kHidden}, 0.0f, 0.2f);
    const std::string text = header.dump();
    folder_.write("model.safetensors", Bytes().u64(text.size()).raw(text).raw(data).data);
  }

  TempFolder folder_;
};

CacheFlags flags_of(const char* codec) {
  CacheFlags flags;
  flags.kv_bits = codec;
  flags.ctx = 512;
  flags.chunk = 128;
  flags.parallel = 2;
  return flags;
}

TEST(Experts, RaggedBatchEqualsSingleRuns) {
  const TinyGptOss tiny;
  for (const char* codec : {"f16", "8", "4"}) {
    std::mt19937 random(5);
    const Tokens a = random_tokens(5 + 60, random), b = random_tokens(117 + 60, random);
    Runner batch(tiny.open(), flags_of(codec), 2), single(tiny.open(), flags_of(codec));
    const auto first = batch.store().open().value(), second = batch.store().open().value();
    Logits of_a = batch.feed(first, std::span(a).first(5), 128);
    Logits of_b = batch.feed(second, std::span(b).first(117), 128);
    for (size_t step = 0; step < 60; step += 3) {
      const auto rows = batch.append({{first, std::span(a).subspan(5 + step, 3)},
                                      {second, std::span(b).subspan(117 + step, 3)}});
      of_a.insert(of_a.end(), rows.begin(), rows.begin() + 3);
      of_b.insert(of_b.end(), rows.begin() + 3, rows.end());
      batch.commit(first, 3);
      batch.commit(second, 3);
    }
    EXPECT_TRUE(of_a == single.feed(single.store().open().value(), a, 17)) << codec;
    EXPECT_TRUE(of_b == single.feed(single.store().open().value(), b, 17)) << codec;
  }
}

TEST(Experts, AStepReadsThoseOfItsRows) {
  const TinyGptOss tiny;
  Runner runner(tiny.open(), flags_of("8"), 2);
  const auto sequence = runner.store().open().value();
  std::mt19937 random(6);
  const Tokens tokens = random_tokens(100, random);
  const int64_t one = int64_t{kLayers} * 3 * kWidth * kHidden * 4;  // an expert of each layer
  runner.feed(sequence, std::span(tokens).first(96), 96);
  EXPECT_GT(runner.exec().grouped_bytes, one * kUsed);  // rows of a prompt share some
  EXPECT_LE(runner.exec().grouped_bytes, one * kExperts);
  for (size_t i = 96; i < 100; ++i) {
    const int64_t before = runner.exec().grouped_bytes;
    runner.feed(sequence, std::span(tokens).subspan(i, 1), 1);
    EXPECT_EQ(runner.exec().grouped_bytes - before, one * kUsed);
  }
}

}  // namespace
}  // namespace ringkeep::testing
