// Drives a tiny model and a store step by step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "config/cache_flags.h"
#include "kernels/select/select.h"
#include "kv/store.h"
#include "models/model.h"
#include "tiny_model.h"

namespace ringkeep::testing {

using Logits = std::vector<std::vector<float>>;  // [rows][vocab]

class Runner {
 public:
  Runner(const TinyModel& tiny, const CacheFlags& flags, int threads = 1)
      : Runner(tiny.open(), flags, threads) {}
  Runner(checkpoint::Checkpoint checkpoint, const CacheFlags& flags, int threads = 1,
         const weights::PackOptions& pack = {})
      : checkpoint_(std::move(checkpoint)),
        device_(kernels::make_cpu_device(threads)),
        ops_(kernels::cpu_backend()),
        exec_(*device_) {
    auto plan = kv::make_plan(checkpoint_.config, flags, ops_).value();
    RK_CHECK(plan.runnable(), "{}", kv::format_plan(plan));
    models::ModelOptions options{.max_rows = std::max<int64_t>(plan.chunk, 2 * plan.parallel),
                                 .pack = pack};
    model_ = models::load_model(checkpoint_, options, ops_, *device_).value();
    store_ = kv::Store::create(plan, *device_, ops_).value();
  }

  kv::Store& store() { return *store_; }
  kernels::Ops& ops() { return ops_; }
  models::Model& model() { return *model_; }
  kernels::Exec& exec() { return exec_; }

  struct Row {
    kv::SequenceId sequence;
    std::span<const int32_t> tokens;
  };
  // Opens a step that appends tokens to sequences; the logits of every row, in order.
  Logits append(const std::vector<Row>& rows) {
    models::Batch batch;
    std::vector<kv::StepEntry> entries;
    for (const Row& row : rows) {
      entries.push_back({.sequence = row.sequence,
                         .row0 = static_cast<int64_t>(batch.tokens.size()),
                         .rows = static_cast<int64_t>(row.tokens.size())});
      for (const int32_t token : row.tokens) {
        const auto index = static_cast<int64_t>(batch.tokens.size()) - entries.back().row0;
        batch.tokens.push_back(token);
        batch.positions.push_back(static_cast<int32_t>(store_->length(row.sequence) + index));
      }
    }
    const kv::KvBatch kv = store_->begin_step(entries).value();
    batch.kv = &kv;
    model_->forward(batch, *store_, exec_).value();
    Logits result(batch.tokens.size(), std::vector<float>(kVocab));
    for (size_t i = 0; i < result.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      model_->logits({&row, 1}, result[i].data(), exec_);
    }
    return result;
  }
  void commit(kv::SequenceId sequence, int64_t rows) {
    store_->commit(sequence, rows, exec_).value();
  }
  void abort(kv::SequenceId sequence) { store_->abort_step(sequence); }
  // Appends and keeps all, in steps of at most `chunk` rows.
  Logits feed(kv::SequenceId sequence, std::span<const int32_t> tokens, size_t chunk) {
    Logits all;
    while (!tokens.empty()) {
      const auto part = tokens.first(
          std::min({chunk, tokens.size(), static_cast<size_t>(store_->max_step_rows(sequence))}));
      for (auto& row : append({{sequence, part}})) all.push_back(std::move(row));
      commit(sequence, static_cast<int64_t>(part.size()));
      tokens = tokens.subspan(part.size());
    }
    return all;
  }

 private:
  checkpoint::Checkpoint checkpoint_;
  std::unique_ptr<kernels::Device> device_;
  kernels::Ops ops_;
  kernels::Exec exec_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<kv::Store> store_;
};

}  // namespace ringkeep::testing
