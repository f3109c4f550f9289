#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <algorithm>
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

Progress::Progress(std::string label, double total)
    : label_(std::move(label)), total_(total), shown_(::isatty(2) != 0) {}

void Progress::update(double done) {
  if (!shown_) return;
  const int percent = total_ > 0 ? static_cast<int>(std::min(100.0, 100.0 * done / total_)) : 100;
  if (percent == last_percent_) return;
  last_percent_ = percent;
  std::string bar(static_cast<size_t>(percent) * 30 / 100, '=');
  std::fprintf(stderr, "\r%s [%-30s] %3d%%", label_.c_str(), bar.c_str(), percent);
  std::fflush(stderr);
}

Progress::~Progress() {
  if (shown_ && last_percent_ >= 0) std::fprintf(stderr, "\r\033[K");
}

}  // namespace ringkeep
