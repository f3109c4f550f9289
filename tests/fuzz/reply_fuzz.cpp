// A reply of any kind, in each format, whole or cut: read without a crash or a hang, the same in
// one piece and in single bytes.
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "prompt/reply_parser.h"

using ringkeep::prompt::ReplyDelta;

struct Reply {
  std::string content, reasoning, calls;
  void add(const ReplyDelta& delta) {
    content += delta.content;
    reasoning += delta.reasoning;
    for (const auto& call : delta.tool_calls) calls += call.id + call.name + call.arguments;
  }
  bool operator==(const Reply& other) const = default;
};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringkeep::prompt;
  if (size < 2) return 0;
  const ReplyFormat format{static_cast<ToolFormat>(data[0] % 11),
                           static_cast<ReasoningFormat>(data[1] % 5)};
  const std::string text(reinterpret_cast<const char*>(data + 2), size - 2);
  const ReplyOptions options{
      .tools = nlohmann::ordered_json::parse(
          R"([{"function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"},
              "b": {"type": ["integer", "null"]}, "c": {"type": "object"}}}}}])"),
      .in_reasoning = data[1] >= 128,
      .id_seed = 1};
  for (const bool cut : {false, true}) {
    Reply whole, pieces;
    ReplyParser one(format, options), many(format, options);
    whole.add(one.push(text));
    whole.add(one.finish(cut));
    for (const char byte : text) pieces.add(many.push(std::string_view(&byte, 1)));
    pieces.add(many.finish(cut));
    if (whole != pieces) std::abort();
  }
  return 0;
}
