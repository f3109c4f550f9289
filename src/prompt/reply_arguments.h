// The arguments of a tool call, byte by byte, to JSON text.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "prompt/reply_format.h"

namespace ringkeep::prompt {

// `text` with what a JSON string must escape; other bytes as they are.
void append_escaped(std::string_view text, std::string& json);

// What was appended is at any time the beginning of a JSON object, and with `done` all of it.
class ArgumentReader {
 public:
  enum class Status { more, done, bad };
  virtual ~ArgumentReader() = default;
  // Takes one byte. After `done` and `bad` nothing more may be fed.
  virtual Status feed(char byte, std::string& json) = 0;
};

// A JSON object, or a JSON string that holds one. Control characters in strings, which JSON
// forbids and models write, are escaped; all else stays as it is.
std::unique_ptr<ArgumentReader> read_json_arguments();
// CallGrammar::Arguments::marked; a value that is no JSON is taken as text.
std::unique_ptr<ArgumentReader> read_marked_arguments(std::string string_mark);
// CallGrammar::Arguments::xml, to its </function>. `parameters`: the tool's schema, or null; a
// value becomes what the types of its parameter say (parameter_types.h), if it can, else a string.
std::unique_ptr<ArgumentReader> read_xml_arguments(nlohmann::ordered_json parameters);

}  // namespace ringkeep::prompt
