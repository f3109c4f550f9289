// The demo model's tokenizer against llama.cpp. Needs the demo model (`demo`) in the cache folder.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "text/golden.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace ringkeep::text {
namespace {

using Ids = std::vector<int32_t>;

// Built once for all tests of this file.
const Tokenizer* demo() {
  static const std::unique_ptr<Tokenizer> tokenizer = [] {
    auto opened = checkpoint::open("demo", {.weights = false});
    if (!opened.ok()) {
      ADD_FAILURE() << "the demo model is needed: " << opened.error().message;
      return std::unique_ptr<Tokenizer>();
    }
    auto made = Tokenizer::create(std::move(opened->tokenizer));
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? std::move(made).value() : nullptr;
  }();
  return tokenizer.get();
}

TEST(DemoTokenizer, EncodesAsLlamaCppDoes) {
  ASSERT_TRUE(demo());
  const Json file = golden("demo_tokens.json");
  ASSERT_GE(file["lines"].size(), 200u);
  for (const Json& line : file["lines"]) {
    const std::string text = line["text"];
    EXPECT_EQ(demo()->encode(text), line["ids"].get<Ids>()) << line["text"];
    if (!line.contains("plain")) continue;
    const Ids plain = demo()->encode(text, {.add_special = false, .parse_special = false});
    EXPECT_EQ(plain, line["plain"].get<Ids>()) << line["text"];
    // U+2581 is how this vocabulary writes a space.
    if (text.find("▁") == std::string::npos) EXPECT_EQ(demo()->decode(plain), text);
  }
}

// A template writes BOS itself; a user may type it: one BOS either way.
TEST(DemoTokenizer, ExactlyOneBos) {
  ASSERT_TRUE(demo());
  const std::string chat = "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n";
  const Ids want = demo()->encode(chat);
  ASSERT_EQ(std::count(want.begin(), want.end(), demo()->data().bos), 1);
  EXPECT_EQ(demo()->encode("<bos>" + chat), want);
  EXPECT_EQ(demo()->encode("<bos>" + chat, {.add_special = false, .parse_special = true}), want);
  EXPECT_EQ(demo()->encode(chat, {.add_special = false, .parse_special = true}),
            Ids(want.begin() + 1, want.end()));
  EXPECT_TRUE(demo()->ends_generation(demo()->id_of("<end_of_turn>")));
}

// An emoji that the model writes byte by byte: 238 + byte.
TEST(DemoTokenizer, EmojiOfFourByteTokensIsShownWhole) {
  ASSERT_TRUE(demo());
  const Ids emoji = {478, 397, 390, 366};
  StreamDecoder decoder;
  std::string shown;
  for (size_t i = 0; i < emoji.size(); ++i) {
    const std::string bytes = demo()->bytes(emoji[i]);
    ASSERT_EQ(bytes.size(), 1u);
    shown += decoder.push(bytes);
    EXPECT_EQ(shown, i < 3 ? "" : "😀");
  }
  EXPECT_EQ(demo()->decode(emoji), "😀");
  // Cut after two of four: one replacement character, once.
  StreamDecoder cut;
  EXPECT_EQ(cut.push(demo()->bytes(478) + demo()->bytes(397)), "");
  EXPECT_EQ(cut.finish(), "\xEF\xBF\xBD");
}

// A stop string whose text the model writes in several tokens.
TEST(DemoTokenizer, NothingOfAStopStringIsShown) {
  ASSERT_TRUE(demo());
  const Ids ids = demo()->encode("The answer is 42.\n\nQuestion: next one?",
                                 {.add_special = false, .parse_special = false});
  StreamDecoder decoder({"\nQuestion:", "\nQuery:"});
  std::string shown;
  for (const int32_t id : ids) {
    shown += decoder.push(demo()->bytes(id));
    EXPECT_EQ(std::string("The answer is 42.\n").compare(0, shown.size(), shown), 0) << shown;
  }
  EXPECT_TRUE(decoder.stopped());
  EXPECT_EQ(shown + decoder.finish(), "The answer is 42.\n");
}

}  // namespace
}  // namespace ringkeep::text
