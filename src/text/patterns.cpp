// The split patterns of published tokenizers, by the names that GGUF files use for them.
#include <sstream>
#include <string>
#include <vector>

#include "text/pretokenize.h"

namespace ringkeep::text {
namespace {

// GPT-2: contractions, then letters, digits or other characters with one space before them.
constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kDigit = R"(\p{N})";
// cl100k and its children differ in how many digits stay together.
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// o200k: words end where a lower-case letter meets an upper-case one; marks belong to words.
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// DeepSeek V3: digits by three, runs of Han and kana, then words with one mark before them.
constexpr const char* kDigits3 = R"(\p{N}{1,3})";
constexpr const char* kHanKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kDeepseek3 = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
                                   R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
                                   R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Named {
  std::string names;                  // separated by spaces
  std::vector<std::string> patterns;  // in order
};

const std::vector<Named>& table() {
  static const std::vector<Named> table = {
      {"default gpt-2 gpt2 phi-2 olmo mpt jais exaone4 gigachat mellum a.x-4.0 trillion "
       "granite-docling roberta-bpe jina-v1-en jina-v2-code jina-v2-es jina-v2-de",
       {kGpt2}},
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2 smaug-bpe dbrx glm4 chatglm-bpe",
       {kLlama3}},
      {"qwen2 deepseek-r1-qwen kormo megrez hunyuan stablelm2 grok-2", {kQwen2}},
      {"gpt-4o llama4 minimax-m2", {kO200k}},
      {"tekken", {kTekken}},
      {"smollm starcoder refact command-r codeshell exaone minerva-7b", {kDigit, kGpt2}},
      {"deepseek-v3 hunyuan-dense", {kDigits3, kHanKana, kDeepseek3}},
  };
  return table;
}

}  // namespace

Result<std::vector<std::string>> named_patterns(const std::string& name) {
  std::string known;
  for (const Named& row : table()) {
    std::istringstream names(row.names);
    for (std::string each; names >> each;) {
      if (each == name) return row.patterns;
      known += (known.empty() ? "" : ", ") + each;
    }
  }
  return input_error("tokenizer: unknown pre-tokenizer '{}', expected one of {}", name, known);
}

}  // namespace ringkeep::text
