#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <map>

#include "engine/fingerprint.h"
#include "engine/generation.h"
#include "engine/mlx_cache.h"
#include "engine/prefix_cache.h"
#include "engine/saved_state.h"
#include "engine/scheduler.h"
#include "models/model.h"
#include "weights/calibration.h"

namespace ringkeep::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The factors of --kv-calibration, or none.
Result<weights::KeyBalance> calibrated_balance(const CacheFlags& flags,
                                               const checkpoint::Checkpoint& checkpoint) {
  if (flags.kv_calibration.empty()) return weights::KeyBalance{};
  return RK_TRY(weights::load_calibration(flags.kv_calibration, checkpoint)).balance;
}

constexpr int64_t kSnapshotStride = 1024;  // tokens of a prompt between snapshots
constexpr size_t kFinishedStats = 1024;    // finished generations whose statistics are kept

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
  EngineOptions options;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string tokenizer_sum;  // for saved caches
  std::unique_ptr<models::Model> model;
  std::unique_ptr<kv::Store> store;
  std::unique_ptr<PrefixCache> prefixes;  // null: off
  weights::KeyBalance balance;            // of the store's plan
  int64_t max_rows = 0;
  int64_t next_id = 1;
  std::list<Generation> generations;  // in order of arrival
  std::map<int64_t, GenerationStats> finished;
  ServingStats counts;
  Buffer logits;  // [max_logit_rows, vocab] float32

  Result<weights::KeyBalance> balance_for(const CacheFlags& flags, const kv::KvPlan& plan) const;
  // A new, empty cache of that plan with its K balance. On failure the old one stays.
  Status install(const CacheFlags& flags, const kv::KvPlan& plan);
  // The model's forward with this engine's settings, which a lane may have changed.
  Status forward(const models::Batch& batch);
  int64_t context_limit() const { return store->plan().max_length(); }
  Status run(const StepPlan& plan, std::vector<Generation*>& running, models::Batch& batch,
             kv::KvBatch& kv_batch);
  Event accept(Generation& generation, std::span<float> logits);
  bool start(Generation& generation);
  void keep(const Generation& generation);
  void finish(Generation& generation);
  CacheAccess access() { return {*store, ops, exec}; }
  Fingerprint fingerprint();
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
  RK_TRY(calibrated_balance(options.cache, checkpoint));

  std::unique_ptr<Engine> engine(new Engine());
  engine->state_ = std::make_unique<State>(std::move(checkpoint), ops, device);
  State& s = *engine->state_;
  s.tokenizer_sum = engine::tokenizer_sum(s.checkpoint.tokenizer);
  if (s.checkpoint.tokenizer.kind != TokenizerData::Kind::none)
    s.tokenizer = RK_TRY(text::Tokenizer::create(std::move(s.checkpoint.tokenizer)));
  s.options = options;
  s.max_rows = std::max<int64_t>(plan.chunk, plan.parallel);

  const models::ModelOptions model_options{.max_rows = s.max_rows,
                                           .pack = {options.weight_bits, options.weight_group}};
  s.model = RK_TRY(models::load_model(s.checkpoint, model_options, ops, device));
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
  balance = std::move(fresh_balance);
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
  if (const int64_t rows = std::max<int64_t>(plan.chunk, plan.parallel); rows > s.max_rows)
    return make_error(ErrorKind::usage,
                      "the cache asks for steps of {} rows (--chunk, --parallel), the engine was "
                      "loaded for {} at most",
                      rows, s.max_rows);
  return s.install(flags, plan);
}

void Engine::set_heartbeat(std::function<void()> heartbeat) {
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
  const int64_t before = request.after ? s.store->snapshot_length(*request.after) : 0;
  if (before + length > s.context_limit())
    return input_error("the prompt has {} tokens, the context (--ctx) holds {}", before + length,
                       s.context_limit());
  if (request.after && request.sampling.repetition_penalty != 1.0f)
    return make_error(ErrorKind::usage,
                      "repetition_penalty {}: the {} tokens of the loaded cache are not known",
                      request.sampling.repetition_penalty, before);
  if (request.fork_of != 0)
    for (const auto& leader : s.generations)
      if (leader.id == request.fork_of && !std::ranges::equal(leader.prompt(), request.tokens))
        return make_error(ErrorKind::usage, "fork_of {}: that request has other tokens",
                          request.fork_of);
  if (request.fork_of < 0 || request.fork_of >= s.next_id)
    return make_error(ErrorKind::usage, "fork_of {}: there is no such request", request.fork_of);
  if (const int64_t most = s.options.max_queue; most > 0) {
    const ServingStats now = serving();
    const int64_t places = plan().parallel - now.running;
    if (now.waiting >= most + places)
      return make_error(ErrorKind::busy, "{} requests wait, {} at most (--max-queue)", now.waiting,
                        most);
  }
  request.tokens.insert(request.tokens.begin(), static_cast<size_t>(before), kUnknownToken);
  s.generations.emplace_back(s.next_id, std::move(request));
  return s.next_id++;
}

ServingStats Engine::serving() const {
  ServingStats now = state_->counts;
  for (const Generation& g : state_->generations) ++(g.sequence >= 0 ? now.running : now.waiting);
  return now;
}

std::vector<SequenceView> Engine::sequences() const {
  std::vector<SequenceView> views;
  for (const Generation& g : state_->generations) {
    SequenceView& view = views.emplace_back();
    view.id = g.id;
    view.running = g.sequence >= 0;
    view.stats = g.stats;
    view.pages.resize(plan().groups.size());
    if (!view.running) continue;
    view.length = store().length(g.sequence);
    for (size_t i = 0; i < view.pages.size(); ++i)
      for (const kernels::PageRef& page : store().pages(g.sequence, static_cast<int>(i)))
        view.pages[i].push_back(page.physical);
  }
  return views;
}

bool Engine::idle() const { return state_->generations.empty(); }

void Engine::cancel(int64_t id) {
  State& s = *state_;
  for (auto& generation : s.generations)
    if (generation.id == id) {
      s.keep(generation);
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

// A sequence for the generation, from the longest known prefix; false while all are taken.
bool Engine::State::start(Generation& g) {
  std::optional<PrefixCache::Hit> hit;
  if (g.request.after)
    hit = PrefixCache::Hit{*g.request.after, store->snapshot_length(*g.request.after)};
  else if (prefixes && g.request.reuse_prefix)
    hit = prefixes->find(g.tokens, g.request.cache_salt);
  auto sequence = hit ? store->thaw(hit->snapshot, hit->length) : store->open();
  if (!sequence.ok()) return false;
  g.sequence = *sequence;
  g.cached = g.stats.cached_tokens = hit ? hit->length : 0;
  counts.prompt_tokens += g.prompt_size;
  counts.cached_tokens += g.cached;
  counts.prefix_hits += hit ? 1 : 0;
  if (!prefixes || g.request.after) return true;
  g.snapshots = g.request.snapshot_at;
  for (int64_t n = kSnapshotStride; n < g.prompt_size; n += kSnapshotStride)
    g.snapshots.push_back(n);
  g.snapshots.push_back(g.prompt_size - 1);
  std::erase_if(g.snapshots, [&](int64_t n) { return n <= g.cached || n >= g.prompt_size; });
  std::ranges::sort(g.snapshots, std::greater());
  g.snapshots.erase(std::unique(g.snapshots.begin(), g.snapshots.end()), g.snapshots.end());
  return true;
}

// Keeps the present state of the generation's sequence for requests that begin alike.
void Engine::State::keep(const Generation& g) {
  if (prefixes && !g.request.after && g.sequence >= 0 && g.cached > 0)
    prefixes->insert(std::span(g.tokens).first(static_cast<size_t>(g.cached)), g.request.cache_salt,
                     g.sequence);
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
  Status status = forward(batch);
  if (!status.ok())
    for (const auto& entry : entries) store->abort_step(entry.sequence);
  return status;
}

// The next token from the logits: what the reader may see of it, and whether the reply ends.
Event Engine::State::accept(Generation& g, std::span<float> row) {
  Event event{.id = g.id};
  text::TokenConstraint* constraint = g.request.constraint.get();
  if (constraint != nullptr && constraint->complete()) {  // before anything was said
    event.finish = FinishReason::stop;
    return event;
  }
  auto sampled = g.sampler.sample(row, g.prompt(), g.output(), g.request.top_logprobs, constraint);
  if (!sampled.ok()) {
    event.error = sampled.error();
    return event;
  }
  const int32_t token = sampled->token;
  g.tokens.push_back(token);
  ++g.stats.generated_tokens;
  ++counts.generated_tokens;
  event.tokens.push_back(token);
  if (g.request.top_logprobs >= 0) event.logprobs.push_back(std::move(*sampled));

  const bool ends = std::ranges::count(g.request.stop_tokens, token) > 0 ||
                    (tokenizer != nullptr && tokenizer->ends_generation(token) &&
                     (!g.request.ignore_eos || constraint != nullptr));
  if (!ends && constraint != nullptr) {
    if (Status accepted = constraint->accept(token); !accepted.ok()) {
      event.error = accepted.error();
      return event;
    }
  }
  if (ends) {
    event.finish = FinishReason::stop;
  } else {
    if (tokenizer != nullptr)
      event.text = g.decoder.push(tokenizer->bytes(token, g.request.show_control));
    const bool full = static_cast<int64_t>(g.tokens.size()) >= context_limit();
    const bool enough =
        g.request.max_tokens >= 0 && g.stats.generated_tokens >= g.request.max_tokens;
    if (g.decoder.stopped() || (constraint != nullptr && constraint->complete()))
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
    if (g.sequence < 0 && !s.start(g)) continue;
    jobs.push_back(
        {g.id, g.pending(), std::min(s.store->max_step_rows(g.sequence), g.rows_to_snapshot())});
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
    ++s.counts.steps;
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
      if (!g.snapshots.empty() && g.snapshots.back() == g.cached) {
        s.keep(g);
        g.snapshots.pop_back();
      }
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
      if (!event.error.has_value()) s.keep(g);
      s.finish(g);
      return true;
    });
  }
  return events;
}

Fingerprint Engine::State::fingerprint() {
  return make_fingerprint({.checkpoint = checkpoint,
                           .tokenizer = tokenizer_sum,
                           .balance = balance,
                           .plan = store->plan(),
                           .exact = options.exact,
                           .weight_bits = options.weight_bits,
                           .weight_group = options.weight_group});
}

Status Engine::save_cache(std::span<const int32_t> tokens, const std::string& path) {
  State& s = *state_;
  RK_CHECK(s.prefixes != nullptr, "there is no prefix cache");
  const auto hit = s.prefixes->find(tokens, 0);
  if (!hit)
    return make_error(ErrorKind::refused,
                      "{}: not saved: a snapshot of {} tokens does not fit --prefix-cache-bytes {}",
                      path, tokens.size(), plan().prefix_cache_bytes);
  const kv::SequenceId sequence = RK_TRY(s.store->thaw(hit->snapshot, hit->length));
  Status status = write_saved_state(
      s.access(), sequence, tokens.first(static_cast<size_t>(hit->length)), s.fingerprint(), path);
  s.store->close(sequence);
  return status;
}

Result<LoadedCache> Engine::load_cache(const std::string& path) {
  State& s = *state_;
  RK_CHECK(s.prefixes != nullptr, "there is no prefix cache");
  const MappedFile file = RK_TRY(MappedFile::open(path));
  LoadedCache loaded;
  kv::SequenceId sequence = -1;
  if (RK_TRY(holds_mlx_cache(file.bytes(), path))) {
    const MlxCache cache = RK_TRY(parse_mlx_cache(file.bytes(), path));
    sequence = RK_TRY(restore_mlx_cache(s.access(), cache, path));
    loaded.length = cache.length;
    loaded.note = describe_rounding(cache);
    auto snapshot = s.store->freeze(sequence);
    if (snapshot.ok()) loaded.snapshot = *snapshot;
  } else {
    const SavedState state = RK_TRY(parse_saved_state(file.bytes(), path));
    RK_TRY(check_saved_state_sum(file.bytes(), path));
    for (const int32_t token : state.tokens)
      if (token < 0 || token >= config().vocab_size)
        return input_error("{}: token {} is outside the vocabulary of {}", path, token,
                           config().vocab_size);
    sequence = RK_TRY(restore_saved_state(s.access(), state, s.fingerprint(), path));
    loaded.length = static_cast<int64_t>(state.tokens.size());
    if (s.prefixes->insert(state.tokens, 0, sequence)) loaded.tokens = state.tokens;
  }
  const size_t bytes = s.store->freeze_bytes(sequence);
  s.store->close(sequence);
  if (!loaded.snapshot && loaded.tokens.empty())
    return make_error(ErrorKind::refused, "{}: it needs {} bytes, --prefix-cache-bytes is {}", path,
                      bytes, plan().prefix_cache_bytes);
  return loaded;
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
