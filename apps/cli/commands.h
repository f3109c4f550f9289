// The commands of `ringkeep`, one file each. add_NAME() declares the command's flags on `app`; the
// returned function runs it after parsing and gives the exit code, or the error that ends it.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

#include "base/result.h"

namespace ringkeep::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<Result<int>()> run;
};

Command add_plan(CLI::App& app);
Command add_run(CLI::App& app);
Command add_serve(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_calibrate(CLI::App& app);
Command add_convert(CLI::App& app);
Command add_eval(CLI::App& app);
Command add_logits(CLI::App& app);
Command add_tokenize(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_cache(CLI::App& app);

}  // namespace ringkeep::cli
