#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace ringkeep::text::jinja {

// Parses normalized source. Throws SyntaxError.
Body parse_template(std::string_view source);

}  // namespace ringkeep::text::jinja
