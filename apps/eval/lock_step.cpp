#include "eval/lock_step.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ringkeep::eval {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kBlockBytes = int64_t{32} << 20;  // of the reference's logits
constexpr int64_t kTimedTokens = 32;  // a continuation that has parted goes on this far

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename T>
bool read(const Json& json, const char* name, T& out) {
  const auto found = json.find(name);
  if (found == json.end()) return false;
  try {
    found->get_to(out);
  } catch (const Json::exception&) {
    return false;
  }
  return true;
}

}  // namespace

Json Part::to_json() const {
  return Json{{"kld", kld},
              {"nll", nll},
              {"same_top", same_top},
              {"agreed", agreed},
              {"prefill_tokens", prefill_tokens},
              {"prefill_seconds", prefill_seconds},
              {"decode_tokens", decode_tokens},
              {"decode_seconds", decode_seconds}};
}

std::optional<Part> Part::from_json(const Json& json, size_t scored, size_t prompts) {
  Part part;
  if (!json.is_object() || !read(json, "kld", part.kld) || !read(json, "nll", part.nll) ||
      !read(json, "same_top", part.same_top) || !read(json, "agreed", part.agreed) ||
      !read(json, "prefill_tokens", part.prefill_tokens) ||
      !read(json, "prefill_seconds", part.prefill_seconds) ||
      !read(json, "decode_tokens", part.decode_tokens) ||
      !read(json, "decode_seconds", part.decode_seconds))
    return std::nullopt;
  if (part.kld.size() != scored || part.nll.size() != scored || part.same_top.size() != scored ||
      part.agreed.size() != prompts)
    return std::nullopt;
  return part;
}

LockStep::LockStep(engine::Engine& engine, int noise)
    : engine_(&engine), noise_(noise), vocab_(engine.config().vocab_size) {
  const int64_t fit = kBlockBytes / (vocab_ * static_cast<int64_t>(sizeof(float)));
  block_ = std::min(std::max<int64_t>(fit, 16), engine.max_step_rows());
}

Result<LockStep> LockStep::create(engine::Engine& engine, const Case& reference,
                                  std::span<const Case> cases, int noise,
                                  std::function<bool()> stop) {
  LockStep out(engine, noise);
  out.stop_ = std::move(stop);
  std::vector<Case> all = {reference};
  all.insert(all.end(), cases.begin(), cases.end());
  for (const Case& c : all) {
    CacheFlags flags = c.flags;
    flags.parallel = 2;  // a continuation is a fork beside the text
    Track track;
    track.lane = RK_TRY(engine::Lane::create(engine, flags, c.exact));
    track.sequence = RK_TRY(track.lane->open());
    out.tracks_.push_back(std::move(track));
  }
  out.reference_.resize(static_cast<size_t>(out.block_ * out.vocab_));
  out.softmax_.resize(static_cast<size_t>(out.block_));
  return out;
}

// Rows [first, first + rows) of a scored step.
void LockStep::collect(size_t index, std::span<const int32_t> chunk, const Step& step,
                       int64_t first, int64_t rows, const float* logits) {
  Part& part = tracks_[index].part;
  const size_t base = part.kld.size() - static_cast<size_t>(step.end - step.begin);
  const bool from_it = static_cast<int>(index) == noise_ + 1 && noise_ >= 0;
  const auto vocab = static_cast<size_t>(vocab_);
  engine_->exec().pool().parallel_for(rows, [&](int64_t r, int) {
    const auto row = static_cast<size_t>(first + r);
    const std::span<const float> found(logits + static_cast<size_t>(r) * vocab, vocab);
    const std::span<float> held(reference_.data() + row * vocab, vocab);
    const Softmax own = softmax(found);
    if (index == 0) {
      std::copy(found.begin(), found.end(), held.begin());
      softmax_[row] = own;
    } else {
      part.kld[base + row] = from_it ? kl_divergence(found, own, held, softmax_[row])
                                     : kl_divergence(held, softmax_[row], found, own);
    }
    part.same_top[base + row] = own.top == softmax_[row].top;
    part.nll[base + row] = nll(found, own, chunk[static_cast<size_t>(step.begin) + row + 1]);
  });
}

Status LockStep::check_stop() const {
  if (stop_ && stop_()) return make_error(ErrorKind::interrupted, "interrupted");
  return {};
}

Status LockStep::step(std::span<const int32_t> chunk, const Step& step) {
  const int64_t rows = step.end - step.begin;
  RK_CHECK(!step.scored || rows <= block_, "{} rows to hold", rows);
  for (size_t i = 0; i < tracks_.size(); ++i) {
    RK_TRY(check_stop());
    Track& track = tracks_[i];
    if (step.scored) {
      const size_t size = track.part.kld.size() + static_cast<size_t>(rows);
      track.part.kld.resize(size);
      track.part.nll.resize(size);
      track.part.same_top.resize(size);
    }
    const int64_t wanted = step.scored ? rows : step.continued > 0 ? 1 : 0;
    const auto start = Clock::now();
    const auto tokens = chunk.subspan(static_cast<size_t>(step.begin), static_cast<size_t>(rows));
    RK_TRY(track.lane->extend(
        track.sequence, tokens, wanted, [&](int64_t first, int64_t n, const float* logits) {
          if (step.scored) collect(i, chunk, step, first, n, logits);
          const float* last = logits + (n - 1) * vocab_;
          track.next = static_cast<int32_t>(std::max_element(last, last + vocab_) - last);
        }));
    if (!step.scored) {
      track.part.prefill_tokens += rows;
      track.part.prefill_seconds += seconds_since(start);
    }
    if (step.scored)
      for (size_t r = track.part.kld.size() - static_cast<size_t>(rows); r < track.part.kld.size();
           ++r)
        if (!std::isfinite(track.part.kld[r]) || !std::isfinite(track.part.nll[r]))
          return make_error(ErrorKind::runtime, "a logit in positions {} to {} is not finite",
                            step.begin, step.end);
  }
  if (step.continued > 0)
    for (Track& track : tracks_) RK_TRY(continue_greedily(track, step.continued));
  return {};
}

Status LockStep::continue_greedily(Track& track, int64_t count) {
  const bool reference = &track == &tracks_.front();
  if (reference) continuation_.clear();
  const auto fork = RK_TRY(track.lane->fork(track.sequence));
  int64_t agreed = 0;
  int32_t token = track.next;
  for (int64_t i = 0; i < count; ++i) {
    if (reference)
      continuation_.push_back(token);
    else if (agreed == i && token == continuation_[static_cast<size_t>(i)])
      ++agreed;
    const bool parted = !reference && agreed <= i;
    if (i + 1 == count || (parted && i + 1 >= kTimedTokens)) break;
    RK_TRY(check_stop());
    const auto start = Clock::now();
    RK_TRY(track.lane->extend(fork, {&token, 1}, 1, [&](int64_t, int64_t, const float* logits) {
      track.next = static_cast<int32_t>(std::max_element(logits, logits + vocab_) - logits);
    }));
    token = track.next;
    track.part.decode_seconds += seconds_since(start);
    ++track.part.decode_tokens;
  }
  track.lane->close(fork);
  track.part.agreed.push_back(reference ? count : agreed);
  return {};
}

std::vector<Part> LockStep::take() {
  std::vector<Part> parts;
  for (Track& track : tracks_) {
    track.lane->close(track.sequence);
    parts.push_back(std::move(track.part));
  }
  tracks_.clear();
  return parts;
}

}  // namespace ringkeep::eval
