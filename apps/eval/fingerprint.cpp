#include "eval/fingerprint.h"

#include <algorithm>

namespace ringkeep::eval {
namespace {

constexpr size_t kSampleBytes = 4096;
constexpr size_t kSamples =
    64;  // evenly through a file: weights that differ, differ nearly everywhere

class Fnv {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) state_ = (state_ ^ static_cast<uint64_t>(b)) * 0x100000001b3ULL;
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::string hash_text(std::span<const std::byte> bytes) {
  Fnv hash;
  hash.add(bytes);
  return hash.text();
}

std::string hash_model(const checkpoint::Checkpoint& checkpoint) {
  Fnv hash;
  for (const auto& [name, tensor] : checkpoint.table.tensors) hash.add(name);
  for (const auto& [key, value] : checkpoint.metadata) hash.add(key + "=" + value);
  for (const auto& file : checkpoint.table.files) {
    const auto bytes = file.bytes();
    hash.add(fmt::format("{} bytes", bytes.size()));
    const size_t samples = std::min(kSamples, bytes.size() / kSampleBytes + 1);
    for (size_t i = 0; i < samples; ++i) {
      const size_t at = bytes.size() / samples * i;
      hash.add(bytes.subspan(at, std::min(kSampleBytes, bytes.size() - at)));
    }
  }
  return hash.text();
}

nlohmann::json describe(const CacheFlags& flags) {
  // The calibration by its content. A file that cannot be read is refused elsewhere.
  std::string calibration;
  if (!flags.kv_calibration.empty())
    if (const auto text = read_text_file(flags.kv_calibration, size_t{1} << 30); text.ok())
      calibration = hash_text(std::as_bytes(std::span(*text)));
  return {{"kv_key_bits", flags.kv_key_bits.value_or("")},
          {"kv_hot", flags.kv_hot.value_or("")},
          {"kv_value_bits", flags.kv_value_bits.value_or("")},
          {"kv_scheme", flags.kv_scheme},
          {"kv_group_size", flags.kv_group_size},
          {"quantized_kv_start", flags.quantized_kv_start},
          {"max_kv_size", flags.max_kv_size},
          {"keep", flags.keep},
          {"kv_calibration", calibration}};
}

}  // namespace ringkeep::eval
