// Parameter structs of every op: plain pointers (of the device), strides and sizes in elements.
// Rows are tokens of a step. All activations are float32. The reference implementation of an op
// (kernels/ref) is its documentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/api/kv_types.h"
#include "quant/weight_spec.h"

namespace ringkeep::kernels {

// A weight matrix in the backend's physical layout.
struct PackedTensor {
  quant::WeightSpec spec;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs
  const std::byte* data = nullptr;
};

// Matrices of one shape and format: matrix e begins at data + e * stride bytes, or where only some
// are in memory at data + slot[e] * stride. Of one that is not there slot[e] < 0.
struct PackedStack {
  PackedTensor first;  // [n, k]
  int64_t count = 0;
  size_t stride = 0;
  const int32_t* slot = nullptr;  // [count], or null: each in its own place
  PackedTensor at(int64_t e) const {
    const int64_t place = slot != nullptr ? slot[e] : e;
    return {first.spec, first.rows, first.cols, first.data + static_cast<size_t>(place) * stride};
  }
};

struct LinearOutput {
  const PackedTensor* weight = nullptr;  // [n, k]
  const float* bias = nullptr;           // [n] or null
  float* y = nullptr;                    // [rows, n], row stride y_stride
  int64_t y_stride = 0;
};

// y_o = x W_o^T (+ bias_o) for each output o; one pass over x. `exact`: float32 activations;
// otherwise x is quantized to two int8 terms with one scale a row for packed weights. Rows from
// fine_rows on belong to prompts: a backend that gains by it may round x, and packed weights with
// their scales, to bf16 there, or x to fewer int8 terms (kernels/ref/linear.cpp). The value of a
// row depends on that row and on which of both it is, alone, bit for bit.
struct LinearParams {
  const float* x = nullptr;  // [rows, k], row stride x_stride
  int64_t x_stride = 0;
  int64_t rows = 0;
  const LinearOutput* outputs = nullptr;
  int n_outputs = 0;
  bool exact = false;
  int64_t fine_rows = std::numeric_limits<int64_t>::max();
};

enum class RouteScores : uint8_t { softmax, sigmoid };

// Chooses the `used` experts of each row: those of the largest scores, the lower index where scores
// are equal. A chosen expert's weight is its score, divided by the sum of the chosen ones where
// `renormalize`, times scale and its expert_scale. Then the rows are ordered by expert: each (row,
// expert) has a place, and places of an expert are consecutive, in the order of rows.
struct RouteParams {
  const float* logits = nullptr;  // [rows, experts]
  int64_t rows = 0;
  int experts = 0;
  int used = 0;
  RouteScores scores = RouteScores::softmax;  // softmax: over all experts
  bool renormalize = false;
  float scale = 1.0f;
  const float* choice_bias =
      nullptr;  // [experts] added to the scores for the choice alone; or null
  const float* expert_scale = nullptr;                      // [experts] or null (1)
  int64_t fine_rows = std::numeric_limits<int64_t>::max();  // as of LinearParams
  // Out. A row's experts are in ascending order.
  int32_t* expert = nullptr;  // [rows, used]
  float* weight = nullptr;    // [rows, used]
  int32_t* place = nullptr;   // [rows, used]
  int32_t* row_of = nullptr;  // [rows * used] the row at each place
  int32_t* begin = nullptr;   // [experts + 1] the first place of each expert, and the end
  int32_t* fine = nullptr;    // [experts] how many of its places are of fine rows; these come first
  // [rows * used] or null: the weight at each place, for what an expert reads; `weight` is then 1.
  float* place_weight = nullptr;
};

struct GroupedOutput {
  const PackedStack* weight = nullptr;  // [groups, n, k]
  const float* bias = nullptr;          // [groups, n] or null
  float* y = nullptr;                   // [places, n], row stride y_stride
  int64_t y_stride = 0;
};

// Products with a stack of matrices: y[p] = x[row_of[p]] W_g^T (+ bias_g) for the places p of group
// g, [begin[g], begin[g + 1]). Each is what LinearParams says of it, bit for bit; the first fine[g]
// places of a group are fine rows. Matrices of groups without places are not read.
struct GroupedLinearParams {
  const float* x = nullptr;  // [rows, k], row stride x_stride
  int64_t x_stride = 0;
  const int32_t* row_of = nullptr;  // [places]; null: x has a row for each place
  int64_t places = 0;
  int groups = 0;
  const int32_t* begin = nullptr;  // [groups + 1]
  const int32_t* fine = nullptr;   // [groups]
  const GroupedOutput* outputs = nullptr;
  int n_outputs = 0;
  bool exact = false;
};

// y[r] = sum over j of weight[r, j] * x[place[r, j]], by fused multiply-add in ascending j.
struct CombineParams {
  const float* x = nullptr;        // [places, cols]
  const float* weight = nullptr;   // [rows, used]
  const int32_t* place = nullptr;  // [rows, used]
  int64_t rows = 0;
  int used = 0;
  int64_t cols = 0;
  float* y = nullptr;  // [rows, cols]
};

// out[r] = scale * table[tokens[r]]
struct EmbedParams {
  const PackedTensor* table = nullptr;  // [vocab, hidden]
  const int32_t* tokens = nullptr;      // [rows]
  int64_t rows = 0;
  float scale = 1.0f;
  float* out = nullptr;  // [rows, hidden]
};

// y = x / sqrt(mean(x^2) + eps) * weight (+ residual). y may be x or residual. `centred`: the mean
// of x is taken off first (LayerNorm without a bias).
struct RmsNormParams {
  const float* x = nullptr;  // [rows, cols], row stride x_stride
  int64_t x_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  const float* weight = nullptr;  // [cols] or null (1)
  float eps = 1e-6f;
  bool centred = false;
  const float* residual = nullptr;  // [rows, cols] row stride y_stride, or null
  float* y = nullptr;               // [rows, cols], row stride y_stride
  int64_t y_stride = 0;
};

// cos and sin of positions[r] * frequencies[i], times attention_factor.
struct RopeTableParams {
  const int32_t* positions = nullptr;  // [rows]
  int64_t rows = 0;
  const float* frequencies = nullptr;  // [pairs]
  int64_t pairs = 0;
  float attention_factor = 1.0f;
  float* cos = nullptr;  // [rows, pairs]
  float* sin = nullptr;  // [rows, pairs]
};

// What the heads of q and k go through before attention, each by itself: an RMS norm (q and k
// norms) or a mere multiplication by weights, then the rotary embedding: pair (i, i + pairs) of the
// first 2 * pairs channels is rotated; the rest are left alone. Last comes a factor of the row.
struct HeadTransform {
  const float* weight = nullptr;  // [heads or 1, dim], null: neither norm nor multiplication
  int64_t weight_stride = 0;      // 0: one weight for all heads; dim: one per head
  bool normalize = true;          // false: x * weight, without the norm
  float eps = 1e-6f;
  const float* cos = nullptr;  // [rows, pairs], null: no rotation
  const float* sin = nullptr;
  int64_t pairs = 0;
  const float* row_scale = nullptr;  // [rows] multiplies the whole head, null: 1
};

// x [rows, heads, dim], in place.
struct NormRopeParams {
  float* x = nullptr;  // row stride x_stride, heads contiguous
  int64_t x_stride = 0;
  int64_t rows = 0;
  int heads = 0;
  int dim = 0;
  HeadTransform transform;
};

// clamped_swiglu (GPT-OSS): gate is cut off above limit, up at both ends;
// gate * sigmoid(alpha * gate) * (up + 1).
enum class GluKind : uint8_t { silu, gelu_tanh, clamped_swiglu };
// y = act(gate) * up, elementwise
struct GluParams {
  const float* gate = nullptr;  // [rows, cols], row stride stride
  const float* up = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  GluKind kind = GluKind::silu;
  float* y = nullptr;  // may be gate
  float alpha = 1.0f;  // clamped_swiglu
  float limit = 0.0f;
};

// y = scale * (y + x), or with a gate y[r] += sigmoid(gate[r]) * x[r] for rows of `cols`.
struct AddParams {
  const float* x = nullptr;  // [n]
  float* y = nullptr;
  int64_t n = 0;
  const float* gate = nullptr;  // [n / cols] or null
  int64_t cols = 1;
  float scale = 1.0f;
};

// x = cap * tanh(x / cap)
struct SoftcapParams {
  float* x = nullptr;  // [n]
  int64_t n = 0;
  float cap = 0.0f;
};

// x = max(0, x - mean - deviations * sigma), with mean and standard deviation of each row (Gemma
// 3n: what a Gaussian has above a quantile).
struct GaussianTopKParams {
  float* x = nullptr;  // [rows, cols]
  int64_t rows = 0;
  int64_t cols = 0;
  float deviations = 0.0f;
};

// x[r] *= sqrt(mean(like[r]^2) / max(mean(x[r]^2), floor))
struct MatchRmsParams {
  const float* like = nullptr;  // [rows, cols]
  int64_t rows = 0;
  int64_t cols = 0;
  float floor = 0.0f;  // above 0
  float* x = nullptr;  // [rows, cols]
};

// AltUp (Baykal et al. 2023, arXiv 2301.13310): the residual is several streams x_i [rows, cols],
// one after another. What they exchange in a row hangs on its modalities m, by linear maps. Sums by
// fused multiply-add in ascending order.
inline constexpr int kMostStreams = 8;

// x_i += sum over j of c_ij x_j, where c_ij = sum over k of coefs[i * streams + j, k] * m_k.
struct AltUpPredictParams {
  float* x = nullptr;  // [streams, rows, cols], in place
  int streams = 0;     // at most kMostStreams
  int64_t rows = 0;
  int64_t cols = 0;
  const float* modalities = nullptr;  // [rows, streams]
  const float* coefs = nullptr;       // [streams * streams, streams]
};

// x_i += (1 + c_i) * (activated - x_active), where c_i = sum over k of coefs[i, k] * m_k.
struct AltUpCorrectParams {
  float* x = nullptr;  // [streams, rows, cols], in place
  int streams = 0;     // at most kMostStreams
  int active = 0;      // the stream that `activated` came from
  int64_t rows = 0;
  int64_t cols = 0;
  const float* modalities = nullptr;  // [rows, streams]
  const float* coefs = nullptr;       // [streams, streams]
  const float* activated = nullptr;   // [rows, cols]
};

// A second encoding of the rows, for the newest pages (reads_hot()). Each half is rotated exactly
// where the cold one is. Without storage there is none.
struct KvHotAppend {
  KvGeometry geometry;
  std::byte* storage = nullptr;    // page 0 of the layer
  int64_t page_stride = 0;         // bytes
  const int64_t* slots = nullptr;  // [rows of the step], indexed by row
};

// Encodes rows of K and V into the pages of one layer, in one pass over them: K is normed and given
// its RoPE, both are rotated, encoded and put into their pages. Equal to norm_rope of the same
// backend and an append without a transform, byte for byte.
// slots[row] = physical page * kPageTokens + token index % kPageTokens.
struct KvAppendParams {
  KvGeometry geometry;
  const float* k = nullptr;  // [rows, kv_heads, k_dim], row stride k_stride
  const float* v = nullptr;  // [rows, kv_heads, v_dim], row stride v_stride
  int64_t k_stride = 0;
  int64_t v_stride = 0;
  HeadTransform k_transform;  // of k, on the way in; its heads are the kv_heads
  const KvSegment* segments = nullptr;
  int64_t n_segments = 0;
  const int64_t* slots = nullptr;  // [rows of the step], indexed by row
  std::byte* storage = nullptr;    // page 0 of the layer
  int64_t page_stride = 0;         // bytes
  int32_t* non_finite = nullptr;   // set to 1 when a row holds NaN or infinity
  KvHotAppend hot;                 // rows with a slot above have one here
};

// Reads n rows back as floats, in the space of the original K and V (rotation undone).
struct KvReadParams {
  KvGeometry geometry;
  const std::byte* storage = nullptr;
  int64_t page_stride = 0;
  const int64_t* slots = nullptr;  // [n]
  int64_t n = 0;
  float* k = nullptr;  // [n, kv_heads, k_dim]
  float* v = nullptr;  // [n, kv_heads, v_dim]
};

// The newest pages in other codecs. Without storage there are none.
struct KvHotPages {
  KvGeometry geometry;
  const std::byte* storage = nullptr;   // page 0 of the layer
  int64_t page_stride = 0;              // bytes
  const KvSegment* segments = nullptr;  // parallel to AttentionParams::segments, for their pages:
                                        // every page that a row of the segment reads hot
};

// Attention over the pages of one layer, for the rows of the segments. Grouped-query: head h reads
// KV head h / (heads / kv_heads). A row's result depends on that row and the cache alone, bit for
// bit: whatever the segment, the chunk and the number of threads.
struct AttentionParams {
  KvGeometry geometry;
  const std::byte* storage = nullptr;  // page 0 of the layer
  int64_t page_stride = 0;             // bytes
  int heads = 0;
  const float* q = nullptr;  // [rows, heads, k_dim], row stride q_stride
  int64_t q_stride = 0;
  float* out = nullptr;  // [rows, heads, v_dim], row stride out_stride
  int64_t out_stride = 0;
  float scale = 1.0f;            // multiplies q.k
  float softcap = 0.0f;          // 0: none; applied to scale * q.k
  const float* sinks = nullptr;  // [heads] extra logits that take weight and carry no value
  int64_t window = 0;            // <= 0: unbounded (see visible())
  int64_t keep = 0;
  int64_t chunk_size = 0;  // > 0: chunked layer (see visible_chunked())
  const KvSegment* segments = nullptr;
  int64_t n_segments = 0;
  KvHotPages hot;
};

}  // namespace ringkeep::kernels
