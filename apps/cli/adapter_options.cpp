#include "cli/adapter_options.h"

#include <algorithm>
#include <filesystem>

#include "cli/numbers.h"

namespace ringkeep::cli {
namespace {

constexpr float kLargestScale = 1000.0f;

std::string last_part(const std::string& path) {
  std::filesystem::path name(path);
  if (!name.has_filename()) name = name.parent_path();  // a slash behind it
  return name.filename().string();
}

Result<engine::AdapterOption> parse_adapter(std::string text, bool& named) {
  engine::AdapterOption option;
  const std::string whole = text;
  // What stands behind the last '=' is a scale where it is a number.
  if (const size_t at = text.rfind('='); at != std::string::npos) {
    const auto scale = parse_number<float>(std::string_view(text).substr(at + 1), "--adapter");
    if (scale.ok()) {
      if (!(*scale >= -kLargestScale && *scale <= kLargestScale))
        return make_error(ErrorKind::usage, "--adapter {}: expected a scale from -{} to {}", whole,
                          kLargestScale, kLargestScale);
      option.scale = *scale;
      text.resize(at);
    }
  }
  const size_t at = text.find('=');
  named = at != std::string::npos && text.find('/') > at;  // a path may hold a '='
  option.path = named ? text.substr(at + 1) : text;
  option.name = named ? text.substr(0, at) : last_part(option.path);
  if (option.path.empty() || option.name.empty())
    return make_error(ErrorKind::usage, "--adapter {}: expected [NAME=]PATH[=SCALE]", whole);
  return option;
}

}  // namespace

void add_adapter_option(CLI::App& app, std::vector<std::string>& adapters) {
  app.add_option(
         "--adapter,--adapter-path,--lora", adapters,
         "a LoRA adapter: a folder of PEFT or mlx-lm, or org/name; SCALE multiplies what it "
         "adds")
      ->type_name("[NAME=]PATH[=SCALE]")
      ->allow_extra_args(false)
      ->group("Weights");
}

Result<Adapters> parse_adapters(const std::vector<std::string>& texts) {
  Adapters adapters;
  for (const std::string& text : texts) {
    bool named = false;
    engine::AdapterOption option = RK_TRY(parse_adapter(text, named));
    if (!named && adapters.for_all >= 0)
      return make_error(ErrorKind::usage,
                        "--adapter {}: only one adapter can be for all requests: give NAME=PATH, "
                        "and requests choose by the name",
                        text);
    if (std::ranges::count(adapters.options, option.name, &engine::AdapterOption::name) > 0)
      return make_error(ErrorKind::usage, "--adapter {}: there is another adapter named {}", text,
                        option.name);
    if (!named) adapters.for_all = static_cast<int>(adapters.options.size());
    adapters.options.push_back(std::move(option));
  }
  return adapters;
}

Result<Adapters> parse_one_adapter(const std::vector<std::string>& texts) {
  if (texts.size() > 1)
    return make_error(ErrorKind::usage, "--adapter {}: one adapter is applied, found {}", texts[1],
                      texts.size());
  Adapters adapters = RK_TRY(parse_adapters(texts));
  adapters.for_all = static_cast<int>(adapters.options.size()) - 1;
  return adapters;
}

}  // namespace ringkeep::cli
