#include "text/added_tokens.h"

#include <algorithm>

namespace ringkeep::text {

AddedTokens::AddedTokens(std::vector<std::pair<std::string_view, int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& token) { return token.first.empty(); });
  std::sort(tokens_.begin(), tokens_.end());  // char_traits compares bytes as unsigned
  for (const auto& token : tokens_) longest_ = std::max(longest_, token.first.size());
  size_t at = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    first_[byte] = static_cast<uint32_t>(at);
    while (at < tokens_.size() && static_cast<uint8_t>(tokens_[at].first[0]) == byte) ++at;
  }
  first_[256] = static_cast<uint32_t>(at);
}

bool AddedTokens::continues(std::string_view text,
                            const std::function<bool(int32_t)>& accept) const {
  auto at =
      std::upper_bound(tokens_.begin(), tokens_.end(), text,
                       [](std::string_view key, const auto& token) { return key < token.first; });
  for (; at != tokens_.end() && at->first.starts_with(text); ++at)
    if (accept(at->second)) return true;
  return false;
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, size_t from,
                                                    const Accept& accept) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    const auto lead = static_cast<uint8_t>(text[begin]);
    auto low = tokens_.begin() + first_[lead];
    auto high = tokens_.begin() + first_[lead + 1];
    std::optional<Match> longest;
    // All of [low, high) agree with the text in their first `depth` bytes.
    for (size_t depth = 1; low != high; ++depth) {
      if (low->first.size() == depth) {
        const Match match{begin, depth, low->second};
        if (!accept || accept(match)) longest = match;
      }
      while (low != high && low->first.size() == depth) ++low;  // equal texts: the lowest id
      if (begin + depth == text.size()) break;
      const auto byte = static_cast<uint8_t>(text[begin + depth]);
      const auto byte_of = [&](const auto& token) {
        return static_cast<uint8_t>(token.first[depth]);
      };
      low = std::partition_point(low, high, [&](const auto& t) { return byte_of(t) < byte; });
      high = std::partition_point(low, high, [&](const auto& t) { return byte_of(t) == byte; });
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace ringkeep::text
