// Attention of one row over the codes of the cache, with the roundings of the fast kernels: Q is
// one int8 vector a head, P is 8 bits unsigned with one scale a page (and a group of V's channels),
// V's scale folded in. The weight of a token in the denominator is not rounded. With a hot tier a
// row reads its newest pages from other codecs of the same space; all else is the same.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/api/host_kv.h"
#include "kernels/ref/ref.h"

namespace ringkeep::kernels::ref {
namespace {

float load_half(const std::byte* head, size_t offset) {
  uint16_t bits;
  std::memcpy(&bits, head + offset, 2);
  return f16_to_float(bits);
}

// A query vector in the space of the codes.
struct Query {
  std::vector<float> x;  // [k_dim]; integers when K is quantized
  float scale = 1.0f;
};

Query prepare(const HostKvPlane& k, const float* q) {
  Query query{.x = std::vector<float>(q, q + k.dim)};
  if (k.codec.rotated()) hadamard(query.x.data(), k.dim);
  if (k.codec.halves()) return query;
  float largest = 0.0f;
  for (float x : query.x) largest = std::max(largest, std::abs(x));
  query.scale = largest / 127.0f;
  const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
  for (float& x : query.x) x = std::nearbyint(x * inverse);
  return query;
}

// q . K[token]
float dot(const HostKvPlane& k, const std::byte* head, int token, const Query& query) {
  float sum = 0.0f;
  if (k.codec.halves()) {
    for (int d = 0; d < k.dim; ++d) sum += query.x[d] * load_half(head, half_offset(k, token, d));
    return sum;
  }
  for (int g = 0; g < k.groups; ++g) {
    int64_t products = 0;
    int64_t queries = 0;
    for (int d = g * k.group; d < (g + 1) * k.group; ++d) {
      const int q = static_cast<int>(query.x[d]);
      products += q * kv_level(k.codec, get_code(k, head, token, d));
      queries += q;
    }
    sum += static_cast<float>(products) * load_half(head, scale_offset(k, token, g));
    if (k.codec.scheme == KvScheme::affine)
      sum += static_cast<float>(queries) * load_half(head, bias_offset(k, token, g));
  }
  return sum * query.scale;
}

// out += sum over the page's tokens of weight * V[token], in the space of the codes
void add_values(const HostKvPlane& v, const std::byte* head, const float* weight, float* out) {
  if (v.codec.halves()) {
    for (int d = 0; d < v.dim; ++d)
      for (int t = 0; t < kPageTokens; ++t)
        if (weight[t] > 0.0f) out[d] += weight[t] * load_half(head, half_offset(v, t, d));
    return;
  }
  // Codes of the affine scheme are taken from the middle of their range, which halves the error of
  // P, and count down under a negative scale.
  const bool affine = v.codec.scheme == KvScheme::affine;
  const int middle = affine ? 1 << (v.codec.bits - 1) : 0;
  for (int g = 0; g < v.groups; ++g) {
    float p[kPageTokens];
    float largest = 0.0f;
    float bias = 0.0f;
    for (int t = 0; t < kPageTokens; ++t) {
      p[t] = 0.0f;
      if (weight[t] <= 0.0f) continue;
      const float scale = load_half(head, scale_offset(v, t, g));
      p[t] = weight[t] * std::abs(scale);
      largest = std::max(largest, p[t]);
      if (!affine) continue;
      const float offset = static_cast<float>(scale < 0.0f ? middle - 1 : middle);
      bias += weight[t] * (load_half(head, bias_offset(v, t, g)) + scale * offset);
    }
    const float inverse = largest > 1e-30f ? 255.0f / largest : 0.0f;
    for (float& x : p) x = std::nearbyint(x * inverse);
    for (int d = g * v.group; d < (g + 1) * v.group; ++d) {
      int64_t sum = 0;
      for (int t = 0; t < kPageTokens; ++t)
        if (p[t] > 0.0f)
          sum += static_cast<int>(p[t]) * (kv_level(v.codec, get_code(v, head, t, d)) - middle);
      out[d] += static_cast<float>(sum) * (largest / 255.0f) + bias;
    }
  }
}

bool sees(const AttentionParams& p, int64_t q, int64_t k, int64_t span_end) {
  if (p.chunk_size > 0) return visible_chunked(q, k, p.chunk_size);
  return visible(q, k, p.window, p.keep, span_end);
}

// Where pages of one layer lie: the cold ones, or the hot ones.
struct Tier {
  HostKvLayout layout;
  const std::byte* storage;
  int64_t page_stride;
  const KvSegment* segments;

  // The KV head's block in a logical page of segment s, or null.
  const std::byte* block(int64_t s, int64_t logical, int kv_head) const {
    for (int64_t i = 0; i < segments[s].n_pages; ++i)
      if (segments[s].pages[i].logical == logical)
        return storage + segments[s].pages[i].physical * page_stride + kv_head * layout.head_bytes;
    return nullptr;
  }
};

// Row i of segment s, head h. tiers: cold, and hot where there is one.
void attend(const AttentionParams& p, const std::vector<Tier>& tiers, int64_t s, int64_t i, int h) {
  const KvSegment& segment = p.segments[s];
  const int64_t row = segment.row0 + i;
  const int64_t index = segment.index0 + i;
  const int64_t span_end = segment.span_end != nullptr ? segment.span_end[i] : index;
  const int kv_head = h / (p.heads / p.geometry.kv_heads);
  const HostKvLayout& cold = tiers[0].layout;
  std::vector<Query> queries;
  for (const Tier& tier : tiers)
    queries.push_back(prepare(tier.layout.k, p.q + row * p.q_stride + h * cold.k.dim));
  const auto tier_of = [&](int64_t page) {
    return tiers.size() > 1 && reads_hot(index, segment.pages[page].logical) ? 1 : 0;
  };
  const auto block = [&](int64_t page) {
    const auto* found = tiers[tier_of(page)].block(s, segment.pages[page].logical, kv_head);
    RK_CHECK(found != nullptr, "page {} is not among the hot ones", segment.pages[page].logical);
    return found;
  };

  std::vector<float> weights(segment.n_pages * kPageTokens, -INFINITY);  // scores first
  float largest = p.sinks != nullptr ? p.sinks[h] : -INFINITY;
  for (int64_t page = 0; page < segment.n_pages; ++page)
    for (int t = 0; t < kPageTokens; ++t) {
      if (!sees(p, index, segment.pages[page].logical * int64_t{kPageTokens} + t, span_end))
        continue;
      const int tier = tier_of(page);
      float score = p.scale * dot(tiers[tier].layout.k, block(page), t, queries[tier]);
      if (p.softcap > 0.0f) score = p.softcap * std::tanh(score / p.softcap);
      weights[page * kPageTokens + t] = score;
      largest = std::max(largest, score);
    }

  float total = p.sinks != nullptr ? std::exp(p.sinks[h] - largest) : 0.0f;
  std::vector<float> out(cold.v.dim, 0.0f);
  for (int64_t page = 0; page < segment.n_pages; ++page) {
    float* weight = weights.data() + page * kPageTokens;
    bool seen = false;
    for (int t = 0; t < kPageTokens; ++t) {
      seen |= weight[t] != -INFINITY;
      weight[t] = weight[t] == -INFINITY ? 0.0f : std::exp(weight[t] - largest);
      total += weight[t];
    }
    if (seen) add_values(tiers[tier_of(page)].layout.v, block(page), weight, out.data());
  }
  for (float& x : out) x = total > 0.0f ? x / total : 0.0f;
  if (cold.v.codec.rotated()) hadamard(out.data(), cold.v.dim);
  std::copy(out.begin(), out.end(), p.out + row * p.out_stride + h * cold.v.dim);
}

void attention(const AttentionParams& p, Exec& exec) {
  std::vector<Tier> tiers{{HostKvLayout(p.geometry), p.storage, p.page_stride, p.segments}};
  if (p.hot.storage != nullptr) {
    RK_CHECK(tiers_fit(p.geometry, p.hot.geometry));
    tiers.push_back(
        {HostKvLayout(p.hot.geometry), p.hot.storage, p.hot.page_stride, p.hot.segments});
  }
  for (int64_t s = 0; s < p.n_segments; ++s)
    exec.pool().parallel_for(p.segments[s].rows * p.heads, [&](int64_t task, int) {
      attend(p, tiers, s, task / p.heads, static_cast<int>(task % p.heads));
    });
}

}  // namespace

void add_attention_kernels(Ops& ops) { ops.attention.push_back({"ref", always, attention}); }

}  // namespace ringkeep::kernels::ref
