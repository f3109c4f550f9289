#include "engine/engine.h"

#include <algorithm>

#include "base/memory.h"
#include "engine/engine_state.h"
#include "weights/calibration.h"
#include "weights/expert_memory.h"

namespace ringkeep::engine {
namespace {

// The factors of --kv-calibration, or none.
Result<weights::KeyBalance> calibrated_balance(const CacheFlags& flags,
                                               const checkpoint::Checkpoint& checkpoint) {
  if (flags.kv_calibration.empty()) return weights::KeyBalance{};
  return RK_TRY(weights::load_calibration(flags.kv_calibration, checkpoint)).balance;
}

// What experts may take, beside everything else that is allocated.
Result<size_t> expert_memory_of(const checkpoint::Checkpoint& checkpoint,
                                const EngineOptions& options, const kv::KvPlan& plan,
                                const std::vector<weights::AdapterSource>& adapters,
                                const kernels::Ops& ops) {
  if (checkpoint.config.experts == 0)
    return weights::expert_memory({}, 0, options.expert_memory, 0, 0);
  const auto bytes =
      RK_TRY(weights::packed_bytes(checkpoint, {options.weight_bits, options.weight_group}, ops));
  size_t others = plan.kv_bytes + plan.kv_prefill_bytes + plan.prefix_cache_bytes +
                  models::activation_bytes(checkpoint.config, plan.step_rows());
  for (const weights::AdapterSource& source : adapters)
    others += RK_TRY(weights::adapter_sizes(source, ops)).bytes;
  return weights::expert_memory(bytes, checkpoint.config.experts_used, options.expert_memory,
                                others, available_memory());
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::none: return "";
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
  }
  return "";
}

Engine::Engine() = default;
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(checkpoint::Checkpoint checkpoint,
                                             const EngineOptions& options, const kernels::Ops& ops,
                                             kernels::Device& device) {
  // Everything that can be refused is refused here, before weights are read.
  auto plan = RK_TRY(kv::make_plan(checkpoint.config, options.cache, ops));
  if (!plan.runnable()) return kv::refusal_error(plan);
  RK_TRY(models::check_family(checkpoint.config));
  RK_TRY(calibrated_balance(options.cache, checkpoint));
  const auto adapters = RK_TRY(State::open_adapters(options, checkpoint.config));
  settle_long_rope(checkpoint.config, plan.max_length());

  std::unique_ptr<Engine> engine(new Engine());
  engine->state_ = std::make_unique<State>(std::move(checkpoint), ops, device);
  State& s = *engine->state_;
  s.tokenizer_sum = engine::tokenizer_sum(s.checkpoint.tokenizer);
  if (s.checkpoint.tokenizer.kind != TokenizerData::Kind::none)
    s.tokenizer = RK_TRY(text::Tokenizer::create(std::move(s.checkpoint.tokenizer)));
  s.options = options;
  s.max_rows = plan.step_rows();

  models::ModelOptions model_options{.max_rows = s.max_rows,
                                     .pack = {options.weight_bits, options.weight_group}};
  model_options.pack.expert_memory =
      RK_TRY(expert_memory_of(s.checkpoint, options, plan, adapters, ops));
  return_freed_memory();  // of metadata and the tokenizer's making
  s.model = RK_TRY(models::load_model(s.checkpoint, model_options, ops, device));
  RK_TRY(s.load_adapters(adapters));
  RK_TRY(s.install(options.cache, plan));
  s.logits =
      RK_TRY(Buffer::allocate(static_cast<size_t>(s.model->max_logit_rows()) *
                              static_cast<size_t>(s.checkpoint.config.vocab_size) * sizeof(float)));
  return engine;
}

Result<weights::KeyBalance> Engine::State::balance_for(const CacheFlags& flags,
                                                       const kv::KvPlan& plan) const {
  const auto measured = RK_TRY(calibrated_balance(flags, checkpoint));
  const weights::KeyBalance& source = measured.empty() ? model->weights().balance : measured;
  weights::KeyBalance result(plan.layers.size());
  for (const auto& layer : plan.layers) {
    if (layer.geometry.k.scheme != kernels::KvScheme::hadamard) continue;
    const int donor = layer.donor >= 0 ? layer.donor : layer.index;  // whose keys it reads
    result[static_cast<size_t>(layer.index)] = source[static_cast<size_t>(donor)];
  }
  return result;
}

Status Engine::State::install(const CacheFlags& flags, const kv::KvPlan& plan) {
  auto fresh_balance = RK_TRY(balance_for(flags, plan));
  auto fresh = RK_TRY(kv::Store::create(plan, exec.device(), ops));
  options.cache = flags;
  prefixes.reset();  // it holds snapshots of the old store
  store = std::move(fresh);
  balance = std::make_shared<const weights::KeyBalance>(std::move(fresh_balance));
  admission.emplace(plan, options.reserve_tokens);
  if (plan.prefix_cache_bytes > 0) prefixes = std::make_unique<PrefixCache>(*store);
  return {};
}

Status Engine::State::forward(const models::Batch& batch) {
  model->set_exact(options.exact);
  RK_TRY(model->set_key_balance(balance, exec.device()));
  return model->forward(batch, *store, exec);
}

Status Engine::set_cache(const CacheFlags& flags) {
  State& s = *state_;
  if (!s.generations.empty())
    return make_error(ErrorKind::usage, "the cache cannot be changed while {} generations run",
                      s.generations.size());
  auto plan = RK_TRY(kv::make_plan(config(), flags, s.ops));
  if (!plan.runnable()) return kv::refusal_error(plan);
  if (const int64_t rows = plan.step_rows(); rows > s.max_rows)
    return make_error(ErrorKind::usage,
                      "the cache asks for steps of {} rows (--chunk, --parallel), the engine was "
                      "loaded for {} at most",
                      rows, s.max_rows);
  return s.install(flags, plan);
}

void Engine::set_heartbeat(std::function<void()> heartbeat) {
  state_->heartbeat = heartbeat;
  state_->model->set_heartbeat(std::move(heartbeat));
}

void Engine::observe_keys(models::KeyStatistics* statistics) {
  state_->model->observe_keys(statistics);
}

const checkpoint::Checkpoint& Engine::checkpoint() const { return state_->checkpoint; }
const weights::KeyBalance& Engine::weight_balance() const {
  return state_->model->weights().balance;
}
const ModelConfig& Engine::config() const { return state_->checkpoint.config; }
models::Model& Engine::model() { return *state_->model; }
kernels::Exec& Engine::exec() { return state_->exec; }
const kernels::Ops& Engine::ops() const { return state_->ops; }
int64_t Engine::max_step_rows() const { return state_->max_rows; }
Result<weights::KeyBalance> Engine::key_balance(const CacheFlags& flags,
                                                const kv::KvPlan& plan) const {
  return state_->balance_for(flags, plan);
}
const kv::KvPlan& Engine::plan() const { return state_->store->plan(); }
const kv::Store& Engine::store() const { return *state_->store; }
const text::Tokenizer* Engine::tokenizer() const { return state_->tokenizer.get(); }
size_t Engine::weight_bytes() const { return state_->model->weights().packed_bytes; }
size_t Engine::decode_weight_bytes() const { return state_->model->weights().decode_bytes; }
std::optional<ExpertUsage> Engine::expert_usage() const {
  const weights::ExpertCache* cache = state_->model->weights().expert_cache.get();
  if (cache == nullptr) return std::nullopt;
  const weights::ExpertCache::Stats& stats = cache->stats();
  return ExpertUsage{cache->bytes(), stats.hits, stats.loads, stats.loaded_bytes};
}
size_t Engine::expert_bytes() const { return state_->model->weights().expert_bytes; }
size_t Engine::scratch_bytes() const {
  return state_->model->activation_bytes() + state_->exec.scratch_bytes() + state_->logits.size();
}

Status Engine::logits(std::span<const int32_t> tokens, int64_t chunk, int64_t begin, int64_t end,
                      const std::function<void(int64_t, std::span<const float>)>& row,
                      const std::function<bool()>& stop) {
  State& s = *state_;
  const int64_t length = static_cast<int64_t>(tokens.size());
  if (length == 0) return make_error(ErrorKind::usage, "no tokens to run");
  if (begin < 0 || end > length || begin >= end)
    return make_error(ErrorKind::usage, "positions {}:{} are not inside the {} tokens", begin, end,
                      length);
  if (length > s.context_limit())
    return input_error("{} tokens, the context (--ctx) holds {}", length, s.context_limit());
  for (const int32_t token : tokens)
    if (token < 0 || token >= config().vocab_size)
      return make_error(ErrorKind::usage, "token {} is outside the vocabulary of {}", token,
                        config().vocab_size);

  const auto sequence = RK_TRY(s.store->open());
  struct Closer {
    kv::Store& store;
    kv::SequenceId sequence;
    ~Closer() { store.close(sequence); }
  } closer{*s.store, sequence};
  const size_t vocab = static_cast<size_t>(config().vocab_size);
  for (int64_t done = 0; done < end;) {
    if (stop && stop()) return {};
    const int64_t rows =
        std::min({chunk, s.max_rows, s.store->max_step_rows(sequence), end - done});
    models::Batch batch;
    if (adapter() != nullptr) batch.adapters = {{0, rows, adapter()}};
    for (int64_t r = done; r < done + rows; ++r) {
      batch.tokens.push_back(tokens[static_cast<size_t>(r)]);
      batch.positions.push_back(static_cast<int32_t>(r));
    }
    const kv::StepEntry entry{.sequence = sequence, .rows = rows};
    auto kv_batch = RK_TRY(s.store->begin_step({&entry, 1}));
    batch.kv = &kv_batch;
    RK_TRY(s.forward(batch));
    for (int64_t r = std::max(begin, done); r < done + rows;) {
      std::vector<int64_t> picked;
      for (; r < done + rows && static_cast<int64_t>(picked.size()) < s.model->max_logit_rows();
           ++r)
        picked.push_back(r - done);
      s.model->logits(picked, s.logits.as<float>(), s.exec);
      for (size_t i = 0; i < picked.size(); ++i)
        row(done + picked[i], std::span<const float>(s.logits.as<float>() + i * vocab, vocab));
    }
    RK_TRY(s.store->commit(sequence, rows, s.exec));
    done += rows;
  }
  return {};
}

}  // namespace ringkeep::engine
