// A grammar read byte by byte: derivatives of expressions, made when they are first needed. A
// frame is what is left of one rule; a stack is a frame over the stack that its caller left; a
// state is the set of stacks that the bytes so far may have led to. All exist once, so states are
// numbers and their transitions are remembered. For one reply; not shared between threads.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/expr.h"
#include "grammar/grammar_data.h"
#include "grammar/hash_index.h"

namespace ringkeep::grammar {

using StateId = uint32_t;
using StackId = uint32_t;
inline constexpr StateId kDead = 0;

class Automaton {
 public:
  explicit Automaton(GrammarPtr grammar);

  StateId start() const { return start_; }
  // kDead where no text goes on so.
  StateId step(StateId state, uint8_t byte) {
    const uint32_t row = states_[state].row;
    const uint8_t column = byte_class_[byte];
    if (row != kNoRow) {
      const StateId next = rows_[row + column];
      if (next != kUnknown) return next;
    }
    return compute(state, column);
  }
  bool accepting(StateId state) const { return states_[state].accepting; }
  // Nothing but an end can follow.
  bool finished(StateId state) const;
  // Of the structure: equal for the same state in every automaton of the grammar.
  uint64_t hash(StateId state) const { return states_[state].hash; }
  // What was done so far (ExprPool::work): what new steps cost.
  uint64_t work() const { return work_before_ + pool_.work(); }

  // A state that takes the same next `bytes` bytes, the same for counts that are far from their
  // bounds.
  StateId canonical(StateId state, uint32_t bytes);

  bool large() const;     // time to forget what is not needed
  bool overfull() const;  // time to stop looking further
  // Forgets everything but this state; its new number.
  StateId keep_only(StateId state);

  // For whoever looks into a state.
  struct Stack {
    ExprId frame = kEmpty;
    StackId tail = 0;
    uint32_t depth = 0;
    bool accepting = true;  // frame and all below may be empty
    uint64_t hash = 0;
  };
  std::span<const StackId> stacks(StateId state) const {
    return std::span(members_).subspan(states_[state].begin, states_[state].size);
  }
  const Stack& stack(StackId id) const { return stacks_[id]; }
  const ExprPool& pool() const { return pool_; }
  StateId state_of(ExprId frame, StackId tail);

 private:
  static constexpr uint32_t kNoRow = UINT32_MAX;
  static constexpr StateId kUnknown = UINT32_MAX;
  struct State {
    uint32_t begin = 0, size = 0;  // in members_
    uint32_t row = kNoRow;
    bool accepting = false;
    uint64_t hash = 0;
  };
  struct Reached {
    StackId tail;
    ExprId frame;
  };

  void reset();
  StateId compute(StateId state, uint8_t column);
  void derive(ExprId expr, uint8_t byte, ExprId rest, StackId tail);
  bool fits(ExprId frame, StackId tail) const;
  void reach(ExprId frame, StackId tail);
  StackId push(ExprId frame, StackId tail);
  StateId intern(std::vector<StackId>& stacks);
  StateId collect();
  ExprId canonical_expr(ExprId id, uint32_t bytes);
  StackId canonical_stack(StackId id, uint32_t bytes);

  GrammarPtr grammar_;
  const std::array<uint8_t, 256>& byte_class_;
  size_t classes_;
  ExprPool pool_;
  std::vector<Stack> stacks_;  // 0: the end of the text
  HashIndex stack_index_;
  std::vector<State> states_;  // 0: dead
  HashIndex state_index_;
  std::vector<StackId> members_;
  std::vector<StateId> rows_;
  StateId start_ = kDead;

  // Of the step at hand.
  std::vector<Reached> reached_;
  TripleSet derived_;           // (expression, rest, tail)
  std::vector<uint32_t> seen_;  // [stacks] the step that saw it
  uint32_t steps_ = 0;
  uint64_t most_work_ = 0;
  uint64_t work_before_ = 0;  // by pools that are gone
  // Of canonical().
  uint32_t canonical_bytes_ = 0;
  std::unordered_map<ExprId, ExprId> canonical_exprs_;
  std::unordered_map<StackId, StackId> canonical_stacks_;
};

}  // namespace ringkeep::grammar
