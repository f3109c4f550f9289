// The reader of saved caches and of mlx-lm's prompt caches: every pointer lies within the bytes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "engine/mlx_cache.h"
#include "engine/saved_state.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringkeep;
  using namespace ringkeep::engine;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto inside = [&](const std::byte* from, size_t count) {
    RK_CHECK(count == 0 || (from >= bytes.data() && count <= bytes.size() &&
                            from + count <= bytes.data() + bytes.size()));
  };
  (void)check_saved_state_sum(bytes, "fuzz");
  if (const auto state = parse_saved_state(bytes, "fuzz"); state.ok())
    for (const SavedRows& rows : state->layers) {
      int64_t count = 0;
      for (const auto& [first, end] : rows.ranges) count += end - first;
      for (const HostPlane* plane : {&rows.rows.k, &rows.rows.v}) {
        const bool k = plane == &rows.rows.k;
        const auto row = kernels::kv_row_bytes(k ? rows.geometry.k : rows.geometry.v,
                                               k ? rows.geometry.k_dim : rows.geometry.v_dim);
        const size_t n = static_cast<size_t>(count) * static_cast<size_t>(rows.geometry.kv_heads);
        RK_CHECK(plane->codes.bytes == n * row.codes && plane->scales.bytes == n * row.scales &&
                 plane->biases.bytes == n * row.biases);
        for (const HostField* field : {&plane->codes, &plane->scales, &plane->biases})
          inside(field->data, field->bytes);
      }
    }
  if (const auto cache = parse_mlx_cache(bytes, "fuzz"); cache.ok())
    for (const MlxLayer& layer : cache->layers) {
      for (int i = 0; i < 3; ++i) {
        inside(layer.k[i].data, layer.k[i].bytes);
        inside(layer.v[i].data, layer.v[i].bytes);
      }
      for (const int64_t token : layer.token_of) RK_CHECK(token >= -1 && token < cache->length);
    }
  return 0;
}
