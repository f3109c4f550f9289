// The results of `eval needle` as JSON and as a table for a terminal.
#pragma once

#include "eval/kv_json.h"
#include "eval/needle.h"

namespace ringkeep::eval {

nlohmann::ordered_json needle_json(const NeedleResult& result, const Subject& subject);
std::string needle_table(const NeedleResult& result);

}  // namespace ringkeep::eval
