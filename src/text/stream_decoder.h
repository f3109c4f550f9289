// Token bytes to text that may be shown: whole UTF-8 characters only, never a byte of a stop
// string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringkeep::text {

// The text of all pushed bytes, each maximal ill-formed part of them replaced by one U+FFFD, up to
// the first place where one of the stop strings begins, however the bytes were cut into pushes.
class StreamDecoder {
 public:
  // Empty stop strings are ignored.
  explicit StreamDecoder(std::vector<std::string> stop = {});
  // Adds bytes of a token; returns the text that is now certain. After a stop string was met,
  // stopped() holds and everything further is dropped.
  std::string push(std::string_view bytes);
  // The rest at the end of generation. An unfinished UTF-8 tail becomes one U+FFFD.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  void decode(std::string_view bytes, bool all);
  std::string take(bool all);

  std::vector<std::string> stop_;
  std::string tail_;  // bytes of a character that is not finished
  std::string held_;  // text that may be the beginning of a stop string
  bool stopped_ = false;
};

}  // namespace ringkeep::text
