#include "eval/kv_spec.h"

#include <algorithm>
#include <map>

namespace ringkeep::eval {
namespace {

constexpr int64_t kLengthRows = 256;

bool is_scored(const KvSpec& spec, int64_t p) {
  return in_second_half(spec, p) ||
         std::any_of(spec.lengths.begin(), spec.lengths.end(),
                     [&](int64_t length) { return before_length(spec, length, p); });
}

}  // namespace

std::vector<std::vector<int32_t>> cut_chunks(std::span<const int32_t> text, int64_t ctx,
                                             int64_t count, int32_t bos) {
  std::vector<std::vector<int32_t>> chunks;
  const auto take = static_cast<size_t>(ctx - (bos >= 0 ? 1 : 0));
  for (size_t at = 0; at + take <= text.size(); at += take) {
    if (count > 0 && static_cast<int64_t>(chunks.size()) == count) break;
    auto& chunk = chunks.emplace_back();
    if (bos >= 0) chunk.push_back(bos);
    chunk.insert(chunk.end(), text.begin() + static_cast<ptrdiff_t>(at),
                 text.begin() + static_cast<ptrdiff_t>(at + take));
  }
  return chunks;
}

bool before_length(const KvSpec& spec, int64_t length, int64_t p) {
  return p >= length - std::min(kLengthRows, length / 2) && p < std::min(length, spec.ctx - 1);
}

std::vector<int64_t> scored_positions(const KvSpec& spec) {
  std::vector<int64_t> positions;
  for (int64_t p = 0; p < spec.ctx - 1; ++p)
    if (is_scored(spec, p)) positions.push_back(p);
  return positions;
}

std::vector<Step> make_steps(const KvSpec& spec, int64_t chunk, int64_t block) {
  // Prompts end at even distances through the second half.
  std::map<int64_t, int64_t> continued;
  const int64_t half = spec.ctx / 2;
  for (int i = 0; i < spec.prompts && spec.free_run > 0; ++i) {
    const int64_t end = half + i * (spec.ctx - half) / spec.prompts;
    if (end < spec.ctx) continued[end] = std::min(spec.free_run, spec.ctx - end);
  }
  std::vector<Step> steps;
  for (int64_t begin = 0; begin < spec.ctx - 1;) {
    Step step{.begin = begin, .end = begin, .scored = is_scored(spec, begin)};
    const int64_t most = std::min(spec.ctx - 1, begin + (step.scored ? block : chunk));
    while (step.end < most && is_scored(spec, step.end) == step.scored) {
      ++step.end;
      if (const auto found = continued.find(step.end); found != continued.end()) {
        step.continued = found->second;
        break;
      }
    }
    begin = step.end;
    steps.push_back(step);
  }
  return steps;
}

}  // namespace ringkeep::eval
