// Token bytes to text that may be shown: whole UTF-8 characters only, never a byte of a stop
// string.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringkeep::text {

// Around a control token that is marked in a text: bytes of no UTF-8 text, so that nothing which is
// only spelled like the token can pass for it.
inline constexpr char kControlBegin = '\xFF';
inline constexpr char kControlEnd = '\xFE';
std::string marked_control(std::string_view spelled);  // between these two

// The text of all pushed bytes, each maximal ill-formed part of them replaced by one U+FFFD, up to
// the first place where one of the stop strings begins, however the bytes were cut into pushes.
class StreamDecoder {
 public:
  // Empty stop strings are ignored. One that begins with a marked control token is met behind that
  // token; others are never met within one.
  explicit StreamDecoder(std::vector<std::string> stop = {});
  // Adds bytes of a token; returns the text that is now certain. After a stop string was met,
  // stopped() holds and everything further is dropped.
  std::string push(std::string_view bytes);
  std::string push_control(std::string_view spelled);  // adds a control token, marked
  // The rest at the end of generation. An unfinished UTF-8 tail becomes one U+FFFD.
  std::string finish();
  bool stopped() const { return met_.has_value(); }
  std::optional<size_t> met() const { return met_; }  // the stop string, by its place in the list

 private:
  void decode(std::string_view bytes, bool all);
  std::string take(bool all);
  size_t find(const std::string& stop) const;

  std::vector<std::pair<std::string, size_t>> stop_;  // and its place in the list
  std::string tail_;                                  // bytes of a character that is not finished
  std::string held_;  // text that may be the beginning of a stop string
  std::optional<size_t> met_;
};

}  // namespace ringkeep::text
