// What `eval kv` and `eval needle` have in common.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "eval/cases.h"
#include "eval/kv.h"
#include "eval/kv_json.h"
#include "eval/work_file.h"

namespace ringkeep::cli {

struct EvalOptions {
  ModelOptions model;
  CacheFlags cache;
  RuntimeOptions runtime;
  std::string text;    // a file
  std::string tokens;  // a file of token ids, in place of it
  std::vector<std::string> codecs = {"f16", "8", "6", "4", "3.5"};
  std::string report;  // .html, or empty
  std::string work;    // file, or empty for the default
};

void add_eval_options(CLI::App& app, EvalOptions& options);

// The model with everything that a measurement needs.
struct EvalSession {
  Session session;
  std::string model_hash;
  eval::Case reference;
  std::vector<eval::Case> cases;
  std::vector<eval::Case> ablation;
  eval::Subject subject;
};

// Opens the model; `ctx` 0 in the flags becomes the trained context, 4,096 at most.
Result<checkpoint::Checkpoint> open_for_eval(const EvalOptions& options, CacheFlags& cache);
// Plans every cache (all refusals before the weights are read), then loads. With --kv-budget the
// codecs are f16 and the one that the budget chose.
Result<EvalSession> start_eval(checkpoint::Checkpoint checkpoint, const EvalOptions& options,
                               CacheFlags cache, const std::string& only, bool ablate);

struct EvalText {
  std::vector<int32_t> tokens;  // without BOS, but for --tokens-file: as they stand there
  int32_t bos = -1;             // to begin a chunk with; -1: none
  std::unique_ptr<text::Tokenizer> tokenizer;  // null with --tokens-file
};
// Of --text (none where it is empty) or --tokens-file. Errors: unreadable; no tokenizer.
Result<EvalText> read_text(const EvalOptions& options, const checkpoint::Checkpoint& checkpoint);

// The work file of --work, beside the report, or in the cache folder. Says when an earlier run is
// continued or cannot be.
Result<eval::WorkFile> open_work(const EvalOptions& options, const nlohmann::json& fingerprint);
// After a run: what was interrupted tells how to go on; a file that nobody asked for is removed.
void close_work(const EvalOptions& options, eval::WorkFile& work, bool finished);

Status write_report(const std::string& path, const std::string& html);

Command add_eval_kv(CLI::App& app);
Command add_eval_needle(CLI::App& app);

}  // namespace ringkeep::cli
