// One safetensors file (format: github.com/huggingface/safetensors): a length, a JSON header, the
// tensors' bytes without gaps.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "quant/source_tensor.h"

namespace ringkeep::checkpoint {

struct SafetensorsFile {
  std::vector<quant::SourceTensor> tensors;     // by offset; they point into the bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Errors (input) begin with `name`: header length, JSON, types, shapes, offsets outside the file,
// overlaps, gaps, and sizes that are not shape x type. U32 and other types that are no weights have
// SourceType::other.
Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes,
                                          const std::string& name);

}  // namespace ringkeep::checkpoint
