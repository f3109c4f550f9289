#include "grammar/tool_calls.h"

#include <algorithm>

#include "text/utf8.h"

namespace ringkeep::grammar {
namespace {

// Text in which each mark is either spelled out or the control token of that name.
Result<GrammarPtr> marked_text(std::string_view text, const std::vector<std::string>& marks) {
  std::vector<GrammarPtr> parts;
  while (!text.empty()) {
    size_t at = text.size();
    const std::string* first = nullptr;
    for (const std::string& mark : marks) {
      const size_t found = mark.empty() ? text.npos : text.find(mark);
      const bool longer = found == at && first != nullptr && mark.size() > first->size();
      if (found < at || longer) {
        at = found;
        first = &mark;
      }
    }
    if (at > 0) parts.push_back(Grammar::literal(text.substr(0, at)));
    if (first == nullptr) break;
    const std::vector<GrammarPtr> both = {Grammar::literal(*first), Grammar::control(*first)};
    parts.push_back(RK_TRY(Grammar::any_of(both)));
    text.remove_prefix(at + first->size());
  }
  return Grammar::sequence(parts);
}

Result<GrammarPtr> joined(const std::vector<GrammarPtr>& parts) { return Grammar::sequence(parts); }

Result<GrammarPtr> arguments(const Tool& tool, const ToolCallFormat& format,
                             const Grammar::JsonOptions& options) {
  std::vector<GrammarPtr> all;
  const bool is_mark = std::find(format.marks.begin(), format.marks.end(),
                                 format.arguments.string_mark) != format.marks.end();
  for (const bool control : {false, true}) {
    if (control && !is_mark) continue;
    ArgumentFormat written = format.arguments;
    written.mark_control = written.mark_control || control;
    auto grammar = tool_arguments(tool.parameters, written, options);
    if (!grammar) {
      return make_error(ErrorKind::usage, "parameters of tool \"{}\": {}", tool.name,
                        grammar.error().message);
    }
    all.push_back(*grammar);
  }
  return Grammar::any_of(all);
}

}  // namespace

Result<GrammarPtr> tool_calls(const ToolCallFormat& format, std::span<const Tool> tools,
                              const ToolCallOptions& options) {
  if (tools.empty()) return make_error(ErrorKind::usage, "tool calls: expected a tool, found none");
  const auto text = [&](std::string_view part) { return marked_text(part, format.marks); };
  std::vector<GrammarPtr> bodies;
  for (const Tool& tool : tools) {
    const bool plain = std::none_of(tool.name.begin(), tool.name.end(), [](char c) {
      return c == '"' || c == '\\' || (static_cast<uint8_t>(c) & 0xE0) == 0;
    });
    if (tool.name.empty() || !plain || text::utf8_valid_prefix(tool.name) != tool.name.size()) {
      return make_error(ErrorKind::usage,
                        "tool calls: expected a tool's name without quotes, backslashes and "
                        "control characters, found {} bytes that are none",
                        tool.name.size());
    }
    bodies.push_back(RK_TRY(
        joined({Grammar::literal(tool.name), RK_TRY(text(format.name_end)),
                RK_TRY(arguments(tool, format, options.json)), RK_TRY(text(format.call_end))})));
  }
  const GrammarPtr body = RK_TRY(Grammar::any_of(bodies));
  const GrammarPtr end = RK_TRY(text(format.end));
  GrammarPtr after_first = end;
  if (options.parallel) {
    const GrammarPtr next =
        RK_TRY(joined({RK_TRY(text(format.separator + format.call_begin)), body}));
    after_first = RK_TRY(joined({RK_TRY(Grammar::repeat(next, 0, UINT32_MAX)), end}));
  }

  const std::string start = format.begin + format.call_begin;
  if (options.required) return joined({RK_TRY(text(start)), body, after_first});

  std::string trigger = format.trigger.empty() ? start : format.trigger;
  if (format.trigger.empty()) {
    for (const std::string& mark : format.marks)
      if (!mark.empty() && start.starts_with(mark) && mark.size() < trigger.size()) trigger = mark;
  }
  if (trigger.empty() || !start.starts_with(trigger)) {
    return make_error(ErrorKind::usage,
                      "tool calls: expected a trigger that the format begins with, found \"{}\"",
                      trigger);
  }
  const bool is_mark =
      std::find(format.marks.begin(), format.marks.end(), trigger) != format.marks.end();
  const GrammarPtr rest =
      RK_TRY(joined({RK_TRY(text(start.substr(trigger.size()))), body, after_first}));
  Grammar::FreeText free{.controls = options.free_controls, .once = !options.parallel};
  free.triggers.push_back({trigger, false, rest});
  if (is_mark) free.triggers.push_back({trigger, true, rest});
  return Grammar::free_text(free);
}

Result<GrammarPtr> after_reasoning(const ReasoningFormat& format, const GrammarPtr& grammar) {
  if (format.close.empty()) {
    return make_error(ErrorKind::usage,
                      "reasoning: expected a mark that closes it, found an empty one");
  }
  const GrammarPtr space = RK_TRY(Grammar::from_regex("[ \\n]{0,8}"));
  const GrammarPtr then = RK_TRY(joined({space, grammar}));
  Grammar::FreeText free{.once = true, .may_end = false};
  free.triggers.push_back({format.close, false, then});
  free.triggers.push_back({format.close, true, then});
  const GrammarPtr thinking = RK_TRY(Grammar::free_text(free));
  if (format.opened) return thinking;
  const GrammarPtr opened =
      RK_TRY(joined({RK_TRY(marked_text(format.open, {format.open})), thinking}));
  const std::vector<GrammarPtr> both = {grammar, opened};
  return Grammar::any_of(both);
}

}  // namespace ringkeep::grammar
