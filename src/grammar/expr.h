// Expressions over bytes: what a text may still be. Each structure exists once (hash-consing), so
// that equal rests of a grammar are equal numbers and whatever is known of one is known for good.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/hash_index.h"

namespace ringkeep::grammar {

using ExprId = uint32_t;
using ByteSet = std::bitset<256>;

inline constexpr ExprId kNothing = 0;  // no text at all
inline constexpr ExprId kEmpty = 1;    // the empty text
inline constexpr uint32_t kUnbounded = UINT32_MAX;
inline constexpr uint16_t kNever = UINT16_MAX;  // `calls_deep` of what no finite text fulfils

struct Expr {
  enum class Kind : uint8_t {
    nothing,
    empty,
    bytes,    // one byte of set `a`
    literal,  // text [a, a + b), two bytes or more
    concat,   // a, then b
    either,   // one of children [a, a + b), two or more, ascending, none of them an either
    repeat,   // a, low to high times
    call,     // rule a
    dfa,      // what automaton a accepts from state b, of low to high UTF-8 characters
  };
  Kind kind = Kind::nothing;
  bool nullable = false;    // the empty text is in it
  uint16_t calls_deep = 0;  // calls that nest in its least nested text
  uint16_t height = 0;      // of the tree; a chain of concats counts once, calls not at all
  uint32_t a = 0, b = 0;
  uint32_t low = 0, high = 0;
  uint64_t hash = 0;    // of the structure; the same in every pool of one grammar
  uint64_t begins = 0;  // bit b % 64 of each byte b that its texts may begin with; others, too

  bool may_begin(uint8_t byte) const { return (begins >> (byte % 64) & 1) != 0; }
};

// A deterministic automaton without dead states: from every state an accepting one is reached.
struct Dfa {
  static constexpr uint32_t kDead = UINT32_MAX;
  std::array<uint8_t, 256> byte_class{};
  uint32_t classes = 0;
  std::vector<uint32_t> next;   // [states, classes]
  std::vector<bool> accepting;  // [states]
  uint32_t start = 0;

  uint32_t states() const { return static_cast<uint32_t>(accepting.size()); }
  uint32_t step(uint32_t state, uint8_t byte) const {
    return next[size_t{state} * classes + byte_class[byte]];
  }
  // Without the states from which no accepting one is reached; none left: no text.
  Dfa trimmed() const;
};

struct Rule {
  std::string name;
  ExprId body = kNothing;
  bool nullable = false;
  uint16_t calls_deep = kNever;  // of the body, itself counted
  uint64_t begins = 0;
};

// Owns expressions. A pool over a base sees the base's expressions under the same numbers and adds
// its own: a reply's pool lies over its grammar's, which never changes.
class ExprPool {
 public:
  ExprPool();
  explicit ExprPool(const ExprPool* base);  // which outlives this one and does not change

  const Expr& operator[](ExprId id) const {
    return id < offset_ ? base_->own_[id] : own_[id - offset_];
  }
  size_t size() const { return offset_ + own_.size(); }
  size_t own_size() const { return own_.size() + children_.size(); }

  const ByteSet& bytes(const Expr& expr) const { return (base_ ? base_ : this)->sets_[expr.a]; }
  std::string_view text(const Expr& expr) const {
    return std::string_view((base_ ? base_ : this)->text_).substr(expr.a, expr.b);
  }
  std::span<const ExprId> children(ExprId id) const;
  const Dfa& dfa(const Expr& expr) const { return (base_ ? base_ : this)->dfas_[expr.a]; }
  const Rule& rule(uint32_t index) const { return (base_ ? base_ : this)->rules_[index]; }
  std::span<const Rule> rules() const { return (base_ ? base_ : this)->rules_; }

  // What was done so far, in units of some ten nanoseconds; whoever looks at parts adds to it.
  uint64_t work() const { return work_; }
  void charge(uint64_t units) { work_ += units; }

  // Any pool.
  ExprId concat(ExprId a, ExprId b);  // as it is: no part of a chain is made anew
  // The same, but for its grouping: what it begins with is no concat.
  ExprId opened(ExprId id);
  // Over a base, no more than kMostAlternatives are kept: fewer texts, each still whole.
  ExprId either(std::span<const ExprId> alternatives);
  ExprId either(std::initializer_list<ExprId> alternatives) {
    return either(std::span<const ExprId>(alternatives.begin(), alternatives.size()));
  }
  // The same of opened alternatives, with what several begin with written once: a x | a y is
  // a (x | y), so that it is read once.
  ExprId factored(std::span<const ExprId> alternatives);
  ExprId repeat(ExprId a, uint32_t low, uint32_t high);
  ExprId suffix(ExprId literal);  // a literal without its first byte
  // kNothing for Dfa::kDead. With bounds: the automaton reads UTF-8, and after every character it
  // both may end and goes on, so that each count can be reached.
  ExprId dfa_state(uint32_t dfa, uint32_t at, uint32_t low = 0, uint32_t high = kUnbounded);
  // The same structure in this pool, which has the same base; `known` are those copied so far.
  ExprId copy(const ExprPool& from, ExprId id, std::unordered_map<ExprId, ExprId>& known);

  // Pools without a base.
  ExprId byte_set(const ByteSet& set);
  ExprId literal(std::string_view text);
  ExprId sequence(std::span<const ExprId> parts);
  ExprId sequence(std::initializer_list<ExprId> parts) {
    return sequence(std::span<const ExprId>(parts.begin(), parts.size()));
  }
  ExprId optional(ExprId a) { return either({a, kEmpty}); }
  ExprId add_dfa(Dfa dfa);  // its start state
  size_t dfa_entries() const { return dfa_entries_; }
  uint32_t add_rule(std::string name);
  ExprId call(uint32_t rule);
  std::vector<Rule>& mutable_rules() { return rules_; }
  // Settles what is nullable, what begins with which bytes and how deep calls nest, once all rules
  // have their bodies.
  void settle();

 private:
  class Users;  // of each expression
  ExprId intern(Expr expr, std::span<const ExprId> children = {});
  void measure(Expr& expr, std::span<const ExprId> children) const;
  uint64_t begins(const Expr& expr, std::span<const ExprId> children) const;
  std::vector<ExprId> flat(std::span<const ExprId> alternatives);
  void merge_counts(std::vector<ExprId>& alternatives);
  void factor(std::vector<ExprId>& alternatives);
  ExprId join(std::vector<ExprId> alternatives);
  void settle_nullable(const Users& users);
  void settle_begins(const Users& users);
  void settle_calls(const Users& users);

  const ExprPool* base_ = nullptr;
  ExprId offset_ = 0;
  std::vector<Expr> own_;
  std::vector<ExprId> children_;
  HashIndex index_;

  std::vector<ByteSet> sets_;
  std::string text_;
  std::vector<Dfa> dfas_;
  size_t dfa_entries_ = 0;
  std::vector<Rule> rules_;
  uint64_t work_ = 0;
};

}  // namespace ringkeep::grammar
