#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/log.h"
#include "checkpoint/gguf_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringkeep::checkpoint;
  spdlog::set_level(spdlog::level::off);  // a warning for each odd id would drown the rest
  const auto bytes = std::as_bytes(std::span(data, size));
  auto file = GgufFile::parse(bytes, "fuzz.gguf");
  if (!file.ok()) return 0;
  for (const GgufValue& value : file->values()) (void)describe(value);
  for (const auto& tensor : file->tensors())  // what a loader may rely on
    RK_CHECK(tensor.data >= bytes.data() && tensor.bytes <= size &&
             tensor.data + tensor.bytes <= bytes.data() + size);
  (void)gguf_tokenizer(*file);
  GgufModel model;
  model.parts.push_back(std::move(*file));
  (void)gguf_config(model);
  return 0;
}
