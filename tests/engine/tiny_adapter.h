// A tiny random LoRA adapter for engine::testing::TinyModel, as PEFT writes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "models/random_tensors.h"
#include "models/tiny_model.h"

namespace ringkeep::engine::testing {

struct TinyFactor {
  std::string module;  // "model.layers.0.self_attn.q_proj"
  int outputs = 0, inputs = 0;
};

// All matrices of the layers of TinyModel (2 heads of 32, one KV head), or those that `only` ends.
inline std::vector<TinyFactor> tiny_factors(int layers = 4, const std::string& only = "") {
  using ringkeep::testing::kFfn;
  using ringkeep::testing::kHidden;
  std::vector<TinyFactor> all;
  for (int i = 0; i < layers; ++i) {
    const std::string p = fmt::format("model.layers.{}.", i);
    for (TinyFactor f : {TinyFactor{"self_attn.q_proj", 64, kHidden},
                         {"self_attn.k_proj", 32, kHidden},
                         {"self_attn.v_proj", 32, kHidden},
                         {"self_attn.o_proj", kHidden, 64},
                         {"mlp.gate_proj", kFfn, kHidden},
                         {"mlp.up_proj", kFfn, kHidden},
                         {"mlp.down_proj", kHidden, kFfn}}) {
      f.module = p + f.module;
      if (f.module.ends_with(only)) all.push_back(f);
    }
  }
  return all;
}

class TinyAdapter {
 public:
  explicit TinyAdapter(unsigned seed, int rank = 4,
                       const std::vector<TinyFactor>& factors = tiny_factors()) {
    ringkeep::testing::RandomTensors tensors(seed);
    for (const TinyFactor& f : factors) {
      const std::string name = "base_model.model." + f.module;
      tensors.matrix(name + ".lora_A", rank, f.inputs);
      tensors.matrix(name + ".lora_B", f.outputs, rank, 0.5f);
    }
    tensors.write(folder_, "adapter_model.safetensors");
    config = {{"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", rank}, {"bias", "none"}};
    write_config();
  }

  void write_config() const { folder_.write("adapter_config.json", config.dump()); }
  std::string path() const { return folder_.path(); }
  AdapterOption option(const std::string& name, float scale = 1.0f) const {
    return {.name = name, .path = path(), .scale = scale};
  }

  nlohmann::json config;

 private:
  ringkeep::testing::TempFolder folder_;
};

}  // namespace ringkeep::engine::testing
