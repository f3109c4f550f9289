// SHA-256 (FIPS 180-4), for fingerprints of files and of what they belong to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringkeep {

class Sha256 {
 public:
  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }
  std::string hex() const;  // of all bytes so far: 64 lower-case digits

 private:
  void block(const std::byte* bytes);  // 64 bytes

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  uint64_t length_ = 0;  // bytes so far
};

inline std::string sha256_hex(std::span<const std::byte> bytes) {
  return Sha256().update(bytes).hex();
}
inline std::string sha256_hex(std::string_view text) { return Sha256().update(text).hex(); }

}  // namespace ringkeep
