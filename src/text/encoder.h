// Plain text, with added tokens already cut out, to token ids.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace ringkeep::text {

class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`. `first`: the text stands at the beginning or after an added token,
  // where SentencePiece-style models put their prefix space.
  virtual void encode(std::string_view text, bool first, std::vector<int32_t>& out) const = 0;
};

// Both keep a reference to `vocabulary`, which must outlive them.
Result<std::unique_ptr<Encoder>> make_spm_bpe(const Vocabulary& vocabulary);
Result<std::unique_ptr<Encoder>> make_byte_bpe(const Vocabulary& vocabulary);

}  // namespace ringkeep::text
