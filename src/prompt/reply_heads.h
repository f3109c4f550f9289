// What stands around the name and the arguments of a tool call, per format.
#pragma once

#include <string>
#include <string_view>

#include "prompt/reply_format.h"

namespace ringkeep::prompt {

// Asked again with one byte more until the answer is yes or no.
enum class Match { yes, no, more };

// How the calls are written: found at the first head of a reply, the same for those behind it.
enum class CallShape {
  unknown,
  object,  // {"name": N, "arguments": {..}}
  list,    // objects in [ ]
  named,   // the name stands before the arguments
};

struct CallHead {
  Match match = Match::no;
  std::string name;  // empty: it follows the arguments
  CallShape shape = CallShape::named;
  bool ended = false;  // the call has no arguments
  size_t used = 0;     // bytes up to the arguments
};
// `text`: from behind the mark, or from behind the call before.
CallHead match_call_head(ToolFormat format, std::string_view text, CallShape shape);

struct CallTail {
  Match match = Match::no;
  std::string name;      // where it follows the arguments
  bool another = false;  // the head of another call comes next; else the calls are over
  size_t used = 0;       // bytes of the tail, also when it does not match
};
// `text`: from behind the arguments, or from behind the head of a call that has none (`ended`).
CallTail match_call_tail(ToolFormat format, std::string_view text, CallShape shape, bool ended);

// The header of a message in the harmony format: [<|start|>ROLE][ to=RECIPIENT][<|channel|>CHANNEL]
// [ to=RECIPIENT][ <|constrain|>TYPE]<|message|>, where spaces and the mark of the type may be left
// out and the role where the prompt has it.
struct MessageHead {
  Match match = Match::no;
  std::string recipient, channel;  // empty: there is none
};
MessageHead match_message_head(std::string_view text);

}  // namespace ringkeep::prompt
