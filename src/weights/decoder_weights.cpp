#include "weights/decoder_weights.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "weights/fused.h"
#include "weights/names.h"

namespace ringkeep::weights {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
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
    progress_.update(++done_);
    return {};
  }

  // row_lengths() of a required matrix behind the norm weights `input` [cols].
  Result<std::vector<float>> lengths(Part part, int layer, int64_t rows,
                                     const std::vector<float>& input) {
    const auto cols = static_cast<int64_t>(input.size());
    const auto* source = RK_TRY(required(part, layer, ".weight", {rows, cols}));
    RK_TRY(quant::spec_of(*source));
    return row_lengths(*source, input, device_.pool());
  }

  // A vector [size], as floats on the host.
  Result<std::vector<float>> values(Part part, int layer, const char* suffix, int64_t size) {
    const auto* source = RK_TRY(required(part, layer, suffix, {size}));
    RK_TRY(quant::spec_of(*source));  // a type that is no weight
    auto result = quant::to_floats(*source);
    if (suffix == std::string(".weight") && config_.norm_weight_plus_one)
      for (float& value : result) value += 1.0f;
    progress_.update(++done_);
    return result;
  }

  Status vector(Part part, int layer, int64_t size, OwnedVector& out) {
    return keep(RK_TRY(values(part, layer, ".weight", size)), out);
  }

  // A bias [size], where the checkpoint has one or must have. `order`: see matrix().
  Status bias(Part part, int layer, int64_t size, OwnedVector& out, const RowOrder& order = {}) {
    const bool must = config_.attention_bias && part != Part::o;
    if (!must && find(part, layer, ".bias") == nullptr) return {};
    auto stored = RK_TRY(values(part, layer, ".bias", size));
    auto ordered = stored;
    for (size_t i = 0; i < order.size(); ++i) ordered[i] = stored[static_cast<size_t>(order[i])];
    return keep(ordered, out);
  }

  Status keep(const std::vector<float>& values, OwnedVector& out) {
    out = RK_TRY(upload(values, device_));
    packed_bytes += out.buffer.size();
    return {};
  }

  // A weight of a layer that nothing asked for belongs to a part of the model that is not computed.
  Status refuse_leftovers() const {
    const bool gguf = checkpoint_.format == checkpoint::Format::gguf;
    const std::string layers = gguf ? "blk." : prefix_ + "layers.";
    const std::string head_bias =
        part_name(Part::lm_head, 0, config_, checkpoint_.format, prefix_) + ".bias";
    for (const auto& [name, tensor] : checkpoint_.table.tensors) {
      if (!name.starts_with(layers) && name != head_bias) continue;
      if (used_.contains(name) || fused_.wholes.contains(name)) continue;
      if (name.ends_with("rotary_emb.inv_freq")) continue;  // old files; it follows from the base
      return input_error("{}: tensor {} is not part of a {} model as it is known here",
                         checkpoint_.path, name, config_.family);
    }
    return {};
  }

  size_t packed_bytes = 0;

 private:
  const quant::SourceTensor* find(Part part, int layer, const char* suffix) {
    const std::string name = part_name(part, layer, config_, checkpoint_.format, prefix_) + suffix;
    used_.insert(name);
    const auto cut = fused_.tensors.find(name);
    return cut != fused_.tensors.end() ? &cut->second : checkpoint_.table.find(name);
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
  std::set<std::string> used_;  // names that were asked for
  Progress progress_;
  double done_ = 0;
};

// q and k rows stored for interleaved rotary pairs: row 2j + s of a head holds our row
// s * pairs + j, for the first 2 * pairs rows of each.
RowOrder undo_interleave(int heads, int dim, int pairs) {
  RowOrder order(static_cast<size_t>(heads) * static_cast<size_t>(dim));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  for (int h = 0; h < heads; ++h)
    for (int j = 0; j < pairs; ++j)
      for (int s = 0; s < 2; ++s)
        order[static_cast<size_t>(h * dim + s * pairs + j)] = h * dim + 2 * j + s;
  return order;
}

// The q and k norms, and the K balance [kv_heads, k_dim] that they and the projections give.
Status load_qk_norms(Loader& loader, int index, const LayerSpec& spec,
                     const std::vector<float>& attn_norm, LayerWeights& layer,
                     std::vector<float>& balance) {
  const auto q = RK_TRY(loader.values(Part::q_norm, index, ".weight", spec.k_dim));
  const auto k = RK_TRY(loader.values(Part::k_norm, index, ".weight", spec.k_dim));
  const auto dim = static_cast<size_t>(spec.k_dim);
  const auto kv_heads = static_cast<size_t>(spec.kv_heads);
  const size_t group = static_cast<size_t>(spec.heads) / kv_heads;
  const auto q_lengths =
      RK_TRY(loader.lengths(Part::q, index, int64_t{spec.heads} * spec.k_dim, attn_norm));
  const auto k_lengths =
      RK_TRY(loader.lengths(Part::k, index, int64_t{spec.kv_heads} * spec.k_dim, attn_norm));
  for (size_t h = 0; h < kv_heads; ++h) {
    const auto of_q = std::span(q_lengths).subspan(h * group * dim, group * dim);
    const auto of_k = std::span(k_lengths).subspan(h * dim, dim);
    const auto c =
        key_balance(expected_channels(of_q, q), expected_channels(of_k, k), spec.rope.rotary_dim);
    balance.insert(balance.end(), c.begin(), c.end());
  }
  RK_TRY(loader.keep(q, layer.q_norm));
  return loader.keep(k, layer.k_norm);
}

Status load_layer(Loader& loader, const checkpoint::Checkpoint& checkpoint, int index,
                  LayerWeights& layer, std::vector<float>& balance) {
  const ModelConfig& config = checkpoint.config;
  const LayerSpec& spec = config.layers[static_cast<size_t>(index)];
  const int64_t hidden = config.hidden;
  const int64_t q_rows = static_cast<int64_t>(spec.heads) * spec.k_dim;
  const int64_t k_rows = static_cast<int64_t>(spec.kv_heads) * spec.k_dim;
  const int64_t v_rows = static_cast<int64_t>(spec.kv_heads) * spec.v_dim;
  RowOrder q_order, k_order;
  // A layer without rotary embedding has no pairs: any order will do, as long as q and k agree.
  if (interleaved_rows(config, checkpoint.format)) {
    q_order = undo_interleave(spec.heads, spec.k_dim, spec.k_dim / 2);
    k_order = undo_interleave(spec.kv_heads, spec.k_dim, spec.k_dim / 2);
  }

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
  if (config.qk_norm) RK_TRY(load_qk_norms(loader, index, spec, attn_norm, layer, balance));
  RK_TRY(loader.matrix(Part::q, index, q_rows, hidden, layer.q, q_order));
  RK_TRY(loader.matrix(Part::k, index, k_rows, hidden, layer.k, k_order));
  RK_TRY(loader.matrix(Part::v, index, v_rows, hidden, layer.v));
  RK_TRY(loader.matrix(Part::o, index, hidden, static_cast<int64_t>(spec.heads) * spec.v_dim,
                       layer.o));
  RK_TRY(loader.bias(Part::q, index, q_rows, layer.q_bias, q_order));
  RK_TRY(loader.bias(Part::k, index, k_rows, layer.k_bias, k_order));
  RK_TRY(loader.bias(Part::v, index, v_rows, layer.v_bias));
  RK_TRY(loader.bias(Part::o, index, hidden, layer.o_bias));
  if (norms.ffn) RK_TRY(loader.vector(Part::ffn_norm, index, hidden, layer.ffn_norm));
  RK_TRY(loader.matrix(Part::gate, index, config.ffn_hidden, hidden, layer.gate));
  RK_TRY(loader.matrix(Part::up, index, config.ffn_hidden, hidden, layer.up));
  RK_TRY(loader.matrix(Part::down, index, hidden, config.ffn_hidden, layer.down));
  if (norms.post_attn)
    RK_TRY(loader.vector(Part::post_attn_norm, index, hidden, layer.post_attn_norm));
  if (norms.post_ffn)
    RK_TRY(loader.vector(Part::post_ffn_norm, index, hidden, layer.post_ffn_norm));
  return {};
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
  // The metadata was parsed; its pages need not stay beside the weights.
  for (const auto& file : checkpoint.table.files) file.drop(0, file.bytes().size());
  RK_TRY(loader.matrix(Part::embedding, 0, config.vocab_size, config.hidden, weights.embedding));
  auto final_norm = RK_TRY(loader.values(Part::final_norm, 0, ".weight", config.hidden));
  for (float& value : final_norm) value *= config.logit_scale;  // it reaches the logits alone
  RK_TRY(loader.keep(final_norm, weights.final_norm));
  if (!config.tied_embeddings)
    RK_TRY(loader.matrix(Part::lm_head, 0, config.vocab_size, config.hidden, weights.lm_head));
  weights.layers.resize(config.layers.size());
  weights.balance.resize(config.layers.size());
  for (size_t i = 0; i < config.layers.size(); ++i)
    RK_TRY(
        load_layer(loader, checkpoint, static_cast<int>(i), weights.layers[i], weights.balance[i]));
  RK_TRY(loader.refuse_leftovers());
  weights.packed_bytes = loader.packed_bytes;
  weights.decode_bytes =
      weights.packed_bytes - (weights.lm_head ? weights.embedding.buffer.size() : 0);
  return weights;
}

Result<size_t> packed_bytes(const checkpoint::Checkpoint& checkpoint, const PackOptions& options,
                            const kernels::Ops& ops) {
  size_t total = 0;
  for (const auto& [name, tensor] : checkpoint.table.tensors) {
    if (tensor.shape.size() == 2) {
      const auto spec = RK_TRY(packed_spec(tensor, options));
      total += ops.weight_bytes(spec, tensor.rows(), tensor.cols());
    } else {
      total += static_cast<size_t>(tensor.cols()) * sizeof(float);
    }
  }
  return total;
}

}  // namespace ringkeep::weights
