#include "prompt/reply_calls.h"

#include <utility>

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxHead = 2048;         // bytes of a head or a tail
constexpr size_t kMaxHeld = 1024 * 1024;  // bytes of a call whose name is still to come

}  // namespace

const Json* function_named(const Json& tools, const std::string& name) {
  if (!tools.is_array()) return nullptr;
  for (const Json& tool : tools) {
    if (!tool.is_object()) continue;
    const auto inside = tool.find("function");
    const Json& function = inside != tool.end() && inside->is_object() ? *inside : tool;
    const auto found = function.find("name");
    if (found != function.end() && found->is_string() && *found == name) return &function;
  }
  return nullptr;
}

CallReader::CallReader(ToolFormat format, std::shared_ptr<const Json> tools, bool marked)
    : format_(format), tools_(std::move(tools)), marked_(marked) {}

CallReader::Status CallReader::feed(char byte, CallSink& sink) {
  raw_ += byte;
  return step(byte, sink);
}

CallReader::Status CallReader::step(char byte, CallSink& sink) {
  if (stage_ == Stage::arguments) return arguments(byte, sink);
  text_ += byte;
  return stage_ == Stage::head ? head(sink) : tail(sink);
}

// Bytes that are in raw_ already.
CallReader::Status CallReader::steps(const std::string& text, CallSink& sink) {
  for (size_t i = 0; i < text.size(); ++i) {
    const Status status = step(text[i], sink);
    if (status == Status::done) unread_ += text.substr(i + 1);
    if (status != Status::more) return status;
  }
  return Status::more;
}

CallReader::Status CallReader::bad() {
  unread_ = raw_;
  return Status::bad;
}

CallReader::Status CallReader::head(CallSink& sink) {
  const CallHead head = match_call_head(format_, text_, shape_);
  if (head.match == Match::more) return text_.size() < kMaxHead ? Status::more : bad();
  if (head.match == Match::no) return bad();
  name_ = head.name;
  shape_ = head.shape;
  ended_ = head.ended;
  if (!name_.empty() && !marked_ && function() == nullptr) return bad();
  const std::string rest = text_.substr(head.used);
  text_.clear();
  stage_ = ended_ ? Stage::tail : Stage::arguments;
  if (!ended_) reader_ = reader();
  return steps(rest, sink);
}

CallReader::Status CallReader::arguments(char byte, CallSink& sink) {
  const size_t before = json_.size();
  const ArgumentReader::Status status = reader_->feed(byte, json_);
  const bool grew = json_.size() > before;
  if (announced_ && grew) {
    sink.add_arguments(json_);
    json_.clear();
    raw_.clear();
  }
  if (status == ArgumentReader::Status::bad) {
    if (raw_.empty()) raw_ = byte;
    return bad();
  }
  if (status == ArgumentReader::Status::done) {
    stage_ = Stage::tail;
    if (!announced_ && !name_.empty() && !announce(sink)) return bad();
  } else if (!announced_ && raw_.size() >= kCallHoldBack && grew && !name_.empty()) {
    announce(sink);
  } else if (raw_.size() > kMaxHeld) {
    return bad();
  }
  return Status::more;
}

CallReader::Status CallReader::tail(CallSink& sink) {
  const CallTail tail = match_call_tail(format_, text_, shape_, ended_);
  if (tail.match == Match::more && text_.size() < kMaxHead) return Status::more;
  if (!tail.name.empty() && name_.empty()) name_ = tail.name;
  if (!announced_ && !announce(sink)) return bad();
  const std::string rest = text_.substr(tail.used);
  announced_ = false;
  name_.clear();
  text_.clear();
  stage_ = Stage::head;
  if (tail.match == Match::yes && tail.another) {
    raw_ = rest;
    return steps(rest, sink);
  }
  unread_ = rest;
  return Status::done;
}

CallReader::Status CallReader::end(CallSink& sink, bool cut) {
  if (cut) {
    if (stage_ != Stage::head && !announced_) announce(sink);
    return Status::done;
  }
  // The token that ended the reply is the end of a call without arguments.
  if (stage_ == Stage::head && format_ == ToolFormat::harmony) {
    text_ += "<|call|>";
    return head(sink) == Status::done ? Status::done : bad();
  }
  if (stage_ != Stage::tail) return bad();
  if (!announced_ && !announce(sink)) return bad();
  return Status::done;  // what there is of a tail is the beginning of its marks
}

// False: the call has no name, or none that there may be.
bool CallReader::announce(CallSink& sink) {
  if (name_.empty() || (!marked_ && function() == nullptr)) return false;
  sink.begin_call(name_);
  sink.add_arguments(ended_ ? std::string("{}") : json_);
  json_.clear();
  raw_.clear();
  announced_ = true;
  return true;
}

const Json* CallReader::function() const { return function_named(*tools_, name_); }

std::unique_ptr<ArgumentReader> CallReader::reader() const {
  const bool named = format_ != ToolFormat::none;
  const CallGrammar grammar = named ? call_grammar(format_) : CallGrammar{};
  switch (grammar.arguments) {
    case CallGrammar::Arguments::json: return read_json_arguments();
    case CallGrammar::Arguments::marked: return read_marked_arguments(grammar.string_mark);
    case CallGrammar::Arguments::xml: break;
  }
  const Json* called = function();
  return read_xml_arguments(called != nullptr ? called->value("parameters", Json()) : Json());
}

}  // namespace ringkeep::prompt
