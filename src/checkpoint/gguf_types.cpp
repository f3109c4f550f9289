#include "checkpoint/gguf_types.h"

#include <algorithm>
#include <iterator>

namespace ringkeep::checkpoint {

namespace {

using quant::SourceType;

// Block sizes and layouts: ggml-common.h of the ggml project.
constexpr GgufTensorType kTypes[] = {
    {0, "F32", 1, 4, SourceType::f32},           {1, "F16", 1, 2, SourceType::f16},
    {2, "Q4_0", 32, 18, SourceType::q4_0},       {3, "Q4_1", 32, 20, SourceType::q4_1},
    {6, "Q5_0", 32, 22, SourceType::q5_0},       {7, "Q5_1", 32, 24, SourceType::q5_1},
    {8, "Q8_0", 32, 34, SourceType::q8_0},       {9, "Q8_1", 32, 40, SourceType::other},
    {10, "Q2_K", 256, 84, SourceType::q2_k},     {11, "Q3_K", 256, 110, SourceType::q3_k},
    {12, "Q4_K", 256, 144, SourceType::q4_k},    {13, "Q5_K", 256, 176, SourceType::q5_k},
    {14, "Q6_K", 256, 210, SourceType::q6_k},    {15, "Q8_K", 256, 292, SourceType::other},
    {16, "IQ2_XXS", 256, 66, SourceType::other}, {17, "IQ2_XS", 256, 74, SourceType::other},
    {18, "IQ3_XXS", 256, 98, SourceType::other}, {19, "IQ1_S", 256, 50, SourceType::other},
    {20, "IQ4_NL", 32, 18, SourceType::other},   {21, "IQ3_S", 256, 110, SourceType::other},
    {22, "IQ2_S", 256, 82, SourceType::other},   {23, "IQ4_XS", 256, 136, SourceType::other},
    {24, "I8", 1, 1, SourceType::other},         {25, "I16", 1, 2, SourceType::other},
    {26, "I32", 1, 4, SourceType::other},        {27, "I64", 1, 8, SourceType::other},
    {28, "F64", 1, 8, SourceType::other},        {29, "IQ1_M", 256, 56, SourceType::other},
    {30, "BF16", 1, 2, SourceType::bf16},        {34, "TQ1_0", 256, 54, SourceType::other},
    {35, "TQ2_0", 256, 66, SourceType::other},   {39, "MXFP4", 32, 17, SourceType::mxfp4},
    {40, "NVFP4", 64, 36, SourceType::other},    {41, "Q1_0", 128, 18, SourceType::other},
};

}  // namespace

const GgufTensorType* gguf_tensor_type(uint32_t id) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [id](const GgufTensorType& type) { return type.id == id; });
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace ringkeep::checkpoint
