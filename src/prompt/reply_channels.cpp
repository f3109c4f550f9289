// Replies with channels: a row of messages, as GPT-OSS writes them.
#include <span>
#include <utility>

#include "prompt/reply_parser.h"

namespace ringkeep::prompt {
namespace {

constexpr size_t kMaxHeader = 512;  // bytes
constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kStarts[] = {"<|start|>", "<|channel|>"};
constexpr std::string_view kEnds[] = {"<|end|>", "<|return|>", "<|call|>"};

bool is_one_of(std::span<const std::string_view> marks, std::string_view text, bool& partial) {
  for (const std::string_view mark : marks) {
    if (text == mark) return true;
    partial = partial || mark.starts_with(text);
  }
  return false;
}

}  // namespace

// Tells what of the held bytes cannot belong to a mark, or acts on the mark that they are.
void ReplyParser::settle_channels() {
  if (place_ == Place::head) {
    const MessageHead head = match_message_head(held_);
    if (head.match == Match::more && held_.size() < kMaxHeader) return;
    std::string text = std::exchange(held_, {});
    if (head.match == Match::yes) return begin_message(head);
    place_ = Place::between;  // no header: its first mark is told, the rest is read anew
    size_t sure = 0;
    for (const std::string_view mark : kStarts)
      if (text.starts_with(mark)) sure = mark.size();
    tell(text.substr(0, sure));
    return unread(std::string_view(text).substr(sure));
  }
  while (!held_.empty()) {
    const size_t space = place_ == Place::between ? leading_space() : 0;
    const std::string_view rest = std::string_view(held_).substr(space);
    if (rest.empty()) return;
    bool partial = false;
    if (is_one_of(kEnds, rest, partial)) {
      held_.clear();
      space_ = 0;
      return end_message();
    }
    if (place_ == Place::between && is_one_of(kStarts, rest, partial)) {
      held_.erase(0, space);
      space_ = 0;
      place_ = Place::head;
      return;
    }
    if (partial) return;
    tell(std::string_view(held_).substr(0, space + 1));
    held_.erase(0, space + 1);
    space_ = 0;
  }
}

void ReplyParser::begin_message(const MessageHead& head) {
  place_ = Place::text;
  after_mark_ = false;
  new_message_ = true;
  in_reasoning_ = head.channel == "analysis";
  std::string name;
  if (calls_tool(head, name)) return open_calls({.text = name + "<|message|>", .fed = true}, "");
  if (!in_reasoning_ || format_.reasoning != ReasoningFormat::none) return;
  shown_ = true;
  in_reasoning_ = new_message_ = false;
  tell(reasoning_.open);
}

void ReplyParser::end_message() {
  if (std::exchange(shown_, false)) {
    tell(reasoning_.close);
    told_[0] = false;  // the mark parts it from what follows
  }
  place_ = Place::between;
  in_reasoning_ = false;
  after_mark_ = true;
}

void ReplyParser::tell(std::string_view text) {
  if (text.empty()) return;
  std::string& out = in_reasoning_ ? delta_.reasoning : delta_.content;
  bool& told = told_[in_reasoning_ ? 1 : 0];
  if (std::exchange(new_message_, false) && told) out += '\n';
  after_mark_ = false;
  told = true;
  out += text;
}

// A message to a function, or to one of the tools where the name of their space is left out.
bool ReplyParser::calls_tool(const MessageHead& head, std::string& name) const {
  if (format_.tools != ToolFormat::harmony || !tools_->is_array() || tools_->empty()) return false;
  name = head.recipient;
  if (name.starts_with(kFunctions)) return !name.erase(0, kFunctions.size()).empty();
  return !name.empty() && function_named(*tools_, name) != nullptr;
}

}  // namespace ringkeep::prompt
