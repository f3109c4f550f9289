// Grammars put together from others.
#include <algorithm>
#include <deque>
#include <map>

#include "grammar/grammar_data.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {
namespace {

constexpr size_t kMostTriggerBytes = 10'000;  // of all triggers and marks together

std::string spelled_control(std::string_view piece) {
  return kControlMark + std::string(piece) + kControlMark;
}

// Free text as an automaton (Aho and Corasick 1975): it knows how much of which trigger the last
// bytes are. A control token is within the text only as one of the marks.
class FreeTextDfa {
 public:
  FreeTextDfa(const std::vector<std::string>& triggers, const std::vector<std::string>& marks) {
    add_node(false);
    for (const std::string& trigger : triggers) {
      const uint32_t node = add(trigger);
      nodes_[node].trigger = static_cast<int>(ends_.size());
      ends_.push_back(node);
    }
    for (const std::string& mark : marks) nodes_[add(mark)].mark = true;
    link();
  }

  // Text without any trigger (`trigger` is -1), or up to the first, which is that one.
  Dfa dfa(int trigger) const {
    Dfa out;
    std::map<std::vector<uint32_t>, uint8_t> columns;  // bytes that lead to the same places
    for (size_t byte = 0; byte < 256; ++byte) {
      std::vector<uint32_t> column;
      for (const Node& node : nodes_) column.push_back(target(node.next[byte], trigger));
      const auto [at, fresh] =
          columns.emplace(std::move(column), static_cast<uint8_t>(columns.size()));
      out.byte_class[byte] = at->second;
    }
    out.classes = static_cast<uint32_t>(columns.size());
    out.next.resize(nodes_.size() * out.classes);
    for (const auto& [column, number] : columns)
      for (size_t node = 0; node < nodes_.size(); ++node)
        out.next[node * out.classes + number] = column[node];
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      out.accepting.push_back(trigger < 0 ? !nodes_[node].in_control
                                          : node == ends_[static_cast<size_t>(trigger)]);
    }
    if (trigger >= 0) {  // nothing follows it here
      const size_t end = ends_[static_cast<size_t>(trigger)];
      std::fill_n(out.next.begin() + static_cast<ptrdiff_t>(end * out.classes), out.classes,
                  Dfa::kDead);
    }
    return out.trimmed();
  }

 private:
  struct Node {
    std::array<uint32_t, 256> next{};  // kDead: none
    uint32_t fail = 0;
    bool in_control = false;  // within the name of a control token
    bool mark = false;
    int trigger = -1;  // that ends here, it or the end of it
  };

  uint32_t add_node(bool in_control) {
    nodes_.emplace_back().next.fill(Dfa::kDead);
    nodes_.back().in_control = in_control;
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  uint32_t add(std::string_view text) {
    uint32_t at = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      if (nodes_[at].next[byte] == Dfa::kDead) {
        const bool inside = text[0] == kControlMark && i + 1 < text.size();
        const uint32_t fresh = add_node(inside);
        nodes_[at].next[byte] = fresh;
      }
      at = nodes_[at].next[byte];
    }
    return at;
  }
  // Fills in where each byte leads, in the order of depth.
  void link() {
    std::deque<uint32_t> todo;
    constexpr auto kControl = static_cast<uint8_t>(kControlMark);
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t& next = nodes_[0].next[byte];
      if (next != Dfa::kDead)
        todo.push_back(next);
      else if (byte != kControl)
        next = 0;
    }
    while (!todo.empty()) {
      Node& node = nodes_[todo.front()];
      todo.pop_front();
      for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t& next = node.next[byte];
        const uint32_t other = node.in_control ? Dfa::kDead : nodes_[node.fail].next[byte];
        if (next == Dfa::kDead) {
          next = other;
        } else {
          nodes_[next].fail = node.in_control || other == Dfa::kDead ? 0 : other;
          if (nodes_[next].trigger < 0) nodes_[next].trigger = nodes_[nodes_[next].fail].trigger;
          todo.push_back(next);
        }
      }
    }
  }
  // A trigger ends the text; after a mark it goes on from the start.
  uint32_t target(uint32_t next, int trigger) const {
    if (next == Dfa::kDead) return next;
    const Node& node = nodes_[next];
    if (node.trigger >= 0)
      return node.trigger == trigger ? ends_[static_cast<size_t>(trigger)] : Dfa::kDead;
    return node.mark ? 0 : next;
  }

  std::vector<Node> nodes_;
  std::vector<uint32_t> ends_;  // [triggers] nodes
};

template <typename Put>
Result<GrammarPtr> put_together(std::span<const GrammarPtr> parts, const Put& put) {
  ExprPool pool;
  std::vector<ExprId> roots;
  for (const GrammarPtr& part : parts) {
    roots.push_back(import(pool, *part));
    RK_TRY(check_size(pool));
  }
  const ExprId root = put(pool, roots);
  return finish(std::move(pool), root);
}

}  // namespace

GrammarPtr Grammar::literal(std::string_view text) {
  ExprPool pool;
  const ExprId root = pool.literal(text);
  return finish(std::move(pool), root).value();
}

GrammarPtr Grammar::control(std::string_view piece) { return literal(spelled_control(piece)); }

Result<GrammarPtr> Grammar::sequence(std::span<const GrammarPtr> parts) {
  return put_together(
      parts, [](ExprPool& pool, const std::vector<ExprId>& roots) { return pool.sequence(roots); });
}

Result<GrammarPtr> Grammar::any_of(std::span<const GrammarPtr> alternatives) {
  return put_together(alternatives, [](ExprPool& pool, const std::vector<ExprId>& roots) {
    return pool.either(roots);
  });
}

Result<GrammarPtr> Grammar::one_of(std::span<const std::string> texts) {
  ExprPool pool;
  std::vector<ExprId> roots;
  size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size();
    if (bytes > kMostText)
      return make_error(ErrorKind::usage,
                        "grammar: expected texts of at most {} bytes together, found more",
                        kMostText);
    roots.push_back(pool.literal(text));
    RK_TRY(check_size(pool));
  }
  const ExprId root = pool.either(roots);
  return finish(std::move(pool), root);
}

Result<GrammarPtr> Grammar::repeat(const GrammarPtr& part, uint32_t low, uint32_t high) {
  if (low > high) {
    return make_error(ErrorKind::usage,
                      "grammar: expected at most as many repetitions as at least, "
                      "found {} to {}",
                      low, high);
  }
  return put_together(std::span(&part, 1), [&](ExprPool& pool, const std::vector<ExprId>& roots) {
    return pool.repeat(roots[0], low, high);
  });
}

Result<GrammarPtr> Grammar::free_text(const FreeText& free) {
  std::vector<std::string> triggers, marks;
  size_t bytes = 0;
  for (const Trigger& trigger : free.triggers) {
    triggers.push_back(trigger.control ? spelled_control(trigger.text) : trigger.text);
    bytes += triggers.back().size();
  }
  for (const std::string& mark : free.controls) {
    const bool is_trigger = std::any_of(
        free.triggers.begin(), free.triggers.end(),
        [&](const Trigger& trigger) { return trigger.control && trigger.text == mark; });
    if (!is_trigger) marks.push_back(spelled_control(mark));
    bytes += mark.size() + 2;
  }
  if (bytes > kMostTriggerBytes)
    return make_error(ErrorKind::usage,
                      "grammar: expected triggers of at most {} bytes together, "
                      "found {}",
                      kMostTriggerBytes, bytes);
  for (size_t i = 0; i < triggers.size(); ++i) {
    for (size_t j = 0; j < triggers.size(); ++j) {
      const bool begins = i != j && triggers[j].starts_with(triggers[i]);
      if (begins || free.triggers[i].text.empty())
        return make_error(ErrorKind::usage,
                          "grammar: expected triggers that are not empty and do "
                          "not begin with each other, found \"{}\" and \"{}\"",
                          free.triggers[i].text, free.triggers[j].text);
    }
  }
  const FreeTextDfa text(triggers, marks);
  ExprPool pool;
  std::vector<ExprId> calls;
  for (size_t i = 0; i < triggers.size(); ++i) {
    const ExprId until = pool.add_dfa(text.dfa(static_cast<int>(i)));
    calls.push_back(pool.concat(until, import(pool, *free.triggers[i].then)));
    RK_TRY(check_size(pool));
  }
  const ExprId call = pool.either(calls);
  const ExprId rest = free.may_end ? pool.add_dfa(text.dfa(-1)) : kNothing;
  const ExprId root = free.once      ? pool.either({call, rest})
                      : free.may_end ? pool.concat(pool.repeat(call, 0, kUnbounded), rest)
                                     : pool.repeat(call, 1, kUnbounded);
  return finish(std::move(pool), root);
}

}  // namespace ringkeep::grammar
