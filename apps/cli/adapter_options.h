// --adapter [NAME=]PATH[=SCALE].
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace ringkeep::cli {

void add_adapter_option(CLI::App& app, std::vector<std::string>& adapters);

// Errors (usage): no path, a scale that is no number or not finite, two of one name. Without a name
// it is the last part of the path, and the adapter is for everything: at most one may be so.
struct Adapters {
  std::vector<engine::AdapterOption> options;
  int for_all = -1;  // the one without a name; -1: none
};
Result<Adapters> parse_adapters(const std::vector<std::string>& texts);

// For commands that run everything through one adapter: at most one, whether named or not.
Result<Adapters> parse_one_adapter(const std::vector<std::string>& texts);

}  // namespace ringkeep::cli
