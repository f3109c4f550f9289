#include "prompt/message_ends.h"

#include <algorithm>
#include <set>

#include "base/json_release.h"

namespace ringkeep::prompt {
namespace {

constexpr size_t kLastMessages = 3;  // each costs a rendering
constexpr int64_t kFewest = 16;      // tokens that are worth a snapshot

}  // namespace

std::vector<int64_t> message_ends(const text::Tokenizer& tokenizer,
                                  const text::ChatTemplate& chat_template,
                                  const nlohmann::ordered_json& messages, ChatOptions options,
                                  const Prompt& prompt) {
  options.add_generation_prompt = false;
  const JsonRelease release_tools(options.tools), release_variables(options.variables);
  std::set<size_t> counts;
  if (messages.size() > 1) counts.insert(1);
  for (size_t k = messages.size() - std::min(messages.size(), kLastMessages); k <= messages.size();
       ++k)
    if (k > 0) counts.insert(k);

  std::set<int64_t> ends;
  for (const size_t count : counts) {
    nlohmann::ordered_json first(messages.begin(),
                                 messages.begin() + static_cast<ptrdiff_t>(count));
    const JsonRelease release_first(first);
    const auto shorter = build_chat_prompt(tokenizer, chat_template, first, options);
    if (!shorter.ok()) continue;
    // Text that is equal may still have other tokens around the place where it ends.
    const auto differ = std::mismatch(shorter->tokens.begin(), shorter->tokens.end(),
                                      prompt.tokens.begin(), prompt.tokens.end());
    const int64_t common = differ.first - shorter->tokens.begin();
    if (common >= kFewest) ends.insert(common);
  }
  return {ends.begin(), ends.end()};
}

}  // namespace ringkeep::prompt
