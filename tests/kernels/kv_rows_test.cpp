// The canonical rows of saved caches: what docs/kv-codecs.md says about them, decoded here without
// the page layout, is what kv_read reads; and importing them anywhere gives the same rows again.
#include <gtest/gtest.h>

#include <cstring>

#include "base/dtype.h"
#include "kernels/kv_fixture.h"

namespace ringkeep::kernels::testing {
namespace {

std::vector<KvCodec> codecs(int dim) {
  std::vector<KvCodec> all = {kF16, h(16)};
  for (const int bits : {8, 6, 5, 4, 3, 2}) {
    all.push_back(h(bits));
    all.push_back(affine(bits, 16));
    if (dim % 32 == 0) all.push_back(h(bits, 32)), all.push_back(affine(bits, 32));
  }
  return all;
}

struct Rows {
  Rows(const KvGeometry& g, int64_t n) {
    const auto make = [&](std::vector<std::byte>& field, size_t row_bytes) {
      field.assign(row_bytes * static_cast<size_t>(n * g.kv_heads), std::byte{0xee});
    };
    const KvRowBytes k = kv_row_bytes(g.k, g.k_dim), v = kv_row_bytes(g.v, g.v_dim);
    make(fields[0], k.codes), make(fields[1], k.scales), make(fields[2], k.biases);
    make(fields[3], v.codes), make(fields[4], v.scales), make(fields[5], v.biases);
  }
  KvPlaneRows k() { return {fields[0].data(), fields[1].data(), fields[2].data()}; }
  KvPlaneRows v() { return {fields[3].data(), fields[4].data(), fields[5].data()}; }
  std::vector<std::byte> fields[6];
};

void move(void (*op)(const KvRowsParams&, Exec&), const Cache& cache, std::byte* storage,
          const std::vector<int64_t>& slots, Rows& rows, Exec& exec) {
  op({.geometry = cache.geometry,
      .storage = storage,
      .page_stride = static_cast<int64_t>(cache.page_bytes),
      .slots = slots.data(),
      .n = static_cast<int64_t>(slots.size()),
      .k = rows.k(),
      .v = rows.v()},
     exec);
}

float half_at(const std::vector<std::byte>& bytes, size_t index) {
  uint16_t half;
  std::memcpy(&half, bytes.data() + 2 * index, sizeof(half));
  return f16_to_float(half);
}

// One row of one head, decoded as the documentation says.
std::vector<float> decode(const std::vector<std::byte>* fields, const KvCodec& codec, int dim,
                          size_t row) {
  const auto n = static_cast<size_t>(dim);
  std::vector<float> x(n);
  if (codec.halves()) {
    for (size_t d = 0; d < n; ++d) x[d] = half_at(fields[0], row * n + d);
    if (codec.rotated()) hadamard(x.data(), dim);
    return x;
  }
  const size_t bits = static_cast<size_t>(codec.bits), row_bytes = (n * bits + 7) / 8;
  const size_t group = codec.group > 0 ? static_cast<size_t>(codec.group) : n;
  for (size_t d = 0; d < n; ++d) {
    int code = 0;
    for (size_t b = 0; b < bits; ++b) {
      const size_t bit = d * bits + b;
      const auto byte = static_cast<unsigned>(fields[0][row * row_bytes + bit / 8]);
      code |= static_cast<int>((byte >> (bit % 8)) & 1u) << b;
    }
    const float scale = half_at(fields[1], row * (n / group) + d / group);
    if (codec.scheme == KvScheme::affine)
      x[d] = scale * static_cast<float>(code) + half_at(fields[2], row * (n / group) + d / group);
    else
      x[d] = scale * static_cast<float>(kv_level(codec, code));
  }
  if (codec.scheme == KvScheme::hadamard) hadamard(x.data(), dim);
  return x;
}

TEST(KvRows, AreWhatIsReadAndComeBack) {
  const auto device = make_cpu_device(2);
  Exec exec(*device);
  const Ops ops = cpu_ops();
  uint32_t seed = 1;
  for (const int dim : {16, 32, 64, 80, 96, 112, 128, 192, 256, 512})
    for (const KvCodec& codec : codecs(dim)) {
      const KvCodec other = codec.bits == 4 ? h(8) : h(4);  // K and V of unlike codecs
      const KvGeometry geometry{2, dim, 64, codec, ++seed % 2 == 0 ? codec : other};
      if (!ops.kv_supported(geometry).empty()) continue;
      SCOPED_TRACE(name(geometry));
      Cache cache(ops, exec, geometry, 150, seed);
      Rows rows(geometry, cache.tokens);
      move(ops.kv_export, cache, cache.storage.data(), cache.slots, rows, exec);

      std::vector<float> k, v;
      cache.read(ops.kv_read, exec, k, v);
      for (const int64_t token : {0, 1, 63, 64, 149})
        for (int64_t head = 0; head < 2; ++head) {
          const auto row = static_cast<size_t>(head * cache.tokens + token);
          const std::vector<float> k_row = decode(&rows.fields[0], geometry.k, dim, row);
          const std::vector<float> v_row = decode(&rows.fields[3], geometry.v, 64, row);
          for (int d = 0; d < dim; ++d) ASSERT_EQ(k_row[d], k[(token * 2 + head) * dim + d]);
          for (int d = 0; d < 64; ++d) ASSERT_EQ(v_row[d], v[(token * 2 + head) * 64 + d]);
        }

      // Into other pages of a cache full of other bytes: the same rows, and the same bytes where
      // the pages are the same.
      Buffer storage = Buffer::allocate(cache.storage.size()).value();
      std::memset(storage.data(), 0xa5, storage.size());
      std::vector<int64_t> turned;
      for (int64_t i = 0; i < cache.tokens; ++i)
        turned.push_back((i / kPageTokens + 1) % 3 * kPageTokens + i % kPageTokens);
      Rows again(geometry, cache.tokens);
      move(ops.kv_import, cache, storage.data(), turned, rows, exec);
      move(ops.kv_export, cache, storage.data(), turned, again, exec);
      for (int i = 0; i < 6; ++i) ASSERT_EQ(again.fields[i], rows.fields[i]) << "field " << i;
      storage = Buffer::allocate(cache.storage.size()).value();
      move(ops.kv_import, cache, storage.data(), cache.slots, rows, exec);
      ASSERT_EQ(std::memcmp(storage.data(), cache.storage.data(), storage.size()), 0);
    }
}

}  // namespace
}  // namespace ringkeep::kernels::testing
