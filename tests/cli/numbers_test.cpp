// Every option of every command that takes a number: its range, and what it says to other values.
#include "cli/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "cli/commands.h"

namespace ringkeep::cli {
namespace {

using testing::HasSubstr;

enum class Kind { whole, real, bytes, seed };

struct Row {
  const char* commands;  // separated by spaces
  const char* option;
  Kind kind;
  double least = 0;
  double most = 0;
  const char* others = "";  // further values that are taken
};

constexpr double kNoLimit = 9223372036854775807.0;
constexpr double kTokens = 1 << 30;
constexpr const char* kCache =
    "plan run serve bench logits cache/make cache/check eval/kv eval/needle";
constexpr const char* kContext = "plan run serve logits cache/make cache/check eval/kv eval/needle";
constexpr const char* kEngine =
    "run serve bench logits calibrate cache/make cache/check eval/kv eval/needle";
constexpr const char* kWeights =
    "plan run serve bench logits calibrate cache/make cache/check eval/kv eval/needle";
constexpr const char* kSampler = "run serve";

const Row kRows[] = {
    {kCache, "--kv-budget", Kind::bytes},
    {kCache, "--kv-memory", Kind::bytes},
    {kCache, "--kv-group-size", Kind::whole, 0, 65536},
    {kCache, "--quantized-kv-start", Kind::whole, 0, kTokens},
    {kCache, "--max-kv-size", Kind::whole, 0, kTokens},
    {kCache, "--keep", Kind::whole, 0, kTokens},
    {kCache, "--chunk", Kind::whole, 1, kTokens},
    {kContext, "--ctx", Kind::whole, 0, kTokens, "8K 8k 1M 1m 25.6k 1048576K"},
    {"plan serve", "--parallel", Kind::whole, 1, 65536},
    {"plan run serve", "--prefix-cache-bytes", Kind::bytes, 0, 0, "-1 0"},
    {kWeights, "--expert-memory", Kind::bytes, 0, 0, "auto all"},
    {"inspect", "--expert-memory", Kind::bytes, 0, 0, "auto all"},
    {kWeights, "--weight-bits", Kind::whole, 0, 8},
    {kWeights, "--weight-group", Kind::whole, 32, 128},
    {kEngine, "--threads", Kind::whole, 1, 1024},
    {kSampler, "--temp", Kind::real, 0, 100},
    {kSampler, "--top-k", Kind::whole, -1, 2147483647},
    {kSampler, "--top-p", Kind::real, 0, 1},
    {kSampler, "--min-p", Kind::real, 0, 1},
    {kSampler, "--repetition-penalty", Kind::real, 0.001, 100},
    {kSampler, "--presence-penalty", Kind::real, -2, 2},
    {kSampler, "--frequency-penalty", Kind::real, -2, 2},
    {"run", "--seed", Kind::seed},
    {"run serve", "--max-tokens", Kind::whole, -1, kNoLimit},
    {"serve", "--port", Kind::whole, 0, 65535},
    {"serve", "--max-queue", Kind::whole, 0, 1 << 20},
    {"serve", "--reserve-tokens", Kind::whole, 1, kTokens},
    {"serve", "--max-connections", Kind::whole, 1, 65536},
    {"serve", "--max-body-bytes", Kind::bytes, 0, 0, "0"},
    {"serve", "--max-send-buffer", Kind::bytes, 0, 0, "0"},
    {"serve", "--idle-timeout", Kind::real, 0.01, 86400},
    {"serve", "--header-timeout", Kind::real, 0.01, 86400},
    {"serve", "--body-timeout", Kind::real, 0.01, 86400},
    {"serve", "--write-timeout", Kind::real, 0.01, 86400},
    {"serve", "--drain-timeout", Kind::real, 0.01, 86400},
    {"serve", "--stall-timeout", Kind::real, 0.01, 86400},
    {"bench", "--prompt-tokens", Kind::whole, 1, kTokens},
    {"bench", "--max-tokens", Kind::whole, 1, kTokens},
    {"bench", "--depths", Kind::whole, 0, kTokens},
    {"bench", "--repetitions", Kind::whole, 1, 10000},
    {"calibrate", "--tokens", Kind::whole, 64, kTokens},
    {"calibrate", "--ctx", Kind::whole, 0, kTokens},
    {"calibrate", "--held-out", Kind::whole, 0, kTokens},
    {"calibrate", "--chunk", Kind::whole, 1, kTokens},
    {"eval/kv", "--chunks", Kind::whole, 1, kTokens},
    {"eval/kv", "--lengths", Kind::whole, 1, kTokens},
    {"eval/kv", "--free-run", Kind::whole, 0, 4096},
    {"eval/kv", "--prompts", Kind::whole, 1, 64},
    {"eval/needle", "--depths", Kind::whole, 0, kTokens},
    {"eval/needle", "--facts", Kind::whole, 1, 10000},
    {"eval/needle", "--seed", Kind::seed},
};

std::vector<std::string> words(const std::string& text, char separator = ' ') {
  std::vector<std::string> parts;
  for (const std::string& part : CLI::detail::split(text, separator))
    if (!part.empty()) parts.push_back(part);
  return parts;
}

struct Program {
  Program() {
    for (const auto add : {add_plan, add_run, add_serve, add_bench, add_eval, add_logits,
                           add_calibrate, add_tokenize, add_inspect, add_cache})
      commands.push_back(add(app));
  }
  CLI::App app;
  std::vector<Command> commands;  // they hold what the options write to
};

// What the command says to this value of the option; "" when it takes it. What else it would need
// does not matter: values are looked at first.
std::string said(const std::string& command, const std::string& option, const std::string& value) {
  static Program program;
  std::vector<std::string> arguments = words(command, '/');
  arguments.push_back("MODEL");
  arguments.push_back(option + "=" + value);
  std::reverse(arguments.begin(), arguments.end());
  try {
    program.app.parse(std::move(arguments));
  } catch (const CLI::ValidationError& error) {
    return error.what();
  } catch (const CLI::ConversionError& error) {
    return std::string("not looked at: ") + error.what();
  } catch (const CLI::ParseError&) {
  }
  return "";
}

std::string shown(Kind kind, double value) {
  if (kind == Kind::real) return fmt::format("{}", value);
  return value == kNoLimit ? "9223372036854775807" : std::to_string(static_cast<int64_t>(value));
}

std::vector<std::string> good_values(const Row& row) {
  std::vector<std::string> values = words(row.others);
  switch (row.kind) {
    case Kind::seed: values = {"0", "18446744073709551615"}; break;
    case Kind::bytes: values.insert(values.end(), {"1", "1.5GiB", "64T", "1000 KB"}); break;
    default:
      for (const double end : {row.least, row.most}) values.push_back(shown(row.kind, end));
  }
  return values;
}

std::vector<std::string> bad_values(const Row& row) {
  std::vector<std::string> values = {"nan",
                                     "-nan",
                                     "inf",
                                     "-inf",
                                     "text",
                                     "1x",
                                     "0x10",
                                     "99999999999999999999999",
                                     "-99999999999999999999999",
                                     "1e999",
                                     "--5",
                                     "+-5",
                                     "1_0"};
  if (row.kind != Kind::real) values.push_back("1.0000001");
  if (row.kind == Kind::bytes) values.back() = "1.5X";
  switch (row.kind) {
    case Kind::bytes: values.insert(values.end(), {"-2", "-1K", "0.1", "65T"}); break;
    case Kind::seed: values.insert(values.end(), {"-1", "18446744073709551616"}); break;
    case Kind::real:
      values.push_back(shown(row.kind, row.least - 0.0001));
      values.push_back(shown(row.kind, row.most + 0.0001));
      break;
    case Kind::whole:
      values.push_back(shown(row.kind, row.least - 1));
      values.push_back(row.most == kNoLimit ? "9223372036854775808"
                                            : shown(row.kind, row.most + 1));
  }
  return values;
}

TEST(Numbers, AreTakenInTheirRange) {
  for (const Row& row : kRows)
    for (const std::string& command : words(row.commands))
      for (const std::string& value : good_values(row))
        EXPECT_EQ(said(command, row.option, value), "")
            << command << " " << row.option << "=" << value;
}

TEST(Numbers, AreRefusedByNameRangeAndValue) {
  for (const Row& row : kRows)
    for (const std::string& command : words(row.commands))
      for (const std::string& value : bad_values(row)) {
        const std::string message = said(command, row.option, value);
        SCOPED_TRACE(fmt::format("{} {}={}", command, row.option, value));
        EXPECT_THAT(message, HasSubstr(row.option));
        EXPECT_THAT(message, HasSubstr(fmt::format("\"{}\"", value)));
        if (row.kind == Kind::bytes) {
          EXPECT_THAT(message, HasSubstr("from 1 to 64T"));
        } else if (row.kind != Kind::seed) {
          EXPECT_THAT(message, HasSubstr(shown(row.kind, row.least)));
          if (row.most != kNoLimit) {
            EXPECT_THAT(message, HasSubstr(shown(row.kind, row.most)));
          }
        }
        EXPECT_LT(message.size(), 250u);
      }
}

TEST(Numbers, TokensHaveTheSuffixesOfVllm) {
  const auto read = [](std::string text) {
    const std::string wrong = token_count(0, 1 << 30)(text);
    return wrong.empty() ? text : wrong;
  };
  EXPECT_EQ(read("8192"), "8192");
  EXPECT_EQ(read("8K"), "8192");
  EXPECT_EQ(read("8k"), "8000");
  EXPECT_EQ(read("1M"), "1048576");
  EXPECT_EQ(read("1m"), "1000000");
  EXPECT_EQ(read("25.6k"), "25600");
  EXPECT_EQ(read("0.5k"), "500");
  for (const char* text : {"k", "K", "8 k", "8kk", "8KB", "25.6K", "1.5M", "-8k", "+8k", "1e1k",
                           ".0001k", "2000M", "nank", "infk", "99999999999999999999M", ""})
    EXPECT_THAT(read(text), HasSubstr(fmt::format("8k (8,000), found \"{}\"", text))) << text;
}

// An option that takes a number and is not in the table would escape it.
TEST(Numbers, TheTableIsWhole) {
  std::set<std::string> listed;
  for (const Row& row : kRows)
    for (const std::string& command : words(row.commands))
      listed.insert(command + " " + row.option);
  static const std::set<std::string> kOther = {
      // type names of options that are no numbers
      "TEXT",      "FILE",      "CODEC",     "NAME",
      "FILE|NAME", "CODEC,...", "KEY",       "ORIGIN",
      "A:B",       "ID:BIAS",   "FILE.html", "sliding|full",
      "FOLDER",    "FAMILY",    "MODEL",     "[NAME=]PATH[=SCALE]"};
  std::set<std::string> found;
  const std::function<void(CLI::App&, const std::string&)> walk = [&](CLI::App& app,
                                                                      const std::string& name) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_items_expected_max() == 0 || option->get_lnames().empty()) continue;
      const std::string type = option->get_type_name();
      // Choices come behind the name.
      if (kOther.contains(type) || kOther.contains(type.substr(0, type.find(':')))) continue;
      for (const std::string& alias : option->get_lnames())
        if (listed.contains(name + " --" + alias)) found.insert(name + " --" + alias);
      const bool any = std::ranges::any_of(option->get_lnames(), [&](const std::string& alias) {
        return listed.contains(name + " --" + alias);
      });
      // A choice between codec numbers is not one.
      if (type == "BITS" && option->get_lnames()[0].starts_with("kv-")) continue;
      EXPECT_TRUE(any) << name << " --" << option->get_lnames()[0] << " " << type;
    }
    for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
      const bool group = sub->get_name().empty();
      walk(*sub, group || name.empty() ? name + sub->get_name() : name + "/" + sub->get_name());
    }
  };
  Program program;
  walk(program.app, "");
  EXPECT_EQ(found, listed);
}

}  // namespace
}  // namespace ringkeep::cli
