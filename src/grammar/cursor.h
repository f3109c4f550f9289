// Reads a grammar's source from the front, counting characters for messages.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "grammar/code_points.h"

namespace ringkeep::grammar {

class Cursor {
 public:
  Cursor(std::string_view kind, std::string_view text) : kind_(kind), text_(text), rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  char peek(size_t ahead = 0) const { return ahead < rest_.size() ? rest_[ahead] : '\0'; }
  bool starts(std::string_view prefix) const { return rest_.starts_with(prefix); }
  bool take(std::string_view prefix) {
    if (!starts(prefix)) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }
  void skip(size_t bytes) { rest_.remove_prefix(bytes); }
  std::string_view rest() const { return rest_; }
  size_t offset() const { return text_.size() - rest_.size(); }
  void move_to(size_t offset) { rest_ = text_.substr(offset); }

  Result<uint32_t> take_point() {
    const auto point = take_code_point(rest_);
    if (!point) return fail("expected a UTF-8 character", at_end() ? "the end" : "other bytes");
    return *point;
  }
  // `digits` hexadecimal digits. Errors: others, or a value that is no Unicode character.
  Result<uint32_t> take_hex(size_t digits);
  // A decimal number up to `most`; none where no digit stands.
  Result<uint32_t> take_number(uint32_t most);

  // "gbnf: line 3, column 14: expected ..., found ..."
  Error fail(std::string_view expected, std::string_view found) const;
  Error fail(std::string_view expected) const { return fail(expected, found()); }
  std::string found() const;  // what stands here, for a message

 private:
  std::string_view kind_, text_, rest_;
};

}  // namespace ringkeep::grammar
