// The filters, in two tables.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace ringkeep::text::jinja {

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> sequence_filters();

}  // namespace ringkeep::text::jinja
