// The text of a reply, arriving in pieces, to the parts of an OpenAI message.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "prompt/control_marks.h"
#include "prompt/reply_calls.h"
#include "prompt/reply_format.h"

namespace ringkeep::prompt {

// A piece of a tool call: id and name with the first of them, then parts of its arguments.
struct ToolCallDelta {
  int index = 0;  // from 0 in a reply
  std::string id;
  std::string name;
  std::string arguments;  // JSON text
};

struct ReplyDelta {
  std::string content, reasoning;
  std::vector<ToolCallDelta> tool_calls;
  bool empty() const { return content.empty() && reasoning.empty() && tool_calls.empty(); }
};

struct ReplyOptions {
  nlohmann::ordered_json tools;  // OpenAI's array; null or empty: calls are read as content
  bool in_reasoning = false;     // prompt_opens_reasoning
  uint64_t id_seed = 0;          // of the ids of calls; 0: random
  // The marks of the format that are control tokens. The text has its control tokens marked then,
  // and what is only spelled like one of these is text. Others are text if `show_control`.
  std::vector<std::string> control_marks;
  bool show_control = false;
};

// However the text is cut, the deltas add up to the same, and nothing but marks and the white space
// next to them is missing in them. Pieces of whole UTF-8 characters give deltas of whole
// characters. What breaks the format of a call is content, but for a call that was told already
// (kCallHoldBack): its arguments stay as far as they go, and the rest is content. So is a call that
// the end of the reply breaks, unless the reply was cut. Reasoning is
// looked for at the beginning of the reply and behind calls, calls anywhere outside of reasoning.
//
// With channels (ReplyFormat::has_channels): the texts of messages as they are, a line break
// between two of the same kind. analysis is reasoning (content between its marks, where the format
// of reasoning is none), a message to functions.NAME or to the name of a tool is a call, all others
// are content: to another recipient, with arguments that are no JSON object, or where no tools are.
// What is no message is content, too.
class ReplyParser : private CallSink {
 public:
  explicit ReplyParser(ReplyFormat format, ReplyOptions options = {});

  ReplyDelta push(std::string_view text);
  // The reply is over. `cut`: the model had more to write (the limit of tokens, a cancellation).
  // Then what may be the beginning of a mark or of a call is not told, and a call whose name is
  // known is, with its arguments as far as they go: a JSON text that ends early.
  ReplyDelta finish(bool cut = false);
  bool called_tools() const { return calls_ > 0; }
  // Within a call, or the header of a message: text that ends here was cut.
  bool within_marks() const {
    return reader_ != nullptr || (format_.has_channels() && place_ == Place::head);
  }

 private:
  struct Mark {
    std::string text;
    bool fed = false;    // a part of the call, too
    bool marked = true;  // cannot be anything but a call
    bool fresh = false;  // only where no content came before
  };

  void run();
  ReplyDelta told();
  void unread(std::string_view text);
  void settle();
  size_t leading_space();
  void emit(std::string_view text);
  void open_calls(const Mark& mark, std::string space);
  void close_calls(CallReader::Status status);
  void begin_call(const std::string& name) override;
  void add_arguments(std::string_view json) override;
  std::string new_id();

  // Replies with channels (reply_channels.cpp).
  enum class Place { head, text, between };  // within a header, a message, or none
  void settle_channels();
  void begin_message(const MessageHead& head);
  void end_message();
  void tell(std::string_view text);
  bool calls_tool(const MessageHead& head, std::string& name) const;

  const ReplyFormat format_;
  const std::shared_ptr<const nlohmann::ordered_json> tools_;
  const ReasoningMarks reasoning_;
  ControlMarks controls_;
  std::vector<Mark> call_marks_;
  uint64_t random_;

  ReplyDelta delta_;
  std::string input_;  // from read_ on still to be read
  size_t read_ = 0;
  std::string held_;  // white space and what may be a mark behind it
  size_t space_ = 0;  // of held_ that is known to be white space
  bool in_reasoning_;
  bool after_mark_;    // white space that comes now is the mark's
  bool fresh_ = true;  // no content since the beginning, reasoning or a call
  int calls_ = 0;

  std::unique_ptr<CallReader> reader_;  // within calls
  Mark opened_;                         // what began them
  std::string opened_space_;
  int calls_before_ = 0;

  Place place_ = Place::head;
  bool shown_ = false;        // the message's marks stay: reasoning that is left in the content
  bool new_message_ = false;  // nothing of its text was told
  bool told_[2] = {};         // content, reasoning: something was, so a new message is a new line
};

}  // namespace ringkeep::prompt
