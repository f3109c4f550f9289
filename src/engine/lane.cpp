#include "engine/lane.h"

#include <algorithm>

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
    models::Batch batch;
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

}  // namespace ringkeep::engine
