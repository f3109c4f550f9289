// For tests/e2e/test_grammar.py: texts that grammars of JSON schemas write, chosen at random.
// stdin: a JSON schema a line. stdout: for each {"error": MESSAGE} or {"texts": [TEXT, ...]}.
// usage: grammar_walk COUNT SEED
#include <iostream>
#include <nlohmann/json.hpp>

#include "grammar/vocabulary.h"

int main(int argc, char** argv) {
  using namespace ringkeep::grammar;
  if (argc != 3) {
    std::cerr << "usage: grammar_walk COUNT SEED\n";
    return 2;
  }
  std::mt19937_64 random(std::stoull(argv[2]));
  const Vocabulary vocabulary;
  for (std::string line; std::getline(std::cin, line);) {
    const auto grammar = Grammar::from_json_schema(line);
    nlohmann::json out;
    if (!grammar) {
      out["error"] = grammar.error().message;
    } else {
      const Matcher start(*grammar, vocabulary.trie);
      out["texts"] = nlohmann::json::array();
      for (int i = std::stoi(argv[1]); i > 0; --i) {
        const Walk walk = random_walk(start, vocabulary, random, 400);
        if (walk.stuck) out["stuck"] = walk.text;
        if (walk.ended) out["texts"].push_back(walk.text);
      }
    }
    std::cout << out << "\n";
  }
  return 0;
}
