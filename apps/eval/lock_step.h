// Several caches over one chunk of text, step by step beside the f16 cache, so that logits
// [tokens, vocab] are compared as they come and never held for a whole text.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/lane.h"
#include "eval/cases.h"
#include "eval/divergence.h"
#include "eval/kv_spec.h"

namespace ringkeep::eval {

// One cache on one chunk.
struct Part {
  std::vector<double> kld;        // [scored] KL(f16 || cache); of the noise floor: KL(exact || f16)
  std::vector<double> nll;        // [scored]
  std::vector<uint8_t> same_top;  // [scored]
  std::vector<int64_t> agreed;    // [prompts] leading tokens of the continuation equal to f16's
  int64_t prefill_tokens = 0, decode_tokens = 0;
  double prefill_seconds = 0.0, decode_seconds = 0.0;

  nlohmann::json to_json() const;
  // Nothing where the JSON is not a whole part of `scored` rows and `prompts` continuations.
  static std::optional<Part> from_json(const nlohmann::json& json, size_t scored, size_t prompts);
};

class LockStep {
 public:
  // `cases` come after the reference. `noise`: a case with exact activations, whose divergence is
  // measured from it to the reference; -1: none.
  // `stop` is asked between pieces of a step; true ends it with an error of kind `interrupted`.
  static Result<LockStep> create(engine::Engine& engine, const Case& reference,
                                 std::span<const Case> cases, int noise,
                                 std::function<bool()> stop);

  // Rows whose logits the reference may hold.
  int64_t block() const { return block_; }
  // Steps must follow one another from 0 and end with the chunk's.
  Status step(std::span<const int32_t> chunk, const Step& step);
  // [1 + cases], the reference first; after the last step.
  std::vector<Part> take();

 private:
  struct Track {
    std::unique_ptr<engine::Lane> lane;
    kv::SequenceId sequence = 0;
    Part part;
    int32_t next = 0;  // most likely after the last row
  };
  LockStep(engine::Engine& engine, int noise);
  void collect(size_t track, std::span<const int32_t> chunk, const Step& step, int64_t first,
               int64_t rows, const float* logits);
  Status continue_greedily(Track& track, int64_t count);

  Status check_stop() const;

  engine::Engine* engine_;
  std::function<bool()> stop_;
  int noise_;
  int64_t block_;
  int64_t vocab_;
  std::vector<Track> tracks_;
  std::vector<float> reference_;       // [block, vocab] logits of the step
  std::vector<Softmax> softmax_;       // [block]
  std::vector<int32_t> continuation_;  // of the reference, after the last step
};

}  // namespace ringkeep::eval
