// Attention and append over a cache of some depth. Counters: GB/s of cache read, its share of what
// plain streaming reads of as many bytes reach with the same threads, and G op/s of the products.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "kernels/api/host_kv.h"
#include "kernels/cpu/cpu.h"

namespace ringkeep::kernels {
namespace {

struct Shape {
  int heads;
  int kv_heads;
  int dim;
};
constexpr Shape kDemo{4, 1, 256};
constexpr Shape kLarge{32, 8, 128};

const KvCodec kF16{};
KvCodec bits(int b) { return {KvScheme::hadamard, b, 0}; }
KvCodec affine(int b) { return {KvScheme::affine, b, 64}; }

Ops cache_ops() {
  Ops ops;
  set_host_kv_layout(ops);
  cpu::add_kv_kernels(ops);
  cpu::add_attention_kernels(ops);
  cpu::add_dense_kernels(ops);
  return ops;
}

Exec& exec() {
  static const std::unique_ptr<Device> device =
      make_cpu_device(static_cast<int>(std::thread::hardware_concurrency()));
  static Exec exec(*device);
  return exec;
}

// The caches of a model's layers, all with the same random rows. As many layers as it takes that
// one has left the processor's caches when its turn comes again, as between two steps.
struct Cache {
  KvGeometry geometry;
  Ops ops = cache_ops();
  int64_t page_bytes;
  int64_t layer_bytes;
  int64_t layers;
  Buffer storage;
  std::vector<PageRef> pages;
  std::vector<float> rows;  // [64, kv_heads * dim]

  Cache(const Shape& shape, const KvCodec& k, const KvCodec& v, int64_t tokens, bool many)
      : geometry{shape.kv_heads, shape.dim, shape.dim, k, v},
        page_bytes(static_cast<int64_t>(ops.kv_page_bytes(geometry))) {
    const int64_t count = tokens / kPageTokens;
    layer_bytes = page_bytes * count;
    layers = many ? 1 + (int64_t{256} << 20) / layer_bytes : 1;
    storage = Buffer::allocate(layer_bytes * layers).value();
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    rows.resize(size_t{kPageTokens} * shape.kv_heads * shape.dim);
    for (float& x : rows) x = normal(random);
    for (int32_t i = 0; i < count; ++i) pages.push_back({i, i});
    append(0, kPageTokens);
    for (int64_t i = 1; i < count * layers; ++i)
      std::memcpy(storage.data() + i * page_bytes, storage.data(), page_bytes);
  }

  void append(int64_t first, int64_t n, const HeadTransform& k_transform = {}) {
    std::vector<int64_t> slots(n);
    for (int64_t i = 0; i < n; ++i) slots[i] = first + i;
    const KvSegment segment{.row0 = 0,
                            .rows = n,
                            .index0 = first,
                            .pages = pages.data(),
                            .n_pages = static_cast<int64_t>(pages.size())};
    KvAppendParams p;
    p.geometry = geometry;
    p.k = p.v = rows.data();
    p.k_transform = k_transform;
    p.k_stride = p.v_stride = geometry.kv_heads * geometry.k_dim;
    p.segments = &segment;
    p.n_segments = 1;
    p.slots = slots.data();
    p.storage = storage.data();
    p.page_stride = page_bytes;
    run(ops.kv_append, p, exec());
  }
};

// Bytes a second of plain reads of `bytes`, all threads: the C library's search for a byte that is
// not there, which loads the widest vectors and does little else.
double streaming_rate(size_t bytes) {
  Buffer buffer = Buffer::allocate(bytes).value();
  std::memset(buffer.data(), 1, bytes);
  const int threads = exec().pool().threads();
  const size_t part = bytes / threads;
  double best = 0;
  for (int repeat = 0; repeat < 30; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    exec().pool().parallel_for(threads, [&](int64_t task, int) {
      benchmark::DoNotOptimize(std::memchr(buffer.data() + task * part, 0, part));
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) / time.count());
  }
  return best;
}

void attention(benchmark::State& state, Shape shape, KvCodec k, KvCodec v) {
  const int64_t depth = state.range(0), rows = state.range(1);
  Cache cache(shape, k, v, depth, rows == 1);
  std::vector<float> q(rows * shape.heads * shape.dim, 0.5f), out(q.size());
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (float& x : q) x = normal(random);
  const KvSegment segment{.row0 = 0,
                          .rows = rows,
                          .index0 = depth - rows,
                          .pages = cache.pages.data(),
                          .n_pages = static_cast<int64_t>(cache.pages.size())};
  AttentionParams p;
  p.geometry = cache.geometry;
  p.storage = cache.storage.data();
  p.page_stride = cache.page_bytes;
  p.heads = shape.heads;
  p.q = q.data();
  p.q_stride = p.out_stride = shape.heads * shape.dim;
  p.out = out.data();
  p.scale = 1.0f / 16.0f;
  p.segments = &segment;
  p.n_segments = 1;
  int64_t layer = 0;
  for (auto _ : state) {
    p.storage = cache.storage.data() + layer++ % cache.layers * cache.layer_bytes;
    run(cache.ops.attention, p, exec());
  }
  const double runs = static_cast<double>(state.iterations());
  const double bytes = static_cast<double>(cache.layer_bytes);
  state.counters["GB/s"] = benchmark::Counter(bytes * runs / 1e9, benchmark::Counter::kIsRate);
  if (rows == 1)
    state.counters["of_stream"] = benchmark::Counter(
        bytes * runs / streaming_rate(cache.storage.size()), benchmark::Counter::kIsRate);
  const double seen =
      static_cast<double>(rows) * (static_cast<double>(depth) - static_cast<double>(rows - 1) / 2);
  state.counters["Gop/s"] = benchmark::Counter(4.0 * seen * shape.heads * shape.dim * runs / 1e9,
                                               benchmark::Counter::kIsRate);
}

// K's norm and RoPE in the append itself, or `apart` in a pass of their own before it.
void append(benchmark::State& state, Shape shape, KvCodec k, KvCodec v, bool apart) {
  const int64_t rows = state.range(0), pairs = shape.dim / 2;
  Cache cache(shape, k, v, kPageTokens, /*many=*/false);
  const std::vector<float> weight(shape.dim, 1.25f), cos(rows * pairs, 0.6f), sin(cos.size(), 0.8f);
  const HeadTransform transform{
      .weight = weight.data(), .cos = cos.data(), .sin = sin.data(), .pairs = pairs};
  const NormRopeParams norm_rope{.x = cache.rows.data(),
                                 .x_stride = shape.kv_heads * shape.dim,
                                 .rows = rows,
                                 .heads = shape.kv_heads,
                                 .dim = shape.dim,
                                 .transform = transform};
  for (auto _ : state) {
    if (apart) run(cache.ops.norm_rope, norm_rope, exec());
    cache.append(0, rows, apart ? HeadTransform{} : transform);
  }
  state.counters["us/token"] =
      benchmark::Counter(static_cast<double>(rows * state.iterations()) * 1e-6,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void add(const std::string& shape_name, Shape shape) {
  const std::vector<std::pair<KvCodec, KvCodec>> codecs{
      {kF16, kF16},           {bits(8), bits(8)},    {bits(6), bits(6)}, {bits(5), bits(5)},
      {bits(4), bits(4)},     {bits(3), bits(3)},    {bits(2), bits(2)}, {bits(6), bits(4)},
      {affine(8), affine(8)}, {affine(4), affine(4)}};
  for (const auto& [k, v] : codecs) {
    const std::string codec =
        k == v ? describe(k) : fmt::format("K{}V{}", describe(k), describe(v));
    benchmark::RegisterBenchmark((shape_name + "/decode/" + codec).c_str(), attention, shape, k, v)
        ->Args({1024, 1})
        ->Args({16384, 1})
        ->Args({65536, 1})
        ->UseRealTime();
    benchmark::RegisterBenchmark((shape_name + "/prefill/" + codec).c_str(), attention, shape, k, v)
        ->Args({4096, 512})
        ->UseRealTime();
    for (const bool apart : {false, true})
      benchmark::RegisterBenchmark(
          (shape_name + (apart ? "/append_apart/" : "/append/") + codec).c_str(), append, shape, k,
          v, apart)
          ->Arg(1)
          ->Arg(64)
          ->UseRealTime();
  }
}

}  // namespace
}  // namespace ringkeep::kernels

int main(int argc, char** argv) {
  ringkeep::kernels::add("demo", ringkeep::kernels::kDemo);
  ringkeep::kernels::add("large", ringkeep::kernels::kLarge);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
