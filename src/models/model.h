// A loaded model: the rows of a step in, hidden states and logits out.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "kernels/api/ops.h"
#include "kv/store.h"
#include "models/blocks/adapter_products.h"
#include "models/input_statistics.h"
#include "models/key_statistics.h"
#include "weights/decoder_weights.h"

namespace ringkeep::models {

// The rows of a step. Rows of one sequence are consecutive, in the order of kv.entries. The first
// `fine_rows` were generated or stand for such; the others are of prompts, where a backend may
// compute more coarsely (kernels::LinearParams::fine_rows).
struct Batch {
  int64_t fine_rows = 0;
  std::vector<int32_t> tokens;     // [rows]
  std::vector<int32_t> positions;  // [rows] for RoPE; the token indices are in kv
  const kv::KvBatch* kv = nullptr;
  std::vector<AdapterRows> adapters;  // rows that go through one: ascending, apart from each other
};

class Model {
 public:
  virtual ~Model() = default;
  // Runs the rows through every layer and writes their K and V. Fails (runtime) when a row turns
  // non-finite. Hidden states stay in the model until the next call.
  virtual Status forward(const Batch& batch, const kv::Store& store, kernels::Exec& exec) = 0;
  // Logits of some rows of the last forward: out [rows.size(), vocab] on the host. At most
  // max_logit_rows() rows a call.
  virtual void logits(std::span<const int64_t> rows, float* out, kernels::Exec& exec) = 0;
  virtual int64_t max_logit_rows() const = 0;
  // Keys are multiplied by c per channel before RoPE, and queries divided by it, from now on:
  // scores stay as they are. `balance` [layers]; a layer's c must be equal within each rotary pair.
  // Costs nothing when it is the same object as before. Fails (runtime) without memory, and then
  // changes nothing.
  virtual Status set_key_balance(std::shared_ptr<const weights::KeyBalance> balance,
                                 kernels::Device& device) = 0;
  // Float32 activations in the weight products, from now on.
  virtual void set_exact(bool exact) = 0;
  // Every forward adds its rows to `statistics` from now on; null: none.
  virtual void observe_keys(KeyStatistics* statistics) = 0;
  // Called before every layer of a forward, from now on; empty: nothing.
  virtual void set_heartbeat(std::function<void()> heartbeat) = 0;
  // Makes room for steps with such an adapter. Fails (runtime) without memory, and then changes
  // nothing.
  virtual Status reserve_adapter(const weights::AdapterSizes& sizes, kernels::Device& device) = 0;
  virtual const weights::DecoderWeights& weights() const = 0;
  virtual size_t activation_bytes() const = 0;
  // As observe_keys, of the inputs of every matrix of a layer (not of routed experts).
  virtual void observe_inputs(InputStatistics* statistics) = 0;
};

struct ModelOptions {
  int64_t max_rows = 512;  // of a step
  weights::PackOptions pack;
};

// Families that this build can run, and whether `family` is one of them.
std::vector<std::string> families();
Status check_family(const ModelConfig& config);  // input error with the list of known families

// Loads the weights. Errors: see weights/, and the check above. The checkpoint outlives the model.
Result<std::unique_ptr<Model>> load_model(const checkpoint::Checkpoint& checkpoint,
                                          const ModelOptions& options, const kernels::Ops& ops,
                                          kernels::Device& device);

// Bytes of activations for steps of max_rows rows, without loading anything.
size_t activation_bytes(const ModelConfig& config, int64_t max_rows);
// Further bytes with an adapter of these sizes; of several, the largest of each size counts.
size_t adapter_scratch_bytes(const weights::AdapterSizes& sizes, int64_t max_rows);

}  // namespace ringkeep::models
