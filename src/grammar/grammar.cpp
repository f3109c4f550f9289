#include "grammar/grammar.h"

#include <unordered_map>

#include "grammar/code_points.h"
#include "grammar/grammar_data.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

using Kind = Expr::Kind;

constexpr uint16_t kMostBeginnings = 1'500;  // rules and groups that begin with each other

// Follows what each expression can begin with: a circle is left recursion.
class Beginnings {
 public:
  explicit Beginnings(const ExprPool& pool) : pool_(pool), depth_(pool.size()) {}

  Status check(ExprId root) {
    std::vector<Visit> stack;
    const auto enter = [&](ExprId id) {
      depth_[id] = kOpen;
      stack.push_back({id, targets(id)});
    };
    if (depth_[root] == 0) enter(root);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next == top.targets.size()) {
        uint16_t deepest = 0;
        for (const ExprId id : top.targets) deepest = std::max(deepest, depth_[id]);
        if (deepest >= kMostBeginnings) {
          return make_error(ErrorKind::usage,
                            "grammar: rules and groups that begin with each other, expected at "
                            "most {} deep",
                            kMostBeginnings);
        }
        depth_[top.id] = deepest + 1;
        stack.pop_back();
        continue;
      }
      const ExprId id = top.targets[top.next++];
      if (depth_[id] == kOpen) return recursion(stack, id);
      if (depth_[id] == 0) enter(id);
    }
    return {};
  }

 private:
  static constexpr uint16_t kOpen = UINT16_MAX;
  struct Visit {
    ExprId id;
    std::vector<ExprId> targets;
    size_t next = 0;
  };

  std::vector<ExprId> targets(ExprId id) const {
    std::vector<ExprId> out;
    for (;;) {
      const Expr& expr = pool_[id];
      switch (expr.kind) {
        case Kind::concat:
          out.push_back(expr.a);
          if (!pool_[expr.a].nullable) return out;
          id = expr.b;
          if (pool_[id].kind == Kind::concat) continue;
          out.push_back(id);
          return out;
        case Kind::either: {
          const auto children = pool_.children(id);
          out.insert(out.end(), children.begin(), children.end());
          return out;
        }
        case Kind::repeat: out.push_back(expr.a); return out;
        case Kind::call: out.push_back(pool_.rule(expr.a).body); return out;
        default: return out;
      }
    }
  }

  Status recursion(const std::vector<Visit>& stack, ExprId id) const {
    std::string name = "?";
    bool inside = false;
    for (const Visit& visit : stack) {
      inside = inside || visit.id == id;
      const Expr& expr = pool_[visit.id];
      if (inside && expr.kind == Kind::call) {
        name = pool_.rule(expr.a).name;
        break;
      }
    }
    return make_error(ErrorKind::usage,
                      "grammar: rule \"{}\" is left-recursive (it begins with itself); expected a "
                      "rule that first reads something else, such as item (\",\" item)*",
                      name);
  }

  const ExprPool& pool_;
  std::vector<uint16_t> depth_;  // 0: not seen; kOpen: being looked at
};

void find_byte_classes(Grammar::Data& data) {
  std::array<uint64_t, 256> signature{};
  const auto split = [&](uint64_t salt, const auto& value_of) {
    for (size_t byte = 0; byte < 256; ++byte) {
      uint64_t x = (signature[byte] ^ (value_of(byte) + salt)) * 0x9e3779b97f4a7c15u;
      signature[byte] = x ^ (x >> 29);
    }
  };
  ByteSet in_literals;
  bool counts = false;  // of characters
  for (ExprId id = 0; id < data.pool.size(); ++id) {
    const Expr& expr = data.pool[id];
    if (expr.kind == Kind::literal) {
      for (const char c : data.pool.text(expr)) in_literals.set(static_cast<uint8_t>(c));
    } else if (expr.kind == Kind::bytes) {
      const ByteSet& set = data.pool.bytes(expr);
      split(id, [&](size_t byte) { return uint64_t{set[byte]}; });
    } else if (expr.kind == Kind::dfa && expr.b == data.pool.dfa(expr).start) {
      const Dfa& dfa = data.pool.dfa(expr);
      split(id, [&](size_t byte) { return uint64_t{dfa.byte_class[byte]}; });
      counts = counts || expr.low > 0 || expr.high != kUnbounded;
    }
  }
  if (counts) split(2, [](size_t byte) { return uint64_t{begins_character(byte)}; });
  split(1, [&](size_t byte) { return in_literals[byte] ? byte + 1 : 0; });
  std::unordered_map<uint64_t, uint8_t> classes;
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto [at, fresh] = classes.emplace(signature[byte], static_cast<uint8_t>(classes.size()));
    if (fresh) data.class_bytes.push_back(static_cast<uint8_t>(byte));
    data.byte_class[byte] = at->second;
  }
}

}  // namespace

Status check_size(const ExprPool& pool) {
  if (pool.size() > kMostExpressions || pool.rules().size() > kMostRules ||
      pool.dfa_entries() > kMostDfaEntries) {
    return make_error(ErrorKind::usage,
                      "grammar: expected at most {} parts and {} rules, found more (a large "
                      "alternation or schema)",
                      kMostExpressions, kMostRules);
  }
  return {};
}

Result<GrammarPtr> finish(ExprPool pool, ExprId root) {
  RK_TRY(check_size(pool));
  pool.settle();
  if (pool[root].height > kMostHeight) {
    return make_error(ErrorKind::usage, "grammar: nested {} deep, expected at most {}",
                      pool[root].height, kMostHeight);
  }
  for (const Rule& rule : pool.rules()) {
    if (pool[rule.body].height > kMostHeight) {
      return make_error(ErrorKind::usage, "grammar: rule \"{}\" nests {} deep, expected at most {}",
                        rule.name, pool[rule.body].height, kMostHeight);
    }
  }
  Beginnings beginnings(pool);
  RK_TRY(beginnings.check(root));
  for (const Rule& rule : pool.rules()) RK_TRY(beginnings.check(rule.body));
  if (pool[root].calls_deep == kNever) {
    return make_error(ErrorKind::usage,
                      "grammar: expected a text that it allows, found none that ends (rules that "
                      "need themselves, or that nest more than {} deep)",
                      kMostCalls);
  }
  auto data = std::make_unique<Grammar::Data>();
  data->pool = std::move(pool);
  data->root = root;
  find_byte_classes(*data);
  return std::make_shared<const Grammar>(std::move(data));
}

ExprId import(ExprPool& pool, const Grammar& grammar) {
  const ExprPool& from = grammar.data().pool;
  const auto first_rule = static_cast<uint32_t>(pool.rules().size());
  for (const Rule& rule : from.rules()) pool.add_rule(rule.name);
  std::unordered_map<uint32_t, uint32_t> dfas;
  std::vector<ExprId> to(from.size(), kNothing);
  for (ExprId id = 0; id < from.size(); ++id) {  // parts come before what they are parts of
    const Expr& expr = from[id];
    switch (expr.kind) {
      case Kind::nothing: to[id] = kNothing; break;
      case Kind::empty: to[id] = kEmpty; break;
      case Kind::bytes: to[id] = pool.byte_set(from.bytes(expr)); break;
      case Kind::literal: to[id] = pool.literal(from.text(expr)); break;
      case Kind::concat: to[id] = pool.concat(to[expr.a], to[expr.b]); break;
      case Kind::repeat: to[id] = pool.repeat(to[expr.a], expr.low, expr.high); break;
      case Kind::call: to[id] = pool.call(first_rule + expr.a); break;
      case Kind::either: {
        std::vector<ExprId> children;
        for (const ExprId child : from.children(id)) children.push_back(to[child]);
        to[id] = pool.either(children);
        break;
      }
      case Kind::dfa: {
        auto found = dfas.find(expr.a);
        if (found == dfas.end()) {
          const ExprId start = pool.add_dfa(from.dfa(expr));
          found = dfas.emplace(expr.a, pool[start].a).first;
        }
        to[id] = pool.dfa_state(found->second, expr.b, expr.low, expr.high);
        break;
      }
    }
  }
  for (size_t i = 0; i < from.rules().size(); ++i)
    pool.mutable_rules()[first_rule + i].body = to[from.rules()[i].body];
  return to[grammar.data().root];
}

Grammar::Grammar(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
Grammar::~Grammar() = default;

}  // namespace ringkeep::grammar
