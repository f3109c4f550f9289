#include "grammar/expr.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

using Kind = Expr::Kind;

// Units of work: of looking for a structure and adding it, and bytes that are read for one.
constexpr uint64_t kInternWork = 4, kHashedBytes = 16;

uint64_t mix(uint64_t x) {  // SplitMix64's finalizer
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
uint64_t mix(uint64_t a, uint64_t b) { return mix(mix(a) ^ (b + 0x632be59bd9b4e019u)); }

uint64_t word_of(const ByteSet& set, size_t word) {
  return (set >> (word * 64) & ByteSet(UINT64_MAX)).to_ullong();
}

uint64_t hash_set(const ByteSet& set) {
  uint64_t hash = 1;
  for (size_t word = 0; word < 4; ++word) hash = mix(hash, word_of(set, word));
  return hash;
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

uint16_t above(const Expr& child) {
  return std::min(child.height, static_cast<uint16_t>(UINT16_MAX - 1)) + uint16_t{1};
}

uint32_t add_capped(uint32_t a, uint32_t b) { return a > kUnbounded - b ? kUnbounded : a + b; }

}  // namespace

ExprPool::ExprPool() {
  for (size_t byte = 0; byte < 256; ++byte) sets_.emplace_back().set(byte);
  intern({.kind = Kind::nothing, .hash = mix(1)});
  intern({.kind = Kind::empty, .nullable = true, .hash = mix(2)});
}

ExprPool::ExprPool(const ExprPool* base) : base_(base), offset_(static_cast<ExprId>(base->size())) {
  RK_CHECK(base->base_ == nullptr);
}

std::span<const ExprId> ExprPool::children(ExprId id) const {
  const ExprPool& owner = id < offset_ ? *base_ : *this;
  const Expr& expr = (*this)[id];
  return std::span(owner.children_).subspan(expr.a, expr.b);
}

void ExprPool::measure(Expr& expr, std::span<const ExprId> children) const {
  const auto& at = *this;
  switch (expr.kind) {
    case Kind::nothing: expr.calls_deep = kNever; break;
    case Kind::concat: {
      const Expr &a = at[expr.a], &b = at[expr.b];
      expr.nullable = a.nullable && b.nullable;
      expr.calls_deep = std::max(a.calls_deep, b.calls_deep);
      expr.height = std::max(above(a), b.height);
      break;
    }
    case Kind::either:
      expr.calls_deep = kNever;
      expr.nullable = false;
      for (const ExprId child : children) {
        expr.nullable = expr.nullable || at[child].nullable;
        expr.calls_deep = std::min(expr.calls_deep, at[child].calls_deep);
        expr.height = std::max(expr.height, above(at[child]));
      }
      break;
    case Kind::repeat:
      expr.nullable = expr.low == 0 || at[expr.a].nullable;
      expr.calls_deep = expr.low == 0 ? uint16_t{0} : at[expr.a].calls_deep;
      expr.height = above(at[expr.a]);
      break;
    case Kind::call:
      expr.nullable = rule(expr.a).nullable;
      expr.calls_deep = rule(expr.a).calls_deep;
      break;
    case Kind::dfa: expr.nullable = expr.low == 0 && dfa(expr).accepting[expr.b]; break;
    case Kind::empty:
    case Kind::bytes:
    case Kind::literal: break;
  }
  expr.begins = begins(expr, children);
}

uint64_t ExprPool::begins(const Expr& expr, std::span<const ExprId> children) const {
  const auto& at = *this;
  uint64_t all = 0;
  switch (expr.kind) {
    case Kind::nothing:
    case Kind::empty: return 0;
    case Kind::bytes:
      for (size_t word = 0; word < 4; ++word) all |= word_of(bytes(expr), word);
      return all;
    case Kind::literal: return uint64_t{1} << (static_cast<uint8_t>(text(expr)[0]) % 64);
    case Kind::concat: return at[expr.a].begins | (at[expr.a].nullable ? at[expr.b].begins : 0);
    case Kind::either:
      for (const ExprId child : children) all |= at[child].begins;
      return all;
    case Kind::repeat: return at[expr.a].begins;
    case Kind::call: return rule(expr.a).begins;
    case Kind::dfa: return UINT64_MAX;
  }
  return all;
}

ExprId ExprPool::intern(Expr expr, std::span<const ExprId> children) {
  work_ += kInternWork + children.size();
  const auto same = [&](const ExprPool& pool, uint32_t number) {
    const Expr& other = pool.own_[number];
    if (other.kind != expr.kind) return false;
    switch (expr.kind) {
      case Kind::either: {
        const auto theirs = std::span(pool.children_).subspan(other.a, other.b);
        return std::equal(theirs.begin(), theirs.end(), children.begin(), children.end());
      }
      case Kind::literal: return text(other) == text(expr);
      case Kind::bytes: return bytes(other) == bytes(expr);
      default:
        return other.a == expr.a && other.b == expr.b && other.low == expr.low &&
               other.high == expr.high;
    }
  };
  if (base_ != nullptr) {
    const int64_t found =
        base_->index_.find(expr.hash, [&](uint32_t number) { return same(*base_, number); });
    if (found >= 0) return static_cast<ExprId>(found);
  }
  const int64_t found =
      index_.find(expr.hash, [&](uint32_t number) { return same(*this, number); });
  if (found >= 0) return offset_ + static_cast<ExprId>(found);

  measure(expr, children);
  if (expr.kind == Kind::either) {
    expr.a = static_cast<uint32_t>(children_.size());
    expr.b = static_cast<uint32_t>(children.size());
    children_.insert(children_.end(), children.begin(), children.end());
  }
  own_.push_back(expr);
  index_.add(expr.hash);
  return offset_ + static_cast<ExprId>(own_.size() - 1);
}

ExprId ExprPool::concat(ExprId a, ExprId b) {
  if (a == kNothing || b == kNothing) return kNothing;
  if (a == kEmpty) return b;
  if (b == kEmpty) return a;
  return intern({.kind = Kind::concat,
                 .a = a,
                 .b = b,
                 .hash = mix(mix(3, (*this)[a].hash), (*this)[b].hash)});
}

ExprId ExprPool::opened(ExprId id) {
  for (;;) {
    const Expr expr = (*this)[id];
    if (expr.kind != Kind::concat || (*this)[expr.a].kind != Kind::concat) return id;
    const Expr head = (*this)[expr.a];
    id = concat(head.a, concat(head.b, expr.b));
  }
}

// The alternatives of alternatives, ascending and each once.
std::vector<ExprId> ExprPool::flat(std::span<const ExprId> alternatives) {
  std::vector<ExprId> out;
  for (const ExprId id : alternatives) {
    if (id == kNothing) continue;
    if ((*this)[id].kind == Kind::either) {
      const auto inner = children(id);
      out.insert(out.end(), inner.begin(), inner.end());
    } else {
      out.push_back(id);
    }
  }
  work_ += out.size();
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// x{1,3} y | x{2,5} y is x{1,5} y: what keeps the counts of an ambiguous repetition few.
void ExprPool::merge_counts(std::vector<ExprId>& alternatives) {
  struct Counted {
    ExprId x, y;
    uint32_t low, high;
  };
  std::vector<Counted> all;
  const auto head_of = [&](const Expr& expr) -> const Expr& {
    return expr.kind == Kind::concat ? (*this)[expr.a] : expr;
  };
  for (const ExprId id : alternatives) {
    const Expr& expr = (*this)[id];
    const Expr& head = head_of(expr);
    if (head.kind == Kind::repeat)
      all.push_back({head.a, expr.kind == Kind::concat ? expr.b : kEmpty, head.low, head.high});
  }
  const auto same = [](const Counted& p, const Counted& q) { return p.x == q.x && p.y == q.y; };
  std::sort(all.begin(), all.end(), [](const Counted& p, const Counted& q) {
    return std::tie(p.x, p.y, p.low) < std::tie(q.x, q.y, q.low);
  });
  if (std::adjacent_find(all.begin(), all.end(), same) == all.end()) return;
  std::erase_if(alternatives, [&](ExprId id) { return head_of((*this)[id]).kind == Kind::repeat; });
  for (size_t i = 0; i < all.size();) {
    Counted merged = all[i++];
    while (i < all.size() && same(merged, all[i]) && all[i].low <= add_capped(merged.high, 1))
      merged.high = std::max(merged.high, all[i++].high);
    alternatives.push_back(concat(repeat(merged.x, merged.low, merged.high), merged.y));
  }
  alternatives = flat(alternatives);
}

// But for counts, which are told apart by what follows them.
void ExprPool::factor(std::vector<ExprId>& alternatives) {
  struct Parts {
    ExprId head, tail, whole;
  };
  std::vector<Parts> all;
  for (const ExprId id : alternatives) {
    const Expr& expr = (*this)[id];
    if (expr.kind != Kind::concat) continue;
    const Expr& head = (*this)[expr.a];
    const bool counts = head.kind == Kind::repeat && (head.low > 0 || head.high != kUnbounded);
    if (!counts) all.push_back({expr.a, expr.b, id});
  }
  std::sort(all.begin(), all.end(), [](const Parts& p, const Parts& q) {
    return std::tie(p.head, p.whole) < std::tie(q.head, q.whole);
  });
  std::vector<ExprId> gone, made, tails;
  for (size_t i = 0; i < all.size();) {
    const size_t begin = i;
    tails.clear();
    for (; i < all.size() && all[i].head == all[begin].head; ++i) tails.push_back(all[i].tail);
    if (tails.size() == 1) continue;
    for (size_t j = begin; j < i; ++j) gone.push_back(all[j].whole);
    made.push_back(concat(all[begin].head, join(flat(tails))));
  }
  if (made.empty()) return;
  std::sort(gone.begin(), gone.end());
  std::erase_if(alternatives,
                [&](ExprId id) { return std::binary_search(gone.begin(), gone.end(), id); });
  alternatives.insert(alternatives.end(), made.begin(), made.end());
  alternatives = flat(alternatives);
}

ExprId ExprPool::join(std::vector<ExprId> alternatives) {
  // The empty text adds nothing to what has it already.
  if (alternatives.size() > 1 &&
      std::binary_search(alternatives.begin(), alternatives.end(), kEmpty)) {
    const bool other = std::any_of(alternatives.begin(), alternatives.end(), [&](ExprId id) {
      return id != kEmpty && (*this)[id].nullable && (*this)[id].kind != Kind::call;
    });
    if (other) std::erase(alternatives, kEmpty);
  }
  if (alternatives.empty()) return kNothing;
  if (alternatives.size() == 1) return alternatives[0];
  if (base_ != nullptr && alternatives.size() > kMostAlternatives) {
    std::sort(alternatives.begin(), alternatives.end(),
              [&](ExprId x, ExprId y) { return (*this)[x].hash < (*this)[y].hash; });
    alternatives.resize(kMostAlternatives);
    std::sort(alternatives.begin(), alternatives.end());
  }
  uint64_t hash = 4;
  for (const ExprId id : alternatives) hash += mix((*this)[id].hash);
  return intern({.kind = Kind::either, .hash = mix(5, hash)}, alternatives);
}

ExprId ExprPool::either(std::span<const ExprId> alternatives) {
  std::vector<ExprId> all = flat(alternatives);
  merge_counts(all);
  return join(std::move(all));
}

ExprId ExprPool::factored(std::span<const ExprId> alternatives) {
  std::vector<ExprId> all = flat(alternatives);
  merge_counts(all);
  factor(all);
  return join(std::move(all));
}

ExprId ExprPool::repeat(ExprId a, uint32_t low, uint32_t high) {
  RK_CHECK(low <= high);
  if (high == 0 || a == kEmpty) return kEmpty;
  if (a == kNothing) return low == 0 ? kEmpty : kNothing;
  if (low == 1 && high == 1) return a;
  const Expr& inner = (*this)[a];
  // (x*)* is x*, and x{0,1} of what may be empty is that itself.
  if (inner.kind == Kind::repeat && inner.low <= 1 && inner.high == kUnbounded && high > 0) {
    return repeat(inner.a, low == 0 ? 0 : inner.low, kUnbounded);
  }
  return intern({.kind = Kind::repeat,
                 .a = a,
                 .low = low,
                 .high = high,
                 .hash = mix(mix(mix(6, inner.hash), low), high)});
}

ExprId ExprPool::suffix(ExprId literal) {
  const Expr& expr = (*this)[literal];
  const std::string_view rest = text(expr).substr(1);
  work_ += rest.size() / kHashedBytes;
  if (rest.size() == 1) {
    const auto byte = static_cast<uint8_t>(rest[0]);
    return intern({.kind = Kind::bytes,
                   .a = byte,
                   .hash = mix(7, hash_set((base_ ? base_ : this)->sets_[byte]))});
  }
  return intern(
      {.kind = Kind::literal, .a = expr.a + 1, .b = expr.b - 1, .hash = mix(8, hash_text(rest))});
}

ExprId ExprPool::dfa_state(uint32_t dfa, uint32_t at, uint32_t low, uint32_t high) {
  if (at == Dfa::kDead) return kNothing;
  return intern({.kind = Kind::dfa,
                 .a = dfa,
                 .b = at,
                 .low = low,
                 .high = high,
                 .hash = mix(mix(mix(mix(9, dfa), at), low), high)});
}

ExprId ExprPool::copy(const ExprPool& from, ExprId id, std::unordered_map<ExprId, ExprId>& known) {
  std::vector<ExprId> chain;
  for (; id >= from.offset_ && from[id].kind == Kind::concat && !known.contains(id);
       id = from[id].b)
    chain.push_back(id);
  ExprId out = id;
  if (const auto at = known.find(id); at != known.end()) {
    out = at->second;
  } else if (id >= from.offset_) {
    const Expr& expr = from[id];
    if (expr.kind == Kind::either) {
      std::vector<ExprId> copies;
      for (const ExprId child : from.children(id)) copies.push_back(copy(from, child, known));
      out = join(flat(copies));
    } else if (expr.kind == Kind::repeat) {
      out = repeat(copy(from, expr.a, known), expr.low, expr.high);
    } else {
      out = intern(expr);
    }
    known.emplace(id, out);
  }
  for (size_t i = chain.size(); i-- > 0;) {
    out = concat(copy(from, from[chain[i]].a, known), out);
    known.emplace(chain[i], out);
  }
  return out;
}

ExprId ExprPool::byte_set(const ByteSet& set) {
  if (set.none()) return kNothing;
  sets_.push_back(set);
  const size_t before = own_.size();
  const ExprId id = intern({.kind = Kind::bytes,
                            .a = static_cast<uint32_t>(sets_.size() - 1),
                            .hash = mix(7, hash_set(set))});
  if (own_.size() == before) sets_.pop_back();
  return id;
}

ExprId ExprPool::literal(std::string_view text) {
  if (text.empty()) return kEmpty;
  if (text.size() == 1) return byte_set(ByteSet().set(static_cast<uint8_t>(text[0])));
  const auto at = static_cast<uint32_t>(text_.size());
  text_ += text;
  const size_t before = own_.size();
  const ExprId id = intern({.kind = Kind::literal,
                            .a = at,
                            .b = static_cast<uint32_t>(text.size()),
                            .hash = mix(8, hash_text(text))});
  if (own_.size() == before) text_.resize(at);
  return id;
}

ExprId ExprPool::sequence(std::span<const ExprId> parts) {
  ExprId all = kEmpty;
  for (size_t i = parts.size(); i-- > 0;) all = concat(parts[i], all);
  return all;
}

ExprId ExprPool::add_dfa(Dfa dfa) {
  if (dfa.states() == 0) return kNothing;
  dfa_entries_ += dfa.next.size();
  dfas_.push_back(std::move(dfa));
  const auto index = static_cast<uint32_t>(dfas_.size() - 1);
  return dfa_state(index, dfas_.back().start);
}

uint32_t ExprPool::add_rule(std::string name) {
  rules_.push_back({.name = std::move(name)});
  return static_cast<uint32_t>(rules_.size() - 1);
}

ExprId ExprPool::call(uint32_t rule) {
  return intern({.kind = Kind::call, .a = rule, .hash = mix(10, rule)});
}

}  // namespace ringkeep::grammar
