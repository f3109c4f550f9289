// Flags of llama-server, mlx_lm.server and vllm serve that are spelt otherwise here, or not at all.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace ringkeep::cli {

// What to write in place of a flag that `command` does not have; empty when no such program has it
// either. Spelt with underscores, it is meant as with dashes.
std::string foreign_flag_advice(const CLI::App& command, const std::string& flag);

}  // namespace ringkeep::cli
