#include "cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ringkeep::cli {
namespace {

bool begins_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('.')) text.remove_prefix(1);
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
}

bool is_flag(const std::string& argument) {
  return argument.size() > 1 && argument.front() == '-' && !begins_number(argument);
}

// What an argument says of a flag. `option` is null when the command does not have it.
struct Match {
  const CLI::Option* option;
  std::string typed;
  bool has_value;
};

Match match(const CLI::App& command, const std::string& argument) {
  const size_t equals = std::min(argument.find('='), argument.size());
  const std::string name = argument.substr(0, equals);
  if (argument.starts_with("--") || name.size() == 2)
    return {command.get_option_no_throw(name), name, equals + 1 < argument.size()};
  const std::string letter = argument.substr(0, 2);
  const std::string_view rest = std::string_view(argument).substr(2);
  const CLI::Option* option = command.get_option_no_throw(letter);
  if (option == nullptr) return {nullptr, name, false};
  const bool is_switch = option->get_items_expected_max() == 0;
  const bool whole =
      is_switch ? rest.find_first_not_of(letter[1]) == rest.npos : begins_number(rest);
  if (!whole) return {nullptr, name, false};
  return {option, letter, !is_switch};
}

}  // namespace

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

CommandLine read_command_line(const CLI::App& app, std::vector<std::string> arguments) {
  CommandLine line{.command = &app, .arguments = std::move(arguments)};
  bool in_commands = true;
  for (size_t at = 0; at < line.arguments.size() && line.arguments[at] != "--"; ++at) {
    std::string& argument = line.arguments[at];
    if (!is_flag(argument)) {
      const CLI::App* inner = in_commands ? find_command(*line.command, argument) : nullptr;
      in_commands = inner != nullptr;
      if (inner != nullptr) line.command = inner;
      continue;
    }
    const std::string typed = argument;
    // llama-server's spelling, of two letters, which the library cannot have.
    if (argument == "-np" && line.command->get_option_no_throw("--parallel") != nullptr)
      argument = "--parallel";
    const Match found = match(*line.command, argument);
    if (found.option == nullptr) {
      if (std::ranges::count(line.unknown, found.typed) == 0) line.unknown.push_back(found.typed);
      continue;
    }
    line.flags.push_back({found.option, argument == typed ? found.typed : typed});
    // The library takes the values of an option as they come.
    const int least =
        std::min(found.option->get_type_size_min(), found.option->get_items_expected_min());
    at += static_cast<size_t>(std::max(0, least - (found.has_value ? 1 : 0)));
    const bool one_at_a_time =
        found.option->get_items_expected_max() > 1 && !found.option->get_allow_extra_args();
    if (one_at_a_time && line.widened.empty() && at + 1 < line.arguments.size() &&
        !is_flag(line.arguments[at + 1]))
      line.widened = line.flags.back().typed;
  }
  return line;
}

std::string in_typed_names(const CommandLine& line, std::string message) {
  const auto last = std::find_if(line.flags.rbegin(), line.flags.rend(), [&](const auto& flag) {
    return message.starts_with(flag.option->get_name() + ":");
  });
  if (last == line.flags.rend()) return message;
  return message.replace(0, last->option->get_name().size(), last->typed);
}

}  // namespace ringkeep::cli
