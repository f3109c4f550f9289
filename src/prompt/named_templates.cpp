#include "prompt/named_templates.h"

namespace ringkeep::prompt {
namespace {

constexpr std::string_view kChatml =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

// Gemma has no system role: its text stands before the first message.
constexpr std::string_view kGemma =
    "{{- bos_token }}"
    "{%- set ns = namespace(system='') %}"
    "{%- for message in messages %}"
    "{%- if message['role'] == 'system' %}"
    "{%- set ns.system = ns.system + message['content'] + '\\n\\n' %}"
    "{%- else %}"
    "{%- set role = 'model' if message['role'] == 'assistant' else 'user' %}"
    "{{- '<start_of_turn>' + role + '\\n' + ns.system + (message['content'] or '')|trim + "
    "'<end_of_turn>\\n' }}"
    "{%- set ns.system = '' %}"
    "{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}";

constexpr std::string_view kLlama3 =
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + "
    "(message['content'] or '')|trim + '<|eot_id|>' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
    "{%- endif %}";

constexpr std::string_view kPlain =
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- message['role']|capitalize + ': ' + (message['content'] or '')|trim + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- 'Assistant:' }}{%- endif %}";

}  // namespace

std::optional<std::string> named_template(std::string_view name) {
  if (name == "chatml") return std::string(kChatml);
  if (name == "gemma") return std::string(kGemma);
  if (name == "llama3") return std::string(kLlama3);
  if (name == "plain") return std::string(kPlain);
  return std::nullopt;
}

}  // namespace ringkeep::prompt
