// What `convert` prints: sizes by kind of module, bits per weight, and the error of the rounding.
#pragma once

#include <optional>
#include <string>

#include "convert/convert.h"

namespace ringkeep::cli {

struct ConvertReport {
  std::string source;
  std::string destination;
  const convert::Plan& plan;
  std::string calibration;  // what it was measured on, or empty
};

// Without an outcome: of a dry run.
void print_convert_report(const ConvertReport& report,
                          const std::optional<convert::Outcome>& outcome, bool json);

}  // namespace ringkeep::cli
