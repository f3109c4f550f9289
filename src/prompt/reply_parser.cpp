#include "prompt/reply_parser.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/json_release.h"

namespace ringkeep::prompt {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

using Json = nlohmann::ordered_json;

std::shared_ptr<const Json> shared(Json value) {
  return {new Json(std::move(value)), [](Json* json) {
            release_json(*json);
            delete json;
          }};
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

ReplyParser::ReplyParser(ReplyFormat format, ReplyOptions options)
    : format_(format),
      tools_(shared(std::move(options.tools))),
      reasoning_(reasoning_marks(format)),
      controls_(std::move(options.control_marks), options.show_control),
      random_(options.id_seed),
      in_reasoning_(options.in_reasoning && format.reasoning != ReasoningFormat::none),
      after_mark_(in_reasoning_) {
  if (random_ == 0) random_ = std::random_device()() | uint64_t{std::random_device()()} << 32;
  if (format.has_channels() && options.in_reasoning) {
    place_ = Place::text;
    shown_ = format.reasoning == ReasoningFormat::none;
  }
  if (!tools_->is_array() || tools_->empty()) return;
  switch (format.tools) {
    case ToolFormat::none:
    case ToolFormat::harmony: break;  // calls are messages
    case ToolFormat::hermes: call_marks_ = {{"<tool_call>"}}; break;
    case ToolFormat::qwen3_coder:  // the outer mark is often left out
      call_marks_ = {{"<tool_call>"}, {.text = "<function=", .fed = true}};
      break;
    case ToolFormat::llama3_json:
      call_marks_ = {{"<|python_tag|>"},
                     {.text = "{", .fed = true, .marked = false, .fresh = true}};
      break;
    case ToolFormat::mistral:
    case ToolFormat::mistral_args: call_marks_ = {{"[TOOL_CALLS]"}}; break;
    case ToolFormat::functiongemma: call_marks_ = {{"<start_function_call>"}}; break;
    case ToolFormat::gemma4: call_marks_ = {{"<|tool_call>"}}; break;
    case ToolFormat::deepseek_v3:
    case ToolFormat::deepseek_v31: call_marks_ = {{"<｜tool▁calls▁begin｜>"}}; break;
  }
}

ReplyDelta ReplyParser::push(std::string_view text) {
  if (!format_.has_channels() && format_.reasoning == ReasoningFormat::none &&
      call_marks_.empty() && !controls_.any())
    return {.content = std::string(text)};
  input_ += controls_.read(text);
  // The last one may stand for the first bytes of a character, where the reply is cut in a mark.
  const bool unfinished = input_.ends_with(kReplacement);
  if (unfinished) input_.resize(input_.size() - kReplacement.size());
  run();
  if (unfinished) input_ = kReplacement;
  return told();
}

ReplyDelta ReplyParser::finish(bool cut) {
  const bool in_mark = reader_ != nullptr || !std::all_of(held_.begin(), held_.end(), is_space);
  if (cut && in_mark) input_.clear();
  run();
  while (reader_ != nullptr) {  // each turn hands on at least the mark that began the calls
    close_calls(reader_->end(*this, cut));
    run();
  }
  const bool only_space = std::all_of(held_.begin(), held_.end(), is_space);
  const bool marks = only_space ? after_mark_ : cut;
  if (!marks) format_.has_channels() ? tell(held_) : emit(held_);
  held_.clear();
  space_ = 0;
  return told();
}

ReplyDelta ReplyParser::told() {
  ReplyDelta delta = std::exchange(delta_, {});
  if (!controls_.any()) return delta;
  remove_breaks(delta.content);
  remove_breaks(delta.reasoning);
  for (ToolCallDelta& call : delta.tool_calls) {
    remove_breaks(call.name);
    remove_breaks(call.arguments);
  }
  std::erase_if(delta.tool_calls, [](const ToolCallDelta& call) {
    return call.id.empty() && call.name.empty() && call.arguments.empty();
  });
  return delta;
}

void ReplyParser::run() {
  while (read_ < input_.size()) {
    const char byte = input_[read_++];
    if (reader_ == nullptr) {
      held_ += byte;
      format_.has_channels() ? settle_channels() : settle();
      continue;
    }
    const CallReader::Status status = reader_->feed(byte, *this);
    if (status != CallReader::Status::more) close_calls(status);
  }
  input_.clear();
  read_ = 0;
}

// Puts back what was read last.
void ReplyParser::unread(std::string_view text) {
  const size_t here = std::min(read_, text.size());  // the rest came with earlier pieces
  read_ -= here;
  input_.replace(read_, here, text);
}

// Of the held bytes. Each is looked at once, however long it takes until another follows.
size_t ReplyParser::leading_space() {
  while (space_ < held_.size() && is_space(held_[space_])) ++space_;
  return space_;
}

// Tells what of the held bytes cannot belong to a mark, or acts on the mark that they are.
void ReplyParser::settle() {
  while (true) {
    const size_t space = leading_space();
    const std::string_view rest = std::string_view(held_).substr(space);
    if (rest.empty()) return;
    bool partial = false;
    const auto is = [&](const std::string& mark) {
      partial = partial || mark.starts_with(rest);
      return rest == mark;
    };
    if (format_.reasoning != ReasoningFormat::none && (in_reasoning_ || fresh_) &&
        is(in_reasoning_ ? reasoning_.close : reasoning_.open)) {
      in_reasoning_ = !in_reasoning_;
      fresh_ = true;
      after_mark_ = true;
      held_.clear();
      space_ = 0;
      return;
    }
    if (!in_reasoning_) {
      for (const Mark& mark : call_marks_) {
        if ((!mark.fresh || fresh_) && is(mark.text))
          return open_calls(mark, held_.substr(0, space));
      }
    }
    if (partial) return;
    emit(std::string_view(held_).substr(0, space + 1));
    held_.erase(0, space + 1);
    space_ = 0;
  }
}

void ReplyParser::emit(std::string_view text) {
  if (after_mark_) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  }
  if (text.empty()) return;
  after_mark_ = false;
  (in_reasoning_ ? delta_.reasoning : delta_.content) += text;
  if (!in_reasoning_) fresh_ = false;
}

void ReplyParser::open_calls(const Mark& mark, std::string space) {
  reader_ = std::make_unique<CallReader>(format_.tools, tools_, mark.marked);
  opened_ = mark;
  opened_space_ = std::move(space);
  calls_before_ = calls_;
  held_.clear();
  space_ = 0;
  if (!mark.fed) return;
  for (const char byte : mark.text) {
    RK_CHECK(reader_->feed(byte, *this) == CallReader::Status::more, "a mark is no whole call");
  }
}

void ReplyParser::close_calls(CallReader::Status status) {
  std::string rest = reader_->unread();
  reader_.reset();
  const bool untold = status == CallReader::Status::bad && calls_ == calls_before_;
  if (untold && opened_.fed) rest.erase(0, opened_.text.size());
  if (format_.has_channels()) {
    if (status == CallReader::Status::done) end_message();
    if (!untold) in_reasoning_ = false;
  } else if (untold) {
    emit(opened_space_ + opened_.text);
  } else {
    after_mark_ = status == CallReader::Status::done;
    fresh_ = true;
  }
  unread(rest);
}

void ReplyParser::begin_call(const std::string& name) {
  delta_.tool_calls.push_back({.index = calls_++, .id = new_id(), .name = name});
}

void ReplyParser::add_arguments(std::string_view json) {
  const int index = calls_ - 1;
  if (delta_.tool_calls.empty() || delta_.tool_calls.back().index != index)
    delta_.tool_calls.push_back({.index = index});
  delta_.tool_calls.back().arguments += json;
}

// Mistral's templates take ids of nine letters and digits only.
std::string ReplyParser::new_id() {
  const bool mistral =
      format_.tools == ToolFormat::mistral || format_.tools == ToolFormat::mistral_args;
  std::mt19937_64 random(random_ + static_cast<uint64_t>(calls_));
  std::string id = mistral ? "" : "call_";
  for (int i = 0; i < (mistral ? 9 : 24); ++i)
    id += "abcdefghijklmnopqrstuvwxyz0123456789"[random() % 36];
  return id;
}

}  // namespace ringkeep::prompt
