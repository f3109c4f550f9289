#include "cli/bench_measure.h"

#include <algorithm>
#include <chrono>
#include <random>

namespace ringkeep::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Rows of a layer that the last of `length` tokens sees.
int64_t rows_in_sight(const kv::LayerPlan& layer, int64_t length) {
  if (layer.chunk_size > 0) return (length - 1) % layer.chunk_size + 1;
  return layer.window > 0 ? std::min(length, layer.window + layer.keep) : length;
}

// Bytes that a decode step must read when the sequence has `length` tokens.
double decode_bytes(const engine::Engine& engine, const kv::KvPlan& plan, int64_t length) {
  auto bytes = static_cast<double>(engine.decode_weight_bytes() + engine.adapter_bytes());
  for (const kv::LayerPlan& layer : plan.layers) {
    // A shared layer reads its donor's rows.
    const auto& stored = layer.donor >= 0 ? plan.layers[static_cast<size_t>(layer.donor)] : layer;
    const int64_t rows = rows_in_sight(stored, length);
    int64_t hot = 0;  // of them, in the hot tier: the page of the last token and the one before
    if (stored.hot_group >= 0) {
      hot = std::min(rows, (length - 1) % kernels::kPageTokens + 1 + kernels::kPageTokens);
      const auto& tier = plan.groups[static_cast<size_t>(stored.hot_group)];
      bytes +=
          static_cast<double>(hot) * static_cast<double>(tier.page_bytes) / kernels::kPageTokens;
    }
    bytes += static_cast<double>(rows - hot) * static_cast<double>(stored.bytes_per_token);
  }
  return bytes;
}

// Random but fixed token ids.
std::vector<int32_t> random_tokens(int64_t count, int64_t vocab) {
  std::mt19937_64 random(1);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
  return tokens;
}

// A copy of a row's sequence while ops are profiled; both end with it.
class Copy {
 public:
  static Result<std::unique_ptr<Copy>> create(engine::Engine& engine, const BenchRow& row,
                                              kernels::OpProfile* profile) {
    const kv::SequenceId sequence = RK_TRY(row.lane->fork(row.filled));
    engine.exec().profile = profile;
    return std::unique_ptr<Copy>(new Copy(engine, *row.lane, sequence));
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() {
    engine_.exec().profile = nullptr;
    lane_.close(sequence_);
  }
  // The most likely token after `tokens`.
  Result<int32_t> extend(std::span<const int32_t> tokens) {
    const int64_t vocab = engine_.config().vocab_size;
    int32_t best = 0;
    RK_TRY(lane_.extend(sequence_, tokens, 1, [&](int64_t, int64_t, const float* logits) {
      best = static_cast<int32_t>(std::max_element(logits, logits + vocab) - logits);
    }));
    return best;
  }

 private:
  Copy(engine::Engine& engine, engine::Lane& lane, kv::SequenceId sequence)
      : engine_(engine), lane_(lane), sequence_(sequence) {}
  engine::Engine& engine_;
  engine::Lane& lane_;
  kv::SequenceId sequence_;
};

double per_second(int64_t count, Clock::time_point start) {
  return static_cast<double>(count) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Result<BenchRow> bench_row(engine::Engine& engine, engine::Lane& lane, std::string codec,
                           int64_t depth, int64_t decode) {
  BenchRow row;
  row.codec = std::move(codec);
  row.depth = depth;
  row.lane = &lane;
  row.filled = RK_TRY(lane.open());
  row.decode_bytes = decode_bytes(engine, lane.plan(), depth + (decode + 1) / 2);
  RK_TRY(lane.fill(row.filled, depth));
  return row;
}

Result<double> prefill_speed(engine::Engine& engine, const BenchRow& row, int64_t count,
                             kernels::OpProfile* profile) {
  const auto tokens = random_tokens(count, engine.config().vocab_size);
  const auto copy = RK_TRY(Copy::create(engine, row, profile));
  const auto start = Clock::now();
  RK_TRY(copy->extend(tokens));
  return per_second(count, start);
}

Result<double> decode_speed(engine::Engine& engine, BenchRow& row, int64_t count,
                            kernels::OpProfile* profile) {
  const auto copy = RK_TRY(Copy::create(engine, row, profile));
  int32_t token = random_tokens(1, engine.config().vocab_size)[0];
  const int64_t read = engine.exec().grouped_bytes;
  const auto loaded = [&] {
    return engine.expert_usage().value_or(engine::ExpertUsage{}).loaded_bytes;
  };
  const int64_t loaded_before = loaded();
  const auto start = Clock::now();
  for (int64_t i = 0; i < count; ++i) token = RK_TRY(copy->extend({&token, 1}));
  const double speed = per_second(count, start);
  row.expert_bytes =
      static_cast<double>(engine.exec().grouped_bytes - read) / static_cast<double>(count);
  row.loaded_bytes = static_cast<double>(loaded() - loaded_before) / static_cast<double>(count);
  return speed;
}

}  // namespace ringkeep::cli
