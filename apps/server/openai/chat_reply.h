// Choices of /v1/chat/completions: content, reasoning and tool calls.
#pragma once

#include <memory>

#include "server/openai/chat_plan.h"
#include "server/openai/reply.h"

namespace ringkeep::openai {

std::unique_ptr<ChoiceShape> make_chat_choice(const ChoiceOptions& options, const ChatPlan& plan);

}  // namespace ringkeep::openai
