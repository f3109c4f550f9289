// The vocabulary of a tokenizer as trees of bytes: built once a model, read by every matcher.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ringkeep::grammar {

// Tokens by their bytes, depth first; node 0 is the root, the empty text.
class TokenTree {
 public:
  struct Node {
    uint32_t after = 0;   // the node after its subtree
    uint32_t tokens = 0;  // its first token; the next node's is their end
    uint16_t depth = 0;
    uint8_t byte = 0;
  };
  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  std::span<const int32_t> tokens(uint32_t node) const {
    return std::span(tokens_).subspan(nodes_[node].tokens,
                                      nodes_[node + 1].tokens - nodes_[node].tokens);
  }
  // Adds a token; in the order of their bytes, and last of all close().
  void add(int32_t token, std::string_view bytes);
  void close();

 private:
  void close_to(size_t depth);
  std::vector<Node> nodes_ = {Node{}};  // and, once closed, one that only bounds
  std::vector<int32_t> tokens_;         // in the order of the nodes
  std::vector<uint32_t> open_ = {0};    // from the root to the last token
  std::string last_;
};

class TokenTrie {
 public:
  static std::shared_ptr<const TokenTrie> build(const text::Tokenizer& tokenizer);

  struct Token {
    enum class Kind {
      text,     // adds its bytes
      control,  // `bytes` is its name; only where a grammar says control(name)
      end,      // ends generation
    };
    std::string bytes;
    Kind kind = Kind::text;
  };
  static std::shared_ptr<const TokenTrie> build(const std::vector<Token>& tokens);

  int64_t size() const { return static_cast<int64_t>(ends_.size()) - 1; }
  size_t words() const { return (ends_.size() - 1 + 63) / 64; }  // of a mask
  // What a token reads as: empty where it can never be allowed (no bytes, ends generation).
  std::string_view bytes(int32_t token) const {
    return std::string_view(text_).substr(ends_[token], ends_[token + 1] - ends_[token]);
  }
  std::span<const int32_t> end_tokens() const { return end_tokens_; }
  uint32_t longest() const { return longest_; }  // bytes

  const TokenTree& all() const { return all_; }
  // Most tokens are plain characters, as within a JSON string (plain_text.h); these are the others.
  const TokenTree& unusual() const { return unusual_; }
  // A mask of the plain tokens of up to so many characters, [words].
  std::span<const uint64_t> plain(uint32_t characters) const {
    const size_t row = std::min<size_t>(characters, plain_.size() / words() - 1);
    return std::span(plain_).subspan(row * words(), words());
  }

 private:
  TokenTrie() = default;
  std::string text_;
  std::vector<uint32_t> ends_;  // [vocab + 1] where a token's bytes begin
  std::vector<int32_t> end_tokens_;
  TokenTree all_, unusual_;
  std::vector<uint64_t> plain_;  // [most characters + 1, words]
  uint32_t longest_ = 0;
};

}  // namespace ringkeep::grammar
