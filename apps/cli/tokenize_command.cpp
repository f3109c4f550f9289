// `tokenize`: token ids and pieces of a text.
#include <unistd.h>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "text/tokenizer.h"

namespace ringkeep::cli {
namespace {

constexpr size_t kTextLimit = size_t{1} << 28;  // bytes

struct Options {
  ModelOptions model;
  std::string text;
  std::string file;
  bool has_text = false;
  bool no_special = false;
};

Result<std::string> input_text(const Options& options) {
  if (options.has_text) return options.text;
  if (!options.file.empty()) return read_text_input(options.file, kTextLimit);
  if (::isatty(0) != 0)
    return make_error(ErrorKind::usage, "no text: give --text, --text-file or standard input");
  return read_stdin(kTextLimit);
}

Result<int> tokenize_command(const Options& options) {
  init_log(options.model.verbosity);
  const std::string text = RK_TRY(input_text(options));
  checkpoint::Checkpoint checkpoint =
      RK_TRY(checkpoint::open(options.model.model, {.weights = false}));
  const auto tokenizer = RK_TRY(load_tokenizer(std::move(checkpoint)));
  const std::vector<int32_t> ids = tokenizer->encode(text, {.add_special = !options.no_special});
  if (options.model.json) {
    Json pieces = Json::array();
    for (const int32_t id : ids) pieces.push_back(tokenizer->piece(id));
    print_json(Json{{"tokens", ids}, {"pieces", std::move(pieces)}});
    return 0;
  }
  for (const int32_t id : ids) {
    // A piece on one line, whatever it holds: as a JSON string.
    const Json piece = tokenizer->piece(id);
    fmt::print("{:>8}  {}\n", id, piece.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return 0;
}

}  // namespace

Command add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "print token ids and pieces of a text");
  auto options = std::make_shared<Options>();
  add_model_options(*command, options->model);
  add_json_option(*command, options->model);
  CLI::Option* text = command->add_option("--text", options->text, "the text")->group("Input");
  command->add_option("--text-file", options->file, "read the text from a file")
      ->group("Input")
      ->excludes(text);
  command->add_flag("--no-special", options->no_special, "add no BOS or EOS")->group("Input");
  return {command, [options, text] {
            options->has_text = text->count() > 0;
            return tokenize_command(*options);
          }};
}

}  // namespace ringkeep::cli
