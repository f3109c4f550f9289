// Token bytes to text that may be shown: whole UTF-8 characters only, never a byte of a stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringkeep::text {

class StreamDecoder {
 public:
  explicit StreamDecoder(std::vector<std::string> stop = {});
  // Adds bytes of a token; returns the text that is now certain. After a stop string was met,
  // stopped() holds and everything further is dropped.
  std::string push(std::string_view bytes);
  // The rest at the end of generation. An unfinished UTF-8 tail becomes one U+FFFD.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::string take(bool all);
  std::vector<std::string> stop_;
  std::string pending_;   // bytes not yet shown
  bool stopped_ = false;
};

}  // namespace ringkeep::text
