// What a reply may continue with, token by token (structured output). One object a reply; the
// engine asks it before each token and tells it what was chosen.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace ringkeep::text {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Clears the bits of tokens that may not come next: token t is bit t % 64 of word t / 64. On
  // entry all bits are set; [ceil(vocabulary / 64)] words. A token that ends generation stays set
  // only where the text so far may end. Leaves no bit set only where nothing can follow.
  // Errors (usage): it takes more work than one mask may.
  virtual Status mask(std::span<uint64_t> allowed) = 0;
  // The token that was chosen, an allowed one that does not end generation.
  // Errors (runtime): a token that mask() forbids; (usage): as of mask().
  virtual Status accept(int32_t token) = 0;
  // The text so far is whole and nothing but an end can follow.
  virtual bool complete() const = 0;
};

}  // namespace ringkeep::text
