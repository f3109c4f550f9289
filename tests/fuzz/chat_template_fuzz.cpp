// A template and a conversation of any kind: an error or a text, never a crash or a hang.
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto context = nlohmann::ordered_json::parse(R"({
      "messages": [{"role": "system", "content": "Be <kind> ünï 🙂"}, {"role": "user", "content": [
          {"type": "text", "text": "  A b\n"}, {"type": "image"}]}, {"role": "assistant", "content": null,
          "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]}],
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": {"b": []}}}}],
      "add_generation_prompt": true, "bos_token": "<s>", "n": -7, "x": 1e300})");
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto parsed = ringkeep::text::ChatTemplate::parse(source);
  if (parsed) (void)parsed->render(context).ok();
  return 0;
}
