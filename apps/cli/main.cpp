// ringkeep COMMAND MODEL [options]. Results go to stdout, log and progress to stderr.
#include <signal.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/interrupt.h"
#include "cli/lost_file.h"
#include "cli/output.h"

namespace ringkeep::cli {
namespace {

// A file opened while 0, 1 or 2 is closed would take that number, and get what is meant for the
// reader. Each is opened the wrong way round, so that using it still fails.
void keep_standard_numbers() {
  for (const auto& [fd, mode] : {std::pair{0, O_WRONLY}, {1, O_RDONLY}, {2, O_RDONLY}})
    if (::fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open("/dev/null", mode);
}

int report(const Error& error) {
  print_note("ringkeep: error: {}", error.message);
  return exit_code(error.kind);
}

// The exit code, or the error of a result that did not get out.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return report(make_error(ErrorKind::runtime, "cannot write the result to standard output"));
}

// An empty name of a file is a variable that was not set, not a wish to do without.
void refuse_empty_names(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_type_name().starts_with("FILE"))
      option->check(
          [](const std::string& name) {
            return name.empty() ? std::string("expected the name of a file, found nothing")
                                : std::string();
          },
          "");
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    refuse_empty_names(*command);
}

// Flags that the command does not have, in their order: a line for each when one is of another
// program.
int report_unknown(const CommandLine& line) {
  std::vector<std::string> advice;
  for (const std::string& flag : line.unknown)
    advice.push_back(foreign_flag_advice(*line.command, flag));
  if (std::ranges::all_of(advice, [](const std::string& text) { return text.empty(); }))
    return report(make_error(ErrorKind::usage, "no such flag{} {}",
                             line.unknown.size() > 1 ? "s:" : "", fmt::join(line.unknown, ", ")));
  const int code = report(make_error(
      ErrorKind::usage, "flags of other programs, and what to write here (docs/migrating.md):"));
  for (size_t i = 0; i < advice.size(); ++i)
    print_note("  {}: {}", line.unknown[i], advice[i].empty() ? "no such flag" : advice[i]);
  return code;
}

// "eval kv or eval needle", behind `eval` alone; empty behind a command that stands for itself.
std::string commands_within(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* inner : command.get_subcommands({}))
    if (!inner->get_name().empty()) names.push_back(command.get_name() + " " + inner->get_name());
  return fmt::format("{}", fmt::join(names, " or "));
}

// What was wrong with a command line, in the words of whoever wrote it.
int report_usage(const CLI::App& app, const CommandLine& line, const std::string& problem) {
  const std::vector<std::string>& arguments = line.arguments;
  const bool names_command = !arguments.empty() && !arguments.front().starts_with('-');
  if (names_command && find_command(app, arguments.front()) == nullptr)
    report(make_error(ErrorKind::usage, "there is no command \"{}\"", arguments.front()));
  else if (const std::string inner = commands_within(*line.command);
           line.command != &app && !inner.empty())
    report(make_error(ErrorKind::usage, "{}: expected {}", line.command->get_name(), inner));
  else if (!line.unknown.empty())
    report_unknown(line);
  else
    report(make_error(ErrorKind::usage, "{}", problem));
  print_note("Run `ringkeep --help` or `ringkeep COMMAND --help` for the options.");
  return exit_code(ErrorKind::usage);
}

int run_command(const Command& command) {
  const Result<int> code = command.run();
  if (!code.ok()) {
    std::fflush(stdout);
    return report(code.error());
  }
  return flushed(code.value());
}

int run(int argc, char** argv) {
  keep_standard_numbers();
  install_interrupt_handler();
  install_lost_file_handler();
  CLI::App app{
      "ringkeep runs language models with a key-value cache that is quantized and bounded on every "
      "layer kind."};
  app.name("ringkeep");
  app.set_version_flag("--version", "ringkeep " RINGKEEP_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(std::string(
                 "MODEL is a .gguf file, a folder with config.json and safetensors (Hugging Face "
                 "or MLX), an\norg/name, org/name:QUANT or org/name/FILE.gguf in the local Hugging "
                 "Face cache, or `demo`\n(see scripts/get-demo-model).\n") +
             kExitCodes);
  const std::vector<Command> commands = {add_plan(app),      add_run(app),     add_serve(app),
                                         add_bench(app),     add_eval(app),    add_logits(app),
                                         add_calibrate(app), add_convert(app), add_tokenize(app),
                                         add_inspect(app),   add_cache(app)};
  refuse_empty_names(app);
  const CommandLine line = read_command_line(app, {argv + 1, argv + argc});
  if (!line.unknown.empty()) return report_usage(app, line, "");
  try {  // the library wants the last first
    app.parse(std::vector<std::string>(line.arguments.rbegin(), line.arguments.rend()));
  } catch (const CLI::ExtrasError& error) {
    std::string problem = error.what();
    if (!line.widened.empty())
      problem += fmt::format("; {} takes one value, write it again for each", line.widened);
    return report_usage(app, line, problem);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return flushed(app.exit(error));  // --help, --version
    return report_usage(app, line, in_typed_names(line, error.what()));
  }
  for (const Command& command : commands)
    if (command.app->parsed()) return run_command(command);
  return exit_code(ErrorKind::usage);
}

}  // namespace
}  // namespace ringkeep::cli

int main(int argc, char** argv) {
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its write
  try {
    return ringkeep::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs(
        "ringkeep: error: out of memory: the process may not have as much as this needs: a smaller "
        "--ctx, --parallel, --kv-memory, --prefix-cache-bytes or --chunk takes less\n",
        stderr);
    return 1;
  } catch (const std::exception& error) {  // from a library
    std::fprintf(stderr, "ringkeep: error: %s\n", error.what());
    return 1;
  }
}
