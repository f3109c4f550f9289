// `eval kv`: what each cache codec costs in agreement with the f16 cache, on the user's own text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eval/lock_step.h"
#include "eval/summary.h"
#include "eval/work_file.h"

namespace ringkeep::eval {

// One cache over all chunks.
struct CaseResult {
  Case c;
  Rows rows;                    // every scored position of every chunk
  Summary summary;              // of the second halves
  std::vector<int64_t> agreed;  // [prompts] leading tokens of a continuation equal to f16's
  double prefill_tok_s = 0.0;   // 0: not measured
  double decode_tok_s = 0.0;
};

struct KvResult {
  KvSpec spec;
  std::vector<int64_t> positions;  // of CaseResult::rows, [chunks * scored of a chunk]
  CaseResult reference;
  std::vector<CaseResult> rows;      // in the order of the cases
  std::vector<CaseResult> ablation;  // parts of them
  std::optional<CaseResult> noise;   // KL(exact f16 || f16): what the default activations cost
};

// How a run reports and is stopped.
struct RunHooks {
  std::function<bool()> stop;                             // true: end after the current step
  std::function<void(double done, double total)> update;  // in tokens
};

// Runs what the work file does not have yet. Errors: interrupted; those of the engine.
Result<KvResult> run_kv(engine::Engine& engine, const KvSpec& spec, const Case& reference,
                        const std::vector<Case>& cases, const std::vector<Case>& ablation,
                        bool noise, WorkFile& work, const RunHooks& hooks);

// The scored rows that lie in the second half, or just before a length.
Rows second_half(const KvResult& result, const CaseResult& row);
Rows before_length(const KvResult& result, const CaseResult& row, int64_t length);
// Mean divergence in `bins` equal parts of the second half.
std::vector<double> kld_by_position(const KvResult& result, const CaseResult& row, int bins);
// The middle number of tokens that a continuation shares with f16's.
double median_agreed(const CaseResult& row);

}  // namespace ringkeep::eval
