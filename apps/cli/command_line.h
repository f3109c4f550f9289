// A command line, looked at before the library parses it. The library takes an argument of one dash
// apart letter by letter, so that -hf would be the help and -tb a number of threads.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace ringkeep::cli {

struct CommandLine {
  struct Flag {
    const CLI::Option* option = nullptr;
    std::string typed;  // the one of its names
  };

  const CLI::App* command = nullptr;   // the innermost: "cache check"; of none, the program
  std::vector<std::string> arguments;  // for the library
  std::vector<Flag> flags;             // those that the command has
  std::vector<std::string> unknown;    // those that it has not, without their values
  std::string widened;                 // the first with one value at a time that more follow
};

// The command of this name; null when there is none.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

// An argument of one dash and several letters is one flag, as it stands; a number may follow a
// letter (-n5), and a switch be repeated (-vv).
CommandLine read_command_line(const CLI::App& app, std::vector<std::string> arguments);

// What the library says about an option, with the name that was typed.
std::string in_typed_names(const CommandLine& line, std::string message);

}  // namespace ringkeep::cli
