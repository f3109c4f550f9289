// Replies for the tests of the parser: all of its deltas added up, for any way to cut the text.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/reply_parser.h"
#include "text/stream_decoder.h"

namespace ringkeep::prompt {

struct Call {
  std::string name, arguments, id;
  bool operator==(const Call& other) const = default;
};

struct Reply {
  std::string content, reasoning;
  std::vector<Call> calls;
  bool ordered = true;  // indices grow by one, and only the first piece of a call has a name
  bool operator==(const Reply& other) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Reply& reply) {
  out << "content \"" << reply.content << "\" reasoning \"" << reply.reasoning << "\"";
  for (const Call& call : reply.calls) out << " call " << call.name << " " << call.arguments;
  return out << (reply.ordered ? "" : " out of order");
}

inline void add(const ReplyDelta& delta, Reply& reply) {
  reply.content += delta.content;
  reply.reasoning += delta.reasoning;
  for (const ToolCallDelta& call : delta.tool_calls) {
    const auto index = static_cast<size_t>(call.index);
    if (index == reply.calls.size()) {
      reply.calls.push_back({.name = call.name, .id = call.id});
      reply.ordered = reply.ordered && !call.name.empty() && !call.id.empty();
    } else {
      reply.ordered =
          reply.ordered && index + 1 == reply.calls.size() && call.name.empty() && call.id.empty();
    }
    if (index < reply.calls.size()) reply.calls[index].arguments += call.arguments;
  }
}

inline Reply parse_pieces(ReplyFormat format, const std::vector<std::string>& pieces,
                          ReplyOptions options, bool cut_short = false) {
  options.id_seed = 7;
  ReplyParser parser(format, std::move(options));
  Reply reply;
  for (const std::string& piece : pieces) add(parser.push(piece), reply);
  add(parser.finish(cut_short), reply);
  reply.ordered = reply.ordered && parser.called_tools() == !reply.calls.empty();
  return reply;
}

inline std::vector<std::string> cut(const std::string& text, size_t most, std::mt19937& random) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t size = most == 1 ? 1 : random() % most + 1;
    pieces.push_back(text.substr(at, size));
    at += size;
  }
  return pieces;
}

// The text of a reply whose control tokens are the marks that it spells.
inline std::string with_control(const std::string& text, const std::vector<std::string>& marks) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto mark = std::ranges::find_if(
        marks, [&](const std::string& m) { return text.compare(at, m.size(), m) == 0; });
    out += mark == marks.end() ? text.substr(at, 1) : text::marked_control(*mark);
    at += mark == marks.end() ? 1 : mark->size();
  }
  return out;
}

// Bytes one by one, control tokens whole.
inline std::vector<std::string> single(const std::string& text) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += pieces.back().size()) {
    const bool control = text[at] == text::kControlBegin;
    pieces.push_back(text.substr(at, control ? text.find(text::kControlEnd, at) + 1 - at : 1));
  }
  return pieces;
}

// The tools of all tests.
inline nlohmann::ordered_json test_tools() {
  return nlohmann::ordered_json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
      "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                     "units": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                     "exact": {"type": "boolean"}, "where": {"type": "object"},
                     "list": {"type": "array"}, "ratio": {"type": "number"}, "any": {}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object",
      "properties": {}}}}])");
}

}  // namespace ringkeep::prompt
