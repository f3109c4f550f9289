// Requests, and the steps in which they run.
#include <algorithm>
#include <chrono>
#include <new>

#include "engine/engine_state.h"

namespace ringkeep::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr size_t kFinishedStats = 1024;  // finished generations whose statistics are kept

// What `work` gives, or an error where it finds no memory: nothing may leave a task of the pool.
template <typename Work>
auto or_out_of_memory(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace

Error out_of_memory() {
  return make_error(ErrorKind::runtime,
                    "out of memory: the engine could not hold what this request needs: send a "
                    "shorter one, or start the server with a smaller --kv-memory, "
                    "--prefix-cache-bytes, --parallel or --chunk");
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
  const int64_t before = request.after ? s.store->snapshot_length(*request.after) : 0;
  const int64_t prompt = before + static_cast<int64_t>(request.tokens.size());
  const int64_t context = s.context_limit();
  if (prompt + (request.max_tokens != 0 ? 1 : 0) > context)
    return input_error("the prompt has {} tokens, the context (--ctx) holds {}{}", prompt, context,
                       request.max_tokens != 0 ? " with the reply" : "");
  if (request.after && request.sampling.repetition_penalty != 1.0f)
    return make_error(ErrorKind::usage,
                      "repetition_penalty {}: the {} tokens of the loaded cache are not known",
                      request.sampling.repetition_penalty, before);
  const bool bounded = request.max_tokens >= 0 && request.max_tokens < context - prompt;
  const int64_t limit = bounded ? prompt + request.max_tokens : context;
  if (const auto why = s.admission->never(prompt, limit))
    return input_error("the cache (--kv-memory) is too small for this request: {}", *why);

  const int adapter = request.adapter.value_or(s.options.adapter);
  if (adapter < -1 || adapter >= static_cast<int>(s.adapters.size()))
    return make_error(ErrorKind::usage, "adapter {}: {} are loaded", adapter, s.adapters.size());
  request.adapter = adapter;
  request.cache_salt = s.salt_with(adapter, request.cache_salt);

  if (request.fork_of < 0 || request.fork_of >= s.next_id)
    return make_error(ErrorKind::usage, "fork_of {}: there is no such request", request.fork_of);
  if (const Generation* leader = s.find(request.fork_of);
      leader != nullptr && (!std::ranges::equal(leader->prompt(), request.tokens) ||
                            leader->request.cache_salt != request.cache_salt))
    return make_error(ErrorKind::usage, "fork_of {}: that request has another prompt",
                      request.fork_of);
  if (const int64_t most = s.options.max_queue; most > 0) {
    const ServingStats now = serving();
    if (now.waiting >= most + plan().parallel - now.running)
      return make_error(ErrorKind::busy,
                        "{} requests run and {} wait; {} may run at a time and {} wait",
                        now.running, now.waiting, plan().parallel, most);
  }
  if (request.prompt_logprobs >= 0) {
    if (request.after || request.fork_of != 0)
      return make_error(ErrorKind::usage,
                        "prompt_logprobs: rows of the prompt come from elsewhere, not from a run");
    request.reuse_prefix = false;
  }
  request.tokens.insert(request.tokens.begin(), static_cast<size_t>(before), kUnknownToken);
  s.generations.emplace_back(s.next_id, std::move(request), limit);
  return s.next_id++;
}

ServingStats Engine::serving() const {
  ServingStats now = state_->counts;
  for (const Generation& g : state_->generations)
    ++(g.ticket.running() ? now.running : now.waiting);
  return now;
}

std::vector<SequenceView> Engine::sequences() const {
  std::vector<SequenceView> views;
  for (const Generation& g : state_->generations) {
    SequenceView& view = views.emplace_back();
    view.id = g.id;
    view.running = g.ticket.running();
    view.stats = g.stats;
    view.pages.resize(plan().groups.size());
    if (g.sequence < 0) continue;
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
  Generation* g = s.find(id);
  if (g == nullptr) return;
  s.keep(*g);
  s.finish(*g);
}

GenerationStats Engine::stats(int64_t id) const {
  if (const Generation* g = state_->find(id)) return g->stats;
  const auto found = state_->finished.find(id);
  return found == state_->finished.end() ? GenerationStats{} : found->second;
}

void Engine::State::keep(const Generation& g) {
  if (prefixes && !g.request.after && g.sequence >= 0 && g.ticket.cached > 0)
    prefixes->insert(rows_of(g, static_cast<size_t>(g.ticket.cached)), g.request.cache_salt,
                     g.sequence);
}

std::vector<int32_t> Engine::State::rows_of(const Generation& g, size_t count) const {
  std::vector<int32_t> rows(g.tokens.begin(), g.tokens.begin() + static_cast<ptrdiff_t>(count));
  if (ops.coarse_prompts && !options.exact)
    for (size_t i = static_cast<size_t>(g.prompt_size); i < count; ++i)
      rows[i] = generated(rows[i]);
  return rows;
}

// The first of those that were to take over its prompt rows leads the others from now on.
void Engine::State::finish(Generation& g) {
  close(g.ticket, false);
  int64_t heir = 0;
  for (Generation& other : generations) {
    if (other.request.fork_of != g.id) continue;
    other.request.fork_of = heir;
    if (heir == 0) heir = other.id;
  }
  const int64_t id = g.id;
  finished[id] = g.stats;
  if (finished.size() > kFinishedStats) finished.erase(finished.begin());
  generations.remove_if([id](const Generation& other) { return other.id == id; });
}

bool Engine::State::ends_unrun(const Generation& g) {
  if (g.request.max_tokens != 0) return false;
  const Generation* leader = g.request.fork_of != 0 ? find(g.request.fork_of) : nullptr;
  return g.request.prompt_logprobs < 0 &&
         (leader == nullptr || leader->request.prompt_logprobs < 0);
}

std::vector<Engine::State::Part> Engine::State::plan_step() {
  std::vector<Job> jobs;
  for (Generation& g : generations)
    if (g.sequence >= 0)
      jobs.push_back({g.id, g.ticket.pending(),
                      std::min(store->max_step_rows(g.sequence), g.rows_of_a_kind())});
  std::vector<Part> parts;
  for (const auto& entry : schedule(jobs, max_rows).entries)
    parts.push_back({find(entry.id), entry.rows, entry.sample});
  std::stable_partition(parts.begin(), parts.end(),
                        [](const Part& part) { return !part.generation->prefilling(); });
  // Rows of one adapter together, within those that decode and within the prompts.
  if (!adapters.empty())
    std::ranges::stable_sort(parts, {}, [](const Part& part) {
      return std::pair(part.generation->prefilling(), *part.generation->request.adapter);
    });
  return parts;
}

Status Engine::State::forward(std::span<const Part> parts) {
  models::Batch batch;
  std::vector<kv::StepEntry> entries;
  for (const Part& part : parts) {
    const Generation& g = *part.generation;
    entries.push_back({.sequence = g.sequence,
                       .row0 = static_cast<int64_t>(batch.tokens.size()),
                       .rows = part.rows});
    if (const weights::Adapter* used = adapter(*g.request.adapter)) {
      const auto row0 = static_cast<int64_t>(batch.tokens.size());
      std::vector<models::AdapterRows>& runs = batch.adapters;
      if (!runs.empty() && runs.back().adapter == used &&
          runs.back().row0 + runs.back().rows == row0)
        runs.back().rows += part.rows;
      else
        runs.push_back({row0, part.rows, used});
    }
    for (int64_t r = g.ticket.cached; r < g.ticket.cached + part.rows; ++r) {
      batch.tokens.push_back(g.tokens[static_cast<size_t>(r)]);
      batch.positions.push_back(static_cast<int32_t>(r));
    }
    if (!g.prefilling()) batch.fine_rows += part.rows;
  }
  const Status status = or_out_of_memory([&]() -> Status {
    const kv::KvBatch kv_batch = RK_TRY(store->begin_step(entries));
    batch.kv = &kv_batch;
    return forward(batch);
  });
  if (!status.ok())
    for (const auto& entry : entries) store->abort_step(entry.sequence);
  return status;
}

void Engine::State::run(std::span<const Part> parts, std::vector<Event>& events) {
  const auto start = Clock::now();
  ++counts.steps;
  std::vector<std::pair<Generation*, int64_t>> sampled;
  std::vector<std::pair<Generation*, bool>> ran;  // and whether that was part of its prompt
  ran.reserve(parts.size());
  if (Status status = forward(parts); !status.ok()) {
    if (parts.size() == 1)
      events.push_back({.id = parts[0].generation->id, .error = status.error()});
    else
      for (const Part& part : parts) run({&part, 1}, events);
    return;
  }
  int64_t row = 0;
  for (const Part& part : parts) {
    Generation& g = *part.generation;
    row += part.rows;
    if (Status committed = store->commit(g.sequence, part.rows, exec); !committed.ok()) {
      events.push_back({.id = g.id, .error = committed.error()});
      continue;
    }
    ran.emplace_back(&g, g.prefilling());
    g.ticket.cached += part.rows;
    if (!g.snapshots.empty() && g.snapshots.back() == g.ticket.cached) {
      keep(g);
      g.snapshots.pop_back();
    }
    if (Status scored = score_prompt(g, row - part.rows, part.rows); !scored.ok()) {
      events.push_back({.id = g.id, .error = scored.error()});
      continue;
    }
    if (!part.sample) continue;
    if (g.request.max_tokens == 0) {
      events.push_back({.id = g.id,
                        .prompt_logprobs = std::move(g.prompt_logprobs),
                        .finish = FinishReason::length});
      continue;
    }
    sampled.emplace_back(&g, row - 1);
    if (g.output().empty())
      for (Generation* follower : fork_followers(g)) sampled.emplace_back(follower, row - 1);
  }
  sample(sampled, events);
  const double seconds = seconds_since(start);
  for (const auto& [g, prompt] : ran)
    (prompt ? g->stats.prefill_seconds : g->stats.decode_seconds) += seconds;
}

Status Engine::State::score_prompt(Generation& g, int64_t row, int64_t rows) {
  if (g.request.prompt_logprobs < 0 || !g.output().empty()) return {};
  const auto vocab = static_cast<size_t>(checkpoint.config.vocab_size);
  const int64_t first = g.ticket.cached - rows;  // index of the token at `row`
  const int64_t end = std::min(g.ticket.cached, g.prompt_size - 1);
  // One that was set back runs rows again that were looked at before.
  for (int64_t at = std::max(first, static_cast<int64_t>(g.prompt_logprobs.size())); at < end;) {
    std::vector<int64_t> picked;
    for (int64_t i = at; i < end && i - at < model->max_logit_rows(); ++i)
      picked.push_back(row + i - first);
    model->logits(picked, logits.as<float>(), exec);
    std::vector<Result<Sampled>> scores(picked.size(), Sampled{});
    exec.pool().parallel_for(static_cast<int64_t>(picked.size()), [&](int64_t task, int) {
      const auto i = static_cast<size_t>(task);
      scores[i] = or_out_of_memory([&] {
        return score(std::span(logits.as<float>() + i * vocab, vocab),
                     g.tokens[static_cast<size_t>(at + task + 1)], g.request.prompt_logprobs);
      });
    });
    for (Result<Sampled>& scored : scores) g.prompt_logprobs.push_back(RK_TRY(std::move(scored)));
    at += static_cast<int64_t>(picked.size());
    if (heartbeat) heartbeat();
  }
  return {};
}

void Engine::State::sample(std::span<const std::pair<Generation*, int64_t>> rows,
                           std::vector<Event>& events) {
  const auto vocab = static_cast<size_t>(checkpoint.config.vocab_size);
  while (!rows.empty()) {
    const auto part =
        rows.first(std::min(rows.size(), static_cast<size_t>(model->max_logit_rows())));
    std::vector<int64_t> picked;
    std::vector<Result<Sampled>> sampled(part.size(), Sampled{});
    for (size_t i = 0; i < part.size(); ++i) {
      Generation& g = *part[i].first;
      picked.push_back(part[i].second);
      if (text::TokenConstraint* constraint = g.request.constraint.get()) {
        const Status masked = or_out_of_memory([&] {
          g.allowed.assign((vocab + 63) / 64, ~uint64_t{0});
          return constraint->mask(g.allowed);
        });
        if (!masked.ok()) sampled[i] = masked.error();
        if (heartbeat) heartbeat();  // many hard grammars take as long as many layers
      }
    }
    model->logits(picked, logits.as<float>(), exec);
    exec.pool().parallel_for(static_cast<int64_t>(part.size()), [&](int64_t task, int) {
      const auto i = static_cast<size_t>(task);
      Generation& g = *part[i].first;
      if (!sampled[i].ok()) return;
      sampled[i] = or_out_of_memory([&] {
        return g.sampler.sample(std::span(logits.as<float>() + i * vocab, vocab), g.prompt(),
                                g.output(), g.request.top_logprobs, g.allowed);
      });
    });
    for (size_t i = 0; i < part.size(); ++i)
      events.push_back(accept(*part[i].first, std::move(sampled[i])));
    rows = rows.subspan(part.size());
  }
}

std::string Engine::State::text_of(Generation& g, int32_t token) const {
  const ControlText control = g.request.control;
  const std::string bytes = tokenizer->bytes(token, control != ControlText::hidden);
  return control == ControlText::marked && !bytes.empty() && tokenizer->is_control(token)
             ? g.decoder.push_control(bytes)
             : g.decoder.push(bytes);
}

// The next token: what the reader may see of it, and whether the reply ends.
Event Engine::State::accept(Generation& g, Result<Sampled> sampled) {
  Event event{.id = g.id};
  if (g.request.prompt_logprobs >= 0 && g.output().empty())
    event.prompt_logprobs = std::move(g.prompt_logprobs);
  text::TokenConstraint* constraint = g.request.constraint.get();
  if (constraint != nullptr && constraint->complete()) {  // before anything was said
    event.finish = FinishReason::stop;
    return event;
  }
  if (!sampled.ok()) {
    event.error = sampled.error();
    return event;
  }
  const int32_t token = sampled->token;
  g.add(token);
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
    if (tokenizer != nullptr) event.text = text_of(g, token);
    if (g.decoder.stopped() || (constraint != nullptr && constraint->complete()))
      event.finish = FinishReason::stop;
    else if (g.ticket.known >= g.ticket.limit)
      event.finish = FinishReason::length;
  }
  if (event.finish != FinishReason::none && !g.decoder.stopped()) event.text += g.decoder.finish();
  event.stop = g.decoder.met();
  return event;
}

std::vector<Event> Engine::step() {
  State& s = *state_;
  std::vector<Event> events;
  for (const Generation& g : s.generations)
    if (s.ends_unrun(g)) events.push_back({.id = g.id, .finish = FinishReason::length});
  for (const Event& event : events) s.finish(*s.find(event.id));
  if (s.generations.empty()) return events;

  s.admit();
  const auto parts = s.plan_step();
  RK_CHECK(!parts.empty(), "nothing runs while {} requests wait", s.generations.size());
  const size_t before = events.size();
  s.run(parts, events);
  for (const Event& event : std::span(events).subspan(before)) {
    if (event.finish == FinishReason::none && !event.error) continue;
    Generation& g = *s.find(event.id);
    if (!event.error) s.keep(g);
    s.finish(g);
  }
  return events;
}

}  // namespace ringkeep::engine
