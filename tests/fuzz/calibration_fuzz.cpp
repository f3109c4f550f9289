// The reader of --kv-calibration files: what it accepts is plausible, and written again it is the
// same.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "weights/calibration.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringkeep;
  const auto read = weights::parse_calibration(std::as_bytes(std::span(data, size)), "fuzz");
  if (!read.ok()) return 0;
  RK_CHECK(read->balance.size() == read->kv_heads.size());
  for (size_t i = 0; i < read->balance.size(); ++i) {
    const auto& c = read->balance[i];
    RK_CHECK(c.empty() || c.size() % static_cast<size_t>(read->kv_heads[i]) == 0);
    for (const float factor : c) RK_CHECK(std::isfinite(factor) && factor > 0.0f);
  }
  const std::string bytes = weights::encode_calibration(*read);
  const auto again =
      weights::parse_calibration(std::as_bytes(std::span(bytes.data(), bytes.size())), "again");
  RK_CHECK(again.ok() && again->balance == read->balance && again->tokens == read->tokens);
  return 0;
}
