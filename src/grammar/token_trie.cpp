#include "grammar/token_trie.h"

#include <algorithm>
#include <array>

#include "grammar/limits.h"
#include "grammar/plain_text.h"

namespace ringkeep::grammar {
namespace {

constexpr size_t kLongestToken = 1'024;  // bytes; a longer one is never allowed
constexpr size_t kMostPlain = 64;        // characters of a plain token that has a mask

size_t common(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < most && a[n] == b[n]) ++n;
  return n;
}

}  // namespace

void TokenTree::close_to(size_t depth) {
  for (; open_.size() > depth + 1; open_.pop_back())
    nodes_[open_.back()].after = static_cast<uint32_t>(nodes_.size());
}

void TokenTree::add(int32_t token, std::string_view bytes) {
  close_to(common(last_, bytes));
  for (size_t depth = open_.size(); depth <= bytes.size(); ++depth) {
    open_.push_back(static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back({.tokens = static_cast<uint32_t>(tokens_.size()),
                      .depth = static_cast<uint16_t>(depth),
                      .byte = static_cast<uint8_t>(bytes[depth - 1])});
  }
  tokens_.push_back(token);
  last_ = bytes;
}

void TokenTree::close() {
  close_to(0);
  nodes_[0].after = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({.tokens = static_cast<uint32_t>(tokens_.size())});
  nodes_.shrink_to_fit();
}

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

  std::array<std::vector<int32_t>, kMostPlain + 1> plain;  // by characters
  size_t most = 0;
  for (const int32_t id : order) {
    const std::string_view bytes = trie->bytes(id);
    trie->all_.add(id, bytes);
    trie->longest_ = std::max(trie->longest_, static_cast<uint32_t>(bytes.size()));
    const size_t characters = plain_characters(bytes);
    if (characters == 0 || characters > kMostPlain) {
      trie->unusual_.add(id, bytes);
    } else {
      plain[characters].push_back(id);
      most = std::max(most, characters);
    }
  }
  trie->all_.close();
  trie->unusual_.close();
  const size_t words = trie->words();
  trie->plain_.assign((most + 1) * words, 0);
  for (size_t characters = 1; characters <= most; ++characters) {
    const auto row = trie->plain_.begin() + static_cast<ptrdiff_t>(characters * words);
    std::copy_n(row - static_cast<ptrdiff_t>(words), words, row);
    for (const int32_t id : plain[characters]) row[id / 64] |= uint64_t{1} << (id % 64);
  }
  return trie;
}

}  // namespace ringkeep::grammar
