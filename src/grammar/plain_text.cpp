#include "grammar/plain_text.h"

#include <set>

#include "text/utf8.h"

namespace ringkeep::grammar {
namespace {

bool plain_ascii(uint8_t byte) {
  return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

// The plain characters of more than one byte: Unicode's table 3-7, U+2028 and U+2029 cut out.
struct Sequence {
  uint8_t first_low, first_high, second_low, second_high;
  uint8_t more;  // bytes after the second
  uint8_t last_low = 0x80, last_high = 0xBF;
};
constexpr Sequence kSequences[] = {{0xC2, 0xDF, 0x80, 0xBF, 0},
                                   {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                   {0xE1, 0xE1, 0x80, 0xBF, 1},
                                   {0xE2, 0xE2, 0x81, 0xBF, 1},
                                   {0xE2, 0xE2, 0x80, 0x80, 1, 0x80, 0xA7},
                                   {0xE2, 0xE2, 0x80, 0x80, 1, 0xAA, 0xBF},
                                   {0xE3, 0xEC, 0x80, 0xBF, 1},
                                   {0xED, 0xED, 0x80, 0x9F, 1},
                                   {0xEE, 0xEF, 0x80, 0xBF, 1},
                                   {0xF0, 0xF0, 0x90, 0xBF, 2},
                                   {0xF1, 0xF3, 0x80, 0xBF, 2},
                                   {0xF4, 0xF4, 0x80, 0x8F, 2}};

bool begins_plain(Automaton& automaton, StateId state) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    const bool first = byte < 0x80 ? plain_ascii(value) : byte >= 0xC2 && byte <= 0xF4;
    if (first && automaton.step(state, value) != kDead) return true;
  }
  return false;
}

// Each plain character leads from `start` to where the text may end and no plain one can follow.
bool reads_one(Automaton& automaton, StateId start) {
  std::set<StateId> after;
  const auto each = [&](const std::set<StateId>& states, uint8_t low, uint8_t high,
                        std::set<StateId>& to) {
    for (const StateId state : states) {
      for (int byte = low; byte <= high; ++byte) {
        const StateId next = automaton.step(state, static_cast<uint8_t>(byte));
        if (next == kDead) return false;
        to.insert(next);
      }
    }
    return true;
  };
  for (int byte = 0; byte < 0x80; ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    if (plain_ascii(value) && !each({start}, value, value, after)) return false;
  }
  for (const Sequence& sequence : kSequences) {
    std::set<StateId> states, next;
    if (!each({start}, sequence.first_low, sequence.first_high, states)) return false;
    for (int i = 0; i < sequence.more; ++i) {
      next.clear();
      if (!each(states, i == 0 ? sequence.second_low : 0x80, i == 0 ? sequence.second_high : 0xBF,
                next))
        return false;
      states.swap(next);
    }
    const bool two = sequence.more == 0;
    if (!each(states, two ? sequence.second_low : sequence.last_low,
              two ? sequence.second_high : sequence.last_high, after))
      return false;
  }
  for (const StateId state : after)
    if (!automaton.accepting(state) || begins_plain(automaton, state)) return false;
  return true;
}

}  // namespace

size_t plain_characters(std::string_view bytes) {
  size_t count = 0;
  for (; !bytes.empty(); ++count) {
    const text::Utf8Step step = text::utf8_step(bytes);
    if (step.kind != text::Utf8Step::Kind::valid) return 0;
    const std::string_view character = bytes.substr(0, step.size);
    if (step.size == 1 && !plain_ascii(static_cast<uint8_t>(bytes[0]))) return 0;
    if (character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9") return 0;
    bytes.remove_prefix(step.size);
  }
  return count;
}

std::optional<uint32_t> PlainText::reach(Automaton& automaton, StateId state) {
  if (automaton.stacks(state).size() != 1) return std::nullopt;
  const Automaton::Stack stack = automaton.stack(automaton.stacks(state)[0]);
  const ExprPool& pool = automaton.pool();
  const Expr frame = pool[stack.frame];
  const bool chain = frame.kind == Expr::Kind::concat;
  const Expr head = chain ? pool[frame.a] : frame;
  if (head.kind != Expr::Kind::repeat) return std::nullopt;
  const ExprId rest = chain ? frame.b : kEmpty;
  auto known = singles_.find(head.a);
  if (known == singles_.end()) {
    const bool one = reads_one(automaton, automaton.state_of(head.a, 0));
    known = singles_.emplace(head.a, one).first;
  }
  if (!known->second) return std::nullopt;
  if (head.high != kUnbounded && begins_plain(automaton, automaton.state_of(rest, stack.tail)))
    return std::nullopt;
  return head.high;
}

}  // namespace ringkeep::grammar
