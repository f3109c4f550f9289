// What a text must look like: a context-free grammar over UTF-8 bytes, from GBNF, a regular
// expression or a JSON schema, or put together from others. See docs/structured-output.md for what
// each front end takes and refuses.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ringkeep::grammar {

class ExprPool;
class Grammar;
using GrammarPtr = std::shared_ptr<const Grammar>;

// Immutable; shared by any number of matchers and threads.
class Grammar {
 public:
  // Every one: errors (usage) name the place, what was expected and what was found; sources of more
  // than 1 MiB, too many or too deeply nested parts, and grammars without any finite text are
  // refused. Time and memory are bounded, whatever the source.

  // llama.cpp's GBNF; the text is what `root` writes. Left recursion is refused by the rule's name.
  static Result<GrammarPtr> from_gbnf(std::string_view source, std::string_view root = "root");
  // The whole text matches.
  static Result<GrammarPtr> from_regex(std::string_view pattern);

  struct JsonOptions {
    enum class Whitespace {
      bounded,  // after { [ , : and before } ]: nothing, a space, or a newline and an indent
      compact,  // none
    };
    Whitespace whitespace = Whitespace::bounded;
  };
  // A subset of JSON Schema, draft 2020-12. A keyword outside it is refused by its JSON pointer.
  static Result<GrammarPtr> from_json_schema(std::string_view schema, const JsonOptions& options);
  static Result<GrammarPtr> from_json_schema(
      const std::same_as<nlohmann::ordered_json> auto& schema, const JsonOptions& options) {
    return from_parsed_schema(schema, options);
  }
  static Result<GrammarPtr> from_json_schema(std::string_view schema) {
    return from_json_schema(schema, JsonOptions{});
  }
  static GrammarPtr any_json(const JsonOptions& options);  // any value
  static GrammarPtr json_object(const JsonOptions& options);
  static GrammarPtr any_json() { return any_json(JsonOptions{}); }
  static GrammarPtr json_object() { return json_object(JsonOptions{}); }

  // Building blocks. A control token can be part of a text only where control() stands.
  static GrammarPtr literal(std::string_view text);
  static GrammarPtr control(std::string_view piece);  // the control token of that name
  static Result<GrammarPtr> sequence(std::span<const GrammarPtr> parts);
  static Result<GrammarPtr> any_of(std::span<const GrammarPtr> alternatives);
  static Result<GrammarPtr> repeat(const GrammarPtr& part, uint32_t low, uint32_t high);

  // Free text until a trigger stands in it; then what follows the trigger must be `then`, and after
  // that the text is free again.
  struct Trigger {
    std::string text;      // not empty
    bool control = false;  // the control token of that name
    GrammarPtr then;
  };
  struct FreeText {
    std::vector<Trigger> triggers;      // none is the beginning of another
    std::vector<std::string> controls;  // control tokens that free text may hold
    bool once = false;                  // nothing follows the first `then`
    bool may_end = true;                // in free text; else only after a `then`
  };
  static Result<GrammarPtr> free_text(const FreeText& free);

  ~Grammar();
  // From the inside, for matchers.
  struct Data;
  const Data& data() const { return *data_; }
  explicit Grammar(std::unique_ptr<const Data> data);

 private:
  static Result<GrammarPtr> from_parsed_schema(const nlohmann::ordered_json& schema,
                                               const JsonOptions& options);
  std::unique_ptr<const Data> data_;
};

}  // namespace ringkeep::grammar
