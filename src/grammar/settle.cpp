// What is known of expressions only once every rule has its body.
#include <algorithm>
#include <vector>

#include "grammar/expr.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {
using Kind = Expr::Kind;

// The expressions (and rules) that a value flows to, in one array.
class ExprPool::Users {
 public:
  Users(const std::vector<Expr>& exprs, const std::vector<ExprId>& children,
        const std::vector<Rule>& rules)
      : begin_(exprs.size() + 1), bodies_(exprs.size()), calls_(rules.size()) {
    const auto each = [&](const auto& visit) {
      for (ExprId id = 0; id < exprs.size(); ++id) {
        const Expr& expr = exprs[id];
        if (expr.kind == Kind::concat) visit(expr.a, id), visit(expr.b, id);
        if (expr.kind == Kind::repeat) visit(expr.a, id);
        if (expr.kind == Kind::either)
          for (uint32_t i = 0; i < expr.b; ++i) visit(children[expr.a + i], id);
      }
    };
    each([&](ExprId child, ExprId) { ++begin_[child + 1]; });
    for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    users_.resize(begin_.back());
    std::vector<uint32_t> at(begin_.begin(), begin_.end() - 1);
    each([&](ExprId child, ExprId user) { users_[at[child]++] = user; });
    for (uint32_t i = 0; i < rules.size(); ++i) bodies_[rules[i].body].push_back(i);
    for (ExprId id = 0; id < exprs.size(); ++id)
      if (exprs[id].kind == Kind::call) calls_[exprs[id].a] = id;
  }
  std::span<const ExprId> of(ExprId id) const {
    return std::span(users_).subspan(begin_[id], begin_[id + 1] - begin_[id]);
  }
  const std::vector<uint32_t>& rules_of(ExprId body) const { return bodies_[body]; }
  ExprId call_of(uint32_t rule) const { return calls_[rule]; }  // kNothing: never called

 private:
  std::vector<uint32_t> begin_;
  std::vector<ExprId> users_;
  std::vector<std::vector<uint32_t>> bodies_;
  std::vector<ExprId> calls_;
};

void ExprPool::settle() {
  const Users users(own_, children_, rules_);
  settle_nullable(users);
  settle_begins(users);
  settle_calls(users);
}

// The empty text: from what has it to what then has it.
void ExprPool::settle_nullable(const Users& users) {
  std::vector<ExprId> todo;
  for (ExprId id = 0; id < own_.size(); ++id)
    if (own_[id].nullable) todo.push_back(id);
  const auto now_nullable = [&](ExprId id) {
    if (id == kNothing || own_[id].nullable) return;
    own_[id].nullable = true;
    todo.push_back(id);
  };
  while (!todo.empty()) {
    const ExprId id = todo.back();
    todo.pop_back();
    for (const ExprId user : users.of(id)) {
      const Expr& expr = own_[user];
      if (expr.kind != Kind::concat || (own_[expr.a].nullable && own_[expr.b].nullable))
        now_nullable(user);
    }
    for (const uint32_t rule : users.rules_of(id)) {
      rules_[rule].nullable = true;
      now_nullable(users.call_of(rule));
    }
  }
}

// First bytes: from the parts to the whole, and from the rules to their calls.
void ExprPool::settle_begins(const Users& users) {
  for (ExprId id = 0; id < own_.size(); ++id) {
    const bool parts = own_[id].kind == Kind::either;
    own_[id].begins = begins(own_[id], parts ? children(id) : std::span<const ExprId>());
  }
  std::vector<ExprId> todo;
  const auto pass_on = [&](ExprId to, uint64_t more) {
    if (to == kNothing || (own_[to].begins | more) == own_[to].begins) return;
    own_[to].begins |= more;
    todo.push_back(to);
  };
  const auto told = [&](uint32_t rule, uint64_t more) {
    rules_[rule].begins |= more;
    pass_on(users.call_of(rule), more);
  };
  for (uint32_t i = 0; i < rules_.size(); ++i) told(i, own_[rules_[i].body].begins);
  while (!todo.empty()) {
    const ExprId id = todo.back();
    todo.pop_back();
    const uint64_t more = own_[id].begins;
    for (const ExprId user : users.of(id)) {
      const Expr& expr = own_[user];
      if (expr.kind != Kind::concat || expr.a == id || own_[expr.a].nullable) pass_on(user, more);
    }
    for (const uint32_t rule : users.rules_of(id)) told(rule, more);
  }
}

// Nesting of calls, from 0 upwards: what is reached at a level has that many.
void ExprPool::settle_calls(const Users& users) {
  for (Expr& expr : own_) expr.calls_deep = kNever;
  std::vector<ExprId> todo, next;
  for (ExprId id = 1; id < own_.size(); ++id) {
    const Kind kind = own_[id].kind;
    if (kind == Kind::empty || kind == Kind::bytes || kind == Kind::literal || kind == Kind::dfa ||
        (kind == Kind::repeat && own_[id].low == 0)) {
      next.push_back(id);
    }
  }
  for (uint16_t level = 0; level <= kMostCalls && !next.empty(); ++level) {
    std::swap(todo, next);
    next.clear();
    while (!todo.empty()) {
      const ExprId id = todo.back();
      todo.pop_back();
      if (own_[id].calls_deep != kNever) continue;
      own_[id].calls_deep = level;
      for (const ExprId user : users.of(id)) {
        const Expr& expr = own_[user];
        if (expr.kind != Kind::concat ||
            (own_[expr.a].calls_deep != kNever && own_[expr.b].calls_deep != kNever)) {
          todo.push_back(user);
        }
      }
      for (const uint32_t rule : users.rules_of(id)) {
        rules_[rule].calls_deep = level + 1;
        const ExprId call = users.call_of(rule);
        if (call != kNothing) next.push_back(call);
      }
    }
  }
}

}  // namespace ringkeep::grammar
