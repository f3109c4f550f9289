// Messages and tools in OpenAI's form to what a template reads that has its own names for parts of
// them.
#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

namespace ringkeep::prompt {

// The harmony template (GPT-OSS) reads reasoning as `thinking`, fails on a content of null and on
// content beside reasoning and a call, shows of each message the first call only, and takes each
// result for that of the call before it. So: reasoning_content becomes thinking, with the content
// of a message that calls (which the template shows as thinking); a message with several calls
// becomes one for each, followed by its result. Others are left as they are. `messages`: an array
// of objects with a role.
nlohmann::ordered_json fit_messages(std::string_view template_source,
                                    nlohmann::ordered_json messages);

// The harmony template fails on a tool without a description: it gets an empty one.
nlohmann::ordered_json fit_tools(std::string_view template_source, nlohmann::ordered_json tools);

}  // namespace ringkeep::prompt
