#include "grammar/matcher.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "grammar/automaton.h"
#include "grammar/limits.h"
#include "grammar/plain_text.h"

namespace ringkeep::grammar {
namespace {

constexpr size_t kMostMaskBytes = size_t{16} << 20;

// The tokens that are allowed in some state: as bits, or one by one where they are few.
struct Mask {
  std::vector<uint64_t> bits;  // [words], or none
  std::vector<int32_t> tokens;

  size_t bytes() const { return 256 + bits.size() * sizeof(bits[0]) + tokens.size() * 4; }
};

// Masks by the state they belong to, for all copies of a matcher.
class MaskCache {
 public:
  std::shared_ptr<const Mask> find(uint64_t state) {
    const std::lock_guard lock(mutex_);
    const auto at = masks_.find(state);
    return at == masks_.end() ? nullptr : at->second;
  }
  void put(uint64_t state, std::shared_ptr<const Mask> mask) {
    const std::lock_guard lock(mutex_);
    bytes_ += mask->bytes();
    if (bytes_ > kMostMaskBytes) {
      masks_.clear();
      bytes_ = mask->bytes();
    }
    masks_[state] = std::move(mask);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const Mask>> masks_;
  size_t bytes_ = 0;
};

void set_bit(std::span<uint64_t> bits, int32_t token) {
  bits[static_cast<size_t>(token) / 64] |= uint64_t{1} << (static_cast<size_t>(token) % 64);
}

// The work of one mask or one text that is read.
class Budget {
 public:
  explicit Budget(const Automaton& automaton)
      : automaton_(automaton), most_(automaton.work() + kMostMaskWork) {}
  Status check() const {
    if (automaton_.work() <= most_) return {};
    return make_error(ErrorKind::usage,
                      "grammar: too many ways to go on from here: expected a place that takes at "
                      "most {} units of work, found more",
                      kMostMaskWork);
  }

 private:
  const Automaton& automaton_;
  uint64_t most_;
};

}  // namespace

struct Matcher::State {
  State(GrammarPtr grammar, std::shared_ptr<const TokenTrie> tokens)
      : automaton(std::move(grammar)),
        at(automaton.start()),
        trie(std::move(tokens)),
        cache(std::make_shared<MaskCache>()) {}

  Result<Mask> walk(StateId from, const Budget& budget);

  void shrink() {
    if (!automaton.large()) return;
    at = automaton.keep_only(at);
    plain.forget();
  }

  Automaton automaton;
  StateId at;
  PlainText plain;
  std::shared_ptr<const TokenTrie> trie;
  std::shared_ptr<MaskCache> cache;
};

// Every token whose bytes can be read from the state.
Result<Mask> Matcher::State::walk(StateId from, const Budget& budget) {
  Mask mask;
  const std::optional<uint32_t> plain_reach = plain.reach(automaton, from);
  RK_TRY(budget.check());
  const TokenTree& tree = plain_reach ? trie->unusual() : trie->all();
  const auto nodes = tree.nodes();
  std::vector<StateId> path(trie->longest() + 1, kDead);
  path[0] = from;
  const uint64_t most_work = automaton.work() + kMostWalkWork;
  // Single bytes first: they are what is left where the work runs out.
  for (uint32_t i = 1; i < nodes.size(); i = nodes[i].after) {
    automaton.step(from, nodes[i].byte);
    RK_TRY(budget.check());
  }
  for (uint32_t i = 1; i < nodes.size();) {
    const TokenTree::Node& node = nodes[i];
    if (node.depth > 1 && (automaton.work() > most_work || automaton.overfull())) {
      i = node.after;
      continue;
    }
    const StateId next = automaton.step(path[node.depth - 1], node.byte);
    RK_TRY(budget.check());
    if (next == kDead) {
      i = node.after;
      continue;
    }
    path[node.depth] = next;
    const auto tokens = tree.tokens(i);
    mask.tokens.insert(mask.tokens.end(), tokens.begin(), tokens.end());
    ++i;
  }
  if (automaton.accepting(from)) {
    const auto ends = trie->end_tokens();
    mask.tokens.insert(mask.tokens.end(), ends.begin(), ends.end());
  }
  const size_t words = trie->words();
  if (plain_reach || mask.tokens.size() > words * 2) {
    if (plain_reach) {
      const auto plain_tokens = trie->plain(*plain_reach);
      mask.bits.assign(plain_tokens.begin(), plain_tokens.end());
    } else {
      mask.bits.assign(words, 0);
    }
    for (const int32_t token : mask.tokens) set_bit(mask.bits, token);
    mask.tokens = {};
  }
  mask.tokens.shrink_to_fit();
  return mask;
}

Matcher::Matcher(GrammarPtr grammar, std::shared_ptr<const TokenTrie> trie)
    : state_(std::make_unique<State>(std::move(grammar), std::move(trie))) {}
Matcher::Matcher(const Matcher& other) : state_(std::make_unique<State>(*other.state_)) {}
Matcher& Matcher::operator=(const Matcher& other) {
  if (this != &other) state_ = std::make_unique<State>(*other.state_);
  return *this;
}
Matcher::~Matcher() = default;

Status Matcher::mask(std::span<uint64_t> allowed) {
  State& state = *state_;
  const Budget budget(state.automaton);
  state.shrink();
  const StateId from = state.automaton.canonical(state.at, state.trie->longest());
  const uint64_t hash = state.automaton.hash(from);
  std::shared_ptr<const Mask> mask = state.cache->find(hash);
  if (mask == nullptr) {
    mask = std::make_shared<const Mask>(RK_TRY(state.walk(from, budget)));
    state.cache->put(hash, mask);
  }
  if (mask->bits.empty()) {
    // What was set and is in the list: found before all is cleared.
    std::vector<int32_t> kept;
    for (const int32_t token : mask->tokens) {
      const auto bit = static_cast<size_t>(token);
      if (bit / 64 < allowed.size() && (allowed[bit / 64] >> (bit % 64) & 1) != 0)
        kept.push_back(token);
    }
    std::fill(allowed.begin(), allowed.end(), 0);
    for (const int32_t token : kept) set_bit(allowed, token);
    return {};
  }
  const size_t known = std::min(mask->bits.size(), allowed.size());
  for (size_t i = 0; i < known; ++i) allowed[i] &= mask->bits[i];
  std::fill(allowed.begin() + static_cast<ptrdiff_t>(known), allowed.end(), 0);
  return {};
}

Status Matcher::accept(int32_t token) {
  const TokenTrie& trie = *state_->trie;
  const bool known = token >= 0 && token < trie.size();
  if (!known || trie.bytes(token).empty()) {
    return make_error(ErrorKind::runtime, "grammar: token {} cannot be part of the text", token);
  }
  return accept_bytes(trie.bytes(token));
}

Status Matcher::accept_bytes(std::string_view bytes) {
  State& state = *state_;
  const Budget budget(state.automaton);
  StateId at = state.at;
  for (size_t i = 0; i < bytes.size(); ++i) {
    at = state.automaton.step(at, static_cast<uint8_t>(bytes[i]));
    RK_TRY(budget.check());
    if (at == kDead) {
      return make_error(ErrorKind::runtime,
                        "grammar: byte {} (0x{:02x}) of the next {} is not allowed", i,
                        static_cast<uint8_t>(bytes[i]), bytes.size());
    }
  }
  state.at = at;
  state.shrink();
  return {};
}

uint64_t Matcher::work() const { return state_->automaton.work(); }
bool Matcher::complete() const { return state_->automaton.finished(state_->at); }
bool Matcher::may_end() const { return state_->automaton.accepting(state_->at); }

bool accepts(const GrammarPtr& grammar, std::string_view text) {
  Automaton automaton(grammar);
  StateId at = automaton.start();
  for (const char c : text) {
    at = automaton.step(at, static_cast<uint8_t>(c));
    if (at == kDead) return false;
    if (automaton.large()) at = automaton.keep_only(at);
  }
  return automaton.accepting(at);
}

}  // namespace ringkeep::grammar
