// Neutral prose to hide facts in, for `eval needle` without a text of the user's.
#pragma once

#include <string>

namespace ringkeep::eval {

// About `bytes` of English sentences about everyday things; the same text every time, and with
// little repetition: sentences are put together from parts by a fixed random sequence.
std::string filler_text(size_t bytes);

}  // namespace ringkeep::eval
