// What `convert --calibration` measures: how large the inputs of each matrix are.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/params.h"
#include "weights/decoder_weights.h"

namespace ringkeep::models {

class InputStatistics {
 public:
  // Adds the rows x [rows, cols], row stride `stride`, to the matrices of `outputs`, which read
  // them.
  void add(const float* x, int64_t stride, int64_t rows,
           std::span<const kernels::LinearOutput> outputs, kernels::Device& device);

  // Mean squares [cols] of the inputs by the name of the module, as the checkpoint has it: a matrix
  // that holds several parts of a layer has their common input. Layers' matrices alone.
  std::map<std::string, std::vector<float>> by_module(
      const weights::DecoderWeights& weights, const checkpoint::Checkpoint& checkpoint) const;

 private:
  struct Sums {
    int64_t rows = 0;
    std::vector<double> squares;  // [cols]
  };
  std::map<const void*, Sums> inputs_;  // by the packed matrix's memory
};

}  // namespace ringkeep::models
