// A cache of one layer for kernel tests: random rows appended through an op table, and the page
// tables of sequences that may have lost pages.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "kernels/api/host_kv.h"
#include "kernels/api/ops.h"
#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"

namespace ringkeep::kernels::testing {

inline Ops ref_ops() {
  Ops ops;
  set_host_kv_layout(ops);
  ref::add_kv_kernels(ops);
  ref::add_attention_kernels(ops);
  return ops;
}

inline Ops cpu_ops() {
  Ops ops;
  set_host_kv_layout(ops);
  cpu::add_kv_kernels(ops);
  cpu::add_attention_kernels(ops);
  ref::add_kv_kernels(ops);
  ref::add_attention_kernels(ops);
  return ops;
}

inline std::vector<float> gaussian(size_t n, uint32_t seed, float sigma = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

inline KvCodec codec(KvScheme scheme, int bits, int group = 0) { return {scheme, bits, group}; }
inline const KvCodec kF16{};
inline KvCodec h(int bits, int group = 0) { return codec(KvScheme::hadamard, bits, group); }
inline KvCodec affine(int bits, int group) { return codec(KvScheme::affine, bits, group); }

inline std::string name(const KvGeometry& g) {
  return fmt::format("K {}x{} V {}x{} heads {}", describe(g.k), g.k_dim, describe(g.v), g.v_dim,
                     g.kv_heads);
}

// K and V as floats.
struct Rows {
  std::vector<float> k;
  std::vector<float> v;
};

// Every codec of a dim: all bits with a scale a row, and with every group that divides the dim.
inline std::vector<KvCodec> codecs_of(int dim) {
  std::vector<KvCodec> all{kF16};
  for (int bits : {8, 6, 5, 4, 3, 2}) {
    all.push_back(h(bits));
    for (int group = 16; group <= dim; group += 16) {
      if (dim % group != 0) continue;
      all.push_back(h(bits, group));
      all.push_back(affine(bits, group));
    }
  }
  return all;
}
inline constexpr int kDims[] = {64, 80, 96, 112, 128, 192, 256, 512};

// The hot codecs for cold ones: rotated halves below 8 bits get 8, or halves with 16.
inline KvGeometry hot_of(KvGeometry g, int bits) {
  for (KvCodec* half : {&g.k, &g.v})
    if (half->scheme == KvScheme::hadamard && half->bits < 8)
      *half = h(bits, bits == 8 ? half->group : 0);
  return g;
}

// Rows of `tokens` tokens of one sequence in pages; physical pages are a shuffle of the logical
// ones. With a hot geometry every page is there twice.
struct Cache {
  KvGeometry geometry;
  int64_t tokens = 0;
  size_t page_bytes = 0;
  Buffer storage;
  std::vector<PageRef> pages;
  std::vector<int64_t> slots;  // by token index
  std::optional<KvGeometry> hot;
  size_t hot_page_bytes = 0;
  Buffer hot_storage;
  std::vector<PageRef> hot_pages;
  std::vector<int64_t> hot_slots;
  std::vector<float> k;  // [tokens, kv_heads, k_dim]
  std::vector<float> v;  // [tokens, kv_heads, v_dim]
  int32_t non_finite = 0;

  Cache(const Ops& ops, Exec& exec, const KvGeometry& g, int64_t n, uint32_t seed,
        const std::optional<KvGeometry>& hot_geometry = {})
      : geometry(g), tokens(n), hot(hot_geometry) {
    page_bytes = ops.kv_page_bytes(g);
    const int64_t count = (n + kPageTokens - 1) / kPageTokens;
    storage = Buffer::allocate(page_bytes * count).value();
    for (int64_t i = 0; i < count; ++i)
      pages.push_back({static_cast<int32_t>(i), static_cast<int32_t>(count - 1 - i)});
    for (int64_t i = 0; i < n; ++i)
      slots.push_back(pages[i / kPageTokens].physical * int64_t{kPageTokens} + i % kPageTokens);
    if (hot) {
      hot_page_bytes = ops.kv_page_bytes(*hot);
      hot_storage = Buffer::allocate(hot_page_bytes * (count + 1)).value();
      for (int64_t i = 0; i < count; ++i)
        hot_pages.push_back({static_cast<int32_t>(i), static_cast<int32_t>(i + 1)});
      for (int64_t i = 0; i < n; ++i) hot_slots.push_back(i + kPageTokens);
    }
    k = gaussian(n * g.kv_heads * g.k_dim, seed);
    v = gaussian(n * g.kv_heads * g.v_dim, seed + 1);
    for (int64_t i = 0; i < n; ++i) {  // rows of unlike norms
      const float factor = 0.25f + static_cast<float>((i * 37) % 16) / 8.0f;
      for (int64_t j = 0; j < g.kv_heads * g.v_dim; ++j) v[i * g.kv_heads * g.v_dim + j] *= factor;
    }
    append(ops.kv_append, exec, 0, n);
  }

  // Appends rows [first, first + n) of k and v.
  void append(const KernelTable<KvAppendParams>& table, Exec& exec, int64_t first, int64_t n,
              const HeadTransform& k_transform = {}) {
    const KvSegment segment{.row0 = 0,
                            .rows = n,
                            .index0 = first,
                            .pages = pages.data(),
                            .n_pages = static_cast<int64_t>(pages.size())};
    KvAppendParams p;
    p.geometry = geometry;
    p.k_stride = geometry.kv_heads * geometry.k_dim;
    p.v_stride = geometry.kv_heads * geometry.v_dim;
    p.k = k.data() + first * p.k_stride;
    p.v = v.data() + first * p.v_stride;
    p.k_transform = k_transform;
    p.segments = &segment;
    p.n_segments = 1;
    p.slots = slots.data() + first;
    p.storage = storage.data();
    p.page_stride = static_cast<int64_t>(page_bytes);
    p.non_finite = &non_finite;
    if (hot)
      p.hot = {*hot, hot_storage.data(), static_cast<int64_t>(hot_page_bytes),
               hot_slots.data() + first};
    run(table, p, exec);
  }

  // All rows as floats, from the cold or the hot pages.
  void read(const KernelTable<KvReadParams>& table, Exec& exec, std::vector<float>& k_out,
            std::vector<float>& v_out, bool from_hot = false) const {
    k_out.assign(k.size(), NAN);
    v_out.assign(v.size(), NAN);
    KvReadParams p;
    p.geometry = from_hot ? *hot : geometry;
    p.storage = from_hot ? hot_storage.data() : storage.data();
    p.page_stride = static_cast<int64_t>(from_hot ? hot_page_bytes : page_bytes);
    p.slots = from_hot ? hot_slots.data() : slots.data();
    p.n = tokens;
    p.k = k_out.data();
    p.v = v_out.data();
    run(table, p, exec);
  }
};

}  // namespace ringkeep::kernels::testing
