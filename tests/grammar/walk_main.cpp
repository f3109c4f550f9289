// For tests/e2e/test_grammar.py: texts that grammars of JSON schemas write, chosen at random.
// stdin: a JSON schema a line. stdout: for each {"error": MESSAGE} or {"texts": [TEXT, ...]}. With
// a format (qwen3_coder, ...) the schemas are parameters of a tool, and there is
// {"calls": [{"text", "arguments"}, ...]}: calls of it, and what the reply parser reads them as.
// usage: grammar_walk COUNT SEED [FORMAT]
#include <iostream>
#include <nlohmann/json.hpp>

#include "grammar/call_format.h"

namespace ringkeep::grammar {
namespace {

nlohmann::json texts(const std::string& schema, int count, const Vocabulary& vocabulary,
                     std::mt19937_64& random) {
  nlohmann::json out;
  const auto grammar = Grammar::from_json_schema(schema);
  if (!grammar) return {{"error", grammar.error().message}};
  const Matcher start(*grammar, vocabulary.trie);
  out["texts"] = nlohmann::json::array();
  for (int i = count; i > 0; --i) {
    const Walk walk = random_walk(start, vocabulary, random, 400);
    if (walk.stuck) out["stuck"] = walk.text;
    if (walk.ended) out["texts"].push_back(walk.text);
  }
  return out;
}

nlohmann::json calls(const std::string& schema, int count, prompt::ToolFormat format,
                     const Vocabulary& vocabulary, std::mt19937_64& random) {
  nlohmann::json out;
  const std::vector<Tool> tools = {{"f", nlohmann::ordered_json::parse(schema)}};
  const auto grammar = tool_calls(call_format(format), tools, {.parallel = false});
  if (!grammar) return {{"error", grammar.error().message}};
  const Matcher start(*grammar, vocabulary.trie);
  out["calls"] = nlohmann::json::array();
  for (int i = count; i > 0; --i) {
    const Walk walk = call_walk(start, vocabulary, format, random);
    if (walk.stuck) out["stuck"] = walk.text;
    if (!walk.ended) continue;
    const auto read = read_call(format, walk.text, tools);
    out["calls"].push_back({{"text", walk.text}, {"arguments", nullptr}});
    if (read && read->name == "f") out["calls"].back()["arguments"] = read->arguments;
  }
  return out;
}

}  // namespace
}  // namespace ringkeep::grammar

int main(int argc, char** argv) {
  using namespace ringkeep::grammar;
  if (argc != 3 && argc != 4) {
    std::cerr << "usage: grammar_walk COUNT SEED [FORMAT]\n";
    return 2;
  }
  const int count = std::stoi(argv[1]);
  std::mt19937_64 random(std::stoull(argv[2]));
  const auto format = ringkeep::prompt::tool_format_by_name(argc == 4 ? argv[3] : "none").value();
  const bool called = format != ringkeep::prompt::ToolFormat::none;
  const Vocabulary vocabulary = called ? call_vocabulary(format) : Vocabulary();
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << (called ? calls(line, count, format, vocabulary, random)
                         : texts(line, count, vocabulary, random))
              << "\n";
  }
  return 0;
}
