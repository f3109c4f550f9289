#include "grammar/expr.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

using Kind = Expr::Kind;

uint64_t mix(uint64_t x) {  // SplitMix64's finalizer
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
uint64_t mix(uint64_t a, uint64_t b) { return mix(mix(a) ^ (b + 0x632be59bd9b4e019u)); }

uint64_t hash_set(const ByteSet& set) {
  uint64_t hash = 1;
  for (size_t word = 0; word < 4; ++word) {
    uint64_t bits = 0;
    for (size_t i = 0; i < 64; ++i) bits |= uint64_t{set[word * 64 + i]} << i;
    hash = mix(hash, bits);
  }
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
}

ExprId ExprPool::intern(Expr expr, std::span<const ExprId> children) {
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
  std::vector<ExprId> chain;
  while ((*this)[a].kind == Kind::concat) {
    chain.push_back((*this)[a].a);
    a = (*this)[a].b;
  }
  chain.push_back(a);
  ExprId all = b;
  for (size_t i = chain.size(); i-- > 0;) {
    all = intern({.kind = Kind::concat,
                  .a = chain[i],
                  .b = all,
                  .hash = mix(mix(3, (*this)[chain[i]].hash), (*this)[all].hash)});
  }
  return all;
}

ExprId ExprPool::either(std::span<const ExprId> alternatives) {
  std::vector<ExprId> flat;
  for (const ExprId id : alternatives) {
    if (id == kNothing) continue;
    if ((*this)[id].kind == Kind::either) {
      const auto inner = children(id);
      flat.insert(flat.end(), inner.begin(), inner.end());
    } else {
      flat.push_back(id);
    }
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());

  // x{1,3} y | x{2,5} y is x{1,5} y: what keeps the counts of an ambiguous repetition few.
  struct Count {
    uint32_t low, high;
  };
  std::map<std::pair<ExprId, ExprId>, std::vector<Count>> counts;  // by (x, y)
  for (const ExprId id : flat) {
    const Expr& expr = (*this)[id];
    const Expr& head = expr.kind == Kind::concat ? (*this)[expr.a] : expr;
    if (head.kind == Kind::repeat) {
      counts[{head.a, expr.kind == Kind::concat ? expr.b : kEmpty}].push_back(
          {head.low, head.high});
    }
  }
  bool merged = false;
  for (auto& [key, list] : counts) merged = merged || list.size() > 1;
  if (merged) {
    std::erase_if(flat, [&](ExprId id) {
      const Expr& expr = (*this)[id];
      const Expr& head = expr.kind == Kind::concat ? (*this)[expr.a] : expr;
      return head.kind == Kind::repeat;
    });
    for (auto& [key, list] : counts) {
      std::sort(list.begin(), list.end(), [](Count x, Count y) { return x.low < y.low; });
      Count current = list[0];
      for (size_t i = 1; i <= list.size(); ++i) {
        if (i == list.size() || list[i].low > add_capped(current.high, 1)) {
          flat.push_back(concat(repeat(key.first, current.low, current.high), key.second));
          if (i < list.size()) current = list[i];
        } else {
          current.high = std::max(current.high, list[i].high);
        }
      }
    }
    std::sort(flat.begin(), flat.end());
    flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  }

  // The empty text adds nothing to what has it already.
  if (flat.size() > 1 && std::binary_search(flat.begin(), flat.end(), kEmpty)) {
    const bool other = std::any_of(flat.begin(), flat.end(), [&](ExprId id) {
      return id != kEmpty && (*this)[id].nullable && (*this)[id].kind != Kind::call;
    });
    if (other) std::erase(flat, kEmpty);
  }
  if (flat.empty()) return kNothing;
  if (flat.size() == 1) return flat[0];
  if (base_ != nullptr && flat.size() > kMostAlternatives) {
    std::sort(flat.begin(), flat.end(),
              [&](ExprId x, ExprId y) { return (*this)[x].hash < (*this)[y].hash; });
    flat.resize(kMostAlternatives);
    std::sort(flat.begin(), flat.end());
  }
  uint64_t hash = 4;
  for (const ExprId id : flat) hash += mix((*this)[id].hash);
  return intern({.kind = Kind::either, .hash = mix(5, hash)}, flat);
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

ExprId ExprPool::copy(const ExprPool& from, ExprId id) {
  if (id < from.offset_) return id;
  const Expr& expr = from[id];
  switch (expr.kind) {
    case Kind::concat: {
      std::vector<ExprId> chain;
      while (id >= from.offset_ && from[id].kind == Kind::concat) {
        chain.push_back(copy(from, from[id].a));
        id = from[id].b;
      }
      ExprId all = copy(from, id);
      for (size_t i = chain.size(); i-- > 0;) all = concat(chain[i], all);
      return all;
    }
    case Kind::either: {
      std::vector<ExprId> copies;
      for (const ExprId child : from.children(id)) copies.push_back(copy(from, child));
      return either(copies);
    }
    case Kind::repeat: return repeat(copy(from, expr.a), expr.low, expr.high);
    default: return intern(expr);
  }
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
