#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <map>

#include "engine/generation.h"
#include "engine/scheduler.h"
#include "models/model.h"

namespace ringkeep::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr size_t kFinishedStats = 1024;  // finished generations whose statistics are kept

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::none: return "";
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
  }
  return "";
}

struct Engine::State {
  State(checkpoint::Checkpoint checkpoint, const kernels::Ops& ops, kernels::Device& device)
      : ops(ops), checkpoint(std::move(checkpoint)), exec(device) {}

  const kernels::Ops& ops;
  checkpoint::Checkpoint checkpoint;
  kernels::Exec exec;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<kv::Store> store;
  int64_t max_rows = 0;
  int64_t next_id = 1;
  std::list<Generation> generations;  // in order of arrival
  std::map<int64_t, GenerationStats> finished;
  Buffer logits;  // [max_logit_rows, vocab] float32

  int64_t context_limit() const { return store->plan().max_length(); }
  Status run(const StepPlan& plan, std::vector<Generation*>& running, models::Batch& batch,
             kv::KvBatch& kv_batch);
  Event accept(Generation& generation, std::span<float> logits);
  void finish(Generation& generation);
};

Engine::Engine() = default;
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::load(checkpoint::Checkpoint checkpoint,
                                             const EngineOptions& options, const kernels::Ops& ops,
                                             kernels::Device& device) {
  // Everything that can be refused is refused here, before weights are read.
  auto plan = RK_TRY(kv::make_plan(checkpoint.config, options.cache, ops));
  if (!plan.runnable()) return kv::refusal_error(plan);
  RK_TRY(models::check_family(checkpoint.config));

  std::unique_ptr<Engine> engine(new Engine());
  engine->state_ = std::make_unique<State>(std::move(checkpoint), ops, device);
  State& s = *engine->state_;
  if (s.checkpoint.tokenizer.kind != TokenizerData::Kind::none)
    s.tokenizer = RK_TRY(text::Tokenizer::create(std::move(s.checkpoint.tokenizer)));
  s.max_rows = std::max<int64_t>(plan.chunk, plan.parallel);

  models::ModelOptions model_options{.max_rows = s.max_rows, .exact = options.exact};
  model_options.load.pack = {options.weight_bits, options.weight_group};
  for (const auto& layer : plan.layers)
    model_options.load.balance_k.push_back(layer.geometry.k.scheme == kernels::KvScheme::hadamard);
  s.model = RK_TRY(models::load_model(s.checkpoint, model_options, ops, device));
  s.store = RK_TRY(kv::Store::create(plan, device, ops));
  s.logits =
      RK_TRY(Buffer::allocate(static_cast<size_t>(s.model->max_logit_rows()) *
                              static_cast<size_t>(s.checkpoint.config.vocab_size) * sizeof(float)));
  return engine;
}

const ModelConfig& Engine::config() const { return state_->checkpoint.config; }
const kv::KvPlan& Engine::plan() const { return state_->store->plan(); }
const kv::Store& Engine::store() const { return *state_->store; }
const text::Tokenizer* Engine::tokenizer() const { return state_->tokenizer.get(); }
size_t Engine::weight_bytes() const { return state_->model->weights().packed_bytes; }
size_t Engine::decode_weight_bytes() const { return state_->model->weights().decode_bytes; }
size_t Engine::scratch_bytes() const {
  return state_->model->activation_bytes() + state_->exec.scratch_bytes() + state_->logits.size();
}

Result<int64_t> Engine::submit(Request request) {
  State& s = *state_;
  const int64_t vocab = config().vocab_size;
  if (request.tokens.empty()) return make_error(ErrorKind::usage, "the prompt is empty");
  for (const int32_t token : request.tokens)
    if (token < 0 || token >= vocab)
      return make_error(ErrorKind::usage, "prompt token {} is outside the vocabulary of {}", token,
                        vocab);
  RK_TRY(validate(request.sampling, vocab));
  const int64_t length = static_cast<int64_t>(request.tokens.size());
  if (length > s.context_limit())
    return input_error("the prompt has {} tokens, the context (--ctx) holds {}", length,
                       s.context_limit());
  s.generations.emplace_back(s.next_id, std::move(request));
  return s.next_id++;
}

bool Engine::idle() const { return state_->generations.empty(); }

void Engine::cancel(int64_t id) {
  State& s = *state_;
  for (auto& generation : s.generations)
    if (generation.id == id) {
      s.finish(generation);
      s.generations.remove_if([id](const Generation& g) { return g.id == id; });
      return;
    }
}

GenerationStats Engine::stats(int64_t id) const {
  for (const auto& generation : state_->generations)
    if (generation.id == id) return generation.stats;
  const auto found = state_->finished.find(id);
  return found == state_->finished.end() ? GenerationStats{} : found->second;
}

void Engine::State::finish(Generation& generation) {
  if (generation.sequence >= 0) store->close(generation.sequence);
  generation.sequence = -1;
  finished[generation.id] = generation.stats;
  if (finished.size() > kFinishedStats) finished.erase(finished.begin());
}

// Forward of the planned rows; batch and kv_batch hold what ran.
Status Engine::State::run(const StepPlan& plan, std::vector<Generation*>& running,
                          models::Batch& batch, kv::KvBatch& kv_batch) {
  std::vector<kv::StepEntry> entries;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const Generation& g = *running[i];
    const int64_t rows = plan.entries[i].rows;
    entries.push_back(
        {.sequence = g.sequence, .row0 = static_cast<int64_t>(batch.tokens.size()), .rows = rows});
    for (int64_t r = g.cached; r < g.cached + rows; ++r) {
      batch.tokens.push_back(g.tokens[static_cast<size_t>(r)]);
      batch.positions.push_back(static_cast<int32_t>(r));
    }
  }
  kv_batch = RK_TRY(store->begin_step(entries));
  batch.kv = &kv_batch;
  Status status = model->forward(batch, *store, exec);
  if (!status.ok())
    for (const auto& entry : entries) store->abort_step(entry.sequence);
  return status;
}

// The next token from the logits: what the reader may see of it, and whether the reply ends.
Event Engine::State::accept(Generation& g, std::span<float> row) {
  Event event{.id = g.id};
  auto sampled = g.sampler.sample(row, g.prompt(), g.output(), g.request.top_logprobs);
  if (!sampled.ok()) {
    event.error = sampled.error();
    return event;
  }
  const int32_t token = sampled->token;
  g.tokens.push_back(token);
  ++g.stats.generated_tokens;
  event.tokens.push_back(token);
  if (g.request.top_logprobs >= 0) event.logprobs.push_back(std::move(*sampled));

  const bool ends =
      tokenizer != nullptr && tokenizer->ends_generation(token) && !g.request.ignore_eos;
  if (ends) {
    event.finish = FinishReason::stop;
  } else {
    if (tokenizer != nullptr) event.text = g.decoder.push(tokenizer->bytes(token));
    const bool full = static_cast<int64_t>(g.tokens.size()) >= context_limit();
    const bool enough =
        g.request.max_tokens >= 0 && g.stats.generated_tokens >= g.request.max_tokens;
    if (g.decoder.stopped())
      event.finish = FinishReason::stop;
    else if (full || enough)
      event.finish = FinishReason::length;
  }
  if (event.finish != FinishReason::none && !g.decoder.stopped()) event.text += g.decoder.finish();
  return event;
}

std::vector<Event> Engine::step() {
  State& s = *state_;
  std::vector<Event> events;
  std::vector<Job> jobs;
  for (auto& g : s.generations) {
    if (g.request.max_tokens == 0) {
      events.push_back({.id = g.id, .finish = FinishReason::length});
      continue;
    }
    if (g.sequence < 0) {
      auto opened = s.store->open();
      if (!opened.ok()) continue;  // all sequences are taken: wait
      g.sequence = *opened;
    }
    jobs.push_back({g.id, g.pending(), s.store->max_step_rows(g.sequence)});
  }

  const auto start = Clock::now();
  const StepPlan plan = schedule(jobs, s.max_rows);
  std::vector<Generation*> running;
  for (const auto& entry : plan.entries)
    for (auto& g : s.generations)
      if (g.id == entry.id) running.push_back(&g);

  models::Batch batch;
  kv::KvBatch kv_batch;
  if (!plan.entries.empty()) {
    Status status = s.run(plan, running, batch, kv_batch);
    int64_t row = 0;
    for (size_t i = 0; i < running.size(); ++i) {
      Generation& g = *running[i];
      const auto& entry = plan.entries[i];
      row += entry.rows;
      Status committed = status.ok() ? s.store->commit(g.sequence, entry.rows, s.exec) : status;
      if (!committed.ok()) {
        events.push_back({.id = g.id, .error = committed.error()});
        continue;
      }
      const bool prefill = g.prefilling();
      g.cached += entry.rows;
      if (entry.sample) {
        const int64_t last = row - 1;
        s.model->logits({&last, 1}, s.logits.as<float>(), s.exec);
        events.push_back(
            s.accept(g, std::span(s.logits.as<float>(), static_cast<size_t>(config().vocab_size))));
      }
      (prefill ? g.stats.prefill_seconds : g.stats.decode_seconds) += seconds_since(start);
    }
  }
  for (const auto& event : events) {
    if (event.finish == FinishReason::none && !event.error.has_value()) continue;
    s.generations.remove_if([&](Generation& g) {
      if (g.id != event.id) return false;
      s.finish(g);
      return true;
    });
  }
  return events;
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
    for (int64_t r = done; r < done + rows; ++r) {
      batch.tokens.push_back(tokens[static_cast<size_t>(r)]);
      batch.positions.push_back(static_cast<int32_t>(r));
    }
    const kv::StepEntry entry{.sequence = sequence, .rows = rows};
    auto kv_batch = RK_TRY(s.store->begin_step({&entry, 1}));
    batch.kv = &kv_batch;
    RK_TRY(s.model->forward(batch, *s.store, s.exec));
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
