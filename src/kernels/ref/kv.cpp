// Encoding and decoding of cache rows. The sums of the searches are made of 16 interleaved partial
// sums folded in halves, so that vectors of any width round alike and pages agree byte for byte.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "kernels/api/host_kv.h"
#include "kernels/ref/ref.h"

namespace ringkeep::kernels::ref {
namespace {

void store_half(std::byte* head, size_t offset, uint16_t bits) {
  std::memcpy(head + offset, &bits, 2);
}

float load_half(const std::byte* head, size_t offset) {
  uint16_t bits;
  std::memcpy(&bits, head + offset, 2);
  return f16_to_float(bits);
}

template <typename Term>
float sum16(int n, const Term& term) {
  float partial[16] = {};
  for (int i = 0; i < n; ++i) partial[i % 16] += term(i);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) partial[i] += partial[i + width];
  return partial[0];
}

float abs_max(const float* x, int n) {
  float largest = 0.0f;
  for (int i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  return largest;
}

// What a group of channels becomes: value = scale * level(code) + bias.
struct GroupCode {
  uint16_t scale = 0;  // f16
  uint16_t bias = 0;   // f16
};

GroupCode encode8(const float* x, int n, uint8_t* codes) {
  const uint16_t scale = float_to_f16(abs_max(x, n) / 127.0f);
  const float inverse = scale != 0 ? 1.0f / f16_to_float(scale) : 0.0f;
  for (int i = 0; i < n; ++i)
    codes[i] =
        static_cast<uint8_t>(std::clamp(std::nearbyint(x[i] * inverse), -127.0f, 127.0f) + 128.0f);
  return {.scale = scale};
}

// 6 and 5 bits: mid-rise levels (q + 1/2) s. Of 25 steps s the one of least squared error,
// refitted.
GroupCode encode_uniform(const float* x, int n, int bits, uint8_t* codes) {
  const float half = static_cast<float>(1 << (bits - 1));
  const float base = abs_max(x, n) / (half - 0.5f);
  const auto quantize = [&](float value, float inverse) {
    return std::clamp(std::floor(value * inverse), -half, half - 1.0f);
  };
  float best = INFINITY;
  float step = base;
  for (int candidate = 0; candidate < 25; ++candidate) {
    const float s = base * (0.3f + 0.03125f * static_cast<float>(candidate));
    const float inverse = 1.0f / s;
    const float error = sum16(n, [&](int i) {
      const float d = x[i] - (quantize(x[i], inverse) + 0.5f) * s;
      return d * d;
    });
    if (error < best) best = error, step = s;
  }
  const float inverse = 1.0f / step;
  const auto level = [&](int i) { return 2.0f * quantize(x[i], inverse) + 1.0f; };
  for (int i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(quantize(x[i], inverse) + half);
  const float xq = sum16(n, [&](int i) { return x[i] * level(i); });
  const float qq = sum16(n, [&](int i) { return level(i) * level(i); });
  return {.scale = float_to_f16(xq / qq)};
}

// 4, 3 and 2 bits: int8 levels. Of 14 steps around the rms the one of least squared error,
// refitted.
GroupCode encode_levels(const float* x, int n, int bits, uint8_t* codes) {
  const int half = 1 << (bits - 1);
  const int8_t* levels = lloyd_max_levels(bits);
  const float rms = std::sqrt(sum16(n, [&](int i) { return x[i] * x[i]; }) / static_cast<float>(n));
  const float unit = rms * (lloyd_max_top(bits) / 127.0f);
  const auto nearest = [&](float value, float inverse) {
    const float magnitude = std::abs(value) * inverse;
    int index = 0;
    while (index + 1 < half &&
           magnitude > 0.5f * static_cast<float>(levels[index] + levels[index + 1]))
      ++index;
    return index;
  };
  const auto level = [&](float value, float inverse) {
    const float magnitude = levels[nearest(value, inverse)];
    return value < 0.0f ? -magnitude : magnitude;
  };
  float best = INFINITY;
  float step = unit;
  for (int candidate = 0; candidate < 14; ++candidate) {
    const float s = unit * (0.8f + (0.5f / 13.0f) * static_cast<float>(candidate));
    const float inverse = 1.0f / s;
    const float error = sum16(n, [&](int i) {
      const float d = x[i] - level(x[i], inverse) * s;
      return d * d;
    });
    if (error < best) best = error, step = s;
  }
  const float inverse = 1.0f / step;
  for (int i = 0; i < n; ++i) {
    const int index = nearest(x[i], inverse);
    codes[i] = static_cast<uint8_t>(x[i] < 0.0f ? half - 1 - index : half + index);
  }
  const float xq = sum16(n, [&](int i) { return x[i] * level(x[i], inverse); });
  const float qq = sum16(n, [&](int i) { return level(x[i], inverse) * level(x[i], inverse); });
  return {.scale = float_to_f16(xq / qq)};
}

// The rule of mlx.core.quantize: the end of larger magnitude is exact, and so is zero.
GroupCode encode_affine(const float* x, int n, int bits, bool value, uint8_t* codes) {
  const float bins = static_cast<float>((1 << bits) - 1);
  const auto [low, high] = std::minmax_element(x, x + n);
  const bool at_low = std::abs(*low) > std::abs(*high);
  const float edge = at_low ? *low : *high;
  float scale = std::max((*high - *low) / bins, 1e-7f);
  if (!at_low) scale = -scale;
  const float steps = std::nearbyint(edge / scale);
  const float bias = steps != 0.0f ? edge : 0.0f;
  if (steps != 0.0f) scale = edge / steps;
  for (int i = 0; i < n; ++i) {
    const float q = std::clamp(std::nearbyint((x[i] - bias) / scale), 0.0f, bins);
    codes[i] = static_cast<uint8_t>(value && scale < 0.0f ? bins - q : q);
  }
  return {.scale = float_to_f16(scale), .bias = float_to_f16(bias)};
}

GroupCode encode_group(const HostKvPlane& plane, const float* x, uint8_t* codes) {
  const int n = plane.group;
  const int bits = plane.codec.bits;
  if (plane.codec.scheme == KvScheme::affine) return encode_affine(x, n, bits, plane.value, codes);
  if (bits == 8) return encode8(x, n, codes);
  // Half precision holds no step of so small a row: the zero row.
  if (abs_max(x, n) < 0x1p-18f) return std::fill(codes, codes + n, uint8_t{0}), GroupCode{};
  return bits > 4 ? encode_uniform(x, n, bits, codes) : encode_levels(x, n, bits, codes);
}

// The row as its codec takes it: rotated if it is a rotated one. Returns false, and makes it zeros,
// when it is not finite.
bool load_row(const KvCodec& codec, int dim, const float* source, float* x) {
  bool finite = true;
  for (int d = 0; d < dim; ++d) finite &= std::abs(source[d]) <= kMaxKvMagnitude;
  for (int d = 0; d < dim; ++d) x[d] = finite ? source[d] : 0.0f;
  if (codec.rotated()) hadamard(x, dim);
  return finite;
}

// Returns false, and stores zeros, when halves cannot hold a rotated row.
bool encode_row(const HostKvPlane& plane, const float* x, std::byte* head, int token) {
  if (plane.codec.halves()) {
    const bool fits = abs_max(x, plane.dim) <= kMaxKvMagnitude;
    for (int d = 0; d < plane.dim; ++d)
      store_half(head, half_offset(plane, token, d), fits ? float_to_f16(x[d]) : uint16_t{0});
    return fits;
  }
  uint8_t codes[kMaxHeadDim];
  for (int g = 0; g < plane.groups; ++g) {
    const int first = g * plane.group;
    const GroupCode group = encode_group(plane, x + first, codes + first);
    store_half(head, scale_offset(plane, token, g), group.scale);
    if (plane.codec.scheme == KvScheme::affine)
      store_half(head, bias_offset(plane, token, g), group.bias);
  }
  for (int d = 0; d < plane.dim; ++d) set_code(plane, head, token, d, codes[d]);
  return true;
}

void decode_row(const HostKvPlane& plane, const std::byte* head, int token, float* x) {
  for (int d = 0; d < plane.dim; ++d) {
    if (plane.codec.halves()) {
      x[d] = load_half(head, half_offset(plane, token, d));
      continue;
    }
    const int group = d / plane.group;
    const float scale = load_half(head, scale_offset(plane, token, group));
    int level = kv_level(plane.codec, get_code(plane, head, token, d));
    float bias = 0.0f;
    if (plane.codec.scheme == KvScheme::affine) {
      if (plane.value && scale < 0.0f) level = (1 << plane.codec.bits) - 1 - level;
      bias = load_half(head, bias_offset(plane, token, group));
    }
    x[d] = scale * static_cast<float>(level) + bias;
  }
  if (plane.codec.rotated()) hadamard(x, plane.dim);
}

// One head of the pages that rows are encoded into.
struct Target {
  HostKvLayout layout;
  std::byte* storage;
  int64_t page_stride;
  const int64_t* slots;

  std::byte* head(int64_t row, int64_t h) const {
    return storage + slots[row] / kPageTokens * page_stride + h * layout.head_bytes;
  }
  int token(int64_t row) const { return static_cast<int>(slots[row] % kPageTokens); }
};

void kv_append(const KvAppendParams& p, Exec& exec) {
  std::vector<Target> targets{{HostKvLayout(p.geometry), p.storage, p.page_stride, p.slots}};
  if (p.hot.storage != nullptr) {
    RK_CHECK(tiers_fit(p.geometry, p.hot.geometry));
    targets.push_back(
        {HostKvLayout(p.hot.geometry), p.hot.storage, p.hot.page_stride, p.hot.slots});
  }
  const KvGeometry& g = p.geometry;
  // Tokens of a page share bytes, so a head is one task.
  exec.pool().parallel_for(g.kv_heads, [&](int64_t h, int) {
    for (int64_t s = 0; s < p.n_segments; ++s)
      for (int64_t i = 0; i < p.segments[s].rows; ++i) {
        const int64_t row = p.segments[s].row0 + i;
        if (p.slots[row] < 0) continue;
        float k[kMaxHeadDim], v[kMaxHeadDim];
        std::copy_n(p.k + row * p.k_stride + h * g.k_dim, g.k_dim, k);
        transform_head(p.k_transform, row, h, g.k_dim, k);
        bool fine = load_row(g.k, g.k_dim, k, k);
        fine &= load_row(g.v, g.v_dim, p.v + row * p.v_stride + h * g.v_dim, v);
        for (const Target& to : targets) {
          fine &= encode_row(to.layout.k, k, to.head(row, h), to.token(row));
          fine &= encode_row(to.layout.v, v, to.head(row, h), to.token(row));
        }
        if (!fine && p.non_finite != nullptr)
          std::atomic_ref<int32_t>(*p.non_finite).store(1, std::memory_order_relaxed);
      }
  });
}

void kv_read(const KvReadParams& p, Exec& exec) {
  const HostKvLayout layout(p.geometry);
  const int heads = p.geometry.kv_heads;
  exec.pool().parallel_for(p.n, [&](int64_t i, int) {
    const int token = static_cast<int>(p.slots[i] % kPageTokens);
    for (int h = 0; h < heads; ++h) {
      const std::byte* head =
          p.storage + p.slots[i] / kPageTokens * p.page_stride + h * layout.head_bytes;
      if (p.k != nullptr) decode_row(layout.k, head, token, p.k + (i * heads + h) * layout.k.dim);
      if (p.v != nullptr) decode_row(layout.v, head, token, p.v + (i * heads + h) * layout.v.dim);
    }
  });
}

}  // namespace

void add_kv_kernels(Ops& ops) {
  ops.kv_append.push_back({"ref", always, kv_append});
  ops.kv_read.push_back({"ref", always, kv_read});
}

}  // namespace ringkeep::kernels::ref
