// Switching the cache of a loaded engine leaves nothing of the earlier one behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "kernels/select/select.h"
#include "models/tiny_model.h"

namespace ringkeep::engine {
namespace {

using ::testing::HasSubstr;

class SetCache : public ::testing::TestWithParam<bool> {  // Gemma (q and k norms) or Llama
 protected:
  std::unique_ptr<Engine> load(const CacheFlags& flags) {
    auto engine = Engine::load(model_.open(), {.cache = flags}, ops_, *device_);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return std::move(engine).value();
  }

  static std::vector<float> logits(Engine& engine) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 100; ++i) tokens.push_back((i * 31 + 7) % ringkeep::testing::kVocab);
    std::vector<float> all;
    const Status status =
        engine.logits(tokens, 40, 0, 100, [&](int64_t, std::span<const float> row) {
          all.insert(all.end(), row.begin(), row.end());
        });
    EXPECT_TRUE(status.ok()) << status.error().message;
    return all;
  }

  static CacheFlags flags_of(const std::string& codec) {
    CacheFlags flags;
    flags.kv_bits = codec;
    flags.kv_hot = "none";  // the text would fit into the hot pages
    flags.chunk = 64;
    return flags;
  }

  ringkeep::testing::TinyModel model_{
      {.layers = ringkeep::testing::hybrid_layers(3, 3), .gemma = GetParam()}};
  std::unique_ptr<kernels::Device> device_ = kernels::make_cpu_device(1);
  kernels::Ops ops_ = kernels::cpu_backend();
};

TEST_P(SetCache, LogitsAreThoseOfAFreshEngine) {
  std::vector<CacheFlags> all;
  for (const char* codec : {"4", "f16", "K8V4", "affine4:64", "full=3+sliding=8"})
    all.push_back(flags_of(codec));
  all.push_back(flags_of("8"));
  all.back().max_kv_size = 48;
  all.back().keep = 4;
  std::vector<std::vector<float>> fresh;
  for (const CacheFlags& flags : all) fresh.push_back(logits(*load(flags)));
  for (size_t i = 1; i < fresh.size(); ++i) EXPECT_NE(fresh[i], fresh[0]) << all[i].kv_bits;

  const auto engine = load(all[0]);
  for (const size_t i : {1, 0, 2, 1, 3, 5, 4, 0}) {
    const Status status = engine->set_cache(all[i]);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(logits(*engine), fresh[i]) << all[i].kv_bits;
  }
}

TEST_P(SetCache, FailuresLeaveTheCacheAsItWas) {
  const auto engine = load(flags_of("4"));
  const auto before = logits(*engine);
  const auto error_of = [&](const CacheFlags& flags) {
    const Status status = engine->set_cache(flags);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(logits(*engine), before);
    return status.ok() ? Error{} : status.error();
  };
  EXPECT_EQ(error_of(flags_of("7")).kind, ErrorKind::usage);
  CacheFlags refused = flags_of("8");
  refused.max_kv_size = refused.keep = 16;
  EXPECT_EQ(error_of(refused).kind, ErrorKind::refused);
  CacheFlags larger = flags_of("8");
  larger.chunk = 65;
  EXPECT_THAT(error_of(larger).message, HasSubstr("65 rows"));

  ASSERT_TRUE(engine->submit({.tokens = {1, 2, 3}, .max_tokens = 4}).ok());
  EXPECT_EQ(engine->set_cache(flags_of("8")).error().kind, ErrorKind::usage);
  while (!engine->idle()) engine->step();
  EXPECT_TRUE(engine->set_cache(flags_of("8")).ok());
}

INSTANTIATE_TEST_SUITE_P(Families, SetCache, ::testing::Bool(),
                         [](const auto& family) { return family.param ? "gemma3" : "llama"; });

}  // namespace
}  // namespace ringkeep::engine
