// LoRA adapters: low-rank factors beside the weights, y += scale * B (A x) (Hu et al. 2021, arXiv
// 2106.09685). The weights stay as they are, so that rows with and without adapters share a step.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/adapter.h"
#include "config/model_config.h"
#include "weights/decoder_weights.h"
#include "weights/names.h"

namespace ringkeep::weights {

// An adapter's file with the place of every factor, before anything is packed.
class AdapterSource {
 public:
  // Finds the matrix of each tensor by its name and checks shapes and ranks. `scale` multiplies
  // what the adapter adds. Errors (input): see checkpoint::open_adapter; a tensor that is no
  // factor, has no matrix in the model or is alone, naming it with what was expected and found.
  static Result<AdapterSource> open(const std::string& path, float scale,
                                    const ModelConfig& config);

  const checkpoint::AdapterFile& file() const { return file_; }
  // The identity of what the adapter does: SHA-256 of its files and the scale.
  const std::string& sha256() const { return sha256_; }

  // The factors of one matrix, or of a part of one that the checkpoint stores as a whole.
  struct Pair {
    std::string module;                      // as the file calls it
    const quant::SourceTensor* a = nullptr;  // [rank, inputs]; mlx-lm: [inputs, rank]
    const quant::SourceTensor* b = nullptr;  // [outputs, rank]; mlx-lm: [rank, outputs]
    bool transposed = false;
    int64_t rank = 0;
    double scale = 0.0;
    Part part = Part::q;
    int layer = 0;
    int64_t first = 0, outputs = 0, inputs = 0;  // rows [first, first + outputs) of B
    RowOrder order;                              // of those rows, as the weights' q and k have it
  };
  const std::vector<Pair>& pairs() const { return pairs_; }

 private:
  checkpoint::AdapterFile file_;
  std::string sha256_;
  std::vector<Pair> pairs_;
};

// What a step needs beside the factors.
struct AdapterSizes {
  int64_t rank = 0;          // the largest
  int64_t outputs = 0;       // of the widest matrix but the head
  int64_t head_outputs = 0;  // 0: no factors of the head
  size_t bytes = 0;          // of all factors, packed

  void grow(const AdapterSizes& other);  // to what both need, one at a time
};
// Of the packed adapter. Reads the factors; errors (input): one that is not finite.
Result<AdapterSizes> adapter_sizes(const AdapterSource& source, const kernels::Ops& ops);

// y += B (A x) beside one matrix. The scale is in B. Factors are dense, of the narrowest of bf16,
// f16 and f32 that holds them exactly.
struct AdapterFactors {
  std::shared_ptr<const OwnedTensor> a;  // [rank, inputs]; the parts of a fused matrix share it
  OwnedTensor b;                         // [outputs, rank]
};

class Adapter {
 public:
  // Packs the factors. Errors (input): one that is not finite, a matrix that these weights lack or
  // have in another shape; (runtime) without memory.
  static Result<Adapter> load(const AdapterSource& source, const DecoderWeights& weights,
                              const kernels::Ops& ops, kernels::Device& device);

  // Null: the adapter leaves the matrix as it is.
  const AdapterFactors* beside(const kernels::PackedTensor& matrix) const {
    const auto found = factors_.find(matrix.data);
    return found != factors_.end() ? &found->second : nullptr;
  }
  const AdapterSizes& sizes() const { return sizes_; }
  const std::string& sha256() const { return sha256_; }

 private:
  std::unordered_map<const std::byte*, AdapterFactors> factors_;  // by the matrix' memory
  AdapterSizes sizes_;
  std::string sha256_;
};

}  // namespace ringkeep::weights
