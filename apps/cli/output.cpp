#include "cli/output.h"

#include <cstdio>

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ringkeep::cli {

void print_json(const Json& value) {
  fmt::print("{}\n", value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024.0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

Json rate_json(double count, double seconds) {
  return count > 0 && seconds > 0 ? Json(count / seconds) : Json(nullptr);
}

std::string rate_text(double count, double seconds) {
  return count > 0 && seconds > 0 ? fmt::format("{:.1f} tok/s", count / seconds) : "-";
}

Status write_file(const std::string& path, std::string_view bytes) {
  const std::string partial = path + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  bool written =
      file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written && std::rename(partial.c_str(), path.c_str()) == 0) return {};
  Error error = make_error(ErrorKind::runtime, "cannot write {}: {}", path, std::strerror(errno));
  if (file != nullptr) std::remove(partial.c_str());
  return error;
}

Result<std::string> read_stdin() {
  std::string text;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(0, block, sizeof block);
    if (n == 0) return text;
    if (n < 0) {
      if (errno == EINTR) continue;
      return input_error("standard input: {}", std::strerror(errno));
    }
    text.append(block, static_cast<size_t>(n));
  }
}

}  // namespace ringkeep::cli
