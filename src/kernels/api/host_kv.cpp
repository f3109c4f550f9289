#include "kernels/api/host_kv.h"

#include <cmath>

namespace ringkeep::kernels {
namespace {

constexpr int8_t kLevels4[8] = {6, 18, 31, 44, 58, 75, 96, 127};
constexpr int8_t kLevels3[4] = {14, 45, 79, 127};
constexpr int8_t kLevels2[2] = {38, 127};

HostKvPlane make_plane(const KvCodec& codec, int dim, bool value, size_t& offset) {
  HostKvPlane plane{.codec = codec, .value = value, .dim = dim};
  plane.run = codec.halves() ? kHalvesRun : codec.bits == 8 ? 4 : 16;
  if (codec.halves()) {
    plane.codes = offset;
    offset += size_t{kPageTokens} * dim * sizeof(uint16_t);
    return plane;
  }
  plane.group = codec.group > 0 ? codec.group : dim;
  plane.groups = dim / plane.group;
  const size_t field = size_t{kPageTokens} * plane.groups * sizeof(uint16_t);
  plane.scales = offset;
  offset += field;
  plane.biases = offset;
  if (codec.scheme == KvScheme::affine) offset += field;
  plane.codes = offset;
  offset += size_t{kPageTokens} / 8 * dim * codec.bits;
  return plane;
}

struct Position {
  int unit;
  int entry;
};

Position position(const HostKvPlane& plane, int token, int channel) {
  const int unit = kv_block(plane, token, channel) * plane.run / 4;
  if (plane.value) return {unit + token % plane.run / 4, channel % kKvLanes * 4 + token % 4};
  return {unit + channel % plane.run / 4, token % kKvLanes * 4 + channel % 4};
}

// Where `width` bits of a unit's entry lie in a bit plane.
struct Bits {
  size_t byte;
  int shift;
};

Bits locate(int width, Position p) {
  switch (width) {
    case 8: return {static_cast<size_t>(p.unit) * 64 + p.entry, 0};
    case 4: return {static_cast<size_t>(p.unit / 2) * 64 + p.entry, 4 * (p.unit % 2)};
    case 2: return {static_cast<size_t>(p.unit / 4) * 64 + p.entry, 2 * (p.unit % 4)};
    default: return {static_cast<size_t>(p.unit) * 8 + p.entry / 8, p.entry % 8};
  }
}

// Widths of the bit planes of a code, low bits first; the second may be 0.
struct Planes {
  int low;
  int high;
};

Planes planes(int bits) {
  switch (bits) {
    case 6: return {4, 2};
    case 5: return {4, 1};
    case 3: return {2, 1};
    default: return {bits, 0};
  }
}

std::string check_plane(const char* name, const KvCodec& codec, int dim) {
  if (dim <= 0 || dim % 16 != 0 || dim > kMaxHeadDim)
    return fmt::format("{} head dim {} is not a multiple of 16 up to {}", name, dim, kMaxHeadDim);
  if (codec.halves() && codec.scheme != KvScheme::affine) return "";
  const bool known = codec.bits == 8 || (codec.bits >= 2 && codec.bits <= 6);
  if (!known)
    return fmt::format("{} codec of {} bits does not exist (8, 6, 5, 4, 3, 2)", name, codec.bits);
  const int group = codec.group;
  if (group == 0 && codec.scheme == KvScheme::hadamard) return "";
  if (group > 0 && group % 16 == 0 && dim % group == 0) return "";
  int suitable = 128;
  while (dim % suitable != 0) suitable /= 2;
  return fmt::format(
      "group size {} does not divide the {} head dim {} into groups of a multiple of 16; {} does",
      group, name, dim, suitable);
}

size_t page_bytes(const KvGeometry& geometry) { return HostKvLayout(geometry).page_bytes; }

std::string supported(const KvGeometry& geometry) {
  if (geometry.kv_heads <= 0) return fmt::format("{} KV heads", geometry.kv_heads);
  const std::string k = check_plane("K", geometry.k, geometry.k_dim);
  return k.empty() ? check_plane("V", geometry.v, geometry.v_dim) : k;
}

}  // namespace

std::string describe(const KvCodec& codec) {
  if (codec.halves()) return "f16";
  const char* prefix = codec.scheme == KvScheme::affine ? "affine" : "";
  if (codec.group == 0) return fmt::format("{}{}", prefix, codec.bits);
  return fmt::format("{}{}:{}", prefix, codec.bits, codec.group);
}

HostKvLayout::HostKvLayout(const KvGeometry& geometry) {
  k = make_plane(geometry.k, geometry.k_dim, false, head_bytes);
  v = make_plane(geometry.v, geometry.v_dim, true, head_bytes);
  page_bytes = head_bytes * geometry.kv_heads;
}

bool tiers_fit(const KvGeometry& cold, const KvGeometry& hot) {
  const auto fits = [](const KvCodec& a, const KvCodec& b) {
    return a.rotated() == b.rotated() && (a.halves() || b.halves() || a.group == b.group);
  };
  return cold.kv_heads == hot.kv_heads && cold.k_dim == hot.k_dim && cold.v_dim == hot.v_dim &&
         fits(cold.k, hot.k) && fits(cold.v, hot.v);
}

int get_code(const HostKvPlane& plane, const std::byte* head, int token, int channel) {
  const Position p = position(plane, token, channel);
  const auto [low, high] = planes(plane.codec.bits);
  const auto read = [&](size_t base, int width) {
    const Bits at = locate(width, p);
    return (static_cast<int>(head[base + at.byte]) >> at.shift) & ((1 << width) - 1);
  };
  int code = read(plane.codes, low);
  if (high > 0) code |= read(plane.codes + size_t{8} * plane.dim * low, high) << low;
  return low == 8 && plane.value ? code ^ 0x80 : code;
}

void set_code(const HostKvPlane& plane, std::byte* head, int token, int channel, int code) {
  const Position p = position(plane, token, channel);
  const auto [low, high] = planes(plane.codec.bits);
  const auto write = [&](size_t base, int width, int value) {
    const Bits at = locate(width, p);
    const int mask = ((1 << width) - 1) << at.shift;
    std::byte& byte = head[base + at.byte];
    byte = static_cast<std::byte>((static_cast<int>(byte) & ~mask) | ((value << at.shift) & mask));
  };
  if (low == 8 && plane.value) code ^= 0x80;
  write(plane.codes, low, code);
  if (high > 0) write(plane.codes + size_t{8} * plane.dim * low, high, code >> low);
}

size_t scale_offset(const HostKvPlane& plane, int token, int group) {
  return plane.scales + (static_cast<size_t>(group) * kPageTokens + token) * sizeof(uint16_t);
}

size_t bias_offset(const HostKvPlane& plane, int token, int group) {
  return plane.biases + (static_cast<size_t>(group) * kPageTokens + token) * sizeof(uint16_t);
}

size_t half_offset(const HostKvPlane& plane, int token, int channel) {
  const int row = plane.value ? token : channel, column = plane.value ? channel : token;
  const size_t index =
      (static_cast<size_t>(kv_block(plane, token, channel)) * kHalvesRun + row % kHalvesRun) *
          kKvLanes +
      column % kKvLanes;
  return plane.codes + index * sizeof(uint16_t);
}

int kv_level(const KvCodec& codec, int code) {
  if (codec.scheme == KvScheme::affine) return code;
  if (codec.bits == 8) return code - 128;
  const int half_range = 1 << (codec.bits - 1);
  if (codec.bits > 4) return 2 * code + 1 - 2 * half_range;
  const int8_t* levels = lloyd_max_levels(codec.bits);
  return code >= half_range ? levels[code - half_range] : -levels[half_range - 1 - code];
}

const int8_t* lloyd_max_levels(int bits) {
  return bits == 4 ? kLevels4 : bits == 3 ? kLevels3 : kLevels2;
}

float lloyd_max_top(int bits) { return bits == 4 ? 2.7326f : bits == 3 ? 2.1520f : 1.5104f; }

void hadamard(float* x, int dim) {
  const int block = hadamard_block(dim);
  for (int stride = 1; stride < block; stride *= 2)
    for (int i = 0; i < dim; ++i)
      if ((i & stride) == 0) {
        const float a = x[i];
        const float b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
  const float norm = 1.0f / std::sqrt(static_cast<float>(block));
  for (int i = 0; i < dim; ++i) x[i] *= norm;
}

void set_host_kv_layout(Ops& ops) {
  ops.kv_page_bytes = page_bytes;
  ops.kv_supported = supported;
  ops.kv_export = host_kv_export;
  ops.kv_import = host_kv_import;
}

}  // namespace ringkeep::kernels
