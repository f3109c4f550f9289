// The split patterns of published tokenizers, by the names that GGUF files use for them.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

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
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
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

struct Named {
  std::string_view name;
  std::array<const char*, 2> patterns;  // in order; the second may be null
};

constexpr Named kNamed[] = {
    {"default", {kGpt2}},           {"gpt-2", {kGpt2}},
    {"gpt2", {kGpt2}},              {"olmo", {kGpt2}},
    {"phi-2", {kGpt2}},             {"mpt", {kGpt2}},
    {"jina-v2-en", {kGpt2}},        {"roberta-bpe", {kGpt2}},
    {"llama-bpe", {kLlama3}},       {"llama3", {kLlama3}},
    {"llama-v3", {kLlama3}},        {"falcon3", {kLlama3}},
    {"smaug-bpe", {kLlama3}},       {"dbrx", {kLlama3}},
    {"qwen2", {kQwen2}},            {"deepseek-r1-qwen", {kQwen2}},
    {"stablelm2", {kQwen2}},        {"gpt-4o", {kO200k}},
    {"llama4", {kO200k}},           {"tekken", {kTekken}},
    {"starcoder", {kDigit, kGpt2}}, {"smollm", {kDigit, kGpt2}},
    {"refact", {kDigit, kGpt2}},    {"command-r", {kDigit, kGpt2}},
    {"codeshell", {kDigit, kGpt2}},
};

}  // namespace

Result<std::vector<std::string>> named_patterns(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Named& named : kNamed) {
    if (named.name != name) {
      known.push_back(named.name);
      continue;
    }
    std::vector<std::string> patterns;
    for (const char* pattern : named.patterns) {
      if (pattern) patterns.emplace_back(pattern);
    }
    return patterns;
  }
  return input_error("tokenizer: unknown pre-tokenizer '{}', expected one of {}", name,
                     fmt::join(known, ", "));
}

}  // namespace ringkeep::text
