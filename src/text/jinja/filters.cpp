#include "text/jinja/filters.h"

namespace ringkeep::text::jinja {

FilterFunction find_filter(std::string_view name) {
  for (const auto& table : {text_filters(), sequence_filters()}) {
    for (const FilterEntry& entry : table) {
      if (entry.name == name) return entry.function;
    }
  }
  return nullptr;
}

}  // namespace ringkeep::text::jinja
