#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/mlx_quant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringkeep;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = checkpoint::parse_hf_config(text);
  if (config.ok())
    for (const LayerSpec& layer : config->layers) {
      RK_CHECK(layer.heads % layer.kv_heads == 0 && layer.k_dim > 0 &&
               layer.rope.rotary_dim % 2 == 0);
      RK_CHECK(layer.kind != LayerKind::sliding || layer.window > 0);
    }
  const auto json = checkpoint::parse_json(text, "config.json");
  if (json.ok()) (void)checkpoint::read_mlx_quantization(*json);
  return 0;
}
