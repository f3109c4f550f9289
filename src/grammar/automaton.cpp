#include "grammar/automaton.h"

#include <algorithm>

#include "base/check.h"
#include "grammar/code_points.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

using Kind = Expr::Kind;

constexpr uint32_t kGlances = 16;  // parts that are passed over, for a unit of work

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

Automaton::Automaton(GrammarPtr grammar)
    : grammar_(std::move(grammar)),
      byte_class_(grammar_->data().byte_class),
      classes_(grammar_->data().class_bytes.size()),
      pool_(&grammar_->data().pool) {
  reset();
  start_ = state_of(grammar_->data().root, 0);
}

void Automaton::reset() {
  pool_ = ExprPool(&grammar_->data().pool);
  stacks_.assign(1, Stack{.hash = 1});
  stack_index_ = HashIndex();
  stack_index_.add(1);
  states_.assign(1, State{});
  state_index_ = HashIndex();
  state_index_.add(0);
  members_.clear();
  rows_.clear();
  seen_.assign(1, 0);
  canonical_exprs_.clear();
  canonical_stacks_.clear();
}

bool Automaton::finished(StateId state) const {
  const auto members = stacks(state);
  return members.size() == 1 && members[0] == 0;
}

StackId Automaton::push(ExprId frame, StackId tail) {
  if (frame == kEmpty) return tail;
  pool_.charge(2);
  const uint64_t hash = mix(stacks_[tail].hash, pool_[frame].hash);
  const int64_t found = stack_index_.find(
      hash, [&](uint32_t id) { return stacks_[id].frame == frame && stacks_[id].tail == tail; });
  if (found >= 0) return static_cast<StackId>(found);
  stacks_.push_back({.frame = frame,
                     .tail = tail,
                     .depth = stacks_[tail].depth + 1,
                     .accepting = pool_[frame].nullable && stacks_[tail].accepting,
                     .hash = hash});
  seen_.push_back(0);
  stack_index_.add(hash);
  return static_cast<StackId>(stacks_.size() - 1);
}

StateId Automaton::intern(std::vector<StackId>& stacks) {
  if (stacks.empty()) return kDead;
  pool_.charge(stacks.size());
  // By hash, so that the order is the same in every automaton.
  std::sort(stacks.begin(), stacks.end(), [&](StackId a, StackId b) {
    return stacks_[a].hash != stacks_[b].hash ? stacks_[a].hash < stacks_[b].hash : a < b;
  });
  stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
  if (stacks.size() > kMostStacks) stacks.resize(kMostStacks);
  uint64_t hash = stacks.size();
  for (const StackId id : stacks) hash = mix(hash, stacks_[id].hash);
  const int64_t found = state_index_.find(hash, [&](uint32_t id) {
    const auto other = this->stacks(id);
    return std::equal(other.begin(), other.end(), stacks.begin(), stacks.end());
  });
  if (found >= 0) return static_cast<StateId>(found);
  State state{.begin = static_cast<uint32_t>(members_.size()),
              .size = static_cast<uint32_t>(stacks.size()),
              .hash = hash};
  for (const StackId id : stacks) state.accepting = state.accepting || stacks_[id].accepting;
  members_.insert(members_.end(), stacks.begin(), stacks.end());
  states_.push_back(state);
  state_index_.add(hash);
  return static_cast<StateId>(states_.size() - 1);
}

StateId Automaton::state_of(ExprId frame, StackId tail) {
  std::vector<StackId> stacks = {push(pool_.opened(frame), tail)};
  return intern(stacks);
}

// Whether the frame can be brought to an end over that stack, within the bound of stacks.
bool Automaton::fits(ExprId frame, StackId tail) const {
  return frame == kEmpty || stacks_[tail].depth + 1 + pool_[frame].calls_deep <= kMostFrames;
}

void Automaton::reach(ExprId frame, StackId tail) {
  if (fits(frame, tail)) reached_.push_back({tail, frame});
}

// Adds what is left of `expr`, then `rest`, over `tail`, once `byte` is read.
void Automaton::derive(ExprId id, uint8_t byte, ExprId rest, StackId tail) {
  while (pool_.work() < most_work_) {
    pool_.charge(1);
    const Expr expr = pool_[id];  // a copy: the pool grows below
    if (!expr.may_begin(byte)) return;
    switch (expr.kind) {
      case Kind::nothing:
      case Kind::empty: return;
      case Kind::bytes:
        if (pool_.bytes(expr)[byte]) reach(rest, tail);
        return;
      case Kind::literal:
        if (static_cast<uint8_t>(pool_.text(expr)[0]) == byte)
          reach(pool_.concat(pool_.suffix(id), rest), tail);
        return;
      case Kind::dfa: {
        const uint32_t next = pool_.dfa(expr).step(expr.b, byte);
        uint32_t low = expr.low, high = expr.high;
        if (begins_character(byte)) {
          if (high == 0) return;
          low -= low > 0 ? 1u : 0u;
          high -= high != kUnbounded ? 1u : 0u;
        }
        if (next != Dfa::kDead)
          reach(pool_.concat(pool_.dfa_state(expr.a, next, low, high), rest), tail);
        return;
      }
      default: break;
    }
    // Ways through optional parts meet again: each goes on once.
    if (!derived_.add(id, rest, tail)) return;
    switch (expr.kind) {
      case Kind::concat: {
        const Expr& head = pool_[expr.a];
        const bool skips = head.nullable;
        if (head.may_begin(byte)) derive(expr.a, byte, pool_.concat(expr.b, rest), tail);
        if (!skips) return;
        id = expr.b;
        break;
      }
      case Kind::either:
        pool_.charge(expr.b / kGlances);
        for (size_t i = 0; i < expr.b; ++i) {
          const ExprId child = pool_.children(id)[i];
          if (pool_[child].may_begin(byte)) derive(child, byte, rest, tail);
        }
        return;
      case Kind::repeat: {
        const uint32_t low = expr.low == 0 || pool_[expr.a].nullable ? 0 : expr.low - 1;
        const uint32_t high = expr.high == kUnbounded ? kUnbounded : expr.high - 1;
        rest = pool_.concat(pool_.repeat(expr.a, low, high), rest);
        id = expr.a;
        break;
      }
      case Kind::call:
        if (!fits(rest, tail)) return;  // what follows could not be brought to an end
        tail = push(rest, tail);
        rest = kEmpty;
        id = pool_.rule(expr.a).body;
        break;
      default: RK_CHECK(false, "a part that is none");
    }
  }
}

StateId Automaton::collect() {
  pool_.charge(reached_.size());
  std::sort(reached_.begin(), reached_.end(), [](const Reached& a, const Reached& b) {
    return a.tail != b.tail ? a.tail < b.tail : a.frame < b.frame;
  });
  std::vector<StackId> stacks;
  std::vector<ExprId> frames;
  const auto add = [&](ExprId id, StackId tail) {
    const ExprId frame = pool_.opened(id);
    if (fits(frame, tail)) frames.push_back(frame);
  };
  for (size_t i = 0; i < reached_.size();) {
    const StackId tail = reached_[i].tail;
    frames.clear();
    for (; i < reached_.size() && reached_[i].tail == tail; ++i) {
      const ExprId id = reached_[i].frame;
      if (pool_[id].kind == Kind::either) {
        for (size_t j = 0; j < pool_[id].b; ++j) add(pool_.children(id)[j], tail);
      } else {
        add(id, tail);
      }
    }
    stacks.push_back(push(pool_.factored(frames), tail));
  }
  return intern(stacks);
}

StateId Automaton::compute(StateId state, uint8_t column) {
  if (state == kDead) return kDead;
  if (states_[state].row == kNoRow) {
    states_[state].row = static_cast<uint32_t>(rows_.size());
    rows_.resize(rows_.size() + classes_, kUnknown);
    pool_.charge(classes_ / kGlances);
  }
  const uint8_t byte = grammar_->data().class_bytes[column];
  reached_.clear();
  derived_.clear();
  most_work_ = pool_.work() + kMostStepWork + kMostPartWork * grammar_->data().pool.size();
  ++steps_;
  for (size_t i = 0; i < states_[state].size; ++i) {
    StackId id = members_[states_[state].begin + i];
    while (id != 0 && seen_[id] != steps_) {
      pool_.charge(1);
      seen_[id] = steps_;
      const Stack stack = stacks_[id];
      derive(stack.frame, byte, kEmpty, stack.tail);
      if (!pool_[stack.frame].nullable) break;
      id = stack.tail;
    }
  }
  const StateId next = collect();
  rows_[states_[state].row + column] = next;
  return next;
}

ExprId Automaton::canonical_expr(ExprId id, uint32_t bytes) {
  const Expr expr = pool_[id];
  if (expr.kind == Kind::dfa)
    return pool_.dfa_state(expr.a, expr.b, std::min(expr.low, bytes + 1),
                           expr.high > bytes + 1 ? kUnbounded : expr.high);
  if (expr.kind != Kind::concat && expr.kind != Kind::either && expr.kind != Kind::repeat)
    return id;
  pool_.charge(2);
  const auto known = canonical_exprs_.find(id);
  if (known != canonical_exprs_.end()) return known->second;
  ExprId out = id;
  if (expr.kind == Kind::repeat) {
    out = pool_.repeat(canonical_expr(expr.a, bytes), std::min(expr.low, bytes + 1),
                       expr.high > bytes + 1 ? kUnbounded : expr.high);
  } else if (expr.kind == Kind::either) {
    std::vector<ExprId> children;
    for (size_t i = 0; i < expr.b; ++i)
      children.push_back(canonical_expr(pool_.children(id)[i], bytes));
    out = pool_.either(children);
  } else {
    // Alternatives share the ends of their chains: each is looked at once.
    std::vector<ExprId> chain;
    ExprId rest = id;
    for (; pool_[rest].kind == Kind::concat && !canonical_exprs_.contains(rest);
         rest = pool_[rest].b)
      chain.push_back(rest);
    pool_.charge(2 * chain.size());
    out = canonical_expr(rest, bytes);
    for (size_t i = chain.size(); i-- > 0;) {
      out = pool_.concat(canonical_expr(pool_[chain[i]].a, bytes), out);
      canonical_exprs_.emplace(chain[i], out);
    }
    return out;
  }
  canonical_exprs_.emplace(id, out);
  return out;
}

StackId Automaton::canonical_stack(StackId id, uint32_t bytes) {
  std::vector<StackId> frames;
  StackId out = 0;
  for (; id != 0; id = stacks_[id].tail) {
    pool_.charge(2);
    const auto known = canonical_stacks_.find(id);
    if (known != canonical_stacks_.end()) {
      out = known->second;
      break;
    }
    frames.push_back(id);
  }
  for (size_t i = frames.size(); i-- > 0;) {
    out = push(canonical_expr(stacks_[frames[i]].frame, bytes), out);
    canonical_stacks_.emplace(frames[i], out);
  }
  return out;
}

StateId Automaton::canonical(StateId state, uint32_t bytes) {
  if (bytes != canonical_bytes_) {
    canonical_exprs_.clear();
    canonical_stacks_.clear();
    canonical_bytes_ = bytes;
  }
  std::vector<StackId> out;
  for (size_t i = 0; i < states_[state].size; ++i)
    out.push_back(canonical_stack(members_[states_[state].begin + i], bytes));
  return intern(out);
}

bool Automaton::large() const {
  return pool_.own_size() + stacks_.size() + members_.size() > kMostReplyExpressions ||
         rows_.size() > kMostReplyRowEntries;
}

bool Automaton::overfull() const {
  return pool_.own_size() > 4 * kMostReplyExpressions || rows_.size() > 4 * kMostReplyRowEntries;
}

StateId Automaton::keep_only(StateId state) {
  work_before_ += pool_.work();
  const ExprPool pool = std::move(pool_);
  const std::vector<Stack> stacks = std::move(stacks_);
  const std::vector<StackId> members(this->stacks(state).begin(), this->stacks(state).end());
  reset();
  std::unordered_map<StackId, StackId> moved{{0, 0}};
  std::unordered_map<ExprId, ExprId> copied;
  std::vector<StackId> out;
  for (StackId id : members) {
    std::vector<StackId> frames;
    for (; !moved.contains(id); id = stacks[id].tail) frames.push_back(id);
    StackId to = moved[id];
    for (size_t i = frames.size(); i-- > 0;) {
      to = push(pool_.copy(pool, stacks[frames[i]].frame, copied), to);
      moved[frames[i]] = to;
    }
    out.push_back(to);
  }
  start_ = state_of(grammar_->data().root, 0);
  return intern(out);
}

}  // namespace ringkeep::grammar
