#include "grammar/intersect.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "grammar/automaton.h"
#include "grammar/grammar_data.h"
#include "grammar/limits.h"

namespace ringkeep::grammar {

Result<ExprId> intersect(ExprPool& pool, const std::vector<GrammarPtr>& parts,
                         std::string_view what, uint64_t& budget) {
  std::vector<Automaton> automata;
  for (const GrammarPtr& part : parts) automata.emplace_back(part);
  // Bytes that no part tells apart.
  Dfa dfa;
  std::vector<uint8_t> bytes;
  std::map<std::vector<uint8_t>, uint8_t> classes;
  for (size_t byte = 0; byte < 256; ++byte) {
    std::vector<uint8_t> key;
    for (const GrammarPtr& part : parts) key.push_back(part->data().byte_class[byte]);
    const auto [at, fresh] = classes.emplace(key, static_cast<uint8_t>(classes.size()));
    if (fresh) bytes.push_back(static_cast<uint8_t>(byte));
    dfa.byte_class[byte] = at->second;
  }
  dfa.classes = static_cast<uint32_t>(bytes.size());

  std::map<std::vector<StateId>, uint32_t> numbers;
  std::vector<std::vector<StateId>> todo;
  const auto number = [&](std::vector<StateId> states) {
    const auto [at, fresh] = numbers.emplace(states, static_cast<uint32_t>(numbers.size()));
    if (fresh) {
      bool accepting = true;
      for (size_t i = 0; i < states.size(); ++i)
        accepting = accepting && automata[i].accepting(states[i]);
      dfa.accepting.push_back(accepting);
      dfa.next.resize(dfa.next.size() + dfa.classes, Dfa::kDead);
      todo.push_back(std::move(states));
    }
    return at->second;
  };
  std::vector<StateId> start;
  for (const Automaton& automaton : automata) start.push_back(automaton.start());
  dfa.start = number(start);
  for (uint32_t at = 0; at < todo.size(); ++at) {
    uint64_t before = 0, after = dfa.classes;
    for (const Automaton& automaton : automata) before += automaton.work();
    for (uint32_t c = 0; c < dfa.classes; ++c) {
      std::vector<StateId> next = todo[at];
      bool alive = true;
      for (size_t i = 0; i < next.size() && alive; ++i) {
        next[i] = automata[i].step(next[i], bytes[c]);
        alive = next[i] != kDead;
      }
      if (alive) dfa.next[size_t{at} * dfa.classes + c] = number(std::move(next));
    }
    for (const Automaton& automaton : automata) after += automaton.work();
    budget -= std::min(budget, after - before);
    if (dfa.states() > kMostDfaStates || dfa.next.size() > kMostDfaEntries || budget == 0) {
      return make_error(ErrorKind::usage,
                        "{}: expected constraints that have at most {} states together, found more "
                        "(a large count beside a pattern, or in a string that a mark ends)",
                        what, kMostDfaStates);
    }
  }
  return pool.add_dfa(dfa.trimmed());
}

Result<GrammarPtr> complement(const GrammarPtr& part) {
  ExprPool pool;
  uint64_t budget = kMostSchemaWork;
  const ExprId root = RK_TRY(intersect(pool, {part}, "grammar", budget));
  RK_CHECK(pool[root].kind == Expr::Kind::dfa, "a grammar with texts has an automaton");
  Dfa dfa = pool.dfa(pool[root]);
  const uint32_t sink = dfa.states();
  dfa.accepting.push_back(false);
  dfa.accepting.flip();
  dfa.next.resize(dfa.next.size() + dfa.classes, Dfa::kDead);
  for (uint32_t& next : dfa.next)
    if (next == Dfa::kDead) next = sink;
  ExprPool out;
  const ExprId rest = out.add_dfa(dfa.trimmed());
  return finish(std::move(out), rest);
}

GrammarPtr without(std::string_view text) {
  RK_CHECK(!text.empty() && text.size() <= kMostMark, "a mark of {} bytes", text.size());
  ExprPool pool;
  const ExprId anything = pool.repeat(pool.byte_set(ByteSet().set()), 0, kUnbounded);
  const ExprId root = pool.sequence({anything, pool.literal(text), anything});
  return complement(finish(std::move(pool), root).value()).value();
}

}  // namespace ringkeep::grammar
