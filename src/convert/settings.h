// How each module is stored: defaults by kind, and --override rules.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/modules.h"

namespace ringkeep::convert {

struct Setting {
  int bits = 0;  // 2, 3, 4, 5, 6, 8; 0: kept as floats
  int group = 0;
  bool keep() const { return bits == 0; }
  bool operator==(const Setting&) const = default;
};

bool is_width(int64_t bits);
bool is_group(int64_t group);

// "REGEX=BITS[:GROUP]" or "REGEX=keep". The expression (PCRE2) is looked for anywhere in a module's
// name; the last '=' ends it.
class Override {
 public:
  // `group`: for rules that give none. Errors (usage) name the rule.
  static Result<Override> parse(const std::string& text, int group);

  bool matches(const std::string& module) const;
  const std::string& text() const { return text_; }
  const Setting& setting() const { return setting_; }

 private:
  Override() = default;
  std::string text_;
  Setting setting_;
  std::shared_ptr<void> code_;  // pcre2_code
};

// What a matrix gets without a rule: encoders are kept, embedding and head have at least 6 bits,
// routers, AltUp and LAuReL 8 in groups of 64. docs/convert.md says why.
Setting default_setting(Kind kind, const Setting& asked);

// The last rule that matches counts. `used` [overrides]: set where one has matched.
Setting setting_of(const Module& module, const Setting& asked,
                   const std::vector<Override>& overrides, std::vector<bool>& used,
                   const Override** rule);

}  // namespace ringkeep::convert
