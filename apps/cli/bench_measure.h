// What `bench` measures: one cache filled to some depth, and the steps that follow from there.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "kernels/api/profile.h"

namespace ringkeep::cli {

// One codec at one depth.
struct BenchRow {
  std::string codec;
  int64_t depth = 0;
  engine::Lane* lane = nullptr;
  kv::SequenceId filled = 0;          // holds `depth` rows; never extended itself
  double decode_bytes = 0;            // that a step must read, in the middle of the decoded tokens
  double expert_bytes = 0;            // of matrices of experts that a decode step has read: counted
  double loaded_bytes = 0;            // of them, packed from the file in that step
  std::vector<double> prefill_tok_s;  // by repetition
  std::vector<double> decode_tok_s;
  kernels::OpProfile prefill_ops;  // of one prefill and one decode run, for --breakdown
  kernels::OpProfile decode_ops;
};

double median(std::vector<double> values);

// A row at `depth` of the lane's cache, to decode `decode` tokens. The rows of the cache are noise:
// what is measured does not depend on their values. Errors: as of Lane.
Result<BenchRow> bench_row(engine::Engine& engine, engine::Lane& lane, std::string codec,
                           int64_t depth, int64_t decode);

// Tokens a second of prefilling or decoding (greedily) `count` tokens on a copy of the row's
// sequence. `profile` (or null) receives the ops. Decoding also sets the row's expert_bytes.
Result<double> prefill_speed(engine::Engine& engine, const BenchRow& row, int64_t count,
                             kernels::OpProfile* profile);
Result<double> decode_speed(engine::Engine& engine, BenchRow& row, int64_t count,
                            kernels::OpProfile* profile);

}  // namespace ringkeep::cli
