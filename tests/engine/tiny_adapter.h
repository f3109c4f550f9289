// A tiny random LoRA adapter for engine::testing::TinyModel, as PEFT writes it.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
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
    using ringkeep::testing::Bytes;
    std::mt19937 random(seed);
    nlohmann::ordered_json header;
    std::string data;
    const auto add = [&](const std::string& name, int rows, int cols, float width) {
      std::normal_distribution<float> normal(0.0f, width);
      Bytes bytes;
      for (int i = 0; i < rows * cols; ++i) bytes.put(normal(random));
      header[name] = {{"dtype", "F32"},
                      {"shape", {rows, cols}},
                      {"data_offsets", {data.size(), data.size() + bytes.data.size()}}};
      data += bytes.data;
    };
    for (const TinyFactor& f : factors) {
      const std::string name = "base_model.model." + f.module;
      add(name + ".lora_A.weight", rank, f.inputs, 1.0f / std::sqrt(static_cast<float>(f.inputs)));
      add(name + ".lora_B.weight", f.outputs, rank, 0.5f / std::sqrt(static_cast<float>(rank)));
    }
    const std::string text = header.dump();
    folder_.write("adapter_model.safetensors", Bytes().u64(text.size()).raw(text).raw(data).data);
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
