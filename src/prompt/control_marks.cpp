#include "prompt/control_marks.h"

#include <algorithm>
#include <utility>

#include "text/stream_decoder.h"

namespace ringkeep::prompt {

void remove_breaks(std::string& text) { std::erase(text, kMarkBreak); }

ControlMarks::ControlMarks(std::vector<std::string> marks, bool show)
    : marks_(std::move(marks)), show_(show) {}

std::string ControlMarks::read(std::string_view text) {
  if (!any()) return std::string(text);
  std::string out;
  while (!text.empty()) {
    if (text.front() != text::kControlBegin) {
      add(text.front(), out);
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(1);
    const size_t end = std::min(text.find(text::kControlEnd), text.size());
    const std::string_view token = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (std::ranges::count(marks_, token) > 0) {
      plain_.clear();
      out += token;
    } else if (show_) {
      for (const char byte : token) add(byte, out);
    }
  }
  return out;
}

void ControlMarks::add(char byte, std::string& out) {
  size_t longest = 0;
  for (const std::string& mark : marks_) longest = std::max(longest, mark.size());
  plain_ += byte;
  if (plain_.size() > longest) plain_.erase(0, plain_.size() - longest);
  const auto spelled = [&](const std::string& mark) { return plain_.ends_with(mark); };
  if (std::ranges::any_of(marks_, spelled)) out += kMarkBreak;
  out += byte;
}

std::string as_written(std::string_view text, const std::vector<std::string>& marks) {
  for (const std::string& mark : marks)
    if (text.starts_with(mark))
      return text::marked_control(mark) + std::string(text.substr(mark.size()));
  return std::string(text);
}

}  // namespace ringkeep::prompt
