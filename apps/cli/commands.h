// The commands of `ringkeep`, one file each. add_NAME() declares the command's flags on `app`; the
// returned function runs it after parsing and gives the exit code, or the error that ends it.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

#include "base/result.h"

namespace ringkeep::cli {

// The end of each help.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 done; 1 failed while running; 2 bad flag or empty prompt; 3 refused by the\n"
    "plan; 4 unreadable or invalid input, or a prompt longer than the context; 130 interrupted.";

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
