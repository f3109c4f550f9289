#include "prompt/reply_heads.h"

#include <nlohmann/json.hpp>

#include <cctype>

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kCallBegin = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kSeparator = "<｜tool▁sep｜>";

// Reads from the front of a text that may go on. A step that fails says whether more bytes could
// still make it succeed.
class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  size_t solid() const { return solid_; }  // behind the last byte that was no space
  Match failure() const { return ran_out_ ? Match::more : Match::no; }
  bool at_end() {
    const bool end = at_ == text_.size();
    ran_out_ = ran_out_ || end;
    return end;
  }

  void spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool peek(char c) { return !at_end() && text_[at_] == c; }
  bool take(char c) { return peek(c) && take_bytes(1); }
  bool literal(std::string_view wanted) {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with(wanted)) return take_bytes(wanted.size());
    if (wanted.starts_with(rest)) ran_out_ = true;
    return false;
  }
  // Up to a mark, which is taken too.
  bool until(std::string_view mark, std::string& text) {
    const size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) {
      ran_out_ = true;
      return false;
    }
    text = text_.substr(at_, end - at_);
    return take_bytes(text.size() + mark.size());
  }
  // The name of a function where nothing quotes it.
  bool name(std::string& name) {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_end()) return false;
    name = text_.substr(begin, at_ - begin);
    solid_ = at_;
    return !name.empty();
  }
  bool string(std::string& value) {
    if (!peek('"')) return false;
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) {
      ran_out_ = true;
      return false;
    }
    const Json parsed =
        Json::parse(text_.substr(at_, end + 1 - at_), nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_string()) return false;
    value = parsed.get<std::string>();
    return take_bytes(end + 1 - at_);
  }
  // true, null, a number: anything bare.
  bool word() {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '+')) ++at_;
    return !at_end() && at_ > begin;
  }

 private:
  static bool is_name(char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '\x7f' &&
           std::string_view("{}[]()<>\"'`,;=").find(c) == std::string_view::npos;
  }
  bool take_bytes(size_t count) {
    at_ += count;
    solid_ = at_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0, solid_ = 0;
  bool ran_out_ = false;
};

// Members of {"name": N, "arguments": {..}}, in any order, up to the arguments or to the end of the
// object. Others are passed over: "type", "id".
Match members(Scan& scan, std::string& name, bool& ended) {
  ended = false;
  while (true) {
    std::string key, value;
    scan.spaces();
    if (!scan.string(key)) return scan.failure();
    scan.spaces();
    if (!scan.take(':')) return scan.failure();
    scan.spaces();
    if (key == "arguments" || key == "parameters") return scan.at_end() ? Match::more : Match::yes;
    const bool text = scan.peek('"');
    if (text ? !scan.string(value) : !scan.word()) return scan.failure();
    if (key == "name") name = value;
    if (key == "name" && value.empty()) return Match::no;
    scan.spaces();
    if (scan.take('}')) {
      ended = true;
      return Match::yes;
    }
    if (!scan.take(',')) return scan.failure();
  }
}

Match json_head(Scan& scan, CallHead& head, CallShape shape) {
  scan.spaces();
  head.shape = shape;
  if (shape == CallShape::unknown)
    head.shape = scan.take('[') ? CallShape::list : CallShape::object;
  scan.spaces();
  if (!scan.take('{')) return scan.failure();
  const Match match = members(scan, head.name, head.ended);
  return match == Match::yes && head.ended && head.name.empty() ? Match::no : match;
}

Match mistral_head(Scan& scan, CallHead& head, CallShape shape) {
  scan.spaces();
  if (scan.at_end()) return Match::more;
  if (shape == CallShape::list || scan.peek('[') || scan.peek('{'))
    return json_head(scan, head, shape);
  if (!scan.name(head.name)) return scan.failure();
  std::string id;
  scan.spaces();
  if (scan.literal("[CALL_ID]")) {
    if (!scan.until("[ARGS]", id)) return scan.failure();
  } else {
    scan.literal("[ARGS]");  // not written by some
  }
  scan.spaces();
  return scan.peek('{') ? Match::yes : scan.failure();
}

Match gemma_head(Scan& scan, CallHead& head) {
  scan.spaces();
  if (!scan.literal("call:")) return scan.failure();
  scan.spaces();
  if (!scan.name(head.name)) return scan.failure();
  return scan.peek('{') ? Match::yes : scan.failure();
}

Match xml_head(Scan& scan, CallHead& head) {
  scan.spaces();
  if (!scan.literal("<function=")) return scan.failure();
  if (!scan.name(head.name)) return scan.failure();
  return scan.take('>') ? Match::yes : scan.failure();
}

Match deepseek_head(Scan& scan, CallHead& head) {
  scan.spaces();
  if (!scan.literal(kCallBegin)) return scan.failure();
  if (!scan.until(kSeparator, head.name)) return scan.failure();
  if (scan.at_end()) return Match::more;
  if (scan.peek('{')) return head.name.empty() ? Match::no : Match::yes;
  // V3: what came was the type of the call, and its name follows.
  if (!scan.name(head.name)) return scan.failure();
  scan.spaces();
  if (!scan.literal("```json")) return scan.failure();
  scan.spaces();
  return scan.peek('{') ? Match::yes : scan.failure();
}

constexpr std::string_view kMessage = "<|message|>";

Match message_end(Scan& scan) {
  for (const std::string_view mark : {"<|end|>", "<|return|>", "<|call|>"})
    if (scan.literal(mark)) return Match::yes;
  return scan.failure();
}

// A recipient and its <|message|>. A message without a text calls without arguments.
Match harmony_head(Scan& scan, CallHead& head) {
  if (!scan.name(head.name)) return scan.failure();
  if (!scan.literal(kMessage)) return scan.failure();
  scan.spaces();
  if (scan.at_end()) return Match::more;
  Scan next = scan;
  const Match end = message_end(next);
  head.ended = end == Match::yes;
  return end == Match::more ? end : Match::yes;
}

// The end of the object of a call, and what follows in a list of them.
Match json_tail(Scan& scan, CallTail& tail, CallShape shape, bool ended) {
  scan.spaces();
  if (!ended && !scan.take('}')) {
    if (!scan.take(',')) return scan.failure();
    const Match match = members(scan, tail.name, ended);
    if (match != Match::yes) return match;
    if (!ended) return Match::no;
  }
  if (shape != CallShape::list) return Match::yes;
  scan.spaces();
  if (scan.take(',')) {
    tail.another = true;
    return Match::yes;
  }
  return scan.take(']') ? Match::yes : scan.failure();
}

Match literal_tail(Scan& scan, std::string_view mark) {
  scan.spaces();
  return scan.literal(mark) ? Match::yes : scan.failure();
}

Match llama_tail(Scan& scan, CallTail& tail) {
  scan.spaces();
  tail.another = scan.take(';') || scan.peek('{');
  return tail.another ? Match::yes : scan.failure();
}

Match deepseek_tail(Scan& scan, CallTail& tail) {
  scan.spaces();
  if (!scan.literal("```") && scan.failure() == Match::more) return Match::more;
  if (const Match match = literal_tail(scan, kCallEnd); match != Match::yes) return match;
  scan.spaces();
  if (scan.literal(kCallsEnd)) return Match::yes;
  Scan next = scan;
  tail.another = next.literal(kCallBegin);
  return tail.another ? Match::yes : next.failure();
}

}  // namespace

CallHead match_call_head(ToolFormat format, std::string_view text, CallShape shape) {
  Scan scan(text);
  CallHead head;
  switch (format) {
    case ToolFormat::none: break;
    case ToolFormat::hermes: head.match = json_head(scan, head, shape); break;
    case ToolFormat::llama3_json: head.match = json_head(scan, head, CallShape::object); break;
    case ToolFormat::mistral:
    case ToolFormat::mistral_args: head.match = mistral_head(scan, head, shape); break;
    case ToolFormat::functiongemma:
    case ToolFormat::gemma4: head.match = gemma_head(scan, head); break;
    case ToolFormat::qwen3_coder: head.match = xml_head(scan, head); break;
    case ToolFormat::deepseek_v3:
    case ToolFormat::deepseek_v31: head.match = deepseek_head(scan, head); break;
    case ToolFormat::harmony: head.match = harmony_head(scan, head); break;
  }
  head.used = scan.at();
  return head;
}

CallTail match_call_tail(ToolFormat format, std::string_view text, CallShape shape, bool ended) {
  Scan scan(text);
  CallTail tail;
  switch (format) {
    case ToolFormat::none: break;
    case ToolFormat::hermes:
    case ToolFormat::llama3_json:
      tail.match = json_tail(scan, tail, shape, ended);
      if (tail.match != Match::yes || tail.another) break;
      tail.match = format == ToolFormat::hermes ? literal_tail(scan, "</tool_call>")
                                                : llama_tail(scan, tail);
      break;
    case ToolFormat::mistral:
    case ToolFormat::mistral_args:
      tail.match = shape == CallShape::named ? Match::yes : json_tail(scan, tail, shape, ended);
      break;
    case ToolFormat::functiongemma: tail.match = literal_tail(scan, "<end_function_call>"); break;
    case ToolFormat::gemma4: tail.match = literal_tail(scan, "<tool_call|>"); break;
    case ToolFormat::qwen3_coder: tail.match = literal_tail(scan, "</tool_call>"); break;
    case ToolFormat::deepseek_v3:
    case ToolFormat::deepseek_v31: tail.match = deepseek_tail(scan, tail); break;
    case ToolFormat::harmony:
      scan.spaces();
      tail.match = message_end(scan);
      break;
  }
  tail.used = tail.match == Match::yes ? scan.at() : scan.solid();
  return tail;
}

MessageHead match_message_head(std::string_view text) {
  Scan scan(text);
  MessageHead head;
  std::string word;
  scan.spaces();
  const bool role = scan.literal("<|start|>") ? scan.name(word) : true;
  if (!role) {
    head.match = scan.failure();
    return head;
  }
  if (word.empty()) scan.literal("assistant");
  std::string type;
  while (true) {
    scan.spaces();
    std::string* part = &type;
    if (scan.literal(kMessage)) {
      head.match = Match::yes;
      return head;
    }
    bool allowed = true;
    if (scan.literal("<|channel|>")) {
      part = &head.channel;
      scan.spaces();
    } else if (scan.literal("to=")) {
      part = &head.recipient;
    } else if (scan.literal("<|constrain|>")) {
      scan.spaces();
    } else {  // a type without its mark
      allowed = !head.channel.empty() || !head.recipient.empty();
    }
    if (!allowed || !part->empty() || !scan.name(*part)) {
      head.match = scan.failure();
      return head;
    }
  }
}

}  // namespace ringkeep::prompt
