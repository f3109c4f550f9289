// The tensors that a converted checkpoint will have, and what each of them is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace ringkeep::convert {

enum class Kind {
  embedding,
  lm_head,
  layer_embedding,  // per-layer embeddings: a table of which a step reads a few rows
  attention,
  feed_forward,
  experts,
  router,    // of experts
  residual,  // AltUp and LAuReL (Gemma 3n)
  encoder,   // of images and sound, and what joins them to the decoder
  other,     // further matrices
  vector,    // norms, biases and what else is no matrix
};
inline constexpr int kKinds = 11;
const char* kind_name(Kind kind);  // "embedding", "lm_head", ...

// One tensor to write. A matrix may be put together from parts: the experts of a layer become one
// tensor [experts, rows, cols], as mlx-lm keeps them.
struct Module {
  std::string name;  // of the tensor, e.g. "model.layers.0.mlp.up_proj.weight"
  Kind kind = Kind::vector;
  bool matrix = false;         // may be quantized: [rows, cols] or [experts, rows, cols]
  std::vector<int64_t> shape;  // outermost first
  std::vector<quant::SourceTensor> parts;  // [rows, cols] each, in order; one when no matrix

  std::string module_name() const;  // without ".weight"
  int64_t weights() const;          // elements
};

struct ModuleList {
  std::vector<Module> modules;        // in the order of the source's files
  std::vector<std::string> left_out;  // tensors that no reader wants
};

// Errors (input) name the tensor: types that are no weights, experts that are incomplete or stored
// in a way that mlx-lm has no name for.
Result<ModuleList> list_modules(const checkpoint::Checkpoint& checkpoint);

// The name under which mlx-lm looks a module's settings up in config.json; `inner` says that the
// checkpoint has its decoder under "model.language_model.".
std::string mlx_name(const std::string& module, bool inner);

}  // namespace ringkeep::convert
