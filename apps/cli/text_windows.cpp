#include "cli/text_windows.h"

#include <algorithm>

namespace ringkeep::cli {
namespace {

Result<Windows> checked(Windows windows, const engine::Engine& engine) {
  if (windows.tokens.empty()) return make_error(ErrorKind::usage, "the text has no tokens");
  if (engine.plan().ctx <= static_cast<int64_t>(windows.head.size()))
    return make_error(ErrorKind::usage, "--ctx {}: expected 2 tokens or more", engine.plan().ctx);
  return windows;
}

}  // namespace

std::vector<int32_t> Windows::next(int64_t size) {
  const size_t room = static_cast<size_t>(size) - head.size();
  const size_t count = std::min(room, tokens.size() - used);
  std::vector<int32_t> window;
  if (count == 0) return window;
  window = head;
  const auto begin = tokens.begin() + static_cast<ptrdiff_t>(used);
  window.insert(window.end(), begin, begin + static_cast<ptrdiff_t>(count));
  used += count;
  return window;
}

Result<Windows> text_windows(const std::string& text, const engine::Engine& engine) {
  const text::Tokenizer& tokenizer = *engine.tokenizer();
  Windows windows;
  windows.tokens = tokenizer.encode(text, {.add_special = false});
  if (tokenizer.data().add_bos) windows.head = {tokenizer.data().bos};
  return checked(std::move(windows), engine);
}

Result<Windows> token_windows(std::vector<int32_t> tokens, const engine::Engine& engine) {
  return checked({.tokens = std::move(tokens)}, engine);
}

}  // namespace ringkeep::cli
