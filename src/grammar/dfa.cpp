#include "grammar/expr.h"

namespace ringkeep::grammar {

Dfa Dfa::trimmed() const {
  const uint32_t states = this->states();
  std::vector<std::vector<uint32_t>> before(states);
  for (uint32_t state = 0; state < states; ++state)
    for (uint32_t c = 0; c < classes; ++c)
      if (const uint32_t to = next[size_t{state} * classes + c]; to != kDead)
        before[to].push_back(state);
  std::vector<uint32_t> number(states, kDead), todo;
  for (uint32_t state = 0; state < states; ++state)
    if (accepting[state]) number[state] = 0, todo.push_back(state);
  while (!todo.empty()) {
    const uint32_t state = todo.back();
    todo.pop_back();
    for (const uint32_t other : before[state])
      if (number[other] == kDead) number[other] = 0, todo.push_back(other);
  }
  Dfa out{.byte_class = byte_class, .classes = classes};
  if (states == 0 || number[start] == kDead) return out;
  uint32_t count = 0;
  for (uint32_t& n : number)
    if (n != kDead) n = count++;
  out.next.resize(size_t{count} * classes, kDead);
  out.accepting.resize(count);
  out.start = number[start];
  for (uint32_t state = 0; state < states; ++state) {
    if (number[state] == kDead) continue;
    out.accepting[number[state]] = accepting[state];
    for (uint32_t c = 0; c < classes; ++c) {
      const uint32_t to = next[size_t{state} * classes + c];
      if (to != kDead) out.next[size_t{number[state]} * classes + c] = number[to];
    }
  }
  return out;
}

}  // namespace ringkeep::grammar
