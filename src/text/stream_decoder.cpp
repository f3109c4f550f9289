#include "text/stream_decoder.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace ringkeep::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Appends the text of `bytes`; returns how many were used: all but an unfinished character at the
// end, which is replaced as well when `all` is set.
size_t append_text(std::string_view bytes, bool all, std::string& out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind == Utf8Step::Kind::incomplete && !all) break;
    out += step.kind == Utf8Step::Kind::valid ? bytes.substr(at, step.size) : kReplacement;
    at += step.size;
  }
  return at;
}

}  // namespace

StreamDecoder::StreamDecoder(std::vector<std::string> stop) {
  for (const std::string& bytes : stop) {
    std::string text;
    append_text(bytes, true, text);
    if (!text.empty()) stop_.push_back(std::move(text));
  }
}

std::string StreamDecoder::push(std::string_view bytes) {
  if (stopped_) return {};
  decode(bytes, false);
  return take(false);
}

std::string StreamDecoder::finish() {
  if (stopped_) return {};
  decode({}, true);
  return take(true);
}

void StreamDecoder::decode(std::string_view bytes, bool all) {
  tail_ += bytes;
  tail_.erase(0, append_text(tail_, all, held_));
}

// Text before the first stop string; without one, all but what may become one.
std::string StreamDecoder::take(bool all) {
  size_t found = std::string::npos;  // where the first whole stop string begins
  size_t open = held_.size();        // where the first begins that more text might complete
  for (const std::string& stop : stop_) {
    found = std::min(found, held_.find(stop));
    if (all) continue;
    for (size_t at = held_.size() - std::min(held_.size(), stop.size() - 1); at < open; ++at) {
      if (stop.starts_with(std::string_view(held_).substr(at))) open = at;
    }
  }
  // A whole stop string decides only when none that begins before it can still be completed.
  stopped_ = found != std::string::npos && (all || found <= open);
  const size_t cut = stopped_ ? found : open;
  std::string out = held_.substr(0, cut);
  held_.erase(0, stopped_ ? held_.size() : cut);
  return out;
}

}  // namespace ringkeep::text
