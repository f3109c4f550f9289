#include "grammar/token_trie.h"

#include <algorithm>

#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

constexpr size_t kLongestToken = 1'024;  // bytes; a longer one is never allowed

size_t common(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

}  // namespace

std::shared_ptr<const TokenTrie> TokenTrie::build(const text::Tokenizer& tokenizer) {
  std::vector<Token> tokens(static_cast<size_t>(tokenizer.size()));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (tokenizer.ends_generation(id)) {
      tokens[i].kind = Token::Kind::end;
    } else if (tokenizer.is_control(id)) {
      tokens[i] = {std::string(tokenizer.piece(id)), Token::Kind::control};
    } else {
      tokens[i].bytes = tokenizer.bytes(id);
    }
  }
  return build(tokens);
}

std::shared_ptr<const TokenTrie> TokenTrie::build(const std::vector<Token>& tokens) {
  std::shared_ptr<TokenTrie> trie(new TokenTrie);
  trie->ends_.push_back(0);
  std::vector<int32_t> order;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const auto id = static_cast<int32_t>(i);
    const bool usable = !token.bytes.empty() && token.bytes.size() <= kLongestToken &&
                        token.bytes.find(kControlMark) == std::string::npos;
    if (token.kind == Token::Kind::end) trie->end_tokens_.push_back(id);
    if (token.kind == Token::Kind::text && usable) {
      trie->text_ += token.bytes;
      order.push_back(id);
    } else if (token.kind == Token::Kind::control && usable) {
      ((trie->text_ += kControlMark) += token.bytes) += kControlMark;
      order.push_back(id);
    }
    trie->ends_.push_back(static_cast<uint32_t>(trie->text_.size()));
  }
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const int compared = trie->bytes(a).compare(trie->bytes(b));
    return compared != 0 ? compared < 0 : a < b;
  });

  std::vector<uint32_t> open = {0};  // the nodes from the root to the last token
  trie->nodes_.push_back({});
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; open.size() > depth + 1; open.pop_back())
      trie->nodes_[open.back()].after = static_cast<uint32_t>(trie->nodes_.size());
  };
  for (const int32_t id : order) {
    const std::string_view bytes = trie->bytes(id);
    close(common(last, bytes));
    for (size_t depth = open.size(); depth <= bytes.size(); ++depth) {
      open.push_back(static_cast<uint32_t>(trie->nodes_.size()));
      trie->nodes_.push_back({.tokens = static_cast<uint32_t>(trie->tokens_.size()),
                              .depth = static_cast<uint16_t>(depth),
                              .byte = static_cast<uint8_t>(bytes[depth - 1])});
    }
    trie->tokens_.push_back(id);
    trie->longest_ = std::max(trie->longest_, static_cast<uint32_t>(bytes.size()));
    last = bytes;
  }
  close(0);
  trie->nodes_[0].after = static_cast<uint32_t>(trie->nodes_.size());
  trie->nodes_.push_back({.tokens = static_cast<uint32_t>(trie->tokens_.size())});
  return trie;
}

}  // namespace ringkeep::grammar
