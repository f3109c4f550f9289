// tokenizer.json of the `tokenizers` library: vocabulary, merges and added tokens of a BPE model.
#include <limits>

#include "checkpoint/checkpoint.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/limits.h"
#include "checkpoint/tokenizer_pipeline.h"
#include "checkpoint/vocabulary.h"

namespace ringkeep::checkpoint {

namespace {

// Vocabularies have few holes; this bounds what a few large ids can make us allocate.
constexpr uint64_t kMostHoles = 1 << 20;

bool is_byte_piece(std::string_view text) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return text.size() == 6 && text.starts_with("<0x") && hex(text[3]) && hex(text[4]) &&
         text[5] == '>';
}

Result<uint64_t> id_value(const Json& value, const std::string& token) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(kLargestVocab))
    return input_error("tokenizer.json: token \"{}\": expected an id below {}", token.substr(0, 80),
                       kLargestVocab);
  return value.get<uint64_t>();
}

// Ids that no entry names stay unused and empty.
Status size_vocabulary(const Json& vocab, const Json* added, TokenizerData& data) {
  uint64_t entries = vocab.size();
  uint64_t size = 0;
  for (const auto& [token, value] : vocab.items())
    size = std::max(size, RK_TRY(id_value(value, token)) + 1);
  if (added != nullptr) {
    if (!added->is_array()) return input_error("tokenizer.json: added_tokens: expected an array");
    entries += added->size();
    for (const Json& entry : *added) {
      const JsonFields fields(entry, "tokenizer.json: added_tokens");
      if (!entry.is_object() || !fields.has("id") || !RK_TRY(fields.text("content")))
        return input_error("tokenizer.json: added_tokens: expected objects with id and content");
      size =
          std::max(size, RK_TRY(id_value(*fields.find("id"), *RK_TRY(fields.text("content")))) + 1);
    }
  }
  if (size == 0) return input_error("tokenizer.json: the vocabulary is empty");
  if (size > entries + kMostHoles)
    return input_error("tokenizer.json: ids up to {} for {} tokens", size - 1, entries);
  data.pieces.resize(size);
  data.types.assign(size, TokenType::unused);
  return {};
}

Status read_vocabulary(const Json& vocab, const Json* added, TokenizerData& data) {
  RK_TRY(size_vocabulary(vocab, added, data));
  const bool byte_level = data.kind == TokenizerData::Kind::byte_bpe;
  for (const auto& [token, value] : vocab.items()) {
    const auto id = value.get<size_t>();
    if (data.types[id] != TokenType::unused)
      return input_error("tokenizer.json: two tokens have the id {}", id);
    data.pieces[id] = byte_level ? raw_bytes(token) : token;
    data.types[id] = !byte_level && data.byte_fallback && is_byte_piece(token) ? TokenType::byte
                                                                               : TokenType::normal;
  }
  if (added == nullptr) return {};
  for (const Json& entry : *added) {
    const JsonFields fields(entry, "tokenizer.json: added_tokens");
    const auto id = entry["id"].get<size_t>();
    data.pieces[id] = entry["content"].get<std::string>();  // as it is, never in the byte alphabet
    data.types[id] = RK_TRY(fields.boolean("special")).value_or(false) ? TokenType::control
                                                                       : TokenType::user_defined;
  }
  return {};
}

// "a b", or ["a", "b"].
Status read_merges(const JsonFields& model, TokenizerData& data) {
  const Json* merges = model.find("merges");
  if (merges == nullptr || !merges->is_array()) return model.wrong("merges", "an array");
  const bool byte_level = data.kind == TokenizerData::Kind::byte_bpe;
  const auto half = [&](std::string_view text) {
    return byte_level ? raw_bytes(text) : std::string(text);
  };
  data.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const Json& entry = (*merges)[i];
    std::string_view left, right;
    if (entry.is_string()) {
      const std::string_view text = entry.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
        left = text.substr(0, space);
        right = text.substr(space + 1);
      }
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      left = entry[0].get_ref<const std::string&>();
      right = entry[1].get_ref<const std::string&>();
    }
    if (left.empty() || right.empty())
      return input_error("{}: merges[{}]: expected two tokens", model.where(), i);
    data.merges.emplace_back(half(left), half(right));
  }
  return {};
}

TokenizerData without_tokenizer(std::string note) {
  TokenizerData data;
  data.note = "tokenizer.json: " + std::move(note);
  return data;
}

}  // namespace

Result<TokenizerData> parse_tokenizer_json(const std::string& json_text) {
  const Json json = RK_TRY(parse_json(json_text, "tokenizer.json"));
  const JsonFields root(json, "tokenizer.json");
  const auto model = RK_TRY(root.object("model"));
  if (!model) return input_error("tokenizer.json: expected an object with a model");
  const std::string type = RK_TRY(model->text("type")).value_or("BPE");
  if (type != "BPE")
    return without_tokenizer(fmt::format("model type \"{}\" is not supported; BPE is", type));
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!RK_TRY(model->text(key)).value_or("").empty())
      return without_tokenizer(fmt::format("{} is not supported", key));
  const auto vocab = RK_TRY(model->object("vocab"));
  if (!vocab) return model->wrong("vocab", "an object");

  TokenizerData data;
  const bool byte_level = is_byte_level(json);
  data.kind = byte_level ? TokenizerData::Kind::byte_bpe : TokenizerData::Kind::spm_bpe;
  data.byte_fallback = RK_TRY(model->boolean("byte_fallback")).value_or(false);
  data.ignore_merges = RK_TRY(model->boolean("ignore_merges")).value_or(false);
  RK_TRY(read_vocabulary(vocab->json(), root.find("added_tokens"), data));
  RK_TRY(read_merges(*model, data));
  if (const auto unknown = RK_TRY(model->text("unk_token"))) {
    const Json* id = vocab->find(unknown->c_str());
    if (id != nullptr) data.unk = id->get<int32_t>();
  }
  std::string problem = RK_TRY(read_text_steps(json, data));
  if (problem.empty()) problem = RK_TRY(read_template_step(json, data));
  if (!problem.empty()) return without_tokenizer(std::move(problem));
  collect_end_of_generation(data);
  return data;
}

}  // namespace ringkeep::checkpoint
