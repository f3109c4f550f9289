// Marks of a reply that are control tokens, told from text that is only spelled like them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ringkeep::prompt {

// Within text that spells a mark: a byte of no UTF-8 text, which keeps the two apart until the text
// is told.
inline constexpr char kMarkBreak = '\xFF';
void remove_breaks(std::string& text);

class ControlMarks {
 public:
  // `marks`: control tokens that are marks; none: text is read as it comes. `show`: all other
  // control tokens are text, else they are nothing.
  ControlMarks(std::vector<std::string> marks, bool show);

  // The next piece of a reply whose control tokens are marked, each whole (engine::ControlText):
  // its marks as they are spelled, and all text that spells one broken before its last byte,
  // wherever the pieces are cut.
  std::string read(std::string_view text);
  bool any() const { return !marks_.empty(); }

 private:
  void add(char byte, std::string& out);

  const std::vector<std::string> marks_;
  const bool show_;
  std::string plain_;  // the last bytes of text: as many as may begin a mark
};

// The text of a mark or of what begins with one, as the engine writes it: marked if it is one of
// `marks`.
std::string as_written(std::string_view text, const std::vector<std::string>& marks);

}  // namespace ringkeep::prompt
