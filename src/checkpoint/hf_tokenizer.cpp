#include "checkpoint/hf_tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/limits.h"
#include "checkpoint/vocabulary.h"

namespace ringkeep::checkpoint {

namespace {

constexpr size_t kLargestTokenizerFile = size_t{256} << 20;
constexpr size_t kLargestSmallFile = size_t{16} << 20;

bool present(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The id of a token that is written as text, or as an object with its content; -1 when absent.
Result<int32_t> token_id(const JsonFields& fields, const char* key, const TokenizerData& data) {
  const Json* value = fields.find(key);
  if (value == nullptr) return -1;
  std::optional<std::string> text;
  if (value->is_object())
    text = RK_TRY(RK_TRY(fields.object(key))->text("content"));
  else
    text = RK_TRY(fields.text(key));
  if (!text) return fields.wrong(key, "a token");
  const auto found = std::find(data.pieces.begin(), data.pieces.end(), *text);
  return found == data.pieces.end() ? -1 : static_cast<int32_t>(found - data.pieces.begin());
}

// A template as text, or the one named "default" of several.
Result<std::string> chat_template(const JsonFields& fields) {
  const Json* value = fields.find("chat_template");
  if (value == nullptr) return std::string();
  if (!value->is_array()) return RK_TRY(fields.text("chat_template")).value_or("");
  std::string first;
  for (const Json& entry : *value) {
    const JsonFields item(entry, fields.where() + ": chat_template");
    const auto text = RK_TRY(item.text("template"));
    if (!text) return fields.wrong("chat_template", "a string, or objects with name and template");
    if (RK_TRY(item.text("name")).value_or("") == "default") return *text;
    if (first.empty()) first = *text;
  }
  return first;
}

}  // namespace

Status apply_tokenizer_config(const Json& config, const std::string& name, TokenizerData& data) {
  const JsonFields fields(config, name);
  const auto assign = [&](const char* key, int32_t& id) -> Status {
    const int32_t found = RK_TRY(token_id(fields, key, data));
    if (found >= 0) id = found;
    return {};
  };
  RK_TRY(assign("bos_token", data.bos));
  RK_TRY(assign("eos_token", data.eos));
  RK_TRY(assign("unk_token", data.unk));
  RK_TRY(assign("pad_token", data.pad));
  data.add_bos = RK_TRY(fields.boolean("add_bos_token")).value_or(data.add_bos) && data.bos >= 0;
  data.add_eos = RK_TRY(fields.boolean("add_eos_token")).value_or(data.add_eos) && data.eos >= 0;
  const std::string text = RK_TRY(chat_template(fields));
  if (!text.empty()) data.chat_template = text;
  return {};
}

Status apply_special_ids(const Json& config, const std::string& name, TokenizerData& data) {
  const JsonFields fields(config, name);
  const auto size = static_cast<int64_t>(data.pieces.size());
  const auto usable = [&](const char* key, const Json& value) -> Result<bool> {
    if (!value.is_number_integer()) return fields.wrong(key, "an id or a list of ids");
    const auto id = value.get<int64_t>();
    if (id >= 0 && id < size) return true;
    if (id >= 0)
      spdlog::warn("{}: {}: id {} is outside the vocabulary of {}: ignored", name, key, id, size);
    return false;
  };
  if (const Json* bos = fields.find("bos_token_id"))
    if (RK_TRY(usable("bos_token_id", *bos)) && data.bos < 0) data.bos = bos->get<int32_t>();
  const Json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return {};
  const Json list = eos->is_array() ? *eos : Json::array({*eos});
  for (const Json& entry : list) {
    if (!RK_TRY(usable("eos_token_id", entry))) continue;
    if (data.eos < 0) data.eos = entry.get<int32_t>();
    data.end_of_generation.push_back(entry.get<int32_t>());
  }
  return {};
}

Result<TokenizerData> read_hf_tokenizer(const std::string& folder, const Json& config) {
  const auto path = [&](const char* file) { return folder + "/" + file; };
  const auto with_folder = [&](Error error) {
    error.message = folder + ": " + error.message;
    return error;
  };
  if (!present(path("tokenizer.json"))) {
    TokenizerData none;
    none.note = present(path("tokenizer.model"))
                    ? folder + " has tokenizer.model alone; tokenizer.json is needed"
                    : folder + " has no tokenizer.json";
    return none;
  }
  const std::string text = RK_TRY(read_text_file(path("tokenizer.json"), kLargestTokenizerFile));
  Result<TokenizerData> parsed = parse_tokenizer_json(text);
  if (!parsed.ok()) return with_folder(parsed.error());
  TokenizerData data = std::move(parsed).value();

  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    if (!present(path(name))) continue;
    const std::string small = RK_TRY(read_text_file(path(name), kLargestSmallFile));
    const Json json = RK_TRY(parse_json(small, path(name)));
    RK_TRY(apply_tokenizer_config(json, path(name), data));
  }
  if (present(path("chat_template.jinja")))
    data.chat_template = RK_TRY(read_text_file(path("chat_template.jinja"), kLargestSmallFile));
  if (data.kind == TokenizerData::Kind::none) return data;

  if (present(path("generation_config.json"))) {
    const std::string small =
        RK_TRY(read_text_file(path("generation_config.json"), kLargestSmallFile));
    const Json json = RK_TRY(parse_json(small, path("generation_config.json")));
    RK_TRY(apply_special_ids(json, path("generation_config.json"), data));
  }
  RK_TRY(apply_special_ids(config, path("config.json"), data));
  const JsonFields outer(config, path("config.json"));
  if (const auto inner = RK_TRY(outer.object("text_config")))
    RK_TRY(apply_special_ids(inner->json(), inner->where(), data));
  collect_end_of_generation(data);
  return data;
}

}  // namespace ringkeep::checkpoint
