// Flags of llama-server, mlx_lm.server and vllm serve that are spelt otherwise here, or not at all.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ringkeep::cli {

// The command of this name; null when there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

// One line for each of `arguments` (which begin with the command) that such a program knows and
// the command does not: the flag, and what to write in its place. For command lines that could not
// be read: -ctk is -c and its value "tk" otherwise.
std::vector<std::string> foreign_flags(const CLI::App& app,
                                       const std::vector<std::string>& arguments);

}  // namespace ringkeep::cli
