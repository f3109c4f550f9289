#include "checkpoint/tokenizer_pipeline.h"

#include <functional>
#include <string_view>
#include <utility>

namespace ringkeep::checkpoint {

namespace {

constexpr std::string_view kSpace = "\u2581";

// GPT-2's own pattern, which a ByteLevel step with use_regex stands for.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

using Step = std::function<Result<std::string>(const JsonFields&, const std::string& type)>;

// Calls `step` for the object under `key`, or for each part of a Sequence; stops at the first
// failure or text. `parts` is the Sequence's list.
Result<std::string> for_each_step(const Json& tokenizer, const char* key, const char* parts,
                                  const Step& step) {
  const JsonFields root(tokenizer, "tokenizer.json");
  const auto object = RK_TRY(root.object(key));
  if (!object) return std::string();
  const std::string type = RK_TRY(object->text("type")).value_or("");
  if (type != "Sequence") return step(*object, type);
  const Json* list = object->find(parts);
  if (list == nullptr || !list->is_array()) return object->wrong(parts, "an array");
  for (const Json& entry : *list) {
    const JsonFields fields(entry, object->where());
    if (!entry.is_object()) return object->wrong(parts, "an array of objects");
    std::string problem = RK_TRY(step(fields, RK_TRY(fields.text("type")).value_or("")));
    if (!problem.empty()) return problem;
  }
  return std::string();
}

struct Pattern {
  std::string text;
  bool regex = false;
};
Result<Pattern> read_pattern(const JsonFields& fields) {
  const auto object = RK_TRY(fields.object("pattern"));
  if (!object) return fields.wrong("pattern", "an object with String or Regex");
  if (auto regex = RK_TRY(object->text("Regex"))) return Pattern{std::move(*regex), true};
  if (auto text = RK_TRY(object->text("String"))) return Pattern{std::move(*text), false};
  return fields.wrong("pattern", "an object with String or Regex");
}

std::string unsupported(const char* what, const std::string& type) {
  return fmt::format("{} \"{}\" is not supported", what, type);
}

Result<std::string> normalizer_step(const JsonFields& fields, const std::string& type,
                                    TokenizerData& data) {
  if (type == "NFC") {
    data.nfc = true;
    return std::string();
  }
  const bool spm = data.kind == TokenizerData::Kind::spm_bpe;
  if (spm && type == "Prepend" && RK_TRY(fields.text("prepend")).value_or("") == kSpace) {
    data.add_space_prefix = true;
    return std::string();
  }
  if (spm && type == "Replace") {
    const Pattern pattern = RK_TRY(read_pattern(fields));
    if (!pattern.regex && pattern.text == " " &&
        RK_TRY(fields.text("content")).value_or("") == kSpace)
      return std::string();
  }
  return unsupported("normalizer", type);
}

Result<std::string> spm_pre_step(const JsonFields& fields, const std::string& type,
                                 TokenizerData& data) {
  if (type == "Metaspace") {
    if (RK_TRY(fields.text("replacement")).value_or(std::string(kSpace)) != kSpace)
      return unsupported("Metaspace with its own replacement", type);
    const auto scheme = RK_TRY(fields.text("prepend_scheme"));
    const bool prefix = RK_TRY(fields.boolean("add_prefix_space")).value_or(true);
    data.add_space_prefix = scheme ? *scheme != "never" : prefix;
    return std::string();
  }
  // Spaces have become U+2581 by then, so that splitting at them does nothing.
  if (type == "Split") {
    const Pattern pattern = RK_TRY(read_pattern(fields));
    if (!pattern.regex && pattern.text == " ") return std::string();
  }
  return unsupported("pre-tokenizer", type);
}

Result<std::string> byte_pre_step(const JsonFields& fields, const std::string& type,
                                  TokenizerData& data) {
  if (type == "ByteLevel") {
    if (RK_TRY(fields.boolean("add_prefix_space")).value_or(true))
      return std::string("a ByteLevel pre-tokenizer with add_prefix_space is not supported");
    if (RK_TRY(fields.boolean("use_regex")).value_or(true))
      data.pre_patterns.push_back(kGpt2Pattern);
    return std::string();
  }
  if (type == "Digits") {
    if (RK_TRY(fields.boolean("individual_digits")).value_or(false))
      data.split_digits = true;
    else
      data.pre_patterns.emplace_back("\\p{N}+");
    return std::string();
  }
  if (type == "Split") {
    const Pattern pattern = RK_TRY(read_pattern(fields));
    const std::string behavior = RK_TRY(fields.text("behavior")).value_or("");
    const bool invert = RK_TRY(fields.boolean("invert")).value_or(false);
    // Matches as pieces: either isolated, or kept while what lies between them is removed (the
    // published patterns of that form match everything).
    if (pattern.regex &&
        ((behavior == "Isolated" && !invert) || (behavior == "Removed" && invert))) {
      data.pre_patterns.push_back(pattern.text);
      return std::string();
    }
    return fmt::format("a Split pre-tokenizer with behavior \"{}\" is not supported", behavior);
  }
  return unsupported("pre-tokenizer", type);
}

bool has_step(const Json& tokenizer, const char* key, const char* parts, std::string_view wanted) {
  bool found = false;
  const auto result =
      for_each_step(tokenizer, key, parts,
                    [&](const JsonFields&, const std::string& type) -> Result<std::string> {
                      found = found || type == wanted;
                      return std::string();
                    });
  return result.ok() && found;
}

int32_t id_of(const TokenizerData& data, std::string_view piece) {
  for (size_t id = 0; id < data.pieces.size(); ++id)
    if (data.pieces[id] == piece && data.types[id] != TokenType::unused)
      return static_cast<int32_t>(id);
  return -1;
}

}  // namespace

bool is_byte_level(const Json& tokenizer) {
  return has_step(tokenizer, "pre_tokenizer", "pretokenizers", "ByteLevel") ||
         has_step(tokenizer, "decoder", "decoders", "ByteLevel");
}

Result<std::string> read_text_steps(const Json& tokenizer, TokenizerData& data) {
  std::string problem =
      RK_TRY(for_each_step(tokenizer, "normalizer", "normalizers",
                           [&](const JsonFields& fields, const std::string& type) {
                             return normalizer_step(fields, type, data);
                           }));
  if (!problem.empty()) return problem;
  const bool spm = data.kind == TokenizerData::Kind::spm_bpe;
  return for_each_step(tokenizer, "pre_tokenizer", "pretokenizers",
                       [&](const JsonFields& fields, const std::string& type) {
                         return spm ? spm_pre_step(fields, type, data)
                                    : byte_pre_step(fields, type, data);
                       });
}

Result<std::string> read_template_step(const Json& tokenizer, TokenizerData& data) {
  return for_each_step(
      tokenizer, "post_processor", "processors",
      [&](const JsonFields& fields, const std::string& type) -> Result<std::string> {
        if (type == "ByteLevel") return std::string();  // trims offsets alone
        if (type != "TemplateProcessing") return unsupported("post-processor", type);
        const Json* single = fields.find("single");
        if (single == nullptr || !single->is_array())
          return fields.wrong("single", "an array of SpecialToken and Sequence");
        bool text_seen = false;
        for (const Json& entry : *single) {
          const JsonFields item(entry, fields.where());
          if (item.has("Sequence")) {
            text_seen = true;
            continue;
          }
          const auto special = RK_TRY(item.object("SpecialToken"));
          if (!special) return fields.wrong("single", "an array of SpecialToken and Sequence");
          const std::string name = RK_TRY(special->text("id")).value_or("");
          const int32_t id = id_of(data, name);
          if (id < 0)
            return input_error("{}: the token {} of the template is not in the vocabulary",
                               fields.where(), name);
          bool& add = text_seen ? data.add_eos : data.add_bos;
          if (add)
            return std::string("a template with several special tokens in a row is not supported");
          add = true;
          (text_seen ? data.eos : data.bos) = id;
        }
        return std::string();
      });
}

}  // namespace ringkeep::checkpoint
