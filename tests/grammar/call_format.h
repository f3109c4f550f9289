// Calls as the reply parser's formats write them: grammars, and texts read back.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "grammar/tool_calls.h"
#include "grammar/vocabulary.h"
#include "prompt/reply_parser.h"

namespace ringkeep::grammar {

inline ToolCallFormat call_format(prompt::ToolFormat format) {
  using Arguments = prompt::CallGrammar::Arguments;
  using Kind = ArgumentFormat::Kind;
  const prompt::CallGrammar g = prompt::call_grammar(format);
  return {.begin = g.begin,
          .separator = g.separator,
          .end = g.end,
          .call_begin = g.call_begin,
          .name_end = g.name_end,
          .call_end = g.call_end,
          .marks = prompt::reply_marks({format, prompt::ReasoningFormat::none}, true),
          .arguments = {.kind = g.arguments == Arguments::json     ? Kind::json
                                : g.arguments == Arguments::marked ? Kind::marked
                                                                   : Kind::xml,
                        .string_mark = g.string_mark,
                        .parameter_begin = g.parameter_begin,
                        .parameter_name_end = g.parameter_name_end,
                        .parameter_end = g.parameter_end}};
}

// Tokens that let walks through calls come to their end.
inline Vocabulary call_vocabulary(prompt::ToolFormat format) {
  const prompt::CallGrammar g = prompt::call_grammar(format);
  std::vector<std::string> more = {g.begin + g.call_begin,
                                   g.name_end,
                                   g.call_end + g.end,
                                   g.parameter_begin,
                                   g.parameter_name_end,
                                   g.parameter_end,
                                   g.string_mark,
                                   g.string_mark + ",",
                                   g.string_mark + "}",
                                   "</",
                                   "<\\/",
                                   "parameter",
                                   "<esc",
                                   "ape>",
                                   "<|",
                                   "None",
                                   "True"};
  std::erase(more, "");
  return Vocabulary(more);
}

// Like random_walk, but goes for the end more and more often.
inline Walk call_walk(Matcher matcher, const Vocabulary& vocabulary, prompt::ToolFormat format,
                      std::mt19937_64& random) {
  const prompt::CallGrammar g = prompt::call_grammar(format);
  const std::set<std::string> ends = {
      g.parameter_end, g.string_mark, g.string_mark + "}", g.call_end + g.end, "\"", "}", "]"};
  Walk walk;
  while (walk.tokens.size() < 800) {
    if (matcher.complete()) {
      walk.ended = true;
      return walk;
    }
    const std::vector<bool> allowed = mask_of(matcher, vocabulary.size());
    std::vector<int32_t> choices, closing;
    for (int32_t i = 0; i < vocabulary.end; ++i) {
      if (!allowed[static_cast<size_t>(i)]) continue;
      choices.push_back(i);
      if (ends.contains(vocabulary.tokens[static_cast<size_t>(i)].bytes)) closing.push_back(i);
    }
    if (choices.empty()) {
      walk.stuck = !matcher.may_end();
      walk.ended = !walk.stuck;
      return walk;
    }
    const bool close = !closing.empty() && random() % 200 < walk.tokens.size() + 20;
    const auto& from = close ? closing : choices;
    const int32_t token = from[random() % from.size()];
    EXPECT_TRUE(matcher.accept(token).ok()) << walk.text;
    walk.text += vocabulary.trie->bytes(token);
    walk.tokens.push_back(token);
  }
  return walk;
}

struct ReadCall {
  std::string name, arguments;
};
// The one call that a text is read as, whole or in bytes; none if there is more or less in it.
inline std::optional<ReadCall> read_call(prompt::ToolFormat format, const std::string& text,
                                         const std::vector<Tool>& tools) {
  prompt::ReplyOptions options{.tools = nlohmann::ordered_json::array(), .id_seed = 1};
  for (const Tool& tool : tools)
    options.tools.push_back({{"type", "function"},
                             {"function", {{"name", tool.name}, {"parameters", tool.parameters}}}});
  prompt::ReplyParser parser({format, prompt::ReasoningFormat::none}, options);
  ReadCall call;
  std::string content;
  int calls = 0;
  const auto add = [&](const prompt::ReplyDelta& delta) {
    content += delta.content;
    for (const prompt::ToolCallDelta& one : delta.tool_calls) {
      calls = one.index + 1;
      call.name += one.name;
      call.arguments += one.arguments;
    }
  };
  std::string shown = text;  // control tokens by their names
  std::erase(shown, '\xFF');
  add(parser.push(shown));
  add(parser.finish());
  if (calls != 1 || !content.empty()) return std::nullopt;
  return call;
}

}  // namespace ringkeep::grammar
