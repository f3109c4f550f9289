// A mixture of experts in ragged batches: a sequence's logits do not know about the others, though
// their rows share experts; and a step reads the experts of its rows alone.
#include <gtest/gtest.h>

#include "ragged_batch.h"
#include "random_tensors.h"

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
    RandomTensors tensors(3);
    const auto biased = [&](const std::string& name, int rows, int cols) {
      tensors.matrix(name, rows, cols);
      tensors.add(name + ".bias", {rows}, 0.0f, 0.1f);
    };
    tensors.add("model.embed_tokens.weight", {kVocab, kHidden}, 0.0f, 0.5f);
    for (int i = 0; i < kLayers; ++i) {
      const std::string p = fmt::format("model.layers.{}.", i);
      biased(p + "self_attn.q_proj", kHeads * 64, kHidden);
      biased(p + "self_attn.k_proj", kKvHeads * 64, kHidden);
      biased(p + "self_attn.v_proj", kKvHeads * 64, kHidden);
      biased(p + "self_attn.o_proj", kHidden, kHeads * 64);
      tensors.add(p + "self_attn.sinks", {kHeads}, 0.0f, 1.0f);
      biased(p + "mlp.router", kExperts, kHidden);
      tensors.add(p + "mlp.experts.gate_up_proj", {kExperts, kHidden, 2 * kWidth}, 0.0f, 0.3f);
      tensors.add(p + "mlp.experts.gate_up_proj_bias", {kExperts, 2 * kWidth}, 0.0f, 0.1f);
      tensors.add(p + "mlp.experts.down_proj", {kExperts, kWidth, kHidden}, 0.0f, 0.1f);
      tensors.add(p + "mlp.experts.down_proj_bias", {kExperts, kHidden}, 0.0f, 0.1f);
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
        tensors.add(p + norm + ".weight", {kHidden}, 1.0f, 0.1f);
    }
    tensors.add("model.norm.weight", {kHidden}, 1.0f, 0.1f);
    tensors.add("lm_head.weight", {kVocab, kHidden}, 0.0f, 0.2f);
    tensors.write(folder_);
  }

  TempFolder folder_;
};

TEST(Experts, RaggedBatchEqualsSingleRuns) {
  const TinyGptOss tiny;
  expect_ragged_batch_equals_single_runs([&] { return tiny.open(); });
}

TEST(Experts, AStepReadsThoseOfItsRows) {
  const TinyGptOss tiny;
  Runner runner(tiny.open(), two_sequences("8"), 2);
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
