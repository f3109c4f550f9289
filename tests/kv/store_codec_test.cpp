// The store with the real codecs: rows that crossed --quantized-kv-start hold what appending them
// to a quantized cache would have written.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/select/select.h"
#include "kv/layouts.h"
#include "kv/naive_cache.h"
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
      for (const LayerStorage& place : store->storage(layer.index))
        kernels::run(ops.kv_append,
                     append_params(store->plan(), batch, place, k.data(), v.data(), &non_finite),
                     exec);
    ASSERT_EQ(non_finite, 0);
    ASSERT_TRUE(store->commit(id, rows, exec).ok());
  }

  // K then V of a row, from a quantized place of a layer: the cold one, or the hot tier.
  std::vector<float> row(int layer, size_t tier, int64_t index) {
    const auto places = places_of(*store, layer);
    const size_t first = places.size() - (store->storage(layer).back().hot ? 2 : 1);
    const GroupStorage place = places[first + tier];
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

void compare(const std::string& bits, const std::string& hot, const kernels::Ops& ops) {
  ModelConfig config = model({sliding(150), full(), chunked(128)});
  for (LayerSpec& layer : config.layers) {
    layer.kv_heads = kHeads;
    layer.k_dim = kKeyDim;
    layer.v_dim = kValueDim;
  }
  CacheFlags flags;
  flags.kv_bits = bits;
  flags.kv_hot = hot;
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
    const auto places = places_of(*from_start.store, layer.index);
    for (size_t tier = 0; tier < places.size(); ++tier) {
      const auto indices = from_start.store->resident(from_start.id, places[tier].group);
      EXPECT_FALSE(indices.empty());
      for (const int64_t index : indices)
        ASSERT_EQ(crossing.row(layer.index, tier, index), from_start.row(layer.index, tier, index))
            << "layer " << layer.index << ", tier " << tier << ", row " << index;
    }
  }
}

TEST(StoreCodec, CrossingTheStartWritesWhatAppendWould) {
  for (const char* bits : {"8", "4", "K6V3", "K8V4", "affine4:64", "full=f16+sliding=5"}) {
    SCOPED_TRACE(bits);
    for (const char* hot : {"8", "f16"}) {
      compare(bits, hot, kernels::ref_backend());
      compare(bits, hot, kernels::cpu_backend());
    }
  }
}

}  // namespace
}  // namespace ringkeep::kv::testing
