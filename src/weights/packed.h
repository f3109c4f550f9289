// TensorTable -> PackedTensor: repacks matrices in parallel into the backend's layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "kernels/api/ops.h"

namespace ringkeep::weights {

// A matrix in device memory with the buffer that holds it.
struct OwnedTensor {
  kernels::PackedTensor tensor;
  kernels::DeviceBuffer buffer;
};

// A float vector in device memory (norm weights, biases), or empty.
struct OwnedVector {
  kernels::DeviceBuffer buffer;
  int64_t size = 0;
  const float* data() const { return size > 0 ? buffer.as<float>() : nullptr; }
};

}  // namespace ringkeep::weights
