// How long a mask takes over a model's vocabulary: each document is read token by token, with the
// mask of every place timed. "work" is the most of one mask; "first" is a new grammar; "again" a
// further reply of the same one. usage: mask_bench [MODEL]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/checkpoint.h"
#include "grammar/matcher.h"

namespace {

using namespace ringkeep;
using grammar::Grammar;
using grammar::GrammarPtr;
using grammar::Matcher;
using grammar::TokenTrie;
using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

struct Times {
  std::vector<double> masks, accepts;
  std::vector<uint64_t> work;
  double at(double share) {
    std::sort(masks.begin(), masks.end());
    return masks[static_cast<size_t>(share * static_cast<double>(masks.size() - 1))];
  }
};

void read(Matcher& matcher, const std::vector<int32_t>& tokens, size_t words, Times& times) {
  std::vector<uint64_t> allowed(words);
  for (const int32_t token : tokens) {
    std::fill(allowed.begin(), allowed.end(), ~uint64_t{0});
    const uint64_t before = matcher.work();
    auto start = Clock::now();
    matcher.mask(allowed).value();
    times.masks.push_back(milliseconds(start));
    times.work.push_back(matcher.work() - before);
    start = Clock::now();
    matcher.accept(token).value();
    times.accepts.push_back(milliseconds(start));
  }
}

std::string json_of(size_t items) {
  std::string out = "{\"title\": \"Le château d’eau, \\\"révisé\\\"\", \"items\": [";
  std::mt19937 random(7);
  for (size_t i = 0; i < items; ++i) {
    out += fmt::format(
        "{}{{\"id\": {}, \"name\": \"item number {} of the list, quite ordinary\", \"price\": "
        "{}.{}, "
        "\"tags\": [\"red\", \"blue\"], \"note\": \"short {}\", \"when\": \"2024-02-{:02}\"}}",
        i == 0 ? "" : ", ", i, i, random() % 900 + 1, random() % 90 + 10, random() % 1000,
        random() % 28 + 1);
  }
  return out + "]}";
}

const char kSchema[] = R"({"type": "object", "properties": {"title": {"type": "string"},
  "items": {"type": "array", "maxItems": 100, "items": {"type": "object", "properties": {
    "id": {"type": "integer", "minimum": 0}, "name": {"type": "string", "maxLength": 200},
    "price": {"type": "number", "minimum": 0, "maximum": 1000},
    "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
    "note": {"type": "string", "minLength": 1, "maxLength": 40},
    "when": {"type": "string", "format": "date"}},
    "required": ["id", "name", "price", "tags", "note", "when"], "additionalProperties": false}}},
  "required": ["title", "items"], "additionalProperties": false})";

// Many optional parts, each of which may be the next.
std::string optionals(std::string_view open, std::string_view close, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += fmt::format("{}{}{}{}", open, static_cast<char>('a' + i % 26), i % 10, close);
  return out;
}

std::string optional_words(size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += fmt::format("[a-z]*[ {}]?", static_cast<char>('a' + i % 26));
  return out;
}

std::string optional_members(size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += fmt::format("{}\"p{}\": {{\"type\": \"integer\"}}", i == 0 ? "" : ", ", i);
  return fmt::format("{{\"type\": \"object\", \"properties\": {{{}}}}}", out);
}

}  // namespace

int main(int argc, char** argv) {
  auto opened = checkpoint::open(argc > 1 ? argv[1] : "demo", {.weights = false}).value();
  const auto tokenizer = text::Tokenizer::create(std::move(opened.tokenizer)).value();
  auto start = Clock::now();
  const auto trie = TokenTrie::build(*tokenizer);
  fmt::print(
      "vocabulary {}, {} nodes, {} of them unusual, longest token {} bytes, built in {:.0f} ms\n",
      trie->size(), trie->all().nodes().size(), trie->unusual().nodes().size(), trie->longest(),
      milliseconds(start));
  const auto words = static_cast<size_t>((tokenizer->size() + 63) / 64);

  struct Case {
    const char* name;
    GrammarPtr grammar;
    std::string document;
  };
  start = Clock::now();
  const GrammarPtr schema = Grammar::from_json_schema(kSchema).value();
  const double compiled = milliseconds(start);
  start = Clock::now();
  const Matcher made(schema, trie);
  const double matcher = milliseconds(start);
  start = Clock::now();
  const Matcher copy(made);
  fmt::print("schema compiled in {:.2f} ms, matcher made in {:.3f} ms, copied in {:.3f} ms\n",
             compiled, matcher, milliseconds(start));
  const std::string document = json_of(20);
  Grammar::FreeText free;
  free.triggers.push_back({"<tool_call>", false, Grammar::from_json_schema(kSchema).value()});
  const std::string prose =
      "Of course. The list that you asked for is long, so I call the tool <now> for it:\n\n";
  const std::vector<Case> cases = {
      {"schema", schema, document},
      {"maxLength 48", Grammar::from_json_schema(R"({"type": "string", "maxLength": 48})").value(),
       "\"a text of about as many characters as it may be\""},
      {"any object", Grammar::json_object(), document},
      {"any json", Grammar::any_json(), document},
      {"free text, then call", Grammar::free_text(free).value(), prose + "<tool_call>" + document},
      {"regex .*", Grammar::from_regex("(.|\\n)*").value(), prose},
      {"regex [a-z ]{0,500}", Grammar::from_regex("[a-zA-Z ,.:<>\\n]{0,500}").value(), prose},
      {"gbnf prose",
       Grammar::from_gbnf("root ::= sentence+\nsentence ::= word ([ ,\\n] word)* "
                          "[.!?:] [ \\n]*\nword ::= [^ .!?:\\n]{1,30} | \" \"")
           .value(),
       "Of course. The list that you asked for is long."},
      {"regex, 600 words", Grammar::from_regex("(" + optional_words(600) + ")*").value(),
       "the cat sat on a mat and zebras too"},
      {"regex, 7,500 options",
       Grammar::from_regex("(" + optionals("(", ")?", 7'500) + ")*").value(), "a0b1k0x3a6b7c8d9"},
      {"gbnf, 10,000 options",
       Grammar::from_gbnf("root ::= (" + optionals("\"", "\"? ", 10'000) + ")*").value(),
       "a0b1k0x3a6b7c8d9"},
      {"4,999 members", Grammar::from_json_schema(optional_members(4'999)).value(),
       "{\"p3\": 1, \"p17\": -20,\n  \"p4000\": 3, \"p4998\": 0}"},
      {"array of 4,999 members",
       Grammar::from_json_schema(
           "{\"type\": \"array\", \"minItems\": 30, \"items\": " + optional_members(4'999) + "}")
           .value(),
       "[{\"p3\": 1, \"p17\": -20,\n  \"p4000\": 3}, {\"p4\": 0}, {}"},
  };
  fmt::print("{:24} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}   {:>9} {:>9}  {:>9}\n",
             "grammar (times in ms)", "tokens", "first p50", "p99", "max", "sum", "work",
             "again p50", "p99", "accept");
  for (const Case& one : cases) {
    const auto tokens = tokenizer->encode(one.document, {.add_special = false});
    Matcher first(one.grammar, trie);
    Matcher again(first);
    Times cold, warm;
    read(first, tokens, words, cold);
    read(again, tokens, words, warm);
    double sum = 0, accepts = 0;
    for (const double time : cold.masks) sum += time;
    for (const double time : cold.accepts) accepts += time;
    fmt::print("{:24} {:7} {:9.3f} {:9.3f} {:9.3f} {:9.1f} {:9}   {:9.3f} {:9.3f}  {:9.4f}\n",
               one.name, tokens.size(), cold.at(0.5), cold.at(0.99), cold.at(1), sum,
               *std::max_element(cold.work.begin(), cold.work.end()), warm.at(0.5), warm.at(0.99),
               accepts / static_cast<double>(tokens.size()));
  }
  return 0;
}
