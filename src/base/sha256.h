// SHA-256 (FIPS 180-4), by OpenSSL, for fingerprints of files and of what they belong to.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ringkeep {

inline constexpr size_t kSha256Digits = 64;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }
  std::string hex() const;  // of all bytes so far: 64 lower-case digits

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

inline std::string sha256_hex(std::span<const std::byte> bytes) {
  return Sha256().update(bytes).hex();
}
inline std::string sha256_hex(std::string_view text) { return Sha256().update(text).hex(); }

}  // namespace ringkeep
