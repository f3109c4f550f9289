// The tool calls of a reply, byte by byte from the mark that opens them.
#pragma once

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <string_view>

#include "prompt/reply_arguments.h"
#include "prompt/reply_format.h"
#include "prompt/reply_heads.h"

namespace ringkeep::prompt {

// The function of that name among OpenAI's tools ({"type": "function", "function": {..}}, or its
// inside alone); null: there is none.
const nlohmann::ordered_json* function_named(const nlohmann::ordered_json& tools,
                                             const std::string& name);

class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void begin_call(const std::string& name) = 0;
  virtual void add_arguments(std::string_view json) = 0;
};

// A call is told to the sink when it is whole, or when this many bytes of it were read without a
// fault, and its arguments as they come from then on. So a short call that breaks its format leaves
// no trace, and a long one does not keep the client waiting.
inline constexpr size_t kCallHoldBack = 512;

class CallReader {
 public:
  enum class Status { more, done, bad };

  // `tools`: OpenAI's array, for the types of arguments and, where no mark came before the calls
  // (not `marked`), for the names that there may be.
  CallReader(ToolFormat format, std::shared_ptr<const nlohmann::ordered_json> tools, bool marked);

  // done: the calls are over; bad: the text breaks the format. unread() is then what belongs to no
  // call that was told. After either nothing more may be fed.
  Status feed(char byte, CallSink& sink);
  // The text is over: done or bad. A call that was told and is not whole stays as it is. `cut`:
  // more was to come, so what there is of a call is told as far as it goes, once its name is known,
  // and nothing is left unread.
  Status end(CallSink& sink, bool cut);
  const std::string& unread() const { return unread_; }

 private:
  enum class Stage { head, arguments, tail };
  Status step(char byte, CallSink& sink);
  Status head(CallSink& sink);
  Status arguments(char byte, CallSink& sink);
  Status tail(CallSink& sink);
  Status steps(const std::string& text, CallSink& sink);
  Status bad();
  bool announce(CallSink& sink);
  const nlohmann::ordered_json* function() const;  // of the tools, by name_; null: unknown
  std::unique_ptr<ArgumentReader> reader() const;

  const ToolFormat format_;
  const std::shared_ptr<const nlohmann::ordered_json> tools_;
  const bool marked_;
  CallShape shape_ = CallShape::unknown;
  Stage stage_ = Stage::head;
  std::string text_;  // of the head or the tail
  std::string raw_;   // all bytes that nothing was told of yet
  std::string name_, json_;
  bool ended_ = false;  // the call has no arguments
  bool announced_ = false;
  std::unique_ptr<ArgumentReader> reader_;
  std::string unread_;
};

}  // namespace ringkeep::prompt
