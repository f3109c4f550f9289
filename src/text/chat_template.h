// Chat templates: a Jinja interpreter that renders as jinja2 does with the settings that Hugging
// Face uses (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>

#include "base/result.h"

namespace ringkeep::text {

class ChatTemplate {
 public:
  // Errors (input): line and column, what was expected and what was found.
  static Result<ChatTemplate> parse(const std::string& source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `context`: an object with messages, tools, add_generation_prompt, bos_token, eos_token, ... in
  // the order the template should see. Errors (usage): raise_exception of the template, undefined
  // operations, limits of steps and output size (a template is untrusted).
  Result<std::string> render(const nlohmann::ordered_json& context) const;
  const std::string& source() const;  // with line breaks as \n

 private:
  ChatTemplate();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringkeep::text
