// Fields of /v1/completions.
#include "server/openai/request.h"

namespace ringkeep::openai {
namespace {

bool is_number_list(const Json& value) {
  return value.is_array() && !value.empty() && value[0].is_number();
}

void read_prompt(Fields& fields, const std::string& param, const Json& value, int64_t vocab_size,
                 CompletionFields& request) {
  if (value.is_string() && value.get_ref<const std::string&>().empty())
    fields.fail(param, "the prompt is empty");
  else if (value.is_string())
    request.prompts.emplace_back(value.get<std::string>());
  else if (is_number_list(value))
    request.prompts.emplace_back(read_token_ids(fields, param, value, vocab_size));
  else
    fields.fail(param,
                fmt::format("expected a text or an array of token ids, found {}", describe(value)));
}

void read_prompts(Fields& fields, const Json& value, int64_t vocab_size,
                  CompletionFields& request) {
  if (!value.is_array() || is_number_list(value))
    return read_prompt(fields, "prompt", value, vocab_size, request);
  if (value.empty() || value.size() > static_cast<size_t>(kMaxChoices))
    return fields.fail(
        "prompt", fmt::format("expected 1 to {} prompts, found {}", kMaxChoices, value.size()));
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i].type() != value[0].type())
      return fields.fail(fmt::format("prompt[{}]", i), "expected the same kind as before it");
    read_prompt(fields, fmt::format("prompt[{}]", i), value[i], vocab_size, request);
  }
}

}  // namespace

void visit(Fields& fields, CompletionFields& request, const Defaults& defaults) {
  const Json text = {{"type", "string"}, {"minLength", 1}};
  const Json ids = {
      {"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}, {"minItems", 1}};
  fields.other(
      {"prompt"},
      {{"oneOf",
        {text,
         ids,
         {{"type", "array"}, {"items", text}, {"minItems", 1}},
         {{"type", "array"}, {"items", ids}, {"minItems", 1}}}}},
      [&](const Json& value) { read_prompts(fields, value, defaults.vocab_size, request); },
      "A text or token ids, or several of them.");
  fields.required("prompt");
  request.max_tokens = defaults.completion_max_tokens;
  visit_max_tokens(fields, {"max_tokens", "max_completion_tokens"}, request.max_tokens);
  visit_common(fields, request, defaults);
  int64_t logprobs = -1;
  fields.integer({"logprobs"}, logprobs, 0, kMaxTopLogprobs,
                 "Log-probabilities of the reply's tokens and so many of the likeliest ones.");
  request.top_logprobs = static_cast<int>(logprobs);
  fields.boolean({"echo"}, request.echo,
                 "The reply begins with the prompt, and logprobs with those of its tokens.");
  request.best_of = request.n;
  fields.integer({"best_of"}, request.best_of, 1, kMaxChoices,
                 "Make so many replies and give the n with the highest mean log-probability.");
  if (request.best_of < request.n)
    fields.fail("best_of",
                fmt::format("expected at least n ({}), found {}", request.n, request.best_of));
  if (request.best_of > request.n && request.stream)
    fields.fail("best_of", "which replies are best is known at their end: it excludes stream",
                "unsupported_value");
  fields.boolean({"add_special_tokens"}, request.add_special_tokens,
                 "false: no BOS before a text.");
  fields.refused({"suffix"}, "filling in the middle is not supported: leave this field out");
  fields.refused({"n_probs"}, "use logprobs");
  visit_output_rule(fields, request.rule, /*response_format=*/true);
}

}  // namespace ringkeep::openai
