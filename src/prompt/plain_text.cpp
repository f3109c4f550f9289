#include "prompt/plain_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "prompt/reply_format.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

// U+FDD0 to U+FDEF, in UTF-8: never text, and nothing that a template does to text changes them.
std::string noncharacter(int index) { return {'\xEF', '\xB7', static_cast<char>(0x90 + index)}; }
std::string escaped_noncharacter(int index) { return fmt::format("\\u{:x}", 0xFDD0 + index); }
constexpr int kNoncharacters = 32;

template <typename Use>
bool any_string(const Json& value, const Use& use) {
  if (value.is_string()) return use(value.get_ref<const std::string&>());
  if (!value.is_structured()) return false;
  for (const auto& [key, member] : value.items())
    if ((value.is_object() && use(key)) || any_string(member, use)) return true;
  return false;
}

// Names that templates look members up by, which stay as they are whatever they end with.
bool is_identifier(std::string_view key) {
  return std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Members of a message whose text the marks of reasoning are part of.
bool may_reason(std::string_view key) {
  return key == "content" || key == "reasoning_content" || key == "thinking";
}

// Replaces the strings and keys of `value` in place.
class Marker {
 public:
  Marker(const text::Tokenizer& tokenizer, const std::string& mark, std::vector<int32_t> reasoning)
      : tokenizer_(tokenizer), mark_(mark), reasoning_(std::move(reasoning)) {}

  void run_messages(Json& messages) {
    if (!messages.is_array()) return run(messages);
    for (Json& message : messages) {
      const bool is_object = message.is_object();
      const auto role = is_object ? message.find("role") : message.end();
      if (is_object && role != message.end() && *role == "assistant")
        for (auto& [key, member] : message.get_ref<Json::object_t&>()) {
          said_ = may_reason(key);
          run(member);
          said_ = false;
        }
      else
        run(message);
    }
  }

  void run(Json& value) {
    if (value.is_string()) {
      run(value.get_ref<std::string&>());
    } else if (value.is_array()) {
      for (Json& item : value) run(item);
    } else if (value.is_object()) {
      Json::object_t out;
      out.reserve(value.size());
      for (auto& [key, member] : value.get_ref<Json::object_t&>()) {
        std::string name = key;
        if (!is_identifier(name)) run(name);
        run(member);
        // Without a look-up: names that differ still do.
        static_cast<Json::object_t::Container&>(out).emplace_back(std::move(name),
                                                                  std::move(member));
      }
      value = std::move(out);
    }
  }

 private:
  void run(std::string& text) {
    const auto marks = tokenizer_.control_marks(
        text, said_ ? std::span<const int32_t>(reasoning_) : std::span<const int32_t>());
    if (marks.empty()) return;
    std::string out;
    out.reserve(text.size() + marks.size() * mark_.size());
    size_t at = 0;
    for (const size_t place : marks) {
      out.append(text, at, place - at);
      out += mark_;
      at = place;
    }
    out.append(text, at);
    text = std::move(out);
  }

  const text::Tokenizer& tokenizer_;
  const std::string& mark_;
  const std::vector<int32_t> reasoning_;
  bool said_ = false;  // within what an assistant said or thought
};

}  // namespace

Result<PlainText> PlainText::mark(const text::Tokenizer& tokenizer,
                                  std::string_view template_source, Json& variables) {
  PlainText plain;
  const auto marked = [](const std::string& name) { return !name.ends_with("_token"); };
  bool any = false;
  for (const auto& [name, value] : variables.items())
    any = any || (marked(name) && any_string(value, [&](const std::string& text) {
                    return !tokenizer.control_marks(text).empty();
                  }));
  if (!any) return plain;
  for (int i = 0; i < kNoncharacters && plain.mark_.empty(); ++i) {
    const std::string mark = noncharacter(i), escaped = escaped_noncharacter(i);
    const auto holds = [&](std::string_view text) {
      return text.find(mark) != text.npos || text.find(escaped) != text.npos;
    };
    if (holds(template_source) || any_string(variables, holds)) continue;
    plain.mark_ = mark;
    plain.escaped_ = escaped;
  }
  if (plain.mark_.empty())
    return make_error(ErrorKind::usage,
                      "a chat that spells control tokens: expected one of U+FDD0 to U+FDEF that it "
                      "does not hold, found all of them in it");
  const ReplyFormat format = detect_reply_format(template_source);
  const ReasoningMarks reasoning = reasoning_marks(format);
  std::vector<int32_t> ids;  // marks of channels end any message: templates write them themselves
  if (!format.has_channels())
    for (const std::string& text : {reasoning.open, reasoning.close})
      if (const int32_t id = tokenizer.id_of(text); id >= 0) ids.push_back(id);
  Marker marker(tokenizer, plain.mark_, std::move(ids));
  for (auto& [name, value] : variables.get_ref<Json::object_t&>())
    if (name == "messages")
      marker.run_messages(value);
    else if (marked(name))
      marker.run(value);
  return plain;
}

std::vector<size_t> PlainText::unmark(std::string& text) const {
  std::vector<size_t> places;
  if (mark_.empty()) return places;
  std::string out;
  out.reserve(text.size());
  size_t mark = text.find(mark_), escaped = text.find(escaped_);
  for (size_t at = 0; at < text.size();) {
    if (mark < at) mark = text.find(mark_, at);
    if (escaped < at) escaped = text.find(escaped_, at);
    const size_t found = std::min({mark, escaped, text.size()});
    out.append(text, at, found - at);
    at = found;
    if (found == text.size()) break;
    places.push_back(out.size());
    at += found == mark ? mark_.size() : escaped_.size();
  }
  text = std::move(out);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

}  // namespace ringkeep::prompt
