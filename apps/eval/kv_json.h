// The results of `eval kv` as JSON and as a table for a terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "eval/kv.h"

namespace ringkeep::eval {

struct Subject {
  std::string model;  // as the user named them
  std::string text;
  bool exact = false;
  std::string machine;
};

nlohmann::ordered_json kv_json(const KvResult& result, const Subject& subject);
std::string kv_table(const KvResult& result);

}  // namespace ringkeep::eval
