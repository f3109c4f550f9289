#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "base/check.h"
#include "checkpoint/mlx_quant.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringkeep;
  using namespace ringkeep::checkpoint;
  const auto bytes = std::as_bytes(std::span(data, size));
  auto file = parse_safetensors(bytes, "fuzz.safetensors");
  if (!file.ok()) return 0;
  std::map<std::string, quant::SourceTensor> tensors;
  for (auto& tensor : file->tensors) {
    RK_CHECK(tensor.data >= bytes.data() && tensor.data + tensor.bytes <= bytes.data() + size);
    std::string name = tensor.name;
    tensors.emplace(std::move(name), std::move(tensor));
  }
  MlxQuantization quantization;
  quantization.global = {4, 32};
  (void)fold_mlx_tensors(std::optional(quantization), tensors);
  return 0;
}
