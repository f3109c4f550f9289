// A tiny random Llama with layers of any kind, written as safetensors and opened again, and a
// runner that drives model and store step by step.
#pragma once

#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../checkpoint/files.h"
#include "checkpoint/checkpoint.h"
#include "config/cache_flags.h"
#include "kernels/select/select.h"
#include "kv/store.h"
#include "models/model.h"

namespace ringkeep::testing {

inline constexpr int kVocab = 96, kHidden = 64, kHeads = 4, kKvHeads = 2, kFfn = 96;

inline LayerSpec layer_of(LayerKind kind, int64_t window = 0, int donor = -1) {
  LayerSpec spec;  // head sizes come from the file
  spec.kind = kind;
  spec.window = window;
  spec.donor = donor;
  return spec;
}

struct TinyModel {
  // `layers`: kind, window and donor of each layer. v_dim 0: as head_dim.
  explicit TinyModel(const std::vector<LayerSpec>& layers, int head_dim = 64, int v_dim = 0)
      : v_dim_(v_dim > 0 ? v_dim : head_dim) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::string header, data;
    const auto add = [&](const std::string& name, std::vector<int> shape, bool norm = false) {
      size_t count = 1;
      for (const int extent : shape) count *= static_cast<size_t>(extent);
      header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                            header.empty() ? "" : ",", name, fmt::join(shape, ","), data.size(),
                            data.size() + 4 * count);
      const float scale = 1.5f / std::sqrt(static_cast<float>(shape.back()));
      for (size_t i = 0; i < count; ++i) {
        const float value = norm ? 1.0f + 0.1f * normal(random) : scale * normal(random);
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
    };
    add("model.embed_tokens.weight", {kVocab, kHidden});
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string p = fmt::format("model.layers.{}.", i);
      add(p + "input_layernorm.weight", {kHidden}, true);
      add(p + "self_attn.q_proj.weight", {kHeads * head_dim, kHidden});
      add(p + "self_attn.k_proj.weight", {kKvHeads * head_dim, kHidden});
      add(p + "self_attn.v_proj.weight", {kKvHeads * v_dim_, kHidden});
      add(p + "self_attn.o_proj.weight", {kHidden, kHeads * v_dim_});
      add(p + "post_attention_layernorm.weight", {kHidden}, true);
      add(p + "mlp.gate_proj.weight", {kFfn, kHidden});
      add(p + "mlp.up_proj.weight", {kFfn, kHidden});
      add(p + "mlp.down_proj.weight", {kHidden, kFfn});
    }
    add("model.norm.weight", {kHidden}, true);
    add("lm_head.weight", {kVocab, kHidden});
    header = "{" + header + "}";
    folder_.write("model.safetensors", Bytes().u64(header.size()).raw(header).raw(data).data);
    folder_.write("config.json",
                  fmt::format(R"({{"model_type":"llama","architectures":["LlamaForCausalLM"],
"vocab_size":{},"hidden_size":{},"intermediate_size":{},"num_hidden_layers":{},
"num_attention_heads":{},"num_key_value_heads":{},"head_dim":{},"rms_norm_eps":1e-6,
"rope_theta":10000.0,"tie_word_embeddings":false,"max_position_embeddings":4096}})",
                              kVocab, kHidden, kFfn, layers.size(), kHeads, kKvHeads, head_dim));
    layers_ = layers;
  }

  checkpoint::Checkpoint open() const {
    auto checkpoint = checkpoint::open(folder_.path()).value();
    for (size_t i = 0; i < layers_.size(); ++i) {
      LayerSpec& spec = checkpoint.config.layers[i];
      spec.kind = layers_[i].kind;
      spec.window = layers_[i].window;
      spec.donor = layers_[i].donor;
      spec.v_dim = v_dim_;
    }
    return checkpoint;
  }

 private:
  int v_dim_;
  TempFolder folder_;
  std::vector<LayerSpec> layers_;
};

using Tokens = std::vector<int32_t>;
using Logits = std::vector<std::vector<float>>;  // [rows][vocab]

inline Tokens random_tokens(size_t count, std::mt19937& random) {
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % kVocab);
  return tokens;
}

class Runner {
 public:
  Runner(const TinyModel& tiny, const CacheFlags& flags, int threads = 1)
      : checkpoint_(tiny.open()),
        device_(kernels::make_cpu_device(threads)),
        ops_(kernels::cpu_backend()),
        exec_(*device_) {
    auto plan = kv::make_plan(checkpoint_.config, flags, ops_).value();
    RK_CHECK(plan.runnable(), "{}", kv::format_plan(plan));
    models::ModelOptions options{.max_rows = std::max<int64_t>(plan.chunk, 2 * plan.parallel)};
    model_ = models::load_model(checkpoint_, options, ops_, *device_).value();
    store_ = kv::Store::create(plan, *device_, ops_).value();
  }

  kv::Store& store() { return *store_; }
  const kernels::Ops& ops() const { return ops_; }
  kernels::Exec& exec() { return exec_; }

  struct Row {
    kv::SequenceId sequence;
    std::span<const int32_t> tokens;
  };
  // Opens a step that appends tokens to sequences; the logits of every row, in order.
  Logits append(const std::vector<Row>& rows) {
    models::Batch batch;
    std::vector<kv::StepEntry> entries;
    for (const Row& row : rows) {
      entries.push_back({.sequence = row.sequence,
                         .row0 = static_cast<int64_t>(batch.tokens.size()),
                         .rows = static_cast<int64_t>(row.tokens.size())});
      for (const int32_t token : row.tokens) {
        const auto index = static_cast<int64_t>(batch.tokens.size()) - entries.back().row0;
        batch.tokens.push_back(token);
        batch.positions.push_back(static_cast<int32_t>(store_->length(row.sequence) + index));
      }
    }
    const kv::KvBatch kv = store_->begin_step(entries).value();
    batch.kv = &kv;
    model_->forward(batch, *store_, exec_).value();
    Logits result(batch.tokens.size(), std::vector<float>(kVocab));
    for (size_t i = 0; i < result.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      model_->logits({&row, 1}, result[i].data(), exec_);
    }
    return result;
  }
  void commit(kv::SequenceId sequence, int64_t rows) {
    store_->commit(sequence, rows, exec_).value();
  }
  // Appends and keeps all, in steps of at most `chunk` rows.
  Logits feed(kv::SequenceId sequence, std::span<const int32_t> tokens, size_t chunk) {
    Logits all;
    while (!tokens.empty()) {
      const auto part = tokens.first(
          std::min({chunk, tokens.size(), static_cast<size_t>(store_->max_step_rows(sequence))}));
      for (auto& row : append({{sequence, part}})) all.push_back(std::move(row));
      commit(sequence, static_cast<int64_t>(part.size()));
      tokens = tokens.subspan(part.size());
    }
    return all;
  }

 private:
  checkpoint::Checkpoint checkpoint_;
  std::unique_ptr<kernels::Device> device_;
  kernels::Ops ops_;
  kernels::Exec exec_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<kv::Store> store_;
};

}  // namespace ringkeep::testing
