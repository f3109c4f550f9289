#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"

namespace ringkeep::checkpoint {
namespace {

using testing::Bytes;
using testing::TempFolder;

Bytes file(const std::string& header, size_t data) {
  return Bytes().u64(header.size()).raw(header).raw(std::string(data, '\1'));
}
Result<SafetensorsFile> parse(const Bytes& bytes) {
  return parse_safetensors(bytes.span(), "t.safetensors");
}
std::string entry(const char* dtype, const char* shape, int begin, int end) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", dtype, shape, begin,
                     end);
}

TEST(Safetensors, ReadsTheReferenceFile) {
  const std::string data = testing::read_file(testing::golden("tiny.safetensors"));
  const auto parsed = parse_safetensors(std::as_bytes(std::span(data)), "tiny");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed.value().tensors.size(), 3u);
  EXPECT_EQ(parsed.value().metadata.at("format"), "pt");
  for (const auto& tensor : parsed.value().tensors) {
    if (tensor.name == "a.weight") {
      EXPECT_EQ(tensor.type, quant::SourceType::f32);
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 3}));
      float last = 0;
      std::memcpy(&last, tensor.data + 20, 4);
      EXPECT_EQ(last, 5.0f);
    }
    if (tensor.name == "c.codes") {
      EXPECT_EQ(tensor.type, quant::SourceType::other);
      uint32_t last = 0;
      std::memcpy(&last, tensor.data + 12, 4);
      EXPECT_EQ(last, 3u);
    }
  }
  for (size_t size = 0; size < data.size(); ++size) {
    const std::string cut = data.substr(0, size);
    EXPECT_FALSE(parse_safetensors(std::as_bytes(std::span(cut)), "cut").ok()) << size;
  }
}

TEST(SafetensorsRefuses, BadHeaders) {
  const std::string a = "\"a\":" + entry("F32", "[2]", 0, 8);
  EXPECT_TRUE(parse(file("{" + a + "}", 8)).ok());
  EXPECT_TRUE(parse(file("{\"__metadata__\":null," + a + "}", 8)).ok());
  EXPECT_INPUT_ERROR(parse(file("{" + a + "}", 7)), "a: ends at byte 8 of the data, which has 7");
  EXPECT_INPUT_ERROR(parse(file("{" + a + "}", 9)), "1 bytes after the last tensor");
  EXPECT_INPUT_ERROR(parse(file("{" + a + ",\"b\":" + entry("F32", "[2]", 4, 12) + "}", 12)),
                     "an overlap");
  EXPECT_INPUT_ERROR(parse(file("{" + a + ",\"b\":" + entry("F32", "[1]", 12, 16) + "}", 16)),
                     "a gap");
  EXPECT_INPUT_ERROR(parse(file("{\"a\":" + entry("F32", "[3]", 0, 8) + "}", 8)),
                     "expected 12 bytes");
  EXPECT_INPUT_ERROR(parse(file("{\"a\":" + entry("F32", "[0]", 0, 0) + "}", 0)),
                     "a dimension is zero");
  EXPECT_INPUT_ERROR(parse(file("{\"a\":" + entry("Q9", "[2]", 0, 8) + "}", 8)), "dtype");
  EXPECT_INPUT_ERROR(parse(file("{\"a\":" + entry("F32", "[-2]", 0, 8) + "}", 8)), "shape");
  EXPECT_INPUT_ERROR(
      parse(file("{\"a\":" + entry("F32", "[4294967296,4294967296,4]", 0, 8) + "}", 8)),
      "overflow");
  EXPECT_INPUT_ERROR(parse(file("{\"a\":" + entry("F32", "[2]", 8, 0) + "}", 8)), "data_offsets");
  EXPECT_INPUT_ERROR(parse(file("{\"a\":3}", 0)), "expected an object");
  EXPECT_INPUT_ERROR(parse(file("{\"a\":", 0)), "not valid JSON");
  EXPECT_INPUT_ERROR(parse(file("[]", 0)), "does not begin with {");
  EXPECT_INPUT_ERROR(parse(Bytes().u64(~uint64_t{0}).raw("{}")), "header length");
  EXPECT_INPUT_ERROR(parse(Bytes().u64(1000).raw("{}")), "truncated");
}

constexpr const char* kConfig =
    R"({"model_type":"llama","hidden_size":128,"num_hidden_layers":1,"num_attention_heads":2,
        "intermediate_size":8,"vocab_size":10)";

class Folder : public ::testing::Test {
 protected:
  void config(const std::string& more = "") { folder.write("config.json", kConfig + more + "}"); }
  // Tensors in order: name -> dtype, shape, bytes.
  struct Entry {
    std::string name;
    const char* dtype;
    const char* shape;
    int bytes;
  };
  std::string tensors(const std::vector<Entry>& entries) {
    std::string header = "{";
    int at = 0;
    for (const Entry& e : entries) {
      header += fmt::format("{}\"{}\":{}", at > 0 ? "," : "", e.name,
                            entry(e.dtype, e.shape, at, at + e.bytes));
      at += e.bytes;
    }
    return file(header + "}", static_cast<size_t>(at)).data;
  }
  TempFolder folder;
};

TEST_F(Folder, ShardsWithAnIndex) {
  config();
  folder.write("model-1.safetensors", tensors({{"a", "F32", "[2]", 8}}));
  const std::string second =
      folder.write("model-2.safetensors", tensors({{"b", "BF16", "[2,2]", 8}}));
  const auto index = [&](const char* map) {
    folder.write("model.safetensors.index.json", std::string("{\"weight_map\":") + map + "}");
  };
  index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  const auto opened = open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened.value().table.find("b")->file, 1);
  EXPECT_EQ(opened.value().table.find("b")->type, quant::SourceType::bf16);
  EXPECT_EQ(opened.value().tokenizer.kind, TokenizerData::Kind::none);

  index(R"({"a":"model-1.safetensors","b":"model-2.safetensors","c":"model-2.safetensors"})");
  EXPECT_INPUT_ERROR(open(folder.path()),
                     "model-2.safetensors: the index says that c is in this file");
  index(R"({"a":"../model-1.safetensors"})");
  EXPECT_INPUT_ERROR(open(folder.path()), "a file name without folders");
  index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");

  const std::string whole = testing::read_file(second);
  folder.write("model-2.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_INPUT_ERROR(open(folder.path()), "model-2.safetensors");
  std::filesystem::remove(second);
  EXPECT_INPUT_ERROR(open(folder.path()),
                     "model-2.safetensors: the index names this file, but it is missing");
  EXPECT_TRUE(open(folder.path(), {.weights = false}).ok());
}

TEST_F(Folder, WithoutWeightsOrEmpty) {
  EXPECT_INPUT_ERROR(open(folder.path()), "the folder is empty");
  folder.write("readme.txt", "x");
  EXPECT_INPUT_ERROR(open(folder.path()), "neither config.json nor a .gguf");
  config();
  EXPECT_INPUT_ERROR(open(folder.path()), "no safetensors weights");
}

// Stacks of experts: MLX's mode mxfp4 beside affine modules, and Hugging Face's blocks and scales.
TEST_F(Folder, Mxfp4) {
  config(R"(,"quantization":{"group_size":64,"bits":4,
            "model.experts.up_proj":{"group_size":32,"bits":4,"mode":"mxfp4"}})");
  folder.write("model.safetensors",
               tensors({{"model.experts.up_proj.weight", "U32", "[2,3,8]", 192},
                        {"model.experts.up_proj.scales", "U8", "[2,3,2]", 12},
                        {"model.experts.down_proj_blocks", "U8", "[2,3,1,16]", 96},
                        {"model.experts.down_proj_scales", "U8", "[2,3,1]", 6}}));
  const auto opened = open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const TensorTable& table = opened.value().table;
  EXPECT_EQ(table.tensors.size(), 2u);
  const auto* up = table.find("model.experts.up_proj.weight");
  const auto* down = table.find("model.experts.down_proj");
  ASSERT_TRUE(up != nullptr && down != nullptr);
  for (const auto* tensor : {up, down}) {
    EXPECT_EQ(tensor->type, quant::SourceType::mlx_mxfp4);
    EXPECT_EQ(tensor->group, 32);
    EXPECT_EQ(tensor->biases, nullptr);
  }
  EXPECT_EQ(up->shape, (std::vector<int64_t>{2, 3, 64}));
  EXPECT_EQ(down->shape, (std::vector<int64_t>{2, 3, 32}));
  EXPECT_EQ(down->scales - down->data, 96);

  const auto refuses = [&](const char* shape, size_t bytes, const char* type, const char* words) {
    folder.write("model.safetensors",
                 tensors({{"x_blocks", type, "[2,3,1,16]", 96}, {"x_scales", "U8", shape, bytes}}));
    EXPECT_INPUT_ERROR(open(folder.path()), words);
  };
  refuses("[2,3,2]", 12, "U8", "x_blocks: expected U8 [.., rows, groups, 16]");
  refuses("[6]", 6, "U8", "x_blocks: expected U8 [.., rows, groups, 16]");
  refuses("[2,3,1]", 6, "I8", "found I8 [2, 3, 1, 16]");
  folder.write("model.safetensors", tensors({{"x_blocks", "U8", "[2,3,1,16]", 96}}));
  EXPECT_INPUT_ERROR(open(folder.path()), "x_blocks: expected x_scales");
}

TEST_F(Folder, MlxModulesTakeTheirWidthFromTheShapes) {
  // q_proj 4 bits [4, 16]; down_proj 6 bits [4, 24]; norm dense; o_proj left dense.
  const auto weights = [&](const std::string& prefix) {
    return tensors({{prefix + "q_proj.weight", "U32", "[4,16]", 256},
                    {prefix + "q_proj.scales", "F16", "[4,2]", 16},
                    {prefix + "q_proj.biases", "F16", "[4,2]", 16},
                    {prefix + "down_proj.weight", "U32", "[4,24]", 384},
                    {prefix + "down_proj.scales", "BF16", "[4,2]", 16},
                    {prefix + "down_proj.biases", "BF16", "[4,2]", 16},
                    {prefix + "o_proj.weight", "BF16", "[4,2]", 16}});
  };
  for (const std::string key :
       {"model.layers.0.", "language_model.model.layers.0.", "model.language_model.layers.0."})
    for (const std::string name : {"model.layers.0.", "language_model.model.layers.0."}) {
      config(fmt::format(
          R"(,"quantization":{{"group_size":64,"bits":4,"{}down_proj":{{"group_size":64,"bits":6}},
                             "{}o_proj":false}})",
          key, key));
      folder.write("model.safetensors", weights(name));
      const auto opened = open(folder.path());
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      const TensorTable& table = opened.value().table;
      EXPECT_EQ(table.tensors.size(), 3u);
      const auto* q = table.find(name + "q_proj.weight");
      ASSERT_NE(q, nullptr);
      EXPECT_EQ(q->type, quant::SourceType::mlx_affine);
      EXPECT_EQ(q->shape, (std::vector<int64_t>{4, 128}));
      EXPECT_EQ(q->bits, 4);
      EXPECT_EQ(q->group, 64);
      EXPECT_EQ(q->scale_type, quant::SourceType::f16);
      EXPECT_EQ(q->scales - q->data, 256);
      EXPECT_EQ(q->biases - q->scales, 16);
      const auto* down = table.find(name + "down_proj.weight");
      EXPECT_EQ(down->bits, 6);
      EXPECT_EQ(down->shape, (std::vector<int64_t>{4, 128}));
      EXPECT_EQ(table.find(name + "o_proj.weight")->type, quant::SourceType::bf16);
    }

  folder.write("model.safetensors", weights("model.layers.0."));
  config(R"(,"quantization":{"group_size":64,"bits":4})");  // no word of the 6 bits
  EXPECT_INPUT_ERROR(
      open(folder.path()),
      "model.layers.0.down_proj.weight: config.json says 4 bits in groups of 64, but "
      "24 words and 2 groups a row make 6 bits");
  config(R"(,"quantization":{"group_size":64,"bits":4,"model.layers.0.down_proj":false})");
  EXPECT_INPUT_ERROR(open(folder.path()), "says that it is not quantized");
  config(R"(,"quantization":{"group_size":64,"bits":7})");
  EXPECT_INPUT_ERROR(open(folder.path()),
                     "quantization: bits: expected 2, 3, 4, 5, 6 or 8, found 7");
  config(R"(,"quantization":{"group_size":32,"bits":4,"mode":"nvfp4"})");
  EXPECT_INPUT_ERROR(open(folder.path()), "mode \"nvfp4\"");
  config(R"(,"quantization":{"group_size":32,"bits":4,"mode":"mxfp4"})");
  EXPECT_INPUT_ERROR(open(folder.path()), "down_proj.biases beside it in mode mxfp4");
  config(R"(,"quantization":{"group_size":64,"bits":4,"mode":"mxfp4"})");
  EXPECT_INPUT_ERROR(open(folder.path()), "group_size: expected 32 in mode mxfp4, found 64");
  config();
  EXPECT_INPUT_ERROR(open(folder.path()), "config.json has no quantization");
}

}  // namespace
}  // namespace ringkeep::checkpoint
