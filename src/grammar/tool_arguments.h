// The arguments of a tool call as a model family writes them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "grammar/grammar.h"

namespace ringkeep::grammar {

struct ArgumentFormat {
  enum class Kind {
    json,    // a JSON object
    marked,  // {name:value,..}: bare names, strings as they are between two marks, else as in JSON
    xml,     // (parameter_begin NAME parameter_name_end VALUE parameter_end)*: strings as they are,
             // else JSON
  } kind = Kind::json;
  std::string string_mark;    // marked
  bool mark_control = false;  // the mark is the control token of that name
  std::string parameter_begin, parameter_name_end, parameter_end;  // xml
};

// An object that the schema allows (null or empty: any). Strings that stand as they are never hold
// the mark that ends them; in the xml format, neither does JSON (which writes / as \/ there), and a
// string that could be read as another type that the parameter may have is not written.
// Errors (usage): those of from_json_schema; a name or a value that the format cannot express; a
// string within XML whose length is bounded too far up beside other types or within JSON.
Result<GrammarPtr> tool_arguments(const nlohmann::ordered_json& parameters,
                                  const ArgumentFormat& format,
                                  const Grammar::JsonOptions& options = {});

}  // namespace ringkeep::grammar
