// A JSON schema's keywords brought together: `allOf`, `$ref` and what stands beside them become one
// set of constraints.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/json_numbers.h"

namespace ringkeep::grammar {

using Json = nlohmann::ordered_json;

struct Place {
  const Json* schema = nullptr;
  std::string pointer;  // "" is the whole schema
};
// Everything that must hold of one value: an empty list holds of any.
using Conjunction = std::vector<Place>;

enum JsonType : uint8_t {
  kTypeNull = 1,
  kTypeBoolean = 2,
  kTypeInteger = 4,
  kTypeNumber = 8,  // and so an integer
  kTypeString = 16,
  kTypeArray = 32,
  kTypeObject = 64,
  kTypeAny = 127,
};

struct Keywords {
  uint8_t types = kTypeAny;
  bool never = false;  // false, or keywords that contradict each other

  std::optional<Bound> low, high;
  std::vector<std::pair<Decimal, std::string>> multiples;  // with their pointers

  uint32_t min_length = 0, max_length = UINT32_MAX;
  std::vector<std::pair<std::string, std::string>> patterns, formats;  // with their pointers

  uint32_t min_items = 0, max_items = UINT32_MAX;
  std::vector<Conjunction> prefix;
  Conjunction items;  // after the prefix
  bool more_items = true;

  std::vector<std::pair<std::string, Conjunction>> properties;  // in order
  bool names_properties = false;      // there is a keyword `properties`, though it may be empty
  std::set<std::string> forbidden;    // properties that must not be there
  std::vector<std::string> required;  // in order
  std::set<std::string, std::less<>> known_required;  // the same
  bool additional = true;                             // further properties, which are as below
  bool additional_named = false;                      // `additionalProperties` was written
  Conjunction additional_as;
  uint32_t min_properties = 0, max_properties = UINT32_MAX;

  std::optional<std::vector<Json>> values;  // enum, const
  std::vector<std::vector<Place>> any_of;   // of each list one must hold
  std::string pointer;                      // of the first schema, for messages

  bool has_object_keywords() const {
    return names_properties || !properties.empty() || !forbidden.empty() || !required.empty() ||
           additional_named || min_properties > 0 || max_properties != UINT32_MAX;
  }
  bool has_array_keywords() const {
    return min_items > 0 || max_items != UINT32_MAX || !prefix.empty() || !items.empty() ||
           !more_items;
  }
};

// "json schema: at /properties/a: expected ..., found ..."
Error schema_error(std::string_view pointer, std::string_view expected, std::string_view found);
std::string brief(const Json& value);  // for messages

class SchemaDocument {
 public:
  explicit SchemaDocument(const Json& root) : root_(root) {}

  // Adds what a schema asks to `into`. Errors (usage): a keyword that is unknown or not supported,
  // with its pointer; a malformed one; a $ref that leads nowhere or to itself.
  Status add(const Place& place, Keywords& into) const { return add(place, into, 0); }
  // Follows schemas that are a $ref and nothing else.
  Result<Place> target(Place place) const;

 private:
  Status add(const Place& place, Keywords& into, int nesting) const;
  Status add_object(const Place& place, Keywords& into) const;
  Status add_array(const Place& place, Keywords& into) const;
  Result<Place> resolve(const Place& place) const;

  const Json& root_;
  mutable size_t work_ = 0;
};
bool known_format(const std::string& name);
bool is_annotation(std::string_view keyword);  // one that says nothing about what is valid

}  // namespace ringkeep::grammar
