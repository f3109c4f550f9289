// Saved caches in one process: restored state is the state that was saved, and nothing else passes.
#include "engine/saved_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "engine/tiny_engine.h"

namespace ringkeep::engine::testing {
namespace {

using ::testing::HasSubstr;

CacheFlags flags_of(const char* bits, int64_t start = 0, int64_t size = 0, int64_t keep = 0) {
  CacheFlags flags;
  flags.kv_bits = bits;
  flags.quantized_kv_start = start;
  flags.max_kv_size = size;
  flags.keep = keep;
  flags.ctx = size > 0 ? 0 : 1024;
  flags.prefix_cache_bytes = -1;
  return flags;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Logits of everything after the restored rows are those of the run that saved them, bit for bit.
TEST(SavedState, GoesOnBitForBit) {
  const TinyModel model;
  const std::string path = model.file("saved");
  CacheFlags hot = flags_of("3"), cold = flags_of("4", 100);
  hot.kv_hot = "f16";
  cold.kv_hot = "none";
  for (const CacheFlags& flags :
       {flags_of("f16"), flags_of("8"), flags_of("K5V3"), flags_of("affine2:16"),
        flags_of("full=4+sliding=6"), flags_of("4", 100), flags_of("4", 2000),
        flags_of("4", 0, 90, 20), flags_of("3", 40, 90, 20), hot, cold}) {
    SCOPED_TRACE(
        fmt::format("{} {} {}", flags.kv_bits, flags.quantized_kv_start, flags.max_kv_size));
    for (const size_t length : {20u, 150u, 200u}) {
      const std::vector<int32_t> prompt = random_tokens(length, 4);
      TinyEngine first(model, flags), second(model, flags);
      const Reply reply = first.run(TinyEngine::request(prompt));
      const std::vector<int32_t> all = joined(prompt, reply.tokens);
      first->save_cache(all, path).value();
      const LoadedCache loaded = second->load_cache(path).value();
      EXPECT_EQ(loaded.length, static_cast<int64_t>(all.size()) - 1);
      const auto turn = TinyEngine::request(joined(all, random_tokens(25, 6)));
      const Reply next = second.run(turn);
      EXPECT_EQ(next.stats.cached_tokens, loaded.length);
      EXPECT_EQ(next, first.run(turn));
      CacheFlags fresh = flags;
      fresh.prefix_cache_bytes = 0;
      EXPECT_EQ(next, TinyEngine(model, fresh).run(turn));
    }
  }
}

class SavedFile : public ::testing::Test {
 protected:
  SavedFile() {
    TinyEngine engine(model_, flags_of("4"));
    const auto prompt = random_tokens(100, 4);
    const Reply reply = engine.run(TinyEngine::request(prompt));
    engine->save_cache(joined(prompt, reply.tokens), path_).value();
  }
  Error load(const CacheFlags& flags, const TinyModel& model) {
    TinyEngine engine(model, flags);
    const auto loaded = engine->load_cache(path_);
    EXPECT_FALSE(loaded.ok());
    EXPECT_EQ(engine->store().bytes_used(), 0u);  // nothing stays behind
    return loaded.ok() ? Error{} : loaded.error();
  }
  TinyModel model_;
  const std::string path_ = model_.file("saved");
};

TEST_F(SavedFile, WhatDiffersIsNamed) {
  EXPECT_THAT(load(flags_of("8"), model_).message, HasSubstr("layer 0: codec of K"));
  EXPECT_THAT(load(flags_of("full=8+sliding=4"), model_).message, HasSubstr("layer 1: codec of K"));
  EXPECT_THAT(load(flags_of("4", 50), model_).message, HasSubstr("quantized_kv_start"));
  EXPECT_THAT(load(flags_of("4", 0, 200), model_).message, HasSubstr("max_kv_size"));
  CacheFlags small = flags_of("4");
  small.ctx = 64;
  EXPECT_THAT(load(small, model_).message, HasSubstr("--ctx"));
  small = flags_of("4");
  small.prefix_cache_bytes = 100;
  EXPECT_THAT(load(small, model_).message, HasSubstr("--prefix-cache-bytes"));
  const TinyModel other(2);
  const Error error = load(flags_of("4"), other);
  EXPECT_THAT(error.message, HasSubstr("saved: model: this run has gemma3, 4 layers"));
  EXPECT_EQ(error.kind, ErrorKind::refused);
}

TEST_F(SavedFile, CutOrChangedAnywhereIsAnError) {
  std::string bytes = read_text_file(path_, 1 << 24).value();
  const auto accepted = [](const std::string& text) {
    const auto span = std::as_bytes(std::span(text));
    const auto state = parse_saved_state(span, "file");
    return state.ok() && check_saved_state_sum(span, "file").ok();
  };
  ASSERT_TRUE(accepted(bytes));
  for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 200)
    EXPECT_FALSE(accepted(bytes.substr(0, size))) << size;
  for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 200) {
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_FALSE(accepted(bytes)) << at;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
  }
}

}  // namespace
}  // namespace ringkeep::engine::testing
