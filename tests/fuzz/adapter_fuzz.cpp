// The reader of adapter_config.json: what it accepts has ranks and scales within bounds.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "checkpoint/adapter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringkeep;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = checkpoint::parse_adapter_config(text, "fuzz");
  if (!config.ok()) return 0;
  for (const char* module : {"", "q_proj", "model.layers.0.self_attn.q_proj", "lm_head"}) {
    const int64_t rank = config->rank_of(module);
    RK_CHECK(rank >= 1 && rank <= checkpoint::kLargestAdapterRank);
    RK_CHECK(std::isfinite(config->scale_of(module)));
  }
  return 0;
}
