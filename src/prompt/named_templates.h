// Chat templates by name, for models that come without one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ringkeep::prompt {

// Jinja source of "chatml", "gemma", "llama3" or "plain" (roles as plain words, for models that
// know no control tokens); nothing for other names. Sources: the formats as their models' cards
// describe them.
std::optional<std::string> named_template(std::string_view name);

// The names, for help and errors.
inline constexpr std::string_view kNamedTemplates = "chatml, gemma, llama3, plain";

}  // namespace ringkeep::prompt
