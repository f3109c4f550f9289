// What a saved cache must agree in with the run that goes on from it, as named values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kv/plan.h"
#include "weights/balance.h"

namespace ringkeep::engine {

// Field and value, in the order of comparison. The layers' windows and codecs are compared apart.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

// Of everything that makes text into tokens; to be taken before a Tokenizer takes the data apart.
std::string tokenizer_sum(const TokenizerData& data);

struct FingerprintInputs {
  const checkpoint::Checkpoint& checkpoint;
  std::string tokenizer;               // tokenizer_sum()
  const weights::KeyBalance& balance;  // of the keys in the cache
  const kv::KvPlan& plan;
  std::string adapter;  // "none", or its SHA-256
  bool exact = false;
  int weight_bits = 0;
  int weight_group = 0;
};
Fingerprint make_fingerprint(const FingerprintInputs& inputs);

}  // namespace ringkeep::engine
