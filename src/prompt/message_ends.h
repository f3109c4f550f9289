// Where the messages of a chat end within its prompt: the places from which another chat that
// begins alike, or the next turn of this one, can go on.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

#include "prompt/prompt.h"

namespace ringkeep::prompt {

// Token counts within `prompt`, the result of build_chat_prompt() with the same arguments. The
// first message and the last ones are looked for; a template that cannot render fewer messages, or
// renders them differently, gives fewer places.
std::vector<int64_t> message_ends(const text::Tokenizer& tokenizer,
                                  const text::ChatTemplate& chat_template,
                                  const nlohmann::ordered_json& messages, ChatOptions options,
                                  const Prompt& prompt);

}  // namespace ringkeep::prompt
