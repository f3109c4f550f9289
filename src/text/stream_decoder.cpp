#include "text/stream_decoder.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace ringkeep::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr char kEdges[] = {kControlBegin, kControlEnd, '\0'};

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

std::string marked_control(std::string_view spelled) {
  return kControlBegin + std::string(spelled) + kControlEnd;
}

StreamDecoder::StreamDecoder(std::vector<std::string> stop) {
  for (size_t i = 0; i < stop.size(); ++i) {
    std::string text;
    const size_t marked = stop[i].starts_with(kControlBegin) ? stop[i].find(kControlEnd) + 1 : 0;
    text = stop[i].substr(0, marked);
    append_text(std::string_view(stop[i]).substr(marked), true, text);
    if (!text.empty()) stop_.emplace_back(std::move(text), i);
  }
}

std::string StreamDecoder::push(std::string_view bytes) {
  if (stopped()) return {};
  decode(bytes, false);
  return take(false);
}

std::string StreamDecoder::push_control(std::string_view spelled) {
  if (stopped()) return {};
  decode({}, true);
  held_ += marked_control(spelled);
  return take(false);
}

std::string StreamDecoder::finish() {
  if (stopped()) return {};
  decode({}, true);
  return take(true);
}

void StreamDecoder::decode(std::string_view bytes, bool all) {
  tail_ += bytes;
  tail_.erase(0, append_text(tail_, all, held_));
}

// Where it begins in the held text, outside of control tokens.
size_t StreamDecoder::find(const std::string& stop) const {
  size_t at = held_.find(stop);
  while (at != std::string::npos && at > 0) {
    const size_t mark = held_.find_last_of(kEdges, at - 1);
    if (mark == std::string::npos || held_[mark] == kControlEnd) break;
    at = held_.find(stop, at + 1);
  }
  return at;
}

// Text before the first stop string; without one, all but what may become one.
std::string StreamDecoder::take(bool all) {
  size_t found = std::string::npos;  // where the first whole stop string begins
  size_t open = held_.size();        // where the first begins that more text might complete
  size_t met = 0;
  for (const auto& [stop, place] : stop_) {
    if (const size_t at = find(stop); at < found) {
      found = at;
      met = place;
    }
    if (all) continue;
    for (size_t at = held_.size() - std::min(held_.size(), stop.size() - 1); at < open; ++at) {
      if (stop.starts_with(std::string_view(held_).substr(at))) open = at;
    }
  }
  // A whole stop string decides only when none that begins before it can still be completed.
  if (found != std::string::npos && (all || found <= open)) met_ = met;
  const size_t cut = stopped() ? found : open;
  std::string out = held_.substr(0, cut);
  held_.erase(0, stopped() ? held_.size() : cut);
  return out;
}

}  // namespace ringkeep::text
