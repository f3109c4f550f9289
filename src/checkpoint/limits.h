// Bounds on what a configuration may claim, far above any published model: they keep arithmetic on
// untrusted values free of overflow and allocations small.
#pragma once

#include <cstdint>

namespace ringkeep::checkpoint {

inline constexpr int64_t kMostLayers = 4096;
inline constexpr int64_t kMostHeads = 65536;
inline constexpr int64_t kLargestHeadDim = 65536;
inline constexpr int64_t kMostExperts = 65536;
inline constexpr int64_t kMostStreams = 8;                  // of AltUp; as many as the kernels hold
inline constexpr int64_t kLargestWidth = int64_t{1} << 24;  // hidden, ffn
inline constexpr int64_t kLargestVocab = int64_t{1} << 28;
inline constexpr int64_t kLongestContext = int64_t{1} << 31;  // also windows
inline constexpr double kLargestScale = 1e12;                 // RoPE theta and factors

}  // namespace ringkeep::checkpoint
