// The store with the real codecs: rows that crossed --quantized-kv-start hold what appending them
// to a quantized cache would have written.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/select/select.h"
#include "kv/layouts.h"
#include "kv/store.h"

namespace ringkeep::kv::testing {
namespace {

constexpr int kHeads = 2;
constexpr int kKeyDim = 128;
constexpr int kValueDim = 64;

// One sequence of a cache with its backend.
struct Cache {
  Cache(const ModelConfig& config, const CacheFlags& flags, kernels::Ops backend)
      : ops(std::move(backend)),
        device(kernels::make_cpu_device(2)),
        exec(*device),
        store(Store::create(make_plan(config, flags, ops).value(), *device, ops).value()),
        id(store->open().value()) {}

  // k [rows, kHeads, kKeyDim], v [rows, kHeads, kValueDim], in every layer alike.
  void append(const std::vector<float>& k, const std::vector<float>& v, int64_t rows) {
    const StepEntry entry{id, 0, rows, nullptr};
    const KvBatch batch = store->begin_step({&entry, 1}).value();
    int32_t non_finite = 0;
    for (const LayerPlan& layer : store->plan().layers)
      for (const LayerStorage& place : store->storage(layer.index)) {
        const auto group = static_cast<size_t>(place.group);
        kernels::run(ops.kv_append,
                     kernels::KvAppendParams{
                         .geometry = store->plan().groups[group].geometry,
                         .k = k.data(),
                         .v = v.data(),
                         .k_stride = kHeads * kKeyDim,
                         .v_stride = kHeads * kValueDim,
                         .segments = batch.groups[group].segments.data(),
                         .n_segments = static_cast<int64_t>(batch.groups[group].segments.size()),
                         .slots = batch.groups[group].slots.data(),
                         .storage = place.data,
                         .page_stride = place.page_stride,
                         .non_finite = &non_finite},
                     exec);
      }
    ASSERT_EQ(non_finite, 0);
    ASSERT_TRUE(store->commit(id, rows, exec).ok());
  }

  // K then V of a row, from the quantized storage of a layer.
  std::vector<float> row(int layer, int64_t index) {
    const LayerStorage place = store->storage(layer).back();
    const int64_t slot = store->slot(id, place.group, index);
    std::vector<float> values(kHeads * (kKeyDim + kValueDim));
    EXPECT_GE(slot, 0);
    if (slot < 0) return values;
    kernels::run(ops.kv_read,
                 kernels::KvReadParams{
                     .geometry = store->plan().groups[static_cast<size_t>(place.group)].geometry,
                     .storage = place.data,
                     .page_stride = place.page_stride,
                     .slots = &slot,
                     .n = 1,
                     .k = values.data(),
                     .v = values.data() + kHeads * kKeyDim},
                 exec);
    return values;
  }

  kernels::Ops ops;
  std::unique_ptr<kernels::Device> device;
  kernels::Exec exec;
  std::unique_ptr<Store> store;
  SequenceId id;
};

void compare(const std::string& bits, const kernels::Ops& ops) {
  ModelConfig config = model({sliding(150), full(), chunked(128)});
  for (LayerSpec& layer : config.layers) {
    layer.kv_heads = kHeads;
    layer.k_dim = kKeyDim;
    layer.v_dim = kValueDim;
  }
  CacheFlags flags;
  flags.kv_bits = bits;
  flags.ctx = 1000;
  flags.chunk = 100;
  Cache from_start(config, flags, ops);
  flags.quantized_kv_start = 333;
  Cache crossing(config, flags, ops);

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto values = [&](int64_t n) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out)
      x = std::round(normal(random) * 256.0f) / 256.0f;  // exact in half precision
    return out;
  };
  while (crossing.store->length(crossing.id) < 400) {
    const int64_t rows = crossing.store->max_step_rows(crossing.id);
    const auto k = values(rows * kHeads * kKeyDim), v = values(rows * kHeads * kValueDim);
    crossing.append(k, v, rows);
    from_start.append(k, v, rows);
  }
  for (const LayerPlan& layer : crossing.store->plan().layers) {
    const int group = from_start.store->storage(layer.index).back().group;
    const auto indices = from_start.store->resident(from_start.id, group);
    EXPECT_FALSE(indices.empty());
    for (const int64_t index : indices)
      ASSERT_EQ(crossing.row(layer.index, index), from_start.row(layer.index, index))
          << "layer " << layer.index << ", row " << index;
  }
}

TEST(StoreCodec, CrossingTheStartWritesWhatAppendWould) {
  for (const char* bits : {"8", "4", "K6V3", "affine4:64", "full=f16+sliding=5"}) {
    SCOPED_TRACE(bits);
    compare(bits, kernels::ref_backend());
    compare(bits, kernels::cpu_backend());
  }
}

}  // namespace
}  // namespace ringkeep::kv::testing
