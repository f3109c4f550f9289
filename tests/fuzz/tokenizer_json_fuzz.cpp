#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "checkpoint/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = ringkeep::checkpoint::parse_tokenizer_json(
      std::string(reinterpret_cast<const char*>(data), size));
  if (parsed.ok()) RK_CHECK(parsed->pieces.size() == parsed->types.size());
  return 0;
}
