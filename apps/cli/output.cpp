#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "base/atomic_file.h"
#include "base/mapped_file.h"

namespace ringkeep::cli {

void print_json(const Json& value) {
  fmt::print("{}\n", value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Status print_now(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return {};
  return make_error(ErrorKind::runtime, "cannot write to standard output: {}",
                    std::strerror(errno));
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
  auto file = RK_TRY(AtomicFile::create(path));
  RK_TRY(file.write(std::as_bytes(std::span(bytes))));
  return file.commit();
}

Result<std::string> read_stdin(size_t limit) { return read_all(0, "standard input", limit); }

}  // namespace ringkeep::cli
