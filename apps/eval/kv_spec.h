// What `eval kv` runs: chunks of the text, the positions that are scored, and the steps that take a
// cache through a chunk.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace ringkeep::eval {

struct KvSpec {
  int64_t ctx = 0;                           // tokens of a chunk
  std::vector<std::vector<int32_t>> chunks;  // [chunks][ctx], BOS first where the model wants one
  std::vector<int64_t> lengths;              // ascending, at most ctx: agreement just before each
  int64_t free_run = 128;                    // tokens of a greedy continuation; 0: none
  int prompts = 4;                           // of those, in each chunk
};

// Cuts a text into at most `count` chunks (0: as many as there are). The text carries no BOS.
std::vector<std::vector<int32_t>> cut_chunks(std::span<const int32_t> text, int64_t ctx,
                                             int64_t count, int32_t bos);

// Row p predicts token p + 1, so the last token of a chunk is predicted and never run.
// The second half, where windows have wrapped:
inline bool in_second_half(const KvSpec& spec, int64_t p) {
  return p >= spec.ctx / 2 && p < spec.ctx - 1;
}
// The last rows (256, or half of it where that is less) before a length:
bool before_length(const KvSpec& spec, int64_t length, int64_t p);
// All of these, ascending.
std::vector<int64_t> scored_positions(const KvSpec& spec);

struct Step {
  int64_t begin = 0;
  int64_t end = 0;
  bool scored = false;    // all rows, or none
  int64_t continued = 0;  // tokens of the greedy continuation that starts after `end`
};
// Steps over [0, ctx - 1): at most `chunk` rows, scored ones at most `block` (whose logits are
// held).
std::vector<Step> make_steps(const KvSpec& spec, int64_t chunk, int64_t block);

}  // namespace ringkeep::eval
