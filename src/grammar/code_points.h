// Sets of Unicode scalar values, and their UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/expr.h"

namespace ringkeep::grammar {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

// Sorted, apart from each other, and without surrogates once normalised.
class CodePoints {
 public:
  struct Range {
    uint32_t first, last;
  };
  CodePoints() = default;
  CodePoints(std::initializer_list<Range> ranges);
  static CodePoints all() { return {{0, kLastCodePoint}}; }

  void add(uint32_t first, uint32_t last) { ranges_.push_back({first, last}); }
  void add(const CodePoints& other) {
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  }
  CodePoints normalised() const;
  CodePoints complement() const;
  CodePoints without(const CodePoints& other) const;
  CodePoints with(const CodePoints& other) const;
  bool contains(uint32_t point) const;
  const std::vector<Range>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }

 private:
  std::vector<Range> ranges_;
};

// One character of the (normalised) set.
ExprId utf8(ExprPool& pool, const CodePoints& points);
std::string utf8(uint32_t point);

// Whether a byte of UTF-8 is the first of a character.
constexpr bool begins_character(size_t byte) { return (byte & 0xC0) != 0x80; }

// Takes one well-formed character off the front of `text`; none if it is not UTF-8.
std::optional<uint32_t> take_code_point(std::string_view& text);

}  // namespace ringkeep::grammar
