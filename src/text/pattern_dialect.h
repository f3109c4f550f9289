// Split patterns of tokenizer.json are written for Oniguruma (Ruby syntax); PCRE2 runs them here.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ringkeep::text {

// The same pattern for PCRE2 with UTF, UCP and MULTILINE (^ and $ always mean lines in Ruby):
//  - \s and \S mean the White_Space property; PCRE2 counts U+180E as well;
//  - \w and \W mean letters of every kind, marks, decimal digits and connectors, as in UTS 18;
//  - \p{Script} means the script alone; PCRE2 takes script extensions, e.g. U+3002 as Han.
// \S and \W inside a class, and \b, stay PCRE2's. Errors (input): set operations and classes inside
// classes, which PCRE2 would read as literals.
Result<std::string> to_pcre2(std::string_view pattern);

}  // namespace ringkeep::text
