// How deep the tree below a node is.
#pragma once

#include <algorithm>

#include "text/jinja/ast.h"

namespace ringkeep::text::jinja {

inline int depth_of(const ExpressionPtr& e) { return e == nullptr ? 0 : e->depth; }
inline int depth_of(const std::vector<ExpressionPtr>& list) {
  int depth = 0;
  for (const ExpressionPtr& e : list) depth = std::max(depth, depth_of(e));
  return depth;
}
inline int depth_of(const CallArguments& a) {
  int depth = std::max({depth_of(a.positional), depth_of(a.star), depth_of(a.star_star)});
  for (const auto& [name, e] : a.named) depth = std::max(depth, depth_of(e));
  return depth;
}
inline int depth_of(const Constant&) { return 0; }
inline int depth_of(const Name&) { return 0; }
inline int depth_of(const ListLiteral& n) { return depth_of(n.items); }
inline int depth_of(const DictLiteral& n) {
  int depth = 0;
  for (const auto& [key, value] : n.entries)
    depth = std::max({depth, depth_of(key), depth_of(value)});
  return depth;
}
inline int depth_of(const Unary& n) { return depth_of(n.operand); }
inline int depth_of(const Binary& n) { return std::max(depth_of(n.left), depth_of(n.right)); }
inline int depth_of(const Logic& n) { return std::max(depth_of(n.left), depth_of(n.right)); }
inline int depth_of(const Concat& n) { return depth_of(n.parts); }
inline int depth_of(const Compare& n) {
  int depth = depth_of(n.first);
  for (const auto& [op, e] : n.rest) depth = std::max(depth, depth_of(e));
  return depth;
}
inline int depth_of(const Conditional& n) {
  return std::max({depth_of(n.test), depth_of(n.then), depth_of(n.otherwise)});
}
inline int depth_of(const Attribute& n) { return depth_of(n.object); }
inline int depth_of(const Item& n) { return std::max(depth_of(n.object), depth_of(n.key)); }
inline int depth_of(const Slice& n) {
  return std::max({depth_of(n.object), depth_of(n.start), depth_of(n.stop), depth_of(n.step)});
}
inline int depth_of(const Call& n) { return std::max(depth_of(n.callee), depth_of(n.arguments)); }
inline int depth_of(const Filter& n) { return std::max(depth_of(n.input), depth_of(n.arguments)); }
inline int depth_of(const Test& n) { return std::max(depth_of(n.input), depth_of(n.arguments)); }

}  // namespace ringkeep::text::jinja
