// Element types of dense tensors, and conversions of single values.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ringkeep {

enum class DType : uint8_t { f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

size_t dtype_size(DType type);       // bytes of one element
const char* dtype_name(DType type);  // "f32", "bf16", ...

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
uint16_t float_to_bf16(float value);

// IEEE 754 binary16, subnormals included; round to nearest even, overflow to infinity.
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);

}  // namespace ringkeep
