#include "weights/decoder_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "base/log.h"
#include "weights/experts.h"
#include "weights/fused.h"
#include "weights/leftovers.h"
#include "weights/names.h"
#include "weights/row_order.h"

namespace ringkeep::weights {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const char* out_scale_suffix(const checkpoint::Checkpoint& checkpoint) {
  return checkpoint.format == checkpoint::Format::gguf ? ".weight" : "";
}

// Bytes of the packed matrices.
Result<size_t> stack_bytes(const ExpertMatrices& matrices, const PackOptions& options,
                           const kernels::Ops& ops) {
  const StackShape shape = RK_TRY(stack_shape(matrices.experts, matrices.order, options));
  return ops.weight_bytes(shape.spec, shape.rows, shape.cols) * matrices.experts.size();
}

// Loads parts by name, with the shape that the configuration asks for.
class Loader {
 public:
  Loader(const checkpoint::Checkpoint& checkpoint, const PackOptions& options,
         const kernels::Ops& ops, kernels::Device& device, std::string prefix, FusedParts fused)
      : checkpoint_(checkpoint),
        config_(checkpoint.config),
        options_(options),
        ops_(ops),
        device_(device),
        prefix_(std::move(prefix)),
        fused_(std::move(fused)),
        progress_("loading weights",
                  static_cast<double>(checkpoint.table.tensors.size() + fused_.tensors.size() -
                                      fused_.wholes.size())) {}

  // A required matrix [rows, cols].
  Status matrix(Part part, int layer, int64_t rows, int64_t cols, OwnedTensor& out,
                const RowOrder& order = {}) {
    const auto* source = RK_TRY(required(part, layer, ".weight", {rows, cols}));
    out = RK_TRY(pack_matrix(*source, file_of(*source), order, options_, ops_, device_));
    packed_bytes += out.buffer.size();
    show_progress();
    return {};
  }

  // A required matrix [rows, cols] that stays in its file.
  Status table(Part part, int64_t rows, int64_t cols, MappedTable& out) {
    const auto* source = RK_TRY(required(part, 0, ".weight", {rows, cols}));
    RK_TRY(quant::spec_of(*source));
    out = MappedTable(*source);
    return {};
  }

  // A required matrix of one row, which GGUF files store as a vector.
  Status row(Part part, int layer, int64_t cols, OwnedTensor& out) {
    const auto* found = find(part, layer, ".weight");
    const bool vector = found != nullptr && found->shape.size() == 1;
    quant::SourceTensor source = *RK_TRY(required(
        part, layer, ".weight", vector ? std::vector{cols} : std::vector{int64_t{1}, cols}));
    source.shape = {1, cols};
    out = RK_TRY(pack_matrix(source, file_of(source), {}, options_, ops_, device_));
    packed_bytes += out.buffer.size();
    show_progress();
    return {};
  }

  // The stacks and biases of a layer's experts.
  Status experts(int layer, ExpertWeights& out) {
    ExpertSources sources = RK_TRY(find_experts(checkpoint_, prefix_, layer));
    for (const auto* names : {&sources.names, &sources.bias_names})
      for (const std::string& name : *names) read_.insert(checkpoint_.table.find(name));
    RK_TRY(expert_bias(sources.gate, out.gate_bias));
    RK_TRY(expert_bias(sources.up, out.up_bias));
    RK_TRY(expert_bias(sources.down, out.down_bias));
    if (expert_cache) {
      expert_bytes += RK_TRY(bytes_of(sources));
      out.cached = RK_TRY(expert_cache->add(std::move(sources)));
      return {};
    }
    RK_TRY(stack(sources.gate, out.gate));
    RK_TRY(stack(sources.up, out.up));
    return stack(sources.down, out.down);
  }

  // Experts stay in the file from now on, but for those that a cache holds.
  void cache_experts() {
    expert_cache = std::make_unique<ExpertCache>(checkpoint_.table.files, options_, ops_, device_);
  }
  // Once all layers are there.
  Status make_expert_slots(std::vector<LayerWeights>& layers) {
    RK_TRY(expert_cache->allocate(options_.expert_memory));
    for (LayerWeights& layer : layers) {
      ExpertWeights& experts = layer.experts;
      if (experts.cached < 0) continue;
      experts.gate.stack = expert_cache->stack(experts.cached, ExpertPart::gate);
      experts.up.stack = expert_cache->stack(experts.cached, ExpertPart::up);
      experts.down.stack = expert_cache->stack(experts.cached, ExpertPart::down);
    }
    packed_bytes += expert_bytes;
    return {};
  }

  // row_lengths() of a required matrix behind the norm weights `input` [cols]. `order`: see
  // matrix().
  Result<std::vector<float>> lengths(Part part, int layer, int64_t rows,
                                     const std::vector<float>& input, const RowOrder& order) {
    const auto cols = static_cast<int64_t>(input.size());
    const auto* source = RK_TRY(required(part, layer, ".weight", {rows, cols}));
    RK_TRY(quant::spec_of(*source));
    return ordered(row_lengths(*source, input, device_.pool()), order);
  }

  // A vector [size], as floats on the host.
  Result<std::vector<float>> values(Part part, int layer, const char* suffix, int64_t size) {
    const auto* source = RK_TRY(required(part, layer, suffix, {size}));
    RK_TRY(quant::spec_of(*source));  // a type that is no weight
    auto result = quant::to_floats(*source);
    if (suffix == std::string(".weight") && config_.norm_weight_plus_one)
      for (float& value : result) value += 1.0f;
    show_progress();
    return result;
  }

  // A small required matrix [rows, cols] as floats, clipped to +-limit where that is above 0.
  Status small_matrix(Part part, int layer, int64_t rows, int64_t cols, float limit,
                      OwnedVector& out) {
    const auto* source = RK_TRY(required(part, layer, ".weight", {rows, cols}));
    RK_TRY(quant::spec_of(*source));
    auto stored = quant::to_floats(*source);
    for (float& value : stored)
      if (limit > 0.0f) value = std::clamp(value, -limit, limit);
    show_progress();
    return keep(stored, out);
  }

  Status vector(Part part, int layer, int64_t size, OwnedVector& out) {
    return keep(RK_TRY(values(part, layer, ".weight", size)), out);
  }

  // A bias [size], where the checkpoint has one or must have. `order`: see matrix().
  Status bias(Part part, int layer, int64_t size, OwnedVector& out, const RowOrder& order = {}) {
    const bool must = config_.attention_bias && part != Part::o;
    if (!must && find(part, layer, ".bias") == nullptr) return {};
    return keep(ordered(RK_TRY(values(part, layer, ".bias", size)), order), out);
  }

  // The one number that multiplies a layer's output, where the checkpoint has it, as a vector
  // [size].
  Status out_scale(int layer, int64_t size, OwnedVector& out) {
    const char* suffix = out_scale_suffix(checkpoint_);
    if (find(Part::out_scale, layer, suffix) == nullptr) return {};
    const auto scale = RK_TRY(values(Part::out_scale, layer, suffix, 1));
    return keep(std::vector<float>(static_cast<size_t>(size), scale.front()), out);
  }

  Status keep(const std::vector<float>& values, OwnedVector& out) {
    out = RK_TRY(upload(values, device_));
    packed_bytes += out.buffer.size();
    return {};
  }

  // A weight that nothing asked for belongs to a part of the model that is not computed.
  Status refuse_leftovers() const {
    const Leftovers leftovers(checkpoint_);
    for (const auto& [name, tensor] : checkpoint_.table.tensors) {
      if (read_.contains(&tensor) || fused_.wholes.contains(name) || leftovers.contains(name))
        continue;
      return input_error("{}: tensor {} is not part of a {} model as it is known here",
                         checkpoint_.path, name, config_.family);
    }
    return {};
  }

  size_t packed_bytes = 0;
  size_t expert_bytes = 0;
  std::unique_ptr<ExpertCache> expert_cache;

 private:
  // As the rows of a matrix are packed; an empty order leaves them.
  static std::vector<float> ordered(std::vector<float> stored, const RowOrder& order) {
    std::vector<float> result = stored;
    for (size_t i = 0; i < order.size(); ++i) result[i] = stored[static_cast<size_t>(order[i])];
    return result;
  }

  Status stack(const ExpertMatrices& matrices, OwnedStack& out) {
    out = RK_TRY(pack_stack(matrices.experts, checkpoint_.table.files, matrices.order, options_,
                            ops_, device_));
    packed_bytes += out.buffer.size();
    expert_bytes += out.buffer.size();
    show_progress();
    return {};
  }

  Status expert_bias(const ExpertMatrices& matrices, OwnedVector& out) {
    return matrices.bias.empty() ? Status() : keep(matrices.bias, out);
  }

  Result<size_t> bytes_of(const ExpertSources& sources) const {
    size_t bytes = 0;
    for (const ExpertMatrices* part : {&sources.gate, &sources.up, &sources.down})
      bytes += RK_TRY(stack_bytes(*part, options_, ops_));
    return bytes;
  }

  const quant::SourceTensor* find(Part part, int layer, const char* suffix) {
    const std::string name = part_name(part, layer, config_, checkpoint_.format, prefix_) + suffix;
    const auto cut = fused_.tensors.find(name);
    const auto* source = cut != fused_.tensors.end() ? &cut->second : checkpoint_.table.find(name);
    if (source != nullptr) read_.insert(source);
    return source;
  }

  Result<const quant::SourceTensor*> required(Part part, int layer, const char* suffix,
                                              const std::vector<int64_t>& shape) {
    const auto* source = find(part, layer, suffix);
    const std::string name = part_name(part, layer, config_, checkpoint_.format, prefix_) + suffix;
    if (source == nullptr) return input_error("{}: tensor {} is missing", checkpoint_.path, name);
    if (source->shape != shape)
      return input_error("{}: tensor {} has shape {}, expected {} from the configuration",
                         checkpoint_.path, name, shape_text(source->shape), shape_text(shape));
    return source;
  }

  void show_progress() { progress_.update(static_cast<double>(read_.size())); }

  const MappedFile& file_of(const quant::SourceTensor& source) const {
    return checkpoint_.table.files[static_cast<size_t>(source.file)];
  }

  const checkpoint::Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const PackOptions& options_;
  const kernels::Ops& ops_;
  kernels::Device& device_;
  std::string prefix_;
  FusedParts fused_;
  Progress progress_;
  std::set<const quant::SourceTensor*> read_;
};

// The rows of q and k as they are packed.
struct RowOrders {
  RowOrder q, k;
};

RowOrders row_orders(const checkpoint::Checkpoint& checkpoint, const LayerSpec& spec) {
  // A layer without rotary embedding has no pairs: any order will do, as long as q and k agree.
  if (!interleaved_rows(checkpoint.config, checkpoint.format)) return {};
  return {undo_interleave(spec.heads, spec.k_dim, spec.k_dim / 2),
          undo_interleave(spec.kv_heads, spec.k_dim, spec.k_dim / 2)};
}

bool norms_heads(const ModelConfig& config, const LayerSpec& spec) {
  return config.qk_norm && (!config.qk_norm_unweighted || spec.rope.rotary_dim > 0);
}

// Weights [k_dim] of a norm of q or k; 1 where it has none.
Result<std::vector<float>> head_norm(Loader& loader, const ModelConfig& config, Part part,
                                     int index) {
  const int k_dim = config.layers[static_cast<size_t>(index)].k_dim;
  if (config.qk_norm_unweighted) return std::vector<float>(static_cast<size_t>(k_dim), 1.0f);
  return loader.values(part, index, ".weight", k_dim);
}

// How large the channels of q are at each KV head, [kv_heads][k_dim], over all layers that read the
// keys of layer `index`: a root mean square.
Result<std::vector<std::vector<float>>> query_channels(Loader& loader, const ModelConfig& config,
                                                       int index, const RowOrder& order) {
  const LayerSpec& owner = config.layers[static_cast<size_t>(index)];
  const auto dim = static_cast<size_t>(owner.k_dim);
  const auto kv_heads = static_cast<size_t>(owner.kv_heads);
  std::vector<std::vector<double>> squares(kv_heads, std::vector<double>(dim));
  double readers = 0;
  for (int i = index; i < static_cast<int>(config.layers.size()); ++i) {
    const LayerSpec& spec = config.layers[static_cast<size_t>(i)];
    if (i != index && spec.donor != index) continue;
    const size_t width = static_cast<size_t>(spec.heads) / kv_heads * dim;
    const auto norm = RK_TRY(head_norm(loader, config, Part::q_norm, i));
    const auto input = RK_TRY(loader.values(Part::attn_norm, i, ".weight", config.hidden));
    const auto lengths =
        RK_TRY(loader.lengths(Part::q, i, int64_t{spec.heads} * spec.k_dim, input, order));
    for (size_t h = 0; h < kv_heads; ++h) {
      const auto channels = expected_channels(std::span(lengths).subspan(h * width, width), norm);
      for (size_t c = 0; c < dim; ++c) squares[h][c] += double{channels[c]} * channels[c];
    }
    ++readers;
  }
  std::vector<std::vector<float>> result(kv_heads, std::vector<float>(dim));
  for (size_t h = 0; h < kv_heads; ++h)
    for (size_t c = 0; c < dim; ++c)
      result[h][c] = static_cast<float>(std::sqrt(squares[h][c] / readers));
  return result;
}

// The q and k norms, and the K balance [kv_heads, k_dim] that they and the projections give. A
// layer that shares a cache has no keys of its own.
Status load_qk_norms(Loader& loader, const ModelConfig& config, int index,
                     const std::vector<float>& attn_norm, const RowOrders& orders,
                     LayerWeights& layer, std::vector<float>& balance) {
  const LayerSpec& spec = config.layers[static_cast<size_t>(index)];
  RK_TRY(loader.keep(RK_TRY(head_norm(loader, config, Part::q_norm, index)), layer.q_norm));
  if (spec.donor >= 0) return {};
  const auto k = RK_TRY(head_norm(loader, config, Part::k_norm, index));
  const auto dim = static_cast<size_t>(spec.k_dim);
  const auto queries = RK_TRY(query_channels(loader, config, index, orders.q));
  const auto k_lengths = RK_TRY(
      loader.lengths(Part::k, index, int64_t{spec.kv_heads} * spec.k_dim, attn_norm, orders.k));
  for (size_t h = 0; h < queries.size(); ++h) {
    const auto of_k = std::span(k_lengths).subspan(h * dim, dim);
    const auto c = key_balance(queries[h], expected_channels(of_k, k), spec.rope.rotary_dim);
    balance.insert(balance.end(), c.begin(), c.end());
  }
  return loader.keep(k, layer.k_norm);
}

// The part of a layer that per-layer embeddings feed.
Status load_layer_embedding(Loader& loader, const ModelConfig& config, int index,
                            LayerWeights& layer) {
  const int64_t hidden = config.hidden, width = config.layer_embedding;
  RK_TRY(loader.matrix(Part::layer_gate, index, width, hidden, layer.layer_gate));
  RK_TRY(loader.matrix(Part::layer_proj, index, hidden, width, layer.layer_proj));
  return loader.vector(Part::layer_proj_norm, index, hidden, layer.layer_proj_norm);
}

// A mixture of experts, with what Gemma 4 has around it.
Status load_experts(Loader& loader, const ModelConfig& config, int index, LayerWeights& layer) {
  const int64_t hidden = config.hidden;
  ExpertWeights& experts = layer.experts;
  RK_TRY(loader.matrix(Part::router, index, config.experts, hidden, experts.router));
  if (config.expert_bias)
    RK_TRY(loader.keep(RK_TRY(loader.values(Part::router, index, ".bias", config.experts)),
                       experts.router_bias));
  RK_TRY(loader.experts(index, experts));
  if (const int64_t width = config.shared_expert_hidden; width > 0) {
    if (config.shared_expert_gate)
      RK_TRY(loader.row(Part::shared_router, index, hidden, experts.shared_router));
    RK_TRY(loader.matrix(Part::shared_gate, index, width, hidden, experts.shared_gate));
    RK_TRY(loader.matrix(Part::shared_up, index, width, hidden, experts.shared_up));
    RK_TRY(loader.matrix(Part::shared_down, index, hidden, width, experts.shared_down));
  }
  if (config.family != "gemma4") return {};
  auto norm = RK_TRY(loader.values(Part::router_norm, index, "", hidden));
  for (float& value : norm) value /= std::sqrt(static_cast<float>(hidden));
  RK_TRY(loader.keep(norm, experts.router_norm));
  RK_TRY(loader.keep(RK_TRY(loader.values(Part::expert_scale, index, "", config.experts)),
                     experts.scale));
  RK_TRY(loader.vector(Part::post_ffn_norm_1, index, hidden, layer.post_ffn_norm_1));
  RK_TRY(loader.vector(Part::pre_ffn_norm_2, index, hidden, layer.pre_ffn_norm_2));
  return loader.vector(Part::post_ffn_norm_2, index, hidden, layer.post_ffn_norm_2);
}

Status load_altup(Loader& loader, const ModelConfig& config, int index, AltUpWeights& altup) {
  const int64_t hidden = config.hidden, n = config.altup_streams;
  auto norm = RK_TRY(loader.values(Part::altup_router_norm, index, ".weight", hidden));
  for (float& value : norm) value /= static_cast<float>(hidden);
  RK_TRY(loader.keep(norm, altup.router_norm));
  RK_TRY(loader.matrix(Part::altup_router, index, n, hidden, altup.router));
  RK_TRY(
      loader.small_matrix(Part::altup_predict, index, n * n, n, config.altup_clip, altup.predict));
  RK_TRY(loader.small_matrix(Part::altup_correct, index, n, n, config.altup_clip, altup.correct));
  if (!config.altup_scale_output) return {};
  return loader.keep(RK_TRY(loader.values(Part::altup_scale, index, "", hidden)), altup.scale);
}

Status load_laurel(Loader& loader, const ModelConfig& config, int index, LaurelWeights& laurel) {
  const int64_t hidden = config.hidden, rank = config.laurel_rank;
  RK_TRY(loader.matrix(Part::laurel_left, index, rank, hidden, laurel.left));
  RK_TRY(loader.matrix(Part::laurel_right, index, hidden, rank, laurel.right));
  return loader.vector(Part::laurel_norm, index, hidden, laurel.norm);
}

Status load_layer(Loader& loader, const checkpoint::Checkpoint& checkpoint, int index,
                  LayerWeights& layer, std::vector<float>& balance) {
  const ModelConfig& config = checkpoint.config;
  const LayerSpec& spec = config.layers[static_cast<size_t>(index)];
  const int64_t hidden = config.hidden;
  const int64_t q_rows = static_cast<int64_t>(spec.heads) * spec.k_dim;
  const int64_t k_rows = static_cast<int64_t>(spec.kv_heads) * spec.k_dim;
  const int64_t v_rows = static_cast<int64_t>(spec.kv_heads) * spec.v_dim;
  const RowOrders orders = row_orders(checkpoint, spec);

  const BranchNorms norms = branch_norms(config);
  std::vector<float> attn_norm(static_cast<size_t>(hidden), 1.0f);
  if (norms.attn) {
    attn_norm = RK_TRY(loader.values(Part::attn_norm, index, ".weight", hidden));
    RK_TRY(loader.keep(attn_norm, layer.attn_norm));
  }
  if (config.qk_norm_whole) {
    RK_TRY(loader.vector(Part::q_norm, index, q_rows, layer.q_norm_whole));
    RK_TRY(loader.vector(Part::k_norm, index, k_rows, layer.k_norm_whole));
  }
  if (norms_heads(config, spec))
    RK_TRY(load_qk_norms(loader, config, index, attn_norm, orders, layer, balance));
  RK_TRY(loader.matrix(Part::q, index, q_rows, hidden, layer.q, orders.q));
  if (spec.donor < 0) {
    RK_TRY(loader.matrix(Part::k, index, k_rows, hidden, layer.k, orders.k));
    if (!spec.v_from_k) RK_TRY(loader.matrix(Part::v, index, v_rows, hidden, layer.v));
  }
  RK_TRY(loader.matrix(Part::o, index, hidden, static_cast<int64_t>(spec.heads) * spec.v_dim,
                       layer.o));
  RK_TRY(loader.bias(Part::q, index, q_rows, layer.q_bias, orders.q));
  if (layer.k) RK_TRY(loader.bias(Part::k, index, k_rows, layer.k_bias, orders.k));
  if (layer.v) RK_TRY(loader.bias(Part::v, index, v_rows, layer.v_bias));
  RK_TRY(loader.bias(Part::o, index, hidden, layer.o_bias));
  if (norms.ffn) RK_TRY(loader.vector(Part::ffn_norm, index, hidden, layer.ffn_norm));
  if (config.attention_sinks)
    RK_TRY(loader.keep(RK_TRY(loader.values(Part::sinks, index, "", spec.heads)), layer.sinks));
  if (spec.experts) RK_TRY(load_experts(loader, config, index, layer));
  if (!spec.experts || config.family == "gemma4") {
    const int64_t ffn = ffn_hidden_of(config, spec);
    RK_TRY(loader.matrix(Part::gate, index, ffn, hidden, layer.gate));
    RK_TRY(loader.matrix(Part::up, index, ffn, hidden, layer.up));
    RK_TRY(loader.matrix(Part::down, index, hidden, ffn, layer.down));
  }
  if (norms.post_attn)
    RK_TRY(loader.vector(Part::post_attn_norm, index, hidden, layer.post_attn_norm));
  if (norms.post_ffn)
    RK_TRY(loader.vector(Part::post_ffn_norm, index, hidden, layer.post_ffn_norm));
  if (config.layer_embedding > 0) RK_TRY(load_layer_embedding(loader, config, index, layer));
  if (config.altup_streams > 0) RK_TRY(load_altup(loader, config, index, layer.altup));
  if (config.laurel_rank > 0) RK_TRY(load_laurel(loader, config, index, layer.laurel));
  if (config.family == "gemma4") RK_TRY(loader.out_scale(index, hidden, layer.out_scale));
  return {};
}

// Model-wide parts of per-layer embeddings. The branch from the token's embedding is divided by
// sqrt(2), as the table's rows are when they are read.
Status load_layer_embeddings(Loader& loader, const ModelConfig& config, DecoderWeights& weights) {
  const int64_t width = static_cast<int64_t>(config.layers.size()) * config.layer_embedding;
  RK_TRY(
      loader.table(Part::layer_embedding, layer_vocab_of(config), width, weights.layer_embedding));
  RK_TRY(loader.matrix(Part::layer_model_proj, 0, width, config.hidden, weights.layer_model_proj));
  auto norm = RK_TRY(loader.values(Part::layer_model_norm, 0, ".weight", config.layer_embedding));
  for (float& value : norm) value /= std::numbers::sqrt2_v<float>;
  return loader.keep(norm, weights.layer_model_norm);
}

}  // namespace

Result<DecoderWeights> load_decoder(const checkpoint::Checkpoint& checkpoint,
                                    const PackOptions& options, const kernels::Ops& ops,
                                    kernels::Device& device) {
  const ModelConfig& config = checkpoint.config;
  std::string prefix = find_prefix(checkpoint.table, checkpoint.format);
  FusedParts fused = RK_TRY(split_fused(checkpoint, prefix));
  Loader loader(checkpoint, options, ops, device, std::move(prefix), std::move(fused));
  DecoderWeights weights;
  if (options.expert_memory != SIZE_MAX && std::ranges::any_of(config.layers, &LayerSpec::experts))
    loader.cache_experts();
  // The metadata was parsed; its pages need not stay beside the weights.
  for (const auto& file : checkpoint.table.files) file.drop(0, file.bytes().size());
  RK_TRY(loader.matrix(Part::embedding, 0, config.vocab_size, config.hidden, weights.embedding));
  auto final_norm = RK_TRY(loader.values(Part::final_norm, 0, ".weight", config.hidden));
  for (float& value : final_norm) value *= config.logit_scale;  // it reaches the logits alone
  RK_TRY(loader.keep(final_norm, weights.final_norm));
  if (!config.tied_embeddings)
    RK_TRY(loader.matrix(Part::lm_head, 0, config.vocab_size, config.hidden, weights.lm_head));
  if (config.layer_embedding > 0) RK_TRY(load_layer_embeddings(loader, config, weights));
  for (int i = 0; i + 1 < config.altup_streams; ++i) {
    RK_TRY(loader.matrix(Part::altup_proj, i, config.hidden, config.hidden,
                         weights.altup_proj.emplace_back()));
    RK_TRY(loader.matrix(Part::altup_unembed, i, config.hidden, config.hidden,
                         weights.altup_unembed.emplace_back()));
  }
  weights.layers.resize(config.layers.size());
  weights.balance.resize(config.layers.size());
  for (size_t i = 0; i < config.layers.size(); ++i)
    RK_TRY(
        load_layer(loader, checkpoint, static_cast<int>(i), weights.layers[i], weights.balance[i]));
  RK_TRY(loader.refuse_leftovers());
  if (loader.expert_cache) RK_TRY(loader.make_expert_slots(weights.layers));
  weights.expert_cache = std::move(loader.expert_cache);
  weights.packed_bytes = loader.packed_bytes;
  weights.expert_bytes = loader.expert_bytes;
  if (config.experts > 0)
    weights.active_expert_bytes = loader.expert_bytes / static_cast<size_t>(config.experts) *
                                  static_cast<size_t>(config.experts_used);
  weights.decode_bytes = weights.packed_bytes -
                         (weights.lm_head ? weights.embedding.buffer.size() : 0) -
                         (weights.expert_bytes - weights.active_expert_bytes);
  return weights;
}

Result<PackedBytes> packed_bytes(const checkpoint::Checkpoint& checkpoint,
                                 const PackOptions& options, const kernels::Ops& ops) {
  PackedBytes total;
  const Leftovers leftovers(checkpoint);
  const std::string prefix = find_prefix(checkpoint.table, checkpoint.format);
  const auto name_of = [&](Part part, size_t layer) {
    return part_name(part, static_cast<int>(layer), checkpoint.config, checkpoint.format, prefix);
  };
  const std::string mapped = name_of(Part::layer_embedding, 0) + ".weight";
  std::set<std::string> single_rows, expert_biases;
  for (size_t i = 0; i < checkpoint.config.layers.size(); ++i) {
    if (!checkpoint.config.layers[i].experts) continue;
    single_rows.insert(name_of(Part::shared_router, i) + ".weight");
    const ExpertSources sources = RK_TRY(find_experts(checkpoint, prefix, static_cast<int>(i)));
    total.expert_tensors.insert(sources.names.begin(), sources.names.end());
    expert_biases.insert(sources.bias_names.begin(), sources.bias_names.end());
    total.largest_expert =
        std::max(total.largest_expert, RK_TRY(expert_slot_bytes(sources, options, ops)));
    for (const ExpertMatrices* part : {&sources.gate, &sources.up, &sources.down}) {
      total.experts += RK_TRY(stack_bytes(*part, options, ops));
      total.all += part->bias.size() * sizeof(float);
    }
  }
  total.all += total.experts;
  for (const LayerSpec& spec : checkpoint.config.layers)  // norms that the file has no weights for
    if (checkpoint.config.qk_norm_unweighted && norms_heads(checkpoint.config, spec))
      total.all += 2 * static_cast<size_t>(spec.k_dim) * sizeof(float);
  std::set<std::string> factors;  // one number in the file, one for each channel in memory
  std::set<std::string> maps;     // matrices that are kept as floats
  for (size_t i = 0; i < checkpoint.config.layers.size(); ++i) {
    factors.insert(name_of(Part::out_scale, i) + out_scale_suffix(checkpoint));
    for (const Part part : {Part::altup_predict, Part::altup_correct})
      maps.insert(name_of(part, i) + ".weight");
  }
  for (const auto& [name, tensor] : checkpoint.table.tensors) {
    if (name == mapped) total.mapped_tensors.insert(name);
    if (name == mapped || total.expert_tensors.contains(name) || expert_biases.contains(name) ||
        leftovers.contains(name))
      continue;
    if (maps.contains(name)) {
      total.all += static_cast<size_t>(tensor.rows() * tensor.cols()) * sizeof(float);
    } else if (tensor.shape.size() == 2 || single_rows.contains(name)) {
      const auto spec = RK_TRY(packed_spec(tensor, options));
      total.all += ops.weight_bytes(spec, tensor.rows(), tensor.cols());
    } else if (tensor.shape.size() == 3) {  // a stack that is cut into its matrices
      quant::SourceTensor one = tensor;
      one.shape.erase(one.shape.begin());
      const auto spec = RK_TRY(packed_spec(one, options));
      total.all +=
          ops.weight_bytes(spec, one.rows(), one.cols()) * static_cast<size_t>(tensor.shape[0]);
    } else {
      const int64_t size = factors.contains(name) ? checkpoint.config.hidden : tensor.cols();
      total.all += static_cast<size_t>(size) * sizeof(float);
    }
  }
  return total;
}

}  // namespace ringkeep::weights
