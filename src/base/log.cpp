#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace ringkeep {

void init_log(int verbosity) {
  const bool colour = ::isatty(2) != 0 && std::getenv("NO_COLOR") == nullptr;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      colour ? spdlog::color_mode::automatic : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("ringkeep", sink);
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(verbosity >= 2   ? spdlog::level::debug
                    : verbosity == 1 ? spdlog::level::info
                                     : spdlog::level::warn);
  spdlog::set_default_logger(logger);
}

namespace {

constexpr double kShowsTimeAfter = 3.0;  // seconds: loading a small model needs no forecast

std::string duration_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

Progress::Progress(std::string label, double total)
    : label_(std::move(label)),
      total_(total),
      start_(std::chrono::steady_clock::now()),
      shown_(::isatty(2) != 0) {}

void Progress::update(double done) {
  if (!shown_) return;
  const int percent = total_ > 0 ? static_cast<int>(std::min(100.0, 100.0 * done / total_)) : 100;
  if (percent == last_percent_) return;
  last_percent_ = percent;
  std::string bar(static_cast<size_t>(percent) * 30 / 100, '=');
  const double passed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::string left;
  if (done > 0 && done < total_ && passed > kShowsTimeAfter)
    left = ", " + duration_text(passed * (total_ - done) / done) + " left";
  std::fprintf(stderr, "\r%s [%-30s] %3d%%%s\033[K", label_.c_str(), bar.c_str(), percent,
               left.c_str());
  std::fflush(stderr);
}

Progress::~Progress() {
  if (shown_ && last_percent_ >= 0) std::fprintf(stderr, "\r\033[K");
}

}  // namespace ringkeep
