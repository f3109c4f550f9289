// Layout x codec x mode: each cell is refused by the plan, or every mode gives the attention of the
// naive cache. There is no third outcome.
//
// The naive cache is a list of rows, each encoded alone and read back in the codec of every tier;
// attention over it is the definition in double precision, with the visibility rule and the rule of
// the hot pages applied row by row. The first mode (the whole prompt, in the largest steps) is held
// against it; the others must equal the first, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/select/select.h"
#include "kv/layouts.h"
#include "kv/store.h"
#include "models/blocks/cached_attention.h"

namespace ringkeep::kv::testing {
namespace {

constexpr int kHeads = 2;  // of queries, over one KV head
constexpr int kKeyDim = 128;
constexpr int kValueDim = 64;
constexpr float kScale = 0.25f;

// The numbers of one text: row i of the tensors belongs to token i, in every layer alike.
struct Text {
  Text(int64_t tokens, uint32_t seed) : tokens(tokens) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    // Exact in half precision, so that crossing --quantized-kv-start loses nothing.
    const auto fill = [&](std::vector<float>& x, int width) {
      x.resize(static_cast<size_t>(tokens * width));
      for (float& value : x) value = std::round(normal(random) * 256.0f) / 256.0f;
    };
    fill(q, kHeads * kKeyDim);
    fill(k, kKeyDim);
    fill(v, kValueDim);
  }
  int64_t tokens;
  std::vector<float> q;  // [tokens, kHeads, kKeyDim]
  std::vector<float> k;  // [tokens, kKeyDim]
  std::vector<float> v;  // [tokens, kValueDim]
};

// What attention gave for each row of a text: [layers][tokens * kHeads * kValueDim].
using Outputs = std::vector<std::vector<float>>;

// A store with its backend, and sequences that read texts.
class Rig {
 public:
  Rig(const kernels::Ops& ops, const KvPlan& plan)
      : ops_(ops),
        device_(kernels::make_cpu_device(2)),
        exec_(*device_),
        store_(Store::create(plan, *device_, ops).value()) {}

  Store& store() { return *store_; }
  kernels::Exec& exec() { return exec_; }

  struct Reader {
    SequenceId id = -1;
    const Text* text = nullptr;
    Outputs out;
    int64_t at(const Store& store) const { return store.length(id); }
  };
  Reader open(const Text& text) { return reader(store_->open().value(), text); }
  Reader reader(SequenceId id, const Text& text) const {
    const size_t size = static_cast<size_t>(text.tokens) * kHeads * kValueDim;
    return {id, &text, Outputs(store_->plan().layers.size(), std::vector<float>(size, NAN))};
  }

  // The next rows of each reader, in one step; all of them are kept, or the first `kept`.
  void step(const std::vector<std::pair<Reader*, int64_t>>& parts, int64_t kept = INT64_MAX) {
    std::vector<StepEntry> entries;
    std::vector<float> q, k, v;
    int64_t rows = 0;
    const auto append = [](std::vector<float>& to, const std::vector<float>& from, int64_t first,
                           int64_t n, int width) {
      to.insert(to.end(), from.begin() + first * width, from.begin() + (first + n) * width);
    };
    for (const auto& [reader, n] : parts) {
      const int64_t first = reader->at(*store_);
      entries.push_back({reader->id, rows, n, nullptr});
      append(q, reader->text->q, first, n, kHeads * kKeyDim);
      append(k, reader->text->k, first, n, kKeyDim);
      append(v, reader->text->v, first, n, kValueDim);
      rows += n;
    }
    auto batch = store_->begin_step(entries);
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    std::vector<float> out(static_cast<size_t>(rows) * kHeads * kValueDim);
    int32_t non_finite = 0;
    for (const LayerPlan& layer : store_->plan().layers) {
      std::fill(out.begin(), out.end(), NAN);
      models::cached_attention({.layer = layer.index,
                                .heads = kHeads,
                                .q = q.data(),
                                .k = k.data(),
                                .v = v.data(),
                                .out = out.data(),
                                .scale = kScale,
                                .non_finite = &non_finite},
                               *batch, *store_, ops_, exec_);
      for (size_t i = 0; i < parts.size(); ++i) {
        auto& [reader, n] = parts[i];
        const int64_t width = kHeads * kValueDim;
        std::copy_n(
            out.begin() + entries[i].row0 * width, n * width,
            reader->out[static_cast<size_t>(layer.index)].begin() + reader->at(*store_) * width);
      }
    }
    ASSERT_EQ(non_finite, 0);
    for (const StepEntry& entry : entries) {
      const Status status = store_->commit(entry.sequence, std::min(kept, entry.rows), exec_);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
  }

  // Rows up to `end`, at most `chunk` a step.
  void read(Reader& reader, int64_t end, int64_t chunk) {
    while (reader.at(*store_) < end && !::testing::Test::HasFatalFailure())
      step({{&reader,
             std::min({chunk, end - reader.at(*store_), store_->max_step_rows(reader.id)})}});
  }

 private:
  const kernels::Ops& ops_;
  std::unique_ptr<kernels::Device> device_;
  kernels::Exec exec_;
  std::unique_ptr<Store> store_;
};

// Rows as a codec keeps them.
struct Kept {
  std::vector<float> k;  // [tokens, kKeyDim]
  std::vector<float> v;  // [tokens, kValueDim]
};

Kept keep(const Text& text, const kernels::KvGeometry& geometry) {
  const kernels::Ops ops = kernels::ref_backend();
  const auto device = kernels::make_cpu_device(1);
  kernels::Exec exec(*device);
  std::vector<std::byte> page(ops.kv_page_bytes(geometry));
  Kept kept{std::vector<float>(text.k.size()), std::vector<float>(text.v.size())};
  const int64_t slot = 0;
  int32_t non_finite = 0;
  const kernels::KvSegment segment{.rows = 1};
  for (int64_t i = 0; i < text.tokens; ++i) {
    kernels::run(ops.kv_append,
                 kernels::KvAppendParams{.geometry = geometry,
                                         .k = text.k.data() + i * kKeyDim,
                                         .v = text.v.data() + i * kValueDim,
                                         .k_stride = kKeyDim,
                                         .v_stride = kValueDim,
                                         .segments = &segment,
                                         .n_segments = 1,
                                         .slots = &slot,
                                         .storage = page.data(),
                                         .page_stride = static_cast<int64_t>(page.size()),
                                         .non_finite = &non_finite},
                 exec);
    kernels::run(ops.kv_read,
                 kernels::KvReadParams{.geometry = geometry,
                                       .storage = page.data(),
                                       .page_stride = static_cast<int64_t>(page.size()),
                                       .slots = &slot,
                                       .n = 1,
                                       .k = kept.k.data() + i * kKeyDim,
                                       .v = kept.v.data() + i * kValueDim},
                 exec);
  }
  return kept;
}

// Attention of one layer over the naive cache: [tokens, kHeads, kValueDim].
std::vector<float> naive(const Text& text, const KvPlan& plan, const LayerPlan& layer) {
  const auto group = [&](int index) -> const GroupPlan& {
    return plan.groups[static_cast<size_t>(index)];
  };
  const Kept cold = keep(text, group(layer.group).geometry);
  const Kept hot = layer.hot_group >= 0 ? keep(text, group(layer.hot_group).geometry) : Kept{};
  const Kept before = layer.f16_group >= 0 ? keep(text, group(layer.f16_group).geometry) : Kept{};
  std::vector<float> out;
  std::vector<double> weight(static_cast<size_t>(text.tokens));
  for (int64_t q = 0; q < text.tokens; ++q)
    for (int h = 0; h < kHeads; ++h) {
      const auto kept = [&](int64_t token) -> const Kept& {
        if (layer.f16_group >= 0 && q < plan.quantized_start) return before;
        const bool is_hot =
            layer.hot_group >= 0 && token / kernels::kPageTokens >= q / kernels::kPageTokens - 1;
        return is_hot ? hot : cold;
      };
      double total = 0.0;
      for (int64_t t = 0; t <= q; ++t) {
        const bool seen = layer.chunk_size > 0
                              ? q / layer.chunk_size == t / layer.chunk_size
                              : layer.window <= 0 || q - t < layer.window || t < layer.keep;
        double score = 0.0;
        for (int d = 0; d < kKeyDim; ++d)
          score += double{text.q[static_cast<size_t>((q * kHeads + h) * kKeyDim + d)]} *
                   kept(t).k[static_cast<size_t>(t * kKeyDim + d)];
        weight[static_cast<size_t>(t)] = seen ? std::exp(score * kScale) : 0.0;
        total += weight[static_cast<size_t>(t)];
      }
      for (int d = 0; d < kValueDim; ++d) {
        double sum = 0.0;
        for (int64_t t = 0; t <= q; ++t)
          sum += weight[static_cast<size_t>(t)] * kept(t).v[static_cast<size_t>(t * kValueDim + d)];
        out.push_back(static_cast<float>(sum / total));
      }
    }
  return out;
}

// Largest distance of two heads' outputs, relative to the norm of a row of V.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0.0;
  for (size_t i = 0; i < a.size(); i += kValueDim) {
    double square = 0.0;
    for (size_t d = i; d < i + kValueDim; ++d) square += std::pow(double{a[d]} - b[d], 2);
    worst = std::max(worst, std::isfinite(square) ? square : INFINITY);
  }
  return std::sqrt(worst / kValueDim);
}

// Rounding Q to 8 bits moves a score of these rows by a percent or two; P is off by 1/510 of its
// largest.
constexpr double kRounding = 0.05;

struct Layout {
  std::string name;
  std::vector<LayerSpec> layers;
  int64_t max_kv_size = 0;
  int64_t keep = 0;
  int64_t tokens = 200;  // of a text: several windows
  std::string refusal;   // the feature that the plan must name; empty: it must run
};

LayerSpec sized(LayerSpec spec) {
  spec.heads = kHeads;
  spec.kv_heads = 1;
  spec.k_dim = kKeyDim;
  spec.v_dim = kValueDim;
  return spec;
}

Layout bounded(int64_t size, int64_t keep) {
  return {fmt::format("Bounded{}Keep{}", size, keep), {full()}, size, keep, 260};
}

std::vector<Layout> layouts() {
  std::vector<Layout> all{{"Full", {full()}}};
  for (const int64_t window : {1, 4, 63, 64, 65})
    all.push_back({fmt::format("Sliding{}", window), {sliding(window)}});
  all.push_back({"Sliding512", {sliding(512)}, 0, 0, 600});
  for (const int64_t size : {1, 50, 64, 128})
    all.push_back({fmt::format("Chunked{}", size), {chunked(size)}});
  for (const int64_t keep : {0, 1, 4, 70}) all.push_back(bounded(keep + 40, keep));
  all.push_back(bounded(74, 70));
  all.push_back({"SharedRingAndFull", {sliding(65), full(), shared(0), shared(1)}});
  all.push_back({"SlidingUnderMaxKvSize", {sliding(65), full()}, 30, 4});
  all.push_back({"KeepAboveMaxKvSize", {full()}, 40, 40, 200, "max-kv-size"});
  all.push_back({"ChunkAboveMaxKvSize", {chunked(64)}, 40, 0, 200, "max-kv-size"});
  all.push_back({"Recurrent", {full(), recurrent()}, 0, 0, 200, "run"});
  return all;
}

struct Codec {
  std::string bits;
  std::string hot = "8";
  std::string refusal;  // the feature that the plan must name; empty: it must run
};

std::vector<Codec> codecs() {
  std::vector<Codec> all{{"f16"}, {"8"}};
  for (const char* bits : {"6", "5", "4", "3", "2", "K8V4", "3.5"})
    for (const char* hot : {"none", "8", "f16"}) all.push_back({bits, hot});
  for (const char* bits : {"8:32", "4:16", "affine8:64", "affine4:32", "affine2:16", "Kf16V4",
                           "K4Vf16", "full=4+sliding=8", "full=f16+sliding=3"})
    all.push_back({bits});
  all.push_back({"4:48", "8", "head size"});
  all.push_back({"K8Vaffine4:128", "8", "head size"});
  return all;
}

class Matrix : public ::testing::TestWithParam<Layout> {
 protected:
  kernels::Ops ops = kernels::cpu_backend();

  CacheFlags flags(const Codec& codec) const {
    CacheFlags flags;
    flags.kv_bits = codec.bits;
    flags.kv_hot = codec.hot;
    flags.max_kv_size = GetParam().max_kv_size;
    flags.keep = GetParam().keep;
    flags.ctx = GetParam().max_kv_size > 0 ? 0 : GetParam().tokens + 8;
    flags.chunk = 97;
    flags.parallel = 3;
    flags.rollback = 8;
    return flags;
  }
  KvPlan plan(const CacheFlags& flags) const {
    ModelConfig config = model(GetParam().layers);
    for (LayerSpec& spec : config.layers) spec = sized(spec);
    return make_plan(config, flags, ops).value();
  }
  Outputs whole(const KvPlan& plan, const Text& text) const { return read(plan, text, plan.chunk); }
  Outputs read(const KvPlan& plan, const Text& text, int64_t chunk) const {
    Rig rig(ops, plan);
    auto reader = rig.open(text);
    rig.read(reader, text.tokens, chunk);
    return reader.out;
  }
  void modes(const KvPlan& plan, const Text& text, const Outputs& expected);
  void crossing(CacheFlags flags, const Text& text, const Outputs& expected);
};

// Rows [begin, end) of a layer's output.
void expect_rows(const Outputs& actual, const Outputs& expected, int64_t begin, int64_t end,
                 const std::string& mode) {
  constexpr size_t kWidth = kHeads * kValueDim;
  for (size_t layer = 0; layer < expected.size(); ++layer)
    for (size_t i = static_cast<size_t>(begin) * kWidth; i < static_cast<size_t>(end) * kWidth; ++i)
      ASSERT_EQ(actual[layer][i], expected[layer][i])
          << mode << ": layer " << layer << ", row " << i / kWidth;
}

// Every way to the same rows gives the same bits.
void Matrix::modes(const KvPlan& plan, const Text& text, const Outputs& expected) {
  const int64_t tokens = text.tokens;
  const Text other(tokens, 77);
  Rig rig(ops, plan);
  Store& store = rig.store();
  for (const int64_t chunk : {1, 7, 64}) {
    auto reader = rig.open(text);
    rig.read(reader, tokens, chunk);
    expect_rows(reader.out, expected, 0, tokens, fmt::format("steps of {}", chunk));
    store.close(reader.id);
  }

  {  // A ragged batch: three sequences at different lengths, other lengths in every step.
    auto a = rig.open(text), b = rig.open(text), c = rig.open(other);
    rig.read(a, tokens / 2, 64);
    rig.read(c, 5, 5);
    for (int64_t i = 0; !::testing::Test::HasFatalFailure(); ++i) {
      std::vector<std::pair<Rig::Reader*, int64_t>> parts;
      const auto add = [&](Rig::Reader& reader, int64_t rows) {
        rows = std::min({rows, tokens - reader.at(store), store.max_step_rows(reader.id)});
        if (rows > 0) parts.emplace_back(&reader, rows);
      };
      add(c, 1 + i % 3);
      add(a, 1);
      add(b, 11);
      if (parts.empty()) break;
      rig.step(parts);
    }
    expect_rows(a.out, expected, 0, tokens, "in a batch");
    expect_rows(b.out, expected, 0, tokens, "in a batch, behind");
    store.close(a.id), store.close(b.id), store.close(c.id);
  }

  {  // Rejected drafts all along the text, so also after the window has wrapped: rows that are not
     // committed, and rows that are taken back.
    auto reader = rig.open(text);
    std::mt19937 random(5);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    while (reader.at(store) < tokens && !::testing::Test::HasFatalFailure()) {
      const int64_t at = reader.at(store);
      const int64_t draft = std::min({1 + below(8), tokens - at, store.max_step_rows(reader.id)});
      const int64_t accepted = below(draft + 1);
      Text drafted = text;  // right up to `accepted`
      const auto spoil = [&](std::vector<float>& x, const std::vector<float>& from, int width) {
        std::copy(from.begin() + (at + accepted) * width, from.begin() + (at + draft) * width,
                  x.begin() + (at + accepted) * width);
      };
      spoil(drafted.q, other.q, kHeads * kKeyDim);
      spoil(drafted.k, other.k, kKeyDim);
      spoil(drafted.v, other.v, kValueDim);
      reader.text = &drafted;
      // No rollback goes below --quantized-kv-start.
      const bool commits =
          below(2) == 0 && (at >= plan.quantized_start || at + draft < plan.quantized_start);
      rig.step({{&reader, draft}}, commits ? draft : accepted);
      if (commits) {
        ASSERT_TRUE(store.rollback(reader.id, draft - accepted).ok());
      }
      reader.text = &text;
      rig.read(reader, std::min(tokens, at + accepted + 1), 1);
    }
    expect_rows(reader.out, expected, 0, tokens, "with rejected drafts");
    store.close(reader.id);
  }

  for (const int64_t at : {tokens / 3, tokens - 30}) {  // Fork, and both go on.
    auto trunk = rig.open(text);
    rig.read(trunk, at, 40);
    auto branch = rig.reader(store.fork(trunk.id).value(), text);
    auto stray = rig.reader(store.fork(trunk.id).value(), other);
    for (const int64_t more : {4, 12, 20})
      for (Rig::Reader* reader : {&branch, &trunk, &stray}) rig.read(*reader, at + more, 3);
    rig.read(branch, tokens, 9);
    rig.read(trunk, tokens, 9);
    expect_rows(trunk.out, expected, 0, tokens, "forked");
    expect_rows(branch.out, expected, at, tokens, "a fork");
    store.close(trunk.id), store.close(branch.id), store.close(stray.id);
  }

  for (const GroupUsage& usage : store.usage()) ASSERT_EQ(usage.pages_used, 0);
}

// Rows before the start are those of an f16 cache, rows after it those of the codec from the start.
void Matrix::crossing(CacheFlags flags, const Text& text, const Outputs& expected) {
  flags.quantized_kv_start = 70;
  const KvPlan crossing = plan(flags);
  ASSERT_TRUE(crossing.runnable()) << refusal_error(crossing).message;
  if (crossing.quantized_start == 0) return;  // nothing is quantized
  CacheFlags f16 = flags;
  f16.kv_bits = "f16";
  f16.quantized_kv_start = 0;
  const Outputs before = whole(plan(f16), text);
  const Outputs actual = whole(crossing, text);
  expect_rows(actual, before, 0, 70, "before --quantized-kv-start");
  expect_rows(actual, expected, 70, text.tokens, "after --quantized-kv-start");
  modes(crossing, text, actual);
}

TEST_P(Matrix, RunsAsTheNaiveCacheOrIsRefused) {
  const Text text(GetParam().tokens, 3);
  for (const Codec& codec : codecs()) {
    SCOPED_TRACE(fmt::format("--kv-bits {} --kv-hot {}", codec.bits, codec.hot));
    const CacheFlags asked = flags(codec);
    const KvPlan plan = this->plan(asked);
    const std::string& refusal = GetParam().refusal.empty() ? codec.refusal : GetParam().refusal;
    if (!refusal.empty()) {
      ASSERT_FALSE(plan.runnable());
      for (const Refusal& refusal : plan.refusals) EXPECT_FALSE(refusal.reason.empty());
      const auto names_it = [&](const Refusal& r) { return r.feature == refusal; };
      EXPECT_TRUE(std::any_of(plan.refusals.begin(), plan.refusals.end(), names_it));
      continue;
    }
    ASSERT_TRUE(plan.runnable()) << refusal_error(plan).message;
    const Outputs expected = whole(plan, text);
    for (const LayerPlan& layer : plan.layers)
      EXPECT_LT(distance(expected[static_cast<size_t>(layer.index)], naive(text, plan, layer)),
                kRounding)
          << "layer " << layer.index;
    modes(plan, text, expected);
    // Without a margin for rollback pages go as soon as nobody can see them.
    CacheFlags no_margin = asked;
    no_margin.rollback = 0;
    for (const int64_t chunk : {int64_t{1}, asked.chunk})
      expect_rows(read(this->plan(no_margin), text, chunk), expected, 0, text.tokens,
                  fmt::format("without rollback, steps of {}", chunk));
    crossing(asked, text, expected);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Matrix, ::testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ringkeep::kv::testing
