// A mixture of experts in ragged batches: a sequence's logits do not know about the others, though
// their rows share experts; and a step reads the experts of its rows alone.
#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "kernels/api/host_weights.h"
#include "ragged_batch.h"
#include "random_tensors.h"
#include "weights/expert_memory.h"

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

constexpr size_t kExpertBytes = 3 * kWidth * kHidden * sizeof(float);

weights::PackOptions holding(size_t experts) { return {.expert_memory = experts * kExpertBytes}; }

// Held or from the file, one slot for all or one for each: the logits are the same.
TEST(Experts, SameBitsWhateverIsHeld) {
  const TinyGptOss tiny;
  std::mt19937 random(7);
  const Tokens tokens = random_tokens(150, random);
  Runner all(tiny.open(), two_sequences("8"), 2);
  const Logits expected = all.feed(all.store().open().value(), tokens, 50);
  EXPECT_EQ(all.model().weights().expert_cache, nullptr);
  for (const size_t slots : {1, 3, 7, kLayers * kExperts}) {
    Runner some(tiny.open(), two_sequences("8"), 2, holding(slots));
    const auto* cache = some.model().weights().expert_cache.get();
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(cache->slots(), static_cast<int64_t>(slots));
    EXPECT_EQ(cache->bytes(), slots * kExpertBytes);
    EXPECT_EQ(some.model().weights().packed_bytes, all.model().weights().packed_bytes);
    EXPECT_EQ(some.model().weights().expert_bytes, all.model().weights().expert_bytes);
    EXPECT_TRUE(some.feed(some.store().open().value(), tokens, 50) == expected) << slots;
    // A second time, with what is left from the first, row by row.
    EXPECT_TRUE(some.feed(some.store().open().value(), tokens, 1) == expected) << slots;
  }
}

TEST(Experts, RaggedBatchOfExpertsFromTheFile) {
  const TinyGptOss tiny;
  expect_ragged_batch_equals_single_runs([&] { return tiny.open(); }, holding(2));
}

std::atomic<int> packs_left;  // until packing finds no memory

void scarce_pack_rows(std::byte* data, int64_t rows, int64_t cols, int64_t row0,
                      const quant::WeightRows& in) {
  if (packs_left-- == 0) throw std::bad_alloc();
  kernels::host_pack_rows(data, rows, cols, row0, in);
}

// Whatever ends a step among experts that come from the file, those held afterwards are right.
TEST(Experts, AStepThatFailsLeavesTheRightOnes) {
  const TinyGptOss tiny;
  std::mt19937 random(10);
  const Tokens tokens = random_tokens(100, random);
  Runner all(tiny.open(), two_sequences("8")), some(tiny.open(), two_sequences("8"), 2, holding(5));
  const Logits expected = all.feed(all.store().open().value(), tokens, 1);
  const auto sequence = some.store().open().value();
  some.ops().pack_rows = scarce_pack_rows;
  Logits found;
  int failed = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = std::span(tokens).subspan(i, 1);
    int beats_left = i % 2 == 0 ? static_cast<int>(i / 2 % 12) : -1;  // one for each layer and load
    packs_left = i % 2 == 1 ? static_cast<int>(i / 2 % 30) : -1;
    some.model().set_heartbeat([&] {
      if (beats_left-- == 0) throw std::bad_alloc();
    });
    try {
      some.append({{sequence, row}});
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    some.abort(sequence);
    some.model().set_heartbeat({});
    packs_left = -1;
    found.push_back(some.feed(sequence, row, 1).front());
  }
  EXPECT_GT(failed, 40);
  EXPECT_LT(failed, 100);
  EXPECT_TRUE(found == expected);
}

// What is packed from the file: everything in every step where a layer's experts do not stay until
// they come again, and each expert once where all fit. An expert counts in each step that has rows
// for it.
TEST(Experts, LoadsWhatIsNotHeld) {
  const TinyGptOss tiny;
  std::mt19937 random(9);
  const Tokens tokens = random_tokens(40, random);
  for (const size_t slots : {kUsed, kUsed * kLayers, kLayers * kExperts}) {
    Runner some(tiny.open(), two_sequences("8"), 1, holding(slots));
    const auto& stats = some.model().weights().expert_cache->stats();
    const auto sequence = some.store().open().value();
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto before = stats;
      some.feed(sequence, std::span(tokens).subspan(i, 1), 1);
      EXPECT_EQ(stats.hits + stats.loads - before.hits - before.loads, kUsed * kLayers);
      if (slots == kUsed || i == 0) {
        EXPECT_EQ(stats.hits, 0);
      }
    }
    EXPECT_EQ(stats.loaded_bytes, stats.loads * static_cast<int64_t>(kExpertBytes));
    if (slots == kUsed * kLayers) {
      EXPECT_GT(stats.hits, 0);  // the last token's experts are there for the next
    }
    if (slots == kLayers * kExperts) {
      EXPECT_LE(stats.loads, static_cast<int64_t>(slots));
    }
  }
}

TEST(Experts, MemoryOfThem) {
  weights::PackedBytes bytes;
  bytes.all = 1100;
  bytes.experts = 1000;
  bytes.largest_expert = 10;
  const auto choose = [&](std::optional<size_t> asked, size_t others,
                          std::optional<size_t> available) {
    return weights::expert_memory(bytes, 4, asked, others, available);
  };
  EXPECT_EQ(choose(SIZE_MAX, 0, 1).value(), SIZE_MAX);
  EXPECT_EQ(choose(999, 0, 0).value(), 999u);
  EXPECT_EQ(choose(1000, 0, 0).value(), SIZE_MAX);
  EXPECT_EQ(choose(10, 0, 0).value(), 10u);
  const auto few = choose(9, 0, 0);
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.error().kind, ErrorKind::usage);
  EXPECT_NE(few.error().message.find("at least 10 bytes"), std::string::npos);
  EXPECT_EQ(choose({}, 0, {}).value(), SIZE_MAX);  // nothing is known
  EXPECT_EQ(choose({}, 0, 0).value(), 40u);        // nothing is left: those of a token
  EXPECT_EQ(choose({}, 700, 2000).value(), SIZE_MAX);
  EXPECT_EQ(choose({}, 701, 2000).value(), 999u);
  EXPECT_EQ(choose({}, 1701, 2000).value(), 40u);
  EXPECT_EQ(weights::held_expert_bytes(bytes, SIZE_MAX), 1000u);
  EXPECT_EQ(weights::held_expert_bytes(bytes, 999), 990u);
  bytes.experts = 0;
  EXPECT_EQ(choose({}, 0, 1).value(), SIZE_MAX);
  EXPECT_EQ(choose(SIZE_MAX, 0, 1).value(), SIZE_MAX);
  EXPECT_NE(choose(5000, 0, 0).error().message.find("no experts"), std::string::npos);
}

}  // namespace
}  // namespace ringkeep::testing
