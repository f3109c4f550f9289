#include "quant/gguf_blocks.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/dtype.h"

namespace ringkeep::quant {
namespace {

float load_f16(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return f16_to_float(bits);
}

// Where the decoded parts of one block go.
struct BlockOut {
  uint8_t* codes;      // [block cols]
  float* scales;       // [1]          blocks of 32
  float* biases;       // [1]
  int8_t* sub_scales;  // [256 / group] super-blocks
  uint8_t* sub_mins;   // [256 / group]
  float* supers;       // [1]
  float* super_mins;   // [1]
};

// codes [32 * runs] |= bits [width * run, ...) of high [32], moved up by `up`.
void add_bits(const uint8_t* __restrict high, int runs, int width, int up,
              uint8_t* __restrict codes) {
  const int mask = (1 << width) - 1;
  for (int run = 0; run < runs; ++run)
    for (int i = 0; i < 32; ++i)
      codes[32 * run + i] |= uint8_t((high[i] >> (width * run) & mask) << up);
}

// Codes of the low nibbles come first, then those of the high nibbles.
void nibbles(const uint8_t* __restrict in, int n, uint8_t* __restrict codes) {
  for (int i = 0; i < n; ++i) {
    codes[i] = in[i] & 15;
    codes[i + n] = in[i] >> 4;
  }
}

void add_fifth_bits(const uint8_t* __restrict high, uint8_t* __restrict codes) {
  for (int i = 0; i < 32; ++i) codes[i] |= uint8_t((high[i / 8] >> (i % 8) & 1) << 4);
}

void q4_0(const uint8_t* __restrict in, const BlockOut& out) {
  *out.scales = load_f16(in);
  nibbles(in + 2, 16, out.codes);
}

void q4_1(const uint8_t* __restrict in, const BlockOut& out) {
  *out.scales = load_f16(in);
  *out.biases = load_f16(in + 2);
  nibbles(in + 4, 16, out.codes);
}

void q5_0(const uint8_t* __restrict in, const BlockOut& out) {
  *out.scales = load_f16(in);
  nibbles(in + 6, 16, out.codes);
  add_fifth_bits(in + 2, out.codes);
}

void q5_1(const uint8_t* __restrict in, const BlockOut& out) {
  *out.scales = load_f16(in);
  *out.biases = load_f16(in + 2);
  nibbles(in + 8, 16, out.codes);
  add_fifth_bits(in + 4, out.codes);
}

void q8_0(const uint8_t* __restrict in, const BlockOut& out) {
  *out.scales = load_f16(in);
  for (int i = 0; i < 32; ++i) out.codes[i] = in[2 + i] ^ 0x80;  // two's complement to excess 128
}

// 32 bytes hold four runs of 32 two-bit codes, one above the other.
void two_bit_runs(const uint8_t* __restrict in, uint8_t* __restrict codes) {
  for (int run = 0; run < 4; ++run)
    for (int i = 0; i < 32; ++i) codes[32 * run + i] = in[i] >> (2 * run) & 3;
}

void q2_k(const uint8_t* __restrict in, const BlockOut& out) {  // scales[16] codes[64] d dmin
  for (int g = 0; g < 16; ++g) {
    out.sub_scales[g] = int8_t(in[g] & 15);
    out.sub_mins[g] = in[g] >> 4;
  }
  two_bit_runs(in + 16, out.codes);
  two_bit_runs(in + 48, out.codes + 128);
  *out.supers = load_f16(in + 80);
  *out.super_mins = load_f16(in + 82);
}

void q3_k(const uint8_t* __restrict in,
          const BlockOut& out) {  // high bits[32] codes[64] scales[12] d
  two_bit_runs(in + 32, out.codes);
  two_bit_runs(in + 64, out.codes + 128);
  add_bits(in, 8, 1, 2, out.codes);
  const uint8_t* scales = in + 96;
  for (int g = 0; g < 16;
       ++g) {  // six bits: a nibble of the first eight bytes, two of the last four
    const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int high = scales[8 + g % 4] >> (2 * (g / 4)) & 3;
    out.sub_scales[g] = int8_t((low | high << 4) - 32);
  }
  *out.supers = load_f16(in + 108);
}

// Twelve bytes hold eight 6-bit scales and eight 6-bit minima.
void six_bit_pairs(const uint8_t* in, int8_t* scales, uint8_t* mins) {
  for (int g = 0; g < 4; ++g) {
    scales[g] = int8_t(in[g] & 63);
    mins[g] = in[g + 4] & 63;
    scales[g + 4] = int8_t((in[g + 8] & 15) | in[g] >> 6 << 4);
    mins[g + 4] = uint8_t(in[g + 8] >> 4 | in[g + 4] >> 6 << 4);
  }
}

void q4_k(const uint8_t* __restrict in, const BlockOut& out) {  // d dmin scales[12] codes[128]
  *out.supers = load_f16(in);
  *out.super_mins = load_f16(in + 2);
  six_bit_pairs(in + 4, out.sub_scales, out.sub_mins);
  for (int j = 0; j < 4; ++j) nibbles(in + 16 + 32 * j, 32, out.codes + 64 * j);
}

void q5_k(const uint8_t* __restrict in,
          const BlockOut& out) {  // d dmin scales[12] high bits[32] codes[128]
  *out.supers = load_f16(in);
  *out.super_mins = load_f16(in + 2);
  six_bit_pairs(in + 4, out.sub_scales, out.sub_mins);
  for (int j = 0; j < 4; ++j) nibbles(in + 48 + 32 * j, 32, out.codes + 64 * j);
  add_bits(in + 16, 8, 1, 4, out.codes);
}

void q6_k(const uint8_t* __restrict in,
          const BlockOut& out) {  // low nibbles[128] high bits[64] scales[16] d
  for (int half = 0; half < 2; ++half) {
    uint8_t* codes = out.codes + 128 * half;
    nibbles(in + 64 * half, 64, codes);
    add_bits(in + 128 + 32 * half, 4, 2, 4, codes);
  }
  std::memcpy(out.sub_scales, in + 192, 16);
  *out.supers = load_f16(in + 208);
}

// A power of two in the bias of a float, halved since levels are doubled; 255 is no number.
float load_e8m0_half(uint8_t exponent) {
  return exponent == 255 ? std::numeric_limits<float>::quiet_NaN()
                         : std::ldexp(1.0f, exponent - 128);
}

void mxfp4(const uint8_t* __restrict in, const BlockOut& out) {
  *out.scales = load_e8m0_half(in[0]);
  nibbles(in + 1, 16, out.codes);
}

using Decode = void (*)(const uint8_t*, const BlockOut&);

Decode decoder(SourceType type) {
  switch (type) {
    case SourceType::q4_0: return q4_0;
    case SourceType::q4_1: return q4_1;
    case SourceType::q5_0: return q5_0;
    case SourceType::q5_1: return q5_1;
    case SourceType::q8_0: return q8_0;
    case SourceType::q2_k: return q2_k;
    case SourceType::q3_k: return q3_k;
    case SourceType::q4_k: return q4_k;
    case SourceType::q5_k: return q5_k;
    case SourceType::q6_k: return q6_k;
    case SourceType::mxfp4: return mxfp4;
    default: return nullptr;
  }
}

}  // namespace

void decode_e8m0_half(const std::byte* in, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = load_e8m0_half(uint8_t(in[i]));
}

void decode_blocks(SourceType type, const std::byte* data, WeightRows& out) {
  const BlockFormat format = block_format(type);
  const Decode decode = decoder(type);
  RK_CHECK(decode != nullptr && out.cols % format.cols == 0);
  const bool two_level = format.spec.scale == ScaleKind::two_level;
  const bool affine = format.spec.kind == WeightKind::affine;
  const size_t blocks = size_t(out.rows * (out.cols / format.cols));
  const size_t groups = two_level ? size_t(kSuperCols / format.spec.group) : 1;
  out.codes.resize(blocks * size_t(format.cols));
  if (two_level) {
    out.supers.resize(blocks);
    out.sub_scales.resize(blocks * groups);
    if (affine) out.super_mins.resize(blocks);
    if (affine) out.sub_mins.resize(blocks * groups);
  } else {
    out.scales.resize(blocks);
    if (affine) out.biases.resize(blocks);
  }
  const auto at = [](auto& part, size_t i) { return part.empty() ? nullptr : part.data() + i; };
  const auto* in = reinterpret_cast<const uint8_t*>(data);
  for (size_t b = 0; b < blocks; ++b) {
    decode(in + b * size_t(format.bytes),
           {at(out.codes, b * size_t(format.cols)), at(out.scales, b), at(out.biases, b),
            at(out.sub_scales, b * groups), at(out.sub_mins, b * groups), at(out.supers, b),
            at(out.super_mins, b)});
  }
}

}  // namespace ringkeep::quant
