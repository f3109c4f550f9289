// TokenizerData from the tokenizer.ggml.* metadata of a GGUF file.
#include <string>

#include "base/log.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/limits.h"
#include "checkpoint/vocabulary.h"

namespace ringkeep::checkpoint {

namespace {

// A special id, or `fallback` when the key is missing. Published files carry ids outside the
// vocabulary now and then; such an id cannot be meant and counts as none.
Result<int32_t> special_id(const GgufFile& file, std::string_view key, int64_t vocab,
                           int64_t fallback) {
  const int64_t id = RK_TRY(file.integer(key, fallback));
  if (id >= 0 && id < vocab) return static_cast<int32_t>(id);
  if (file.has(key) && id != -1)
    spdlog::warn("{}: {} is {}, outside the vocabulary of {}: ignored", file.name(), key, id,
                 vocab);
  return -1;
}

Status read_types(const GgufFile& file, TokenizerData& data) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  data.types.assign(data.pieces.size(), TokenType::normal);
  if (!file.has(kKey)) return {};
  const auto types = RK_TRY(file.integers(kKey));
  if (types.size() != data.pieces.size())
    return input_error("{}: {}: {} types for {} tokens", file.name(), kKey, types.size(),
                       data.pieces.size());
  for (size_t i = 0; i < types.size(); ++i) {
    switch (types[i]) {
      case 0:  // undefined
      case 1: data.types[i] = TokenType::normal; break;
      case 2: data.types[i] = TokenType::unknown; break;
      case 3: data.types[i] = TokenType::control; break;
      case 4: data.types[i] = TokenType::user_defined; break;
      case 5: data.types[i] = TokenType::unused; break;
      case 6: data.types[i] = TokenType::byte; break;
      default:
        return input_error("{}: {}[{}] is {}, expected 0 to 6", file.name(), kKey, i, types[i]);
    }
  }
  return {};
}

// Merges of a byte-level tokenizer are written in the byte alphabet, those of Gemma 4 as they are.
Status read_merges(const GgufFile& file, TokenizerData& data) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  if (!file.has(kKey)) return input_error("{}: a tokenizer without {}", file.name(), kKey);
  const bool bytes = data.kind == TokenizerData::Kind::byte_bpe;
  const auto half = [&](std::string_view text) {
    return bytes ? raw_bytes(text) : std::string(text);
  };
  data.merges.reserve(RK_TRY(file.array_size(kKey, GgufType::string)));
  uint64_t bad = 0;
  bool failed = false;
  RK_TRY(file.for_each_string(kKey, [&](uint64_t index, std::string_view text) {
    const size_t space = text.find(' ', 1);  // in the byte alphabet a space is never a space
    if (text.empty() || space == std::string_view::npos || space + 1 == text.size()) {
      if (!failed) bad = index;
      failed = true;
      return;
    }
    data.merges.emplace_back(half(text.substr(0, space)), half(text.substr(space + 1)));
  }));
  if (failed)
    return input_error("{}: {}[{}]: expected two tokens with a space between", file.name(), kKey,
                       bad);
  return {};
}

}  // namespace

Result<TokenizerData> gguf_tokenizer(const GgufFile& file) {
  TokenizerData data;
  data.chat_template = RK_TRY(file.text("tokenizer.chat_template", ""));
  const std::string model = RK_TRY(file.text("tokenizer.ggml.model", ""));
  if (model.empty()) {
    data.note = "the GGUF metadata has no tokenizer.ggml.model";
    return data;
  }
  const bool gemma4 = model == "gemma4";  // SentencePiece's pieces, merged by rank
  if (model != "llama" && model != "gpt2" && !gemma4) {
    data.note =
        fmt::format("tokenizer.ggml.model is \"{}\"; llama, gpt2 and gemma4 are supported", model);
    return data;
  }
  const bool spm = model == "llama" || gemma4;
  const uint64_t vocab = RK_TRY(file.array_size("tokenizer.ggml.tokens", GgufType::string));
  if (vocab == 0 || vocab > static_cast<uint64_t>(kLargestVocab))
    return input_error("{}: tokenizer.ggml.tokens: {} tokens, expected 1 to {}", file.name(), vocab,
                       kLargestVocab);
  data.kind = spm ? TokenizerData::Kind::spm_bpe : TokenizerData::Kind::byte_bpe;
  data.pieces.reserve(vocab);
  RK_TRY(file.for_each_string("tokenizer.ggml.tokens", [&](uint64_t, std::string_view text) {
    data.pieces.emplace_back(text);
  }));
  RK_TRY(read_types(file, data));

  if (gemma4) {
    data.add_space_prefix = RK_TRY(file.boolean("tokenizer.ggml.add_space_prefix", false));
    RK_TRY(read_merges(file, data));
  } else if (spm) {
    data.scores = RK_TRY(file.floats("tokenizer.ggml.scores"));
    if (data.scores.size() != vocab)
      return input_error("{}: tokenizer.ggml.scores: {} scores for {} tokens", file.name(),
                         data.scores.size(), vocab);
    data.add_space_prefix = RK_TRY(file.boolean("tokenizer.ggml.add_space_prefix", true));
  } else {
    data.byte_fallback = false;
    // Added tokens are written as they are, the others in the byte alphabet.
    for (size_t i = 0; i < data.pieces.size(); ++i)
      if (data.types[i] != TokenType::control && data.types[i] != TokenType::user_defined)
        data.pieces[i] = raw_bytes(data.pieces[i]);
    RK_TRY(read_merges(file, data));
    data.pre = RK_TRY(file.text("tokenizer.ggml.pre", "default"));
    data.ignore_merges = pre_ignores_merges(data.pre);
  }

  // SentencePiece's own ids where the file names none.
  const auto id = [&](std::string_view key, int64_t spm_default) {
    return special_id(file, fmt::format("tokenizer.ggml.{}_token_id", key),
                      static_cast<int64_t>(vocab), spm ? spm_default : -1);
  };
  data.bos = RK_TRY(id("bos", 1));
  data.eos = RK_TRY(id("eos", 2));
  data.unk = RK_TRY(id("unknown", 0));
  data.pad = RK_TRY(id("padding", -1));
  for (const std::string_view key : {"eot", "eom"}) {
    const int32_t end = RK_TRY(id(key, -1));
    if (end >= 0) data.end_of_generation.push_back(end);
  }
  collect_end_of_generation(data);
  const bool add_bos =
      RK_TRY(file.boolean("tokenizer.ggml.add_bos_token", spm || pre_adds_bos(data.pre)));
  data.add_bos = (add_bos || gemma4) && data.bos >= 0;  // early files of Gemma 4 say false
  data.add_eos = RK_TRY(file.boolean("tokenizer.ggml.add_eos_token", false)) && data.eos >= 0;
  return data;
}

}  // namespace ringkeep::checkpoint
