#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <sstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"

namespace ringkeep::checkpoint {
namespace {

using testing::add_tensor;
using testing::Bytes;
using testing::gguf_header;
using testing::TestTensor;

Result<GgufFile> parse(const Bytes& bytes) { return GgufFile::parse(bytes.span(), "t.gguf"); }

// One u32 value, one array of strings, two tensors; 32 bytes of data each, the last without
// padding.
Bytes small_file() {
  Bytes bytes = gguf_header(2, 2);
  bytes.text("general.alignment").u32(4).u32(64);
  bytes.text("words").u32(9).u32(8).u64(2).text("one").text("");
  add_tensor(bytes, {"a", {4, 2}, 0, 0});
  add_tensor(bytes, {"b", {8}, 0, 64});
  bytes.pad(64);
  for (int i = 0; i < 8; ++i) bytes.put(static_cast<float>(i));
  bytes.pad(64);
  for (int i = 0; i < 8; ++i) bytes.put(static_cast<float>(-i));
  return bytes;
}

TEST(Gguf, ReadsWhatWasWritten) {
  const Bytes bytes = small_file();
  const auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file.value().tensors().size(), 2u);
  const auto& a = file.value().tensors()[0];
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(a.bytes, 32u);
  EXPECT_EQ(reinterpret_cast<const float*>(a.data)[7], 7.0f);
  EXPECT_EQ(reinterpret_cast<const float*>(file.value().find_tensor("b")->data)[7], -7.0f);
  std::vector<std::string> words;
  ASSERT_TRUE(
      file.value()
          .for_each_string("words", [&](uint64_t, std::string_view w) { words.emplace_back(w); })
          .ok());
  EXPECT_EQ(words, (std::vector<std::string>{"one", ""}));
  EXPECT_EQ(describe(*file.value().find("words")), "2 x string: \"one\", \"\"");
}

TEST(Gguf, EveryTruncationIsAnError) {
  const Bytes bytes = small_file();
  for (size_t size = 0; size < bytes.data.size(); ++size) {
    const std::string cut = bytes.data.substr(0, size);  // a heap copy of exactly that size
    EXPECT_FALSE(GgufFile::parse(std::as_bytes(std::span(cut)), "cut").ok()) << size;
  }
}

TEST(Gguf, AgreesWithGgufPy) {
  const std::string data = testing::read_file(testing::golden("tiny.gguf"));
  const auto file = GgufFile::parse(std::as_bytes(std::span(data)), "tiny");
  ASSERT_TRUE(file.ok()) << file.error().message;
  std::istringstream lines(testing::read_file(testing::golden("tiny.gguf.txt")));
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::istringstream fields(line);
    std::string name, type;
    size_t offset = 0, size = 0;
    fields >> name >> type >> offset >> size;
    std::vector<int64_t> shape;
    for (int64_t extent = 0; fields >> extent;) shape.push_back(extent);
    const auto* tensor = file.value().find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->type_name, type);
    EXPECT_EQ(static_cast<size_t>(tensor->data - file.value().tensors()[0].data) + 1664, offset)
        << name;
    EXPECT_EQ(tensor->bytes, size) << name;
    EXPECT_EQ(tensor->shape, shape) << name;
    EXPECT_EQ(tensor->type == quant::SourceType::other, type == "IQ4_XS") << name;
  }
  EXPECT_EQ(count, file.value().tensors().size());
}

TEST(Gguf, ConfigurationAndTokenizerOfTheTinyFile) {
  const auto opened = open(testing::golden("tiny.gguf"));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const ModelConfig& config = opened.value().config;
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.vocab_size, 8);
  EXPECT_EQ(config.trained_context, 128);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5f);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.35355339f);  // 1 / sqrt(8)
  EXPECT_EQ(config.embedding_scale, 1.0f);
  EXPECT_EQ(config.activation, Activation::silu);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(config.qk_norm);
  ASSERT_EQ(config.layers.size(), 2u);
  const LayerSpec& layer = config.layers[1];
  EXPECT_EQ(layer.kind, LayerKind::sliding);
  EXPECT_EQ(layer.window, 16);
  EXPECT_EQ(layer.kv_heads, 2);
  EXPECT_EQ(layer.rope.theta, 500000.0);
  EXPECT_EQ(layer.rope.factors, (std::vector<float>{1, 2, 4, 8}));
  const TokenizerData& data = opened.value().tokenizer;
  EXPECT_EQ(data.kind, TokenizerData::Kind::byte_bpe);
  EXPECT_EQ(data.pieces, (std::vector<std::string>{"a", " ", " a", "\xc3", "\xa9", "\xc3\xa9",
                                                   "<|eot_id|>", "\xe2\x82\xac"}));
  EXPECT_EQ(data.merges[0], (std::pair<std::string, std::string>{" ", "a"}));
  EXPECT_EQ(data.merges[1], (std::pair<std::string, std::string>{"\xc3", "\xa9"}));
  EXPECT_EQ(data.pre, "llama-bpe");
  EXPECT_TRUE(data.ignore_merges);
  EXPECT_TRUE(data.add_bos);
  EXPECT_EQ(data.end_of_generation, (std::vector<int32_t>{6}));
}

TEST(GgufRefuses, ZeroDimension) {
  Bytes bytes = gguf_header(1, 0);
  add_tensor(bytes, {"t", {1, 0}});
  EXPECT_INPUT_ERROR(parse(bytes), "tensor t: dimension 1 is zero");
  Bytes first = gguf_header(1, 0);
  add_tensor(first, {"t", {0, 4}});
  EXPECT_INPUT_ERROR(parse(first), "tensor t: dimension 0 is zero");
}

TEST(GgufRefuses, Alignment) {
  const auto with = [](uint32_t type, auto value) {
    Bytes bytes = gguf_header(0, 1);
    bytes.text("general.alignment").u32(type);
    if constexpr (std::is_same_v<decltype(value), const char*>)
      bytes.text(value);
    else
      bytes.put(value);
    return bytes;
  };
  EXPECT_TRUE(parse(with(4, uint32_t{8})).ok());
  for (const uint32_t bad : {0u, 3u, 0x80000000u})
    EXPECT_INPUT_ERROR(parse(with(4, bad)), "general.alignment is");
  EXPECT_INPUT_ERROR(parse(with(5, int32_t{32})), "general.alignment: expected u32, found i32");
  EXPECT_INPUT_ERROR(parse(with(10, uint64_t{32})), "general.alignment: expected u32, found u64");
  EXPECT_INPUT_ERROR(parse(with(8, "32")), "general.alignment: expected u32, found string");
}

TEST(GgufRefuses, HugeCounts) {
  for (const uint64_t count :
       {uint64_t{1} << 31, uint64_t{1} << 57, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_INPUT_ERROR(parse(gguf_header(count, 0).raw(std::string(100, 'x'))),
                       "tensors announced");
    EXPECT_INPUT_ERROR(parse(gguf_header(0, count).raw(std::string(100, 'x'))),
                       "entries announced");
    EXPECT_INPUT_ERROR(parse(gguf_header(0, 1).u64(count).raw(std::string(20, 'k'))), "truncated");
    EXPECT_INPUT_ERROR(parse(gguf_header(0, 1).text("k").u32(9).u32(4).u64(count)),
                       "elements of u32");
    EXPECT_INPUT_ERROR(parse(gguf_header(0, 1).text("k").u32(9).u32(8).u64(count)),
                       "elements of string");
    EXPECT_INPUT_ERROR(parse(gguf_header(0, 1).text("k").u32(8).u64(count)), "truncated");
    Bytes dims = gguf_header(1, 0);
    add_tensor(dims, {"t", {count, count | 1, 3}});
    EXPECT_INPUT_ERROR(parse(dims), "t");
  }
}

TEST(GgufRefuses, BadTypesAndKeys) {
  EXPECT_INPUT_ERROR(parse(gguf_header(0, 1).text("").u32(4).u32(1)), "empty key");
  EXPECT_INPUT_ERROR(parse(gguf_header(0, 1).text("k").u32(999).u32(1)), "unknown value type 999");
  EXPECT_INPUT_ERROR(parse(gguf_header(0, 1).text("k").u32(9).u32(9).u64(1).u32(4).u64(0)),
                     "arrays of arrays");
  EXPECT_INPUT_ERROR(parse(gguf_header(0, 2).text("k").u32(4).u32(1).text("k").u32(4).u32(1)),
                     "occurs twice");
  EXPECT_INPUT_ERROR(parse(gguf_header(0, 0, 1)), "version 1");
  EXPECT_INPUT_ERROR(parse(gguf_header(0, 0, 0x03000000)), "big-endian");
  EXPECT_INPUT_ERROR(parse(Bytes().raw("GGML0123456789012345678901")), "not a GGUF file");
  Bytes five = gguf_header(1, 0);
  add_tensor(five, {"t", {1, 1, 1, 1, 1}});
  EXPECT_INPUT_ERROR(parse(five), "5 dimensions");
  Bytes columns = gguf_header(1, 0);
  add_tensor(columns, {"t", {33, 1}, 8});
  EXPECT_INPUT_ERROR(parse(columns), "33 columns, expected a multiple of 32 for Q8_0");
}

TEST(GgufRefuses, MisplacedTensors) {
  const auto two = [](TestTensor a, TestTensor b) {
    Bytes bytes = gguf_header(2, 0);
    add_tensor(bytes, a);
    add_tensor(bytes, b);
    bytes.pad(32).raw(std::string(128, '\0'));
    return bytes;
  };
  EXPECT_TRUE(parse(two({"a", {8}, 0, 0}, {"b", {24}, 0, 32})).ok());
  EXPECT_INPUT_ERROR(parse(two({"a", {16}, 0, 0}, {"b", {8}, 0, 32})),
                     "tensor b overlaps tensor a");
  EXPECT_INPUT_ERROR(parse(two({"a", {8}, 0, 0}, {"b", {8}, 0, 0})), "overlaps");
  EXPECT_INPUT_ERROR(parse(two({"a", {8}, 0, 0}, {"a", {8}, 0, 32})), "occurs twice");
  EXPECT_INPUT_ERROR(parse(two({"a", {8}, 0, 0}, {"b", {8}, 0, 40})),
                     "no multiple of the alignment");
  EXPECT_INPUT_ERROR(parse(two({"a", {8}, 0, 0}, {"b", {25}, 0, 32})),
                     "tensor b: 100 bytes at offset 32");
  EXPECT_INPUT_ERROR(parse(two({"a", {8}, 0, 0}, {"b", {8}, 0, ~uint64_t{31}})), "tensor b");
}

TEST(Gguf, UnknownTensorTypeIsKeptAsOther) {
  Bytes bytes = gguf_header(2, 0);
  add_tensor(bytes, {"odd", {7}, 999, 0});
  add_tensor(bytes, {"b", {8}, 0, 64});
  bytes.pad(32).raw(std::string(96, '\0'));
  const auto file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file.value().tensors()[0].type, quant::SourceType::other);
  EXPECT_EQ(file.value().tensors()[0].type_name, "type 999");
  EXPECT_EQ(file.value().tensors()[0].bytes, 64u);
}

// Split sets: part `number` of `count` with one tensor of its own.
std::string part(uint16_t number, uint16_t count, int32_t tensors = 3) {
  Bytes bytes = gguf_header(1, number == 0 ? 10 : 3);
  bytes.text("split.no").u32(2).put(number);
  bytes.text("split.count").u32(2).put(count);
  bytes.text("split.tensors.count").u32(5).put(tensors);
  if (number == 0) {
    bytes.text("general.architecture").u32(8).text("llama");
    for (const char* key : {"block_count", "attention.head_count", "rope.dimension_count"})
      bytes.text(std::string("llama.") + key).u32(4).u32(2);
    bytes.text("llama.embedding_length").u32(4).u32(4);
    bytes.text("llama.feed_forward_length").u32(4).u32(8);
    bytes.text("llama.vocab_size").u32(4).u32(11);
  }
  add_tensor(bytes, {"t" + std::to_string(number), {8}});
  bytes.pad(32).raw(std::string(32, '\0'));
  return bytes.data;
}

class SplitSet : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint16_t i = 0; i < 3; ++i) folder.write(name(i + 1), part(i, 3));
  }
  static std::string name(int number, int count = 3) {
    return "m-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) + ".gguf";
  }
  testing::TempFolder folder;
};

TEST_F(SplitSet, FirstPartFindsTheRest) {
  for (const std::string& given : {folder / name(1), folder.path()}) {
    const auto opened = open(given);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ(opened.value().table.files.size(), 3u);
    EXPECT_EQ(opened.value().table.find("t2")->file, 2);
    EXPECT_EQ(opened.value().config.vocab_size, 11);
  }
}

TEST_F(SplitSet, EachFaultHasItsOwnMessage) {
  EXPECT_INPUT_ERROR(open(folder / name(2)),
                     "this is part 2 of 3 of a split model; give the first part, ");

  folder.write("m-00001-of-00004.gguf", part(0, 3));
  EXPECT_INPUT_ERROR(open(folder / name(1, 4)), "the name says 4 parts, split.count says 3");
  folder.write("renamed.gguf", part(0, 3));
  EXPECT_INPUT_ERROR(open(folder / "renamed.gguf"), "must be named NAME-00001-of-00003.gguf");

  folder.write(name(3), part(1, 3));
  EXPECT_INPUT_ERROR(open(folder / name(1)), "split.no is 1, expected 2");
  folder.write(name(3), part(2, 4));
  EXPECT_INPUT_ERROR(open(folder / name(1)), "split.count is 4, the first part says 3");
  folder.write(name(3), part(2, 3));
  folder.write(name(1), part(0, 3, 4));
  EXPECT_INPUT_ERROR(open(folder / name(1)),
                     "split.tensors.count is 4, the 3 parts hold 3 tensors");
  folder.write(name(1), part(0, 3));

  folder.write(name(1), part(1, 3));
  EXPECT_INPUT_ERROR(open(folder / name(1)),
                     "named as the first part, but split.no is 1, expected 0: a renamed part?");
  folder.write(name(1), part(0, 3));

  std::filesystem::remove(folder / name(2));
  EXPECT_INPUT_ERROR(open(folder / name(1)), "part 2 of 3 is missing: " + (folder / name(2)));
  EXPECT_TRUE(open(folder / name(1), {.weights = false}).ok());  // plan needs no later part

  folder.write("joined.gguf", part(0, 3) + part(1, 3) + part(2, 3));
  EXPECT_INPUT_ERROR(open(folder / "joined.gguf"), "joined with cat");
}

TEST(GgufConfig, KeysThatAreMissingOrWrong) {
  testing::TempFolder folder;
  const auto with = [&](Bytes bytes) { return open(folder.write("m.gguf", bytes.data)); };
  EXPECT_INPUT_ERROR(with(gguf_header(0, 0)), "lacks general.architecture");
  EXPECT_INPUT_ERROR(with(gguf_header(0, 1).text("general.architecture").u32(8).text("rwkv")),
                     "architecture \"rwkv\" does not describe a decoder");
  EXPECT_INPUT_ERROR(with(gguf_header(0, 3)
                              .text("general.architecture")
                              .u32(8)
                              .text("llama")
                              .text("llama.block_count")
                              .u32(4)
                              .u32(0x80000000u)
                              .text("llama.embedding_length")
                              .u32(4)
                              .u32(8)),
                     "llama.block_count: 2147483648");
}

}  // namespace
}  // namespace ringkeep::checkpoint
