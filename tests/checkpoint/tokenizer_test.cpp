#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"
#include "checkpoint/vocabulary.h"

namespace ringkeep::checkpoint {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using Merge = std::pair<std::string, std::string>;

json golden_json(const char* name) {
  return json::parse(testing::read_file(testing::golden(name)));
}

TEST(ByteAlphabet, IsABijectionOntoBytes) {
  // GPT-2's rule, restated: printable Latin-1 stands for itself, the rest follow from U+0100.
  std::string all, text;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool same =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const int code = same ? byte : next++;
    if (code < 0x80)
      text += static_cast<char>(code);
    else
      (text += static_cast<char>(0xc0 | code >> 6)) += static_cast<char>(0x80 | (code & 0x3f));
    all += static_cast<char>(byte);
  }
  EXPECT_EQ(raw_bytes(text), all);
  EXPECT_EQ(raw_bytes("a b"), "a b");  // a space is outside the alphabet: as it is
  EXPECT_EQ(raw_bytes("\xe2\x82\xac"), "\xe2\x82\xac");
  EXPECT_EQ(raw_bytes("\xc4"), "\xc4");  // cut short
}

TEST(TokenizerJson, ByteLevel) {
  const auto result = parse_tokenizer_json(testing::read_file(testing::golden("byte_level.json")));
  ASSERT_TRUE(result.ok()) << result.error().message;
  const TokenizerData& data = result.value();
  EXPECT_EQ(data.kind, TokenizerData::Kind::byte_bpe);
  EXPECT_EQ(data.pieces, (std::vector<std::string>{"a", " ", " a", "\xc3", "\xa9", "\xc3\xa9",
                                                   "<|begin|>", "<|im_end|>", "\xc3\xa9!"}));
  EXPECT_EQ(data.merges, (std::vector<Merge>{{" ", "a"}, {"\xc3", "\xa9"}}));
  EXPECT_EQ(data.types[6], TokenType::control);
  EXPECT_EQ(data.types[8], TokenType::user_defined);
  EXPECT_EQ(data.types[0], TokenType::normal);
  EXPECT_EQ(data.pre_patterns, (std::vector<std::string>{R"(\p{L}+|\s+)"}));
  EXPECT_TRUE(data.nfc);
  EXPECT_TRUE(data.ignore_merges);
  EXPECT_TRUE(data.add_bos);
  EXPECT_EQ(data.bos, 6);
  EXPECT_FALSE(data.add_eos);
  EXPECT_EQ(data.end_of_generation, (Ids{7}));
}

TEST(TokenizerJson, ByteFallback) {
  json source = golden_json("spm.json");
  for (const bool strings : {false, true}) {
    if (strings) source["model"]["merges"] = {"\u2581 a"};  // as older files write merges
    const auto result = parse_tokenizer_json(source.dump());
    ASSERT_TRUE(result.ok()) << result.error().message;
    const TokenizerData& data = result.value();
    EXPECT_EQ(data.kind, TokenizerData::Kind::spm_bpe);
    EXPECT_EQ(data.merges, (std::vector<Merge>{{"\u2581", "a"}}));
    EXPECT_EQ(data.pieces[6],
              "\u2581"
              "a");
    EXPECT_EQ(data.types[3], TokenType::byte);
    EXPECT_EQ(data.types[2], TokenType::control);
    EXPECT_TRUE(data.byte_fallback);
    EXPECT_TRUE(data.add_space_prefix);
    EXPECT_TRUE(data.add_bos);
    EXPECT_EQ(data.bos, 1);
    EXPECT_EQ(data.unk, 0);
  }
  source["normalizer"] = nullptr;
  source["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "never"}};
  EXPECT_FALSE(parse_tokenizer_json(source.dump()).value().add_space_prefix);
  source["pre_tokenizer"]["prepend_scheme"] = "first";
  EXPECT_TRUE(parse_tokenizer_json(source.dump()).value().add_space_prefix);
}

TEST(TokenizerJson, OtherKindsAreNoted) {
  const auto note = [](const json& source) {
    const auto result = parse_tokenizer_json(source.dump());
    EXPECT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result.value().kind, TokenizerData::Kind::none);
    EXPECT_TRUE(result.value().pieces.empty());
    return result.value().note;
  };
  json source = golden_json("byte_level.json");
  source["model"]["type"] = "Unigram";
  EXPECT_EQ(note(source), "tokenizer.json: model type \"Unigram\" is not supported; BPE is");
  source = golden_json("byte_level.json");
  source["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(note(source), "tokenizer.json: normalizer \"Lowercase\" is not supported");
}

TEST(TokenizerJsonRefuses, BrokenFiles) {
  const auto with = [](const std::function<void(json&)>& change) {
    json source = golden_json("byte_level.json");
    change(source);
    return parse_tokenizer_json(source.dump());
  };
  EXPECT_INPUT_ERROR(parse_tokenizer_json("{\"model\":"), "not valid JSON");
  EXPECT_INPUT_ERROR(parse_tokenizer_json("{}"), "model");
  EXPECT_INPUT_ERROR(with([](json& j) { j["model"]["vocab"]["a"] = -1; }), "token \"a\"");
  EXPECT_INPUT_ERROR(with([](json& j) { j["model"]["vocab"]["a"] = 200000000; }),
                     "ids up to 200000000");
  EXPECT_INPUT_ERROR(with([](json& j) { j["model"]["vocab"]["b"] = 0; }),
                     "two tokens have the id 0");
  EXPECT_INPUT_ERROR(with([](json& j) {
                       j["model"]["merges"].push_back({"a", "b", "c"});
                     }),
                     "merges[2]");
  EXPECT_INPUT_ERROR(with([](json& j) { j["model"]["merges"].push_back("a"); }), "merges[2]");
  EXPECT_INPUT_ERROR(with([](json& j) { j["added_tokens"][0].erase("id"); }), "added_tokens");
  EXPECT_INPUT_ERROR(with([](json& j) { j["model"].erase("merges"); }), "merges");
  const std::string text = testing::read_file(testing::golden("byte_level.json"));
  const size_t last = text.rfind('}');
  for (size_t size = 0; size <= last; ++size)
    EXPECT_FALSE(parse_tokenizer_json(text.substr(0, size)).ok()) << size;
}

TEST(HfTokenizerFolder, SpecialTokensAndTemplate) {
  testing::TempFolder folder;
  folder.write("config.json", R"({"model_type":"llama","hidden_size":8,"num_hidden_layers":1,
      "num_attention_heads":1,"vocab_size":9,"eos_token_id":5})");
  const auto read = [&] {
    auto opened = open(folder.path(), {.weights = false});
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(opened).value().tokenizer;
  };
  EXPECT_EQ(read().kind, TokenizerData::Kind::none);
  EXPECT_NE(read().note.find("no tokenizer.json"), std::string::npos);

  folder.write("tokenizer.json", testing::read_file(testing::golden("byte_level.json")));
  folder.write("tokenizer_config.json", R"({"add_bos_token":false,"bos_token":null,
      "eos_token":{"content":"<|im_end|>"},"pad_token":"a",
      "chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]})");
  folder.write("generation_config.json", R"({"eos_token_id":[7,4,900]})");
  const TokenizerData data = read();
  EXPECT_FALSE(data.add_bos);
  EXPECT_EQ(data.bos, 6);
  EXPECT_EQ(data.eos, 7);
  EXPECT_EQ(data.pad, 0);
  EXPECT_EQ(data.end_of_generation, (Ids{4, 5, 7}));
  EXPECT_EQ(data.chat_template, "D");
  folder.write("chat_template.jinja", "J");
  EXPECT_EQ(read().chat_template, "J");
  folder.write("generation_config.json", R"({"eos_token_id":"x"})");
  EXPECT_INPUT_ERROR(open(folder.path(), {.weights = false}), "eos_token_id: expected an id");
}

TEST(EndOfGeneration, HarmonyRepliesGoOnAfterEnd) {
  TokenizerData data;
  data.pieces = {"<|end|>", "<|return|>", "<|call|>", "x"};
  data.types.assign(4, TokenType::normal);
  collect_end_of_generation(data);
  EXPECT_EQ(data.end_of_generation, (Ids{1, 2}));
  EXPECT_EQ(data.types[1], TokenType::control);
  data.pieces[1] = "y";
  data.end_of_generation.clear();
  collect_end_of_generation(data);
  EXPECT_EQ(data.end_of_generation, (Ids{0, 2}));
}

}  // namespace
}  // namespace ringkeep::checkpoint
