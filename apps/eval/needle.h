// `eval needle`: facts planted at some depths of a long text, and asked for at its end, under each
// cache.
#pragma once

#include <string>
#include <vector>

#include "eval/cases.h"
#include "eval/kv.h"
#include "text/tokenizer.h"

namespace ringkeep::eval {

// A statement such as "The code word of Lisbon is amber-4731.", cut where the answer begins.
struct Fact {
  std::string statement;
  std::vector<int32_t> question;  // tokens of "\nThe code word of Lisbon is"
  std::vector<int32_t> answer;    // the rest, up to the full stop
};

// One text with a fact at each depth: haystack [ctx - room for a question].
struct Haystack {
  std::vector<int32_t> tokens;
  std::vector<Fact> facts;  // by depth of the spec
};

struct NeedleSpec {
  int64_t ctx = 0;
  std::vector<int64_t> depths;  // ascending: tokens between the end of the fact and the question
  std::vector<Haystack> haystacks;
};

// Depths that tell something in this model: near, on both sides of the smallest window, and far, up
// to what ctx allows.
std::vector<int64_t> default_depths(const ModelConfig& config, int64_t ctx);

// `count` haystacks of `filler` tokens (repeated where it is short), places and facts by `seed`.
// Errors (usage): a depth that the context or its neighbour leaves no room for; (input) no filler.
Result<NeedleSpec> make_haystacks(const text::Tokenizer& tokenizer, std::span<const int32_t> filler,
                                  int64_t ctx, const std::vector<int64_t>& depths, int count,
                                  uint64_t seed, int32_t bos);

// One question under one cache.
struct Answer {
  bool exact = false;     // greedy decoding gives the answer, token for token
  double log_prob = 0.0;  // of the answer's tokens, nats
};

struct NeedleCase {
  Case c;
  std::vector<std::vector<Answer>> answers;  // [depths][haystacks]
};

struct NeedleResult {
  NeedleSpec spec;
  NeedleCase reference;
  std::vector<NeedleCase> rows;
};

// What a table says of one cache at one depth.
struct NeedleCell {
  int exact = 0;
  double log_prob = 0.0;  // mean, of one answer
  double delta = 0.0;     // mean difference to the f16 cache
  double delta_se = 0.0;  // its standard error over the facts
};
NeedleCell needle_cell(const NeedleResult& result, const NeedleCase& row, size_t depth);

Result<NeedleResult> run_needle(engine::Engine& engine, const NeedleSpec& spec,
                                const Case& reference, const std::vector<Case>& cases,
                                WorkFile& work, const RunHooks& hooks);

}  // namespace ringkeep::eval
