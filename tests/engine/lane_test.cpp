// Lanes over one model take turns without touching one another: each gives the logits of an engine
// of its own.
#include "engine/lane.h"

#include <gtest/gtest.h>

#include "kernels/select/select.h"
#include "models/tiny_model.h"

namespace ringkeep::engine {
namespace {

using ringkeep::testing::kVocab;

constexpr int64_t kTokens = 150;  // the window of 32 wraps

struct Setting {
  std::string codec;
  bool exact = false;
};

class Lanes : public ::testing::TestWithParam<bool> {  // Gemma (q and k norms) or Llama
 protected:
  void SetUp() override {
    for (int32_t i = 0; i < kTokens; ++i) tokens_.push_back((i * 31 + 7) % kVocab);
  }
  static CacheFlags flags_of(const Setting& setting) {
    CacheFlags flags;
    flags.kv_bits = setting.codec;
    flags.chunk = 64;
    flags.ctx = 256;
    flags.parallel = 2;
    return flags;
  }
  std::unique_ptr<Engine> load(const Setting& setting) {
    // Quantized weights: dense ones are multiplied exactly in either mode.
    auto engine = Engine::load(
        model_.open(),
        {.cache = flags_of(setting), .exact = setting.exact, .weight_bits = 8, .weight_group = 32},
        ops_, *device_);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return std::move(engine).value();
  }
  std::vector<float> engine_logits(Engine& engine) {
    std::vector<float> all;
    EXPECT_TRUE(engine
                    .logits(tokens_, 64, 0, kTokens,
                            [&](int64_t, std::span<const float> row) {
                              all.insert(all.end(), row.begin(), row.end());
                            })
                    .ok());
    return all;
  }

  ringkeep::testing::TinyModel model_{
      {.layers = ringkeep::testing::hybrid_layers(3, 3), .gemma = GetParam()}};
  std::unique_ptr<kernels::Device> device_ = kernels::make_cpu_device(2);
  kernels::Ops ops_ = kernels::cpu_backend();
  std::vector<int32_t> tokens_;
};

TEST_P(Lanes, TakeTurnsAndGiveWhatEnginesOfTheirOwnGive) {
  const std::vector<Setting> settings = {
      {"f16"}, {"4"}, {"f16", true}, {"full=8+sliding=f16"}, {"affine4:64"}, {"4", true}};
  const auto engine = load({"8"});
  const auto own = engine_logits(*engine);
  struct Track {
    std::unique_ptr<Lane> lane;
    kv::SequenceId sequence = 0;
    std::vector<float> logits;
  };
  std::vector<Track> tracks;
  for (const Setting& setting : settings) {
    auto lane = Lane::create(*engine, flags_of(setting), setting.exact);
    ASSERT_TRUE(lane.ok()) << lane.error().message;
    tracks.push_back({std::move(*lane)});
    tracks.back().sequence = tracks.back().lane->open().value();
  }
  for (int64_t at = 0; at < kTokens; at += 30)
    for (Track& track : tracks) {
      const auto collect = [&](int64_t, int64_t rows, const float* logits) {
        track.logits.insert(track.logits.end(), logits, logits + rows * kVocab);
      };
      const std::span<const int32_t> part(tokens_.data() + at, 30);
      ASSERT_TRUE(track.lane->extend(track.sequence, part, 30, collect).ok());
      // A fork goes its own way and leaves the sequence alone.
      const auto fork = track.lane->fork(track.sequence).value();
      const std::vector<int32_t> other = {5, 6, 7};
      int64_t seen = 0;
      const auto count = [&](int64_t first, int64_t rows, const float*) {
        EXPECT_EQ(first, 2);
        seen += rows;
      };
      ASSERT_TRUE(track.lane->extend(fork, other, 1, count).ok());
      EXPECT_EQ(seen, 1);
      track.lane->close(fork);
    }
  for (size_t i = 0; i < settings.size(); ++i)
    EXPECT_EQ(tracks[i].logits, engine_logits(*load(settings[i])))
        << settings[i].codec << (settings[i].exact ? " exact" : "");
  EXPECT_NE(tracks[0].logits, tracks[1].logits);
  EXPECT_NE(tracks[0].logits, tracks[2].logits);
  EXPECT_EQ(engine_logits(*engine), own);  // the engine's own cache and settings are as before
}

TEST_P(Lanes, AFullSequenceIsAnErrorThatSaysSo) {
  const auto engine = load({"f16"});
  const auto lane = Lane::create(*engine, flags_of({"8"}), false).value();
  const auto sequence = lane->open().value();
  const std::vector<int32_t> tokens(257, 3);
  const Status status = lane->extend(sequence, tokens, 0, nullptr);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::runtime);
  CacheFlags refused = flags_of({"8"});
  refused.max_kv_size = refused.keep = 16;
  EXPECT_EQ(Lane::create(*engine, refused, false).error().kind, ErrorKind::refused);
}

INSTANTIATE_TEST_SUITE_P(Families, Lanes, ::testing::Bool(),
                         [](const auto& family) { return family.param ? "gemma3" : "llama"; });

}  // namespace
}  // namespace ringkeep::engine
