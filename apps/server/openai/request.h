// What a request for text asks for, read from its JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/sampling.h"
#include "server/openai/fields.h"

namespace ringkeep::openai {

inline constexpr int64_t kMaxTopLogprobs = 20;
inline constexpr int64_t kMaxStops = 16;
inline constexpr size_t kMaxStopBytes = 1024;
inline constexpr size_t kMaxStopTokens = 1024;
// What a chat template goes through, several times a request; docs/serving.md, Limits.
inline constexpr size_t kMaxMessages = 4096;
inline constexpr size_t kMaxParts = 16384;     // of the contents of all messages
inline constexpr size_t kMaxToolCalls = 4096;  // of all messages
inline constexpr size_t kMaxTools = 1024;
inline constexpr size_t kMaxDocuments = 4096;
inline constexpr size_t kMaxTemplateVariables = 64;
inline constexpr size_t kMaxAdapters = 1024;
inline constexpr int64_t kMaxChoices = 128;  // of a request: prompts times n or best_of

// The server's defaults.
struct Defaults {
  engine::SamplingParams sampling;
  int64_t chat_max_tokens = -1;  // -1: until the context ends
  int64_t completion_max_tokens = 16;
  int64_t vocab_size = 0;  // ids at and above it are refused
};

// What the text has to look like (structured output). `param` names the field that said so.
struct OutputRule {
  enum class Kind { none, json_object, json_schema, regex, grammar, choice };
  Kind kind = Kind::none;
  std::string param;
  Json schema;                       // json_schema
  std::string text;                  // regex, grammar (GBNF)
  std::vector<std::string> choices;  // choice
};

struct GenerationFields {
  std::string model;
  bool stream = false;
  bool include_usage = false;
  bool usage_in_chunks = false;
  int64_t max_tokens = -1;  // < 0: until the context ends
  int64_t n = 1;
  int64_t best_of = 1;  // completions: replies that n are chosen from; less than n: as many as n
  std::optional<uint64_t> seed;
  engine::SamplingParams sampling;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_tokens;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool cache_prompt = true;
  std::string adapters;  // name of an adapter, as in mlx-lm; empty: not said
  // Scales by the adapters' indices, as in llama.cpp; nothing: not said.
  std::optional<std::vector<std::pair<int64_t, float>>> lora;
  std::optional<int> adapter;  // that they and `model` choose; -1: none; nothing: the server's
  bool return_token_ids = false;
  int top_logprobs = -1;  // -1: no logprobs
  OutputRule rule;
};

// What a chat template is given beside the messages.
struct TemplateFields {
  Json tools;  // null: none
  Json variables = Json::object();
  bool add_generation_prompt = true;
};

struct ChatFields : GenerationFields {
  Json messages;  // in the shape that templates read
  TemplateFields shown;
  Json tool_choice;
  bool parallel_tool_calls = true;
  bool parse_special = false;  // control tokens spelled in messages become those tokens
};

struct CompletionFields : GenerationFields {
  using Prompt = std::variant<std::string, std::vector<int32_t>>;
  std::vector<Prompt> prompts;
  bool echo = false;
  bool add_special_tokens = true;
};

// Visits the fields; the values start from the defaults.
void visit(Fields& fields, ChatFields& request, const Defaults& defaults);
void visit(Fields& fields, CompletionFields& request, const Defaults& defaults);

// Parts of them.
// Its value, or of llama.cpp's name, where there is none.
void visit_max_tokens(Fields& fields, const Fields::Names& names, int64_t& value);
void visit_common(Fields& fields, GenerationFields& request, const Defaults& defaults);
void visit_output_rule(Fields& fields, OutputRule& rule, bool response_format);
void visit_foreign(Fields& fields);  // of other programs: what has no effect, or is off here
void visit_messages(Fields& fields, Json& messages, bool required = true);
// OpenAI's role "developer" is "system" where the template does not know it.
void fit_developer(const std::string& template_source, Json& messages);
void visit_tools(Fields& fields, Json& tools);
void visit_template(Fields& fields, TemplateFields& shown);  // tools among them

// A failure of `param` where there are more of `things` than `most`.
bool within(Fields& fields, const std::string& param, size_t count, size_t most,
            const char* things);
// The array of a chat's messages, counted: false, and a failure, for what is none or too large.
bool check_messages_size(Fields& fields, const Json& messages);
// Token ids in [0, vocab_size), or a failure of `param`.
std::vector<int32_t> read_token_ids(Fields& fields, const std::string& param, const Json& value,
                                    int64_t vocab_size);

}  // namespace ringkeep::openai
