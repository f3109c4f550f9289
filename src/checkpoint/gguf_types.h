// The tensor types of GGUF: how many elements and bytes a block has.
#pragma once

#include <cstdint>

#include "quant/source_tensor.h"

namespace ringkeep::checkpoint {

struct GgufTensorType {
  uint32_t id;
  const char* name;
  int block;                 // elements of a block
  int bytes;                 // bytes of a block
  quant::SourceType source;  // `other` for what cannot be a weight here
};

// nullptr for an id that the format does not define.
const GgufTensorType* gguf_tensor_type(uint32_t id);

}  // namespace ringkeep::checkpoint
