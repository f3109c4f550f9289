// Finds tokens that are written out in a text before anything else looks at it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ringkeep::text {

// A set of strings searched leftmost first, the longest among those that begin at the same byte.
// The strings are kept sorted; a match narrows their range byte by byte, so a position costs
// O(length of the match × log of the number of strings) and most cost one table look-up.
class AddedTokens {
 public:
  // `tokens`: texts (which must outlive this) and ids. Empty texts are ignored.
  explicit AddedTokens(std::vector<std::pair<std::string_view, int32_t>> tokens);

  struct Match {
    size_t begin = 0, size = 0;  // bytes of the text
    int32_t id = -1;
  };
  using Accept = std::function<bool(const Match&)>;
  // The first match at or after `from`, of those that `accept` takes.
  std::optional<Match> find(std::string_view text, size_t from, const Accept& accept = {}) const;
  // Whether one of the strings begins with `text` and goes on after it, of those whose id `accept`
  // takes.
  bool continues(std::string_view text, const std::function<bool(int32_t)>& accept) const;
  size_t longest() const { return longest_; }  // bytes

 private:
  std::vector<std::pair<std::string_view, int32_t>> tokens_;  // sorted
  uint32_t first_[257];  // tokens_[first_[b], first_[b + 1]) begin with byte b
  size_t longest_ = 0;
};

}  // namespace ringkeep::text
