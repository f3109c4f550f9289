// A page that a person can read anywhere: one HTML file with its style and charts inside, no
// scripts, nothing from the network.
#pragma once

#include <string>

#include "eval/kv_json.h"
#include "eval/needle.h"

namespace ringkeep::eval {

// Either part may be null.
std::string html_report(const Subject& subject, const KvResult* kv, const NeedleResult* needle);

}  // namespace ringkeep::eval
