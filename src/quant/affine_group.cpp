#include "quant/affine_group.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/dtype.h"

namespace ringkeep::quant {
namespace {

// A step of the search must bring more than the rounding of the sums: what it prefers to min/max is
// then better in exact arithmetic too.
constexpr float kGain = 1.0f - 1e-5f;
constexpr int kCandidates = 8;  // widths of the range
constexpr int kClimb = 3;       // least-squares steps from each
constexpr int kPolish = 4;

// Ranges worth trying, in parts of the group's: few levels clip more of its tails.
float narrowest(int bits) {
  switch (bits) {
    case 2: return 0.45f;
    case 3: return 0.65f;
    case 4: return 0.8f;
    default: return 0.9f;
  }
}

// Four neighbours at once: a vector register of every processor that this runs on.
using Lanes = float __attribute__((vector_size(16)));
constexpr int kLanes = 4;

Lanes lanes_at(const float* values) {
  Lanes lanes;
  std::memcpy(&lanes, values, sizeof lanes);
  return lanes;
}

float total(const Lanes& lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }

// To nearest even, for 0 <= x < 2^22.
template <typename T>
T round_small(T x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return (x + kMagic) - kMagic;
}

// Scales are far from the smallest floats; beyond this the quotients would not be finite.
float inverse_of(float scale) { return std::fabs(scale) > 1e-30f ? 1.0f / scale : 0.0f; }

// The next value of the type above (or below) a finite one.
float neighbour(float value, ScaleKind kind, bool up) {
  if (kind == ScaleKind::f32) return std::nextafter(value, up ? INFINITY : -INFINITY);
  const bool half = kind == ScaleKind::f16;
  const uint16_t bits = half ? float_to_f16(value) : float_to_bf16(value);
  const uint16_t magnitude = bits & 0x7fffu;
  const bool negative = (bits & 0x8000u) != 0;
  uint16_t next = 0;
  if (magnitude == 0)
    next = up ? 1 : 0x8001;
  else
    next = static_cast<uint16_t>(up != negative ? bits + 1 : bits - 1);
  return half ? f16_to_float(next) : bf16_to_float(next);
}

}  // namespace

float round_to(float value, ScaleKind kind) {
  switch (kind) {
    case ScaleKind::f16: return f16_to_float(float_to_f16(value));
    case ScaleKind::bf16: return bf16_to_float(float_to_bf16(value));
    default: return value;
  }
}

AffinePair min_max_pair(const float* x, int group, int bits) {
  const auto [low, high] = std::minmax_element(x, x + group);
  const bool from_low = std::fabs(*low) > std::fabs(*high);
  const float width = std::max((*high - *low) / float((1 << bits) - 1), 1e-7f);
  AffinePair pair{from_low ? width : -width, 0.0f};
  const float edge = from_low ? *low : *high;
  const float steps = std::nearbyint(edge / pair.scale);
  if (steps != 0.0f) pair = {edge / steps, edge};
  return pair;
}

AffineSearch::AffineSearch(const AffineTarget& target)
    : target_(target), levels_(float((1 << target.bits) - 1)), narrowest_(narrowest(target.bits)) {}

AffineSearch::Pass AffineSearch::pass(const AffinePair& pair) const {
  const float inverse = inverse_of(pair.scale);
  const Lanes zero = {}, most = zero + levels_;
  Lanes error = {}, q_sum = {}, qq_sum = {}, qx_sum = {};
  for (int i = 0; i < target_.group; i += kLanes) {
    const Lanes x = lanes_at(x_ + i);
    const Lanes w = lanes_at(w_ + i);
    Lanes q = (x - pair.bias) * inverse;
    q = q > zero ? q : zero;
    q = round_small(q < most ? q : most);
    const Lanes e = x - (pair.scale * q + pair.bias);
    const Lanes wq = w * q;
    error += w * e * e;
    q_sum += wq;
    qq_sum += wq * q;
    qx_sum += wq * x;
  }
  return {total(error), total(q_sum), total(qq_sum), total(qx_sum)};
}

bool AffineSearch::fit(const Pass& p, AffinePair& pair) const {
  const double spread = w_sum_ * p.qq - double(p.q) * p.q;
  if (!(spread > 1e-6 * w_sum_ * p.qq)) return false;
  const double scale = (w_sum_ * p.qx - p.q * x_sum_) / spread;
  pair = {float(scale), float((x_sum_ - scale * p.q) / w_sum_)};
  return true;
}

bool AffineSearch::consider(const AffinePair& asked, Pass& out) {
  const AffinePair pair{round_to(asked.scale, target_.scale), round_to(asked.bias, target_.scale)};
  out = {.error = INFINITY};
  if (!std::isfinite(pair.scale) || !std::isfinite(pair.bias)) return false;
  out = pass(pair);
  if (!(out.error < best_pass_.error * kGain)) return false;
  best_ = pair;
  best_pass_ = out;
  return true;
}

void AffineSearch::climb(AffinePair pair) {
  float before = INFINITY;
  for (int step = 0; step < kClimb; ++step) {
    Pass found;
    consider(pair, found);
    if (!(found.error < before) || !fit(found, pair)) return;
    before = found.error;
  }
}

// The scales beside the stored one, each with its own best bias: where scales are coarse (bf16) the
// nearest value of the ideal pair is often not the best one.
void AffineSearch::polish() {
  for (int round = 0; round < kPolish; ++round) {
    bool better = false;
    for (const bool up : {false, true}) {
      const float scale = neighbour(best_.scale, target_.scale, up);
      const double bias = (x_sum_ - double(scale) * best_pass_.q) / w_sum_;
      Pass found;
      better |= consider({scale, float(bias)}, found);
    }
    for (const bool up : {false, true}) {
      Pass found;
      better |= consider({best_.scale, neighbour(best_.bias, target_.scale, up)}, found);
    }
    if (!better) return;
  }
}

AffinePair AffineSearch::best(const float* x, const float* importance, uint8_t* codes) {
  const int group = target_.group;
  std::copy(x, x + group, x_);
  float largest = 0.0f;
  for (int i = 0; i < group && importance != nullptr; ++i)
    largest = std::max(largest, importance[i]);
  w_sum_ = x_sum_ = 0.0;
  for (int i = 0; i < group; ++i) {
    w_[i] = largest > 0.0f ? importance[i] / largest : 1.0f;
    w_sum_ += w_[i];
    x_sum_ += double(w_[i]) * x[i];
  }

  const AffinePair plain = min_max_pair(x, group, target_.bits);
  best_ = {round_to(plain.scale, target_.scale), round_to(plain.bias, target_.scale)};
  if (!std::isfinite(best_.scale) || !std::isfinite(best_.bias)) {
    std::fill(codes, codes + group, uint8_t{0});
    return best_;
  }
  best_pass_ = pass(best_);
  if (best_pass_.error > 0.0f) {
    climb(plain);
    const auto [low, high] = std::minmax_element(x, x + group);
    const float middle = 0.5f * *low + 0.5f * *high;
    const float half = 0.5f * *high - 0.5f * *low;
    for (int i = 0; i < kCandidates; ++i) {
      const float width = 1.0f - (1.0f - narrowest_) * float(i) / (kCandidates - 1);
      climb({2.0f * width * half / levels_, middle - width * half});
    }
    polish();
  }

  const float inverse = inverse_of(best_.scale);
  for (int i = 0; i < group; ++i)
    codes[i] =
        uint8_t(round_small(std::min(std::max((x[i] - best_.bias) * inverse, 0.0f), levels_)));
  return best_;
}

}  // namespace ringkeep::quant
