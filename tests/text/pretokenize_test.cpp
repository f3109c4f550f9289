#include "text/pretokenize.h"

#include <gtest/gtest.h>

#include "text/golden.h"

namespace ringkeep::text {
namespace {

std::vector<size_t> sizes(const PreTokenizer& pre, const std::string& text) {
  std::vector<std::string_view> pieces;
  pre.split(text, pieces);
  std::vector<size_t> sizes;
  std::string joined;
  for (const std::string_view piece : pieces) {
    sizes.push_back(piece.size());
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  return sizes;
}

// Against the pre-tokens of the `tokenizers` package: the patterns as a tokenizer.json has them,
// and ours where a name stands for them.
TEST(PreTokenizer, SplitsAsHuggingFaceDoes) {
  const Json file = golden("pre_tokens.json");
  for (const auto& [name, tokenizer] : file["tokenizers"].items()) {
    auto pre = PreTokenizer::create(tokenizer["patterns"].get<std::vector<std::string>>());
    ASSERT_TRUE(pre.ok()) << pre.error().message;
    auto patterns = named_patterns(name);
    ASSERT_TRUE(patterns.ok() || name.starts_with("custom")) << patterns.error().message;
    auto named = PreTokenizer::create(patterns.ok() ? *patterns : std::vector<std::string>{});
    for (size_t i = 0; i < file["lines"].size(); ++i) {
      const std::string line = file["lines"][i];
      const auto want = tokenizer["sizes"][i].get<std::vector<size_t>>();
      EXPECT_EQ(sizes(*pre, line), want) << name << ", line " << i << ": " << line;
      if (patterns.ok()) {
        EXPECT_EQ(sizes(*named, line), want) << name << ", line " << i;
      }
    }
  }
}

TEST(PreTokenizer, LongRunsAreOnePiece) {
  const std::string letters(1 << 20, 'a'), spaces(1 << 20, ' ');
  for (const char* name : {"gpt-2", "llama-bpe", "qwen2", "gpt-4o", "tekken", "deepseek-v3"}) {
    auto pre = PreTokenizer::create(*named_patterns(name));
    ASSERT_TRUE(pre.ok()) << pre.error().message;
    EXPECT_EQ(sizes(*pre, letters), (std::vector<size_t>{letters.size()})) << name;
    EXPECT_EQ(sizes(*pre, spaces), (std::vector<size_t>{spaces.size()})) << name;
    // The last space goes with what follows, or stands alone before a digit.
    EXPECT_EQ(sizes(*pre, spaces + "x"), (std::vector<size_t>{spaces.size() - 1, 2})) << name;
  }
}

TEST(PreTokenizer, PatternBeyondTheLimitsLeavesOnePiece) {
  auto pre = PreTokenizer::create({"(?:a|aa)+(?:a|aa)+(?:a|aa)+$"});
  ASSERT_TRUE(pre.ok()) << pre.error().message;
  const std::string text = std::string(60, 'a') + "b";
  EXPECT_EQ(sizes(*pre, text), (std::vector<size_t>{text.size()}));
}

TEST(PreTokenizer, BadPatternIsAnError) {
  auto pre = PreTokenizer::create({"a", "(b"});
  ASSERT_FALSE(pre.ok());
  EXPECT_EQ(pre.error().kind, ErrorKind::input);
  EXPECT_NE(pre.error().message.find("'(b'"), std::string::npos) << pre.error().message;
}

TEST(PreTokenizer, UnknownNameIsAnErrorThatNamesTheKnownOnes) {
  auto patterns = named_patterns("no-such");
  ASSERT_FALSE(patterns.ok());
  EXPECT_NE(patterns.error().message.find("'no-such'"), std::string::npos);
  EXPECT_NE(patterns.error().message.find("llama-bpe"), std::string::npos);
}

}  // namespace
}  // namespace ringkeep::text
