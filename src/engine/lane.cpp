#include "engine/lane.h"

#include <algorithm>
#include <random>

#include "models/blocks/cached_attention.h"
#include "models/model.h"

namespace ringkeep::engine {

Result<std::unique_ptr<Lane>> Lane::create(Engine& engine, const CacheFlags& cache, bool exact) {
  const auto plan = RK_TRY(kv::make_plan(engine.config(), cache, engine.ops()));
  if (!plan.runnable()) return kv::refusal_error(plan);
  std::unique_ptr<Lane> lane(new Lane(engine, exact));
  lane->balance_ =
      std::make_shared<const weights::KeyBalance>(RK_TRY(engine.key_balance(cache, plan)));
  lane->store_ = RK_TRY(kv::Store::create(plan, engine.exec().device(), engine.ops()));
  lane->logits_ = RK_TRY(Buffer::allocate(
      static_cast<size_t>(engine.model().max_logit_rows() * engine.config().vocab_size) *
      sizeof(float)));
  return lane;
}

Status Lane::extend(kv::SequenceId sequence, std::span<const int32_t> tokens, int64_t wanted,
                    const Logits& logits) {
  models::Model& model = engine_.model();
  kernels::Exec& exec = engine_.exec();
  const auto count = static_cast<int64_t>(tokens.size());
  RK_CHECK(wanted >= 0 && wanted <= count, "logits of {} of {} tokens", wanted, count);
  for (int64_t done = 0; done < count;) {
    // A sequence that is full gets a step of one row, which the store refuses with its reason.
    const int64_t rows = std::min({std::max<int64_t>(store_->max_step_rows(sequence), 1),
                                   engine_.max_step_rows(), count - done});
    models::Batch batch{.fine_rows = count == 1 ? 1 : 0};
    if (engine_.adapter() != nullptr) batch.adapters = {{0, rows, engine_.adapter()}};
    const int64_t length = store_->length(sequence);
    for (int64_t r = 0; r < rows; ++r) {
      batch.tokens.push_back(tokens[static_cast<size_t>(done + r)]);
      batch.positions.push_back(static_cast<int32_t>(length + r));
    }
    const kv::StepEntry entry{.sequence = sequence, .rows = rows};
    auto kv_batch = RK_TRY(store_->begin_step({&entry, 1}));
    batch.kv = &kv_batch;
    model.set_exact(exact_);
    Status status = model.set_key_balance(balance_, exec.device());
    if (status.ok()) status = model.forward(batch, *store_, exec);
    if (!status.ok()) {
      store_->abort_step(sequence);
      return status;
    }
    for (int64_t r = std::max<int64_t>(count - wanted - done, 0); r < rows;) {
      std::vector<int64_t> picked;
      const int64_t first = r;
      for (; r < rows && r - first < model.max_logit_rows(); ++r) picked.push_back(r);
      model.logits(picked, logits_.as<float>(), exec);
      logits(done + first, r - first, logits_.as<float>());
    }
    RK_TRY(store_->commit(sequence, rows, exec));
    done += rows;
  }
  return {};
}

Status Lane::fill(kv::SequenceId sequence, int64_t count) {
  kernels::Exec& exec = engine_.exec();
  const auto& layers = plan().layers;
  int64_t width = 0;  // of a row of K or V
  for (const auto& group : plan().groups)
    width = std::max(width, int64_t{group.geometry.kv_heads} *
                                std::max(group.geometry.k_dim, group.geometry.v_dim));
  std::vector<float> noise(static_cast<size_t>(std::min(engine_.max_step_rows(), count) * width));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : noise) value = normal(random);
  const auto bytes = noise.size() * sizeof(float);
  const kernels::DeviceBuffer rows_of_noise = RK_TRY(exec.device().allocate(bytes));
  exec.device().copy_in(rows_of_noise.data(), noise.data(), bytes);
  const float* kv = rows_of_noise.as<float>();
  for (int64_t done = 0; done < count;) {
    const int64_t rows = std::min({std::max<int64_t>(store_->max_step_rows(sequence), 1),
                                   engine_.max_step_rows(), count - done});
    const kv::StepEntry entry{.sequence = sequence, .rows = rows};
    const kv::KvBatch batch = RK_TRY(store_->begin_step({&entry, 1}));
    for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer)
      if (layers[static_cast<size_t>(layer)].donor < 0)
        models::append_rows({.layer = layer, .k = kv, .v = kv}, batch, *store_, engine_.ops(),
                            exec);
    RK_TRY(store_->commit(sequence, rows, exec));
    done += rows;
  }
  return {};
}

}  // namespace ringkeep::engine
