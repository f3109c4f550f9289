// Every row of ops.linear on products of a small Gemma model and (wide) of Qwen3 1.7B: bytes of
// weights read per second (decode) and operations per second (2 * rows * outputs * columns), beside
// the rate of a plain streaming read.
//
//   linear_bench [--benchmark_filter=REGEX]      RINGKEEP_BENCH_THREADS=N chooses the threads;
//                                                RINGKEEP_BENCH_CACHED=1 reads one matrix again
//                                                and again, from the caches where it fits them
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <numeric>
#include <random>

#include "kernels/select/select.h"

namespace ringkeep::kernels {
namespace {

using quant::ScaleKind;
using quant::WeightKind;
using quant::WeightSpec;

struct Shape {
  const char* name;
  WeightSpec spec;
  int64_t n, k;
};

const Shape kShapes[] = {
    {"head_q8_0", {WeightKind::symmetric, 8, 32, 128, ScaleKind::f16}, 262144, 640},
    {"up_q5_0", {WeightKind::symmetric, 5, 32, 16, ScaleKind::f16}, 2048, 640},
    {"down_q6_k", {WeightKind::symmetric, 6, 16, 32, ScaleKind::two_level}, 640, 2048},
    {"down_q4_k", {WeightKind::affine, 4, 32, 0, ScaleKind::two_level}, 640, 2048},
    {"q_q5_0", {WeightKind::symmetric, 5, 32, 16, ScaleKind::f16}, 1024, 640},
    {"o_q4_k", {WeightKind::affine, 4, 32, 0, ScaleKind::two_level}, 640, 1024},
    {"up_mlx4", {WeightKind::affine, 4, 64, 0, ScaleKind::f16}, 2048, 640},
    {"up_bf16", {.kind = WeightKind::dense_bf16}, 2048, 640},
    {"wide_up_q4_k", {WeightKind::affine, 4, 32, 0, ScaleKind::two_level}, 12288, 2048},
    {"wide_o_q4_k", {WeightKind::affine, 4, 32, 0, ScaleKind::two_level}, 2048, 2048},
    {"wide_down_q4_k", {WeightKind::affine, 4, 32, 0, ScaleKind::two_level}, 2048, 6144},
    {"wide_down_q6_k", {WeightKind::symmetric, 6, 16, 32, ScaleKind::two_level}, 2048, 6144},
    {"up_f32", {.kind = WeightKind::dense_f32}, 2048, 640},
};

int threads() {
  const char* text = std::getenv("RINGKEEP_BENCH_THREADS");
  return text != nullptr ? std::max(1, std::atoi(text)) : int(std::thread::hardware_concurrency());
}

Device& device() {
  static const auto device = make_cpu_device(threads());
  return *device;
}

// Enough copies of a matrix that they do not stay in the caches between two products, of which the
// last may be shared and large: a model reads all its other layers in between.
struct Matrices {
  DeviceBuffer buffer;
  std::vector<PackedTensor> tensors;

  Matrices(const Ops& ops, const Shape& shape) {
    const size_t bytes = (ops.weight_bytes(shape.spec, shape.n, shape.k) + 63) / 64 * 64;
    const bool cached = std::getenv("RINGKEEP_BENCH_CACHED") != nullptr;
    const size_t copies = cached ? 1 : std::max<size_t>(1, (256u << 20) / bytes);
    buffer = std::move(device().allocate(bytes * copies)).value();
    // Bytes that are ordinary numbers in every type of scale and weight: denormals are slow.
    std::mt19937_64 random(1);
    for (size_t i = 0; i + 8 <= buffer.size(); i += 8) {
      *reinterpret_cast<uint64_t*>(buffer.data() + i) =
          (random() & 0x07ff07ff07ff07ffull) | 0x3800380038003800ull;
    }
    for (size_t i = 0; i < copies; ++i)
      tensors.push_back({shape.spec, shape.n, shape.k, buffer.data() + i * bytes});
  }
};

void linear(benchmark::State& state, const Ops& ops, const Kernel<LinearParams>& kernel,
            const Shape& shape, int64_t rows, bool prompt) {
  const Matrices matrices(ops, shape);
  Exec exec(device());
  std::vector<float> x(size_t(rows * shape.k), 0.0f), y(size_t(rows * shape.n), 0.0f);
  std::mt19937 random(2);
  for (auto& value : x) value = std::normal_distribution<float>()(random);
  LinearOutput output{nullptr, nullptr, y.data(), shape.n};
  LinearParams params{x.data(), shape.k, rows, &output, 1, false};
  if (prompt) params.fine_rows = 0;
  size_t at = 0;
  for (auto _ : state) {
    output.weight = &matrices.tensors[at];
    at = (at + 1) % matrices.tensors.size();
    kernel.run(params, exec);
    benchmark::ClobberMemory();
  }
  const double runs = double(state.iterations());
  const double bytes = double(ops.weight_bytes(shape.spec, shape.n, shape.k));
  state.counters["GB/s"] = benchmark::Counter(bytes * runs / 1e9, benchmark::Counter::kIsRate);
  state.counters["GOP/s"] =
      benchmark::Counter(2.0 * double(rows) * double(shape.n) * double(shape.k) * runs / 1e9,
                         benchmark::Counter::kIsRate);
}

// The ceiling of decode: the sum of all words of a buffer, each thread its part.
void streaming_read(benchmark::State& state, size_t bytes) {
  const auto buffer = std::move(device().allocate(bytes)).value();
  for (size_t i = 0; i < bytes; i += 4096) buffer.data()[i] = std::byte(1);
  constexpr size_t kPart = 1 << 16;
  std::vector<uint64_t> sums(size_t(threads()) * 8);
  for (auto _ : state) {
    device().pool().parallel_for(int64_t(bytes / kPart), [&](int64_t part, int thread) {
      const auto* words = reinterpret_cast<const uint64_t*>(buffer.data() + size_t(part) * kPart);
      uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
      for (size_t i = 0; i < kPart / 8; i += 8) {
        a += words[i], b += words[i + 1], c += words[i + 2], d += words[i + 3];
        e += words[i + 4], f += words[i + 5], g += words[i + 6], h += words[i + 7];
      }
      sums[size_t(thread) * 8] += a + b + c + d + e + f + g + h;
    });
    benchmark::DoNotOptimize(sums.data());
  }
  state.counters["GB/s"] = benchmark::Counter(double(bytes) * double(state.iterations()) / 1e9,
                                              benchmark::Counter::kIsRate);
}

}  // namespace
}  // namespace ringkeep::kernels

int main(int argc, char** argv) {
  using namespace ringkeep::kernels;
  static const Ops ops = cpu_backend();
  for (const size_t megabytes : {size_t{48}, size_t{178}}) {
    benchmark::RegisterBenchmark(("streaming_read/" + std::to_string(megabytes) + "MB").c_str(),
                                 streaming_read, megabytes << 20)
        ->UseRealTime();
  }
  for (const auto& kernel : ops.linear) {
    if (std::string(kernel.name) == "ref") continue;  // documentation, not speed
    for (const auto& shape : kShapes) {
      for (const int64_t rows : {1, 4, 16, 64, 512}) {
        if (shape.n > 100000 && rows > 16) continue;  // the head is read for few rows
        for (const bool prompt : {false, true}) {
          if (prompt && rows < 64) continue;
          LinearParams problem{nullptr, 0, rows, nullptr, 0, false};
          if (prompt) problem.fine_rows = 0;
          if (!kernel.supports(problem)) continue;
          const std::string name = std::string(kernel.name) + "/" + shape.name +
                                   "/rows:" + std::to_string(rows) + (prompt ? "/prompt" : "");
          benchmark::RegisterBenchmark(name.c_str(), [&kernel, &shape, rows,
                                                      prompt](benchmark::State& state) {
            linear(state, ops, kernel, shape, rows, prompt);
          })->UseRealTime();
        }
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
