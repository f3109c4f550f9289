// Fields that chat and plain completions share.
#include <algorithm>
#include <charconv>

#include "server/openai/request.h"

namespace ringkeep::openai {
namespace {

const Json kIdSchema = {{"type", "integer"}, {"minimum", 0}};

void read_stop(Fields& fields, const Json& value, std::vector<std::string>& stop) {
  const auto add = [&](const Json& item, const std::string& param) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty())
      return fields.fail(
          param, fmt::format("expected a string that is not empty, found {}", describe(item)));
    if (item.get_ref<const std::string&>().size() > kMaxStopBytes)
      return fields.fail(param, fmt::format("at most {} bytes are allowed", kMaxStopBytes));
    stop.push_back(item.get<std::string>());
  };
  stop.clear();
  if (!value.is_array()) return add(value, "stop");
  if (value.size() > static_cast<size_t>(kMaxStops))
    return fields.fail(
        "stop", fmt::format("at most {} strings are allowed, found {}", kMaxStops, value.size()));
  for (size_t i = 0; i < value.size(); ++i) add(value[i], fmt::format("stop[{}]", i));
}

// `seen`: [vocab_size] the ids so far.
void read_bias(Fields& fields, const std::string& param, const Json& id, const Json& bias,
               std::vector<bool>& seen, engine::SamplingParams& sampling) {
  const auto vocab_size = static_cast<int64_t>(seen.size());
  int64_t token = -1;
  if (id.is_string()) {
    const std::string& text = id.get_ref<const std::string&>();
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), token);
    if (code != std::errc() || end != text.data() + text.size()) token = -1;
  } else if (const auto number = whole_number(id, 0, INT64_MAX)) {
    token = *number;
  }
  if (token < 0 || token >= vocab_size)
    return fields.fail(param, fmt::format("expected a token id from 0 to {}, found {}",
                                          vocab_size - 1, describe(id)));
  if (!bias.is_number() || !(bias.get<double>() >= -100.0 && bias.get<double>() <= 100.0))
    return fields.fail(param,
                       fmt::format("expected a bias from -100 to 100, found {}", describe(bias)));
  if (seen[static_cast<size_t>(token)])
    return fields.fail(param, fmt::format("token {} has a bias already", token));
  seen[static_cast<size_t>(token)] = true;
  sampling.logit_bias.emplace_back(static_cast<int32_t>(token), bias.get<float>());
}

void read_logit_bias(Fields& fields, const Json& value, int64_t vocab_size,
                     engine::SamplingParams& sampling) {
  if (value.is_structured() &&
      !within(fields, "logit_bias", value.size(), static_cast<size_t>(vocab_size), "biases"))
    return;
  std::vector<bool> seen(static_cast<size_t>(vocab_size));
  if (value.is_object()) {
    for (const auto& [id, bias] : value.items())
      read_bias(fields, "logit_bias." + id, Json(id), bias, seen, sampling);
    return;
  }
  if (!value.is_array())
    return fields.fail("logit_bias", fmt::format("expected an object of ids, or a list of [id, "
                                                 "bias], found {}",
                                                 describe(value)));
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string param = fmt::format("logit_bias[{}]", i);
    if (!value[i].is_array() || value[i].size() != 2)
      return fields.fail(param, fmt::format("expected [id, bias], found {}", describe(value[i])));
    read_bias(fields, param, value[i][0], value[i][1], seen, sampling);
  }
}

void read_stream_options(Fields& fields, const Json& value, GenerationFields& request) {
  if (!value.is_object())
    return fields.fail("stream_options",
                       fmt::format("expected an object, found {}", describe(value)));
  FieldReader reader(value, "stream_options.");
  reader.boolean({"include_usage"}, request.include_usage, "");
  reader.boolean({"continuous_usage_stats"}, request.usage_in_chunks, "");
  reader.without_effect({"include_obfuscation"});
  if (const auto error = reader.finish())
    fields.fail(error->param, error->message.substr(error->param.size() + 2), error->code);
}

// [{"id": 0, "scale": 1.0}, ...]
void read_lora(Fields& fields, const Json& value, GenerationFields& request) {
  if (!value.is_array())
    return fields.fail("lora", fmt::format("expected an array, found {}", describe(value)));
  if (!within(fields, "lora", value.size(), kMaxAdapters, "adapters")) return;
  request.lora.emplace();
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("lora[{}]", i);
    if (!value[i].is_object())
      return fields.fail(path, fmt::format("expected an object, found {}", describe(value[i])));
    FieldReader reader(value[i], path + ".");
    int64_t id = -1;
    float scale = 0.0f;
    reader.integer({"id"}, id, 0, INT32_MAX, "");
    reader.number({"scale"}, scale, -1000, 1000, "");
    reader.required("id");
    reader.required("scale");
    if (const auto error = reader.finish())
      return fields.fail(error->param, error->message.substr(error->param.size() + 2), error->code);
    if (std::ranges::count(*request.lora, id, [](const auto& entry) { return entry.first; }) > 0)
      return fields.fail(path + ".id",
                         fmt::format("expected each adapter once, found {} again", id));
    request.lora->emplace_back(id, scale);
  }
}

void read_seed(Fields& fields, const Json& value, std::optional<uint64_t>& seed) {
  if (value.is_number_unsigned()) {
    seed = value.get<uint64_t>();
  } else if (const auto number = whole_number(value, INT64_MIN, INT64_MAX)) {
    if (*number == -1)
      seed.reset();  // llama.cpp's word for a random one
    else
      seed = static_cast<uint64_t>(*number);
  } else {
    fields.fail("seed", fmt::format("expected a whole number, found {}", describe(value)));
  }
}

}  // namespace

std::vector<int32_t> read_token_ids(Fields& fields, const std::string& param, const Json& value,
                                    int64_t vocab_size) {
  std::vector<int32_t> ids;
  if (!value.is_array()) {
    fields.fail(param, fmt::format("expected an array of token ids, found {}", describe(value)));
    return ids;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    const auto id = whole_number(value[i], 0, vocab_size - 1);
    if (!id) {
      fields.fail(fmt::format("{}[{}]", param, i),
                  fmt::format("expected a token id from 0 to {}, found {}", vocab_size - 1,
                              describe(value[i])));
      return ids;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

void visit_max_tokens(Fields& fields, const Fields::Names& names, int64_t& value) {
  fields.integer({"n_predict"}, value, -1, INT64_MAX, "The same as max_tokens, which comes first.");
  fields.integer(names, value, -1, INT64_MAX,
                 "Most tokens of a reply; 0: an empty one; -1: until the context ends.");
}

void visit_common(Fields& fields, GenerationFields& request, const Defaults& defaults) {
  request.sampling = defaults.sampling;
  engine::SamplingParams& sampling = request.sampling;
  fields.text({"model"}, request.model,
              "A name of /v1/models, of the model or an adapter; null: the model that is served.");
  fields.text({"adapters"}, request.adapters, "A name of an adapter, or the path that it has.");
  fields.other(
      {"lora"},
      {{"type", "array"},
       {"items",
        {{"type", "object"},
         {"properties",
          {{"id", {{"type", "integer"}, {"minimum", 0}}}, {"scale", {{"type", "number"}}}}},
         {"required", Json::array({"id", "scale"})},
         {"additionalProperties", false}}},
       {"maxItems", kMaxAdapters}},
      [&](const Json& value) { read_lora(fields, value, request); },
      "The adapter that is on, by its place; scale: the one that it was loaded with, or 0.");
  fields.boolean({"stream"}, request.stream, "Answer as server-sent events.");
  fields.other(
      {"stream_options"},
      {{"type", "object"},
       {"properties",
        {{"include_usage", {{"type", {"boolean", "null"}}}},
         {"continuous_usage_stats", {{"type", {"boolean", "null"}}}},
         {"include_obfuscation", Json::object()}}},
       {"additionalProperties", false}},
      [&](const Json& value) { read_stream_options(fields, value, request); },
      "include_usage: a last chunk with the usage and no choices.");
  fields.integer({"n"}, request.n, 1, kMaxChoices,
                 "Replies to each prompt; they share what the prompt costs.");
  fields.other(
      {"seed"}, {{"type", "integer"}},
      [&](const Json& value) { read_seed(fields, value, request.seed); },
      "Reply i uses seed + i, whatever else runs. null or -1: a random one.");
  fields.number({"temperature"}, sampling.temperature, 0, 100, "0: the most likely token.");
  fields.number({"top_p"}, sampling.top_p, 0, 1, "1: off.");
  fields.number({"min_p"}, sampling.min_p, 0, 1, "0: off.");
  int64_t top_k = sampling.top_k;
  fields.integer({"top_k"}, top_k, -1, INT32_MAX, "0 or -1: off.");
  sampling.top_k = static_cast<int>(top_k);
  fields.number({"repetition_penalty", "repeat_penalty"}, sampling.repetition_penalty, 1e-3, 100,
                "Of tokens of prompt and reply, however far back; 1: off.");
  fields.number({"presence_penalty"}, sampling.presence_penalty, -2, 2, "Of tokens of the reply.");
  fields.number({"frequency_penalty"}, sampling.frequency_penalty, -2, 2,
                "Of tokens of the reply, for each time.");
  fields.other(
      {"logit_bias"},
      {{"oneOf",
        {{{"type", "object"},
          {"additionalProperties", {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}},
          {"propertyNames", {{"pattern", "^[0-9]+$"}}}},
         {{"type", "array"},
          {"items",
           {{"type", "array"},
            {"prefixItems", {kIdSchema, {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}}},
            {"minItems", 2},
            {"maxItems", 2}}}}}}},
      [&](const Json& value) {
        sampling.logit_bias.clear();
        read_logit_bias(fields, value, defaults.vocab_size, sampling);
      },
      "Added to logits: {\"id\": bias} or [[id, bias], ...].");
  fields.other(
      {"stop"},
      {{"oneOf",
        {{{"type", "string"}, {"minLength", 1}, {"maxLength", kMaxStopBytes}},
         {{"type", "array"},
          {"items", {{"type", "string"}, {"minLength", 1}, {"maxLength", kMaxStopBytes}}},
          {"maxItems", kMaxStops}}}}},
      [&](const Json& value) { read_stop(fields, value, request.stop); },
      "The reply ends before the first of these.");
  fields.other(
      {"stop_token_ids"}, {{"type", "array"}, {"items", kIdSchema}},
      [&](const Json& value) {
        if (!within(fields, "stop_token_ids", value.size(), kMaxStopTokens, "ids")) return;
        request.stop_tokens = read_token_ids(fields, "stop_token_ids", value, defaults.vocab_size);
      },
      "Further tokens that end the reply.");
  fields.boolean({"ignore_eos"}, request.ignore_eos, "Go on after an end token.");
  fields.boolean({"skip_special_tokens"}, request.skip_special_tokens,
                 "false: control tokens appear in the text.");
  fields.boolean({"cache_prompt"}, request.cache_prompt,
                 "false: run the whole prompt, whatever is cached.");
  fields.boolean({"return_token_ids"}, request.return_token_ids,
                 "Add prompt_token_ids, and token_ids to each choice.");
  visit_foreign(fields);
}

// Order matters to no one: each field stands for itself.
void visit_foreign(Fields& fields) {
  fields.without_effect({"user", "store", "metadata", "service_tier", "safety_identifier",
                         "prompt_cache_key", "prompt_cache_retention", "prediction",
                         "spaces_between_special_tokens"});
  // What would shape samplers that are off: the fields that switch them on are refused below.
  fields.without_effect({"xtc_threshold", "xtc_special_tokens", "dry_base", "dry_allowed_length",
                         "dry_penalty_last_n", "dry_sequence_breakers", "mirostat_tau",
                         "mirostat_eta"});
  static constexpr const char* kOff = "it is not supported; leave it out or switch it off";
  for (const char* name : {"typical_p", "tfs_z", "length_penalty", "dynatemp_exponent"})
    fields.only(name, {1.0}, kOff);
  for (const char* name : {"dynatemp_range", "mirostat", "dry_multiplier", "xtc_probability",
                           "min_tokens", "min_keep", "n_keep", "priority"})
    fields.only(name, {0}, kOff);
  fields.only("top_n_sigma", {-1, 0}, kOff);
  fields.only("top_a", {0}, kOff);
  for (const char* name :
       {"use_beam_search", "include_stop_str_in_output", "timings_per_token", "post_sampling_probs",
        "return_tokens_as_token_ids", "return_progress", "return_tokens"})
    fields.only(name, {false}, kOff);
  fields.only("id_slot", {-1}, "places in the cache are not chosen by the client");
  fields.only("repeat_last_n", {-1}, "the penalty looks at all tokens: expected -1");
  fields.refused({"repetition_context_size"},
                 "the penalty looks at all tokens: leave this field out");
  fields.refused({"cache_salt"}, "prefixes are shared by all requests: leave this field out");
  fields.refused({"request_id"}, "name a request with the header X-Request-Id");
  fields.refused({"draft_model", "num_draft_tokens"}, "it is not supported by this server");
  fields.refused(
      {"prompt_logprobs", "truncate_prompt_tokens", "logits_processors", "bad_words",
       "allowed_token_ids", "t_max_predict_ms", "t_max_prompt_ms", "n_indent", "n_discard",
       "samplers", "samplers_order", "logit_processor_params", "guided_decoding_backend",
       "guided_whitespace_pattern", "structural_tag", "role_mapping", "kv_transfer_params"},
      "it is not supported by this server");
}

}  // namespace ringkeep::openai
