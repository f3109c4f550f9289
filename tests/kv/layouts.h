// Layer lists for tests.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "config/model_config.h"

namespace ringkeep::kv::testing {

inline LayerSpec layer(LayerKind kind, int64_t window = 0, int donor = -1) {
  LayerSpec spec;
  spec.kind = kind;
  spec.window = window;
  spec.donor = donor;
  spec.heads = 2;
  if (kind == LayerKind::recurrent) {
    spec.note = "linear_attention";
  } else {
    spec.kv_heads = 1;
    spec.k_dim = spec.v_dim = 8;
  }
  return spec;
}

inline ModelConfig model(std::vector<LayerSpec> layers) {
  ModelConfig config;
  config.layers = std::move(layers);
  return config;
}

inline LayerSpec full() { return layer(LayerKind::full); }
inline LayerSpec sliding(int64_t window) { return layer(LayerKind::sliding, window); }
inline LayerSpec chunked(int64_t size) { return layer(LayerKind::chunked, size); }
inline LayerSpec shared(int donor) { return layer(LayerKind::shared, 0, donor); }
inline LayerSpec recurrent() { return layer(LayerKind::recurrent); }

// Gemma 3 270M: 18 layers, every sixth full, the others with a window of 512.
inline ModelConfig demo_model() {
  ModelConfig config;
  config.trained_context = 32768;
  for (int i = 0; i < 18; ++i) {
    LayerSpec spec = i % 6 == 5 ? full() : sliding(512);
    spec.heads = 4;
    spec.k_dim = spec.v_dim = 256;
    config.layers.push_back(spec);
  }
  return config;
}

}  // namespace ringkeep::kv::testing
