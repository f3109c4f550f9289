// Tensors of a checkpoint that a decoder does not read, and may leave: encoders of images and
// sound, what the configuration reader has used, projections of layers that share a cache.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"

namespace ringkeep::weights {

// Whether a tensor belongs to an encoder of images or sound, or to what joins it to the decoder.
bool of_an_encoder(std::string_view tensor);

class Leftovers {
 public:
  explicit Leftovers(const checkpoint::Checkpoint& checkpoint);
  bool contains(const std::string& tensor) const;

 private:
  std::set<std::string> names_;
};

}  // namespace ringkeep::weights
