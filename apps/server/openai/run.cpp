#include "server/openai/run.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <random>

#include "server/http/log.h"

namespace ringkeep::openai {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Lives on the network thread, held by the engine's handler and by the exchange.
class Run : public std::enable_shared_from_this<Run> {
 public:
  Run(App& app, RunPlan plan) : app_(app), plan_(std::move(plan)), choices_(plan_.shapes.size()) {
    head_ =
        Json{{"id", random_id(plan_.prefix)},
             {"object", plan_.stream ? plan_.chunk_object : plan_.object},
             {"created", std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())},
             {"model", plan_.name},
             {"system_fingerprint", plan_.fingerprint}};
  }

  void start() {
    guarded([this] { submit(); });
  }

 private:
  // What is thrown on the network thread is lost, and the client would wait for ever.
  template <typename Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      fail(engine::out_of_memory());
    } catch (const std::exception& error) {
      fail(make_error(ErrorKind::runtime, "{}", error.what()));
    }
  }

  void submit() {
    const auto self = shared_from_this();
    const auto group = plan_.model->service->submit(
        std::move(plan_.requests), [self, app = &app_](const engine::Update& update) {
          app->post([self, update] { self->guarded([&] { self->on_update(update); }); });
        });
    if (!group.ok()) return fail(group.error());
    group_ = *group;
    plan_.exchange->on_gone([self] { self->on_gone(); });
  }

  struct Choice {
    Piece pending;  // what has not been told yet
    engine::GenerationStats stats;
    Ending ending;
    double logprob = 0.0;  // of all its tokens
    Clock::time_point last_token;
  };

  void on_update(const engine::Update& update) {
    if (over_) return;
    if (update.event.error) return fail(*update.event.error);
    if (update.accepted) {
      if (++accepted_ == choices_.size() && plan_.stream) begin_stream();
      return;
    }
    Choice& choice = choices_[update.index];
    ChoiceShape& shape = *plan_.shapes[update.index];
    choice.stats = update.stats;
    take(choice, update);
    const bool last = update.last();
    Piece& pending = choice.pending;
    if (!pending.text.empty() || (last && !(pending.logprobs.empty() && pending.tokens.empty()))) {
      send(shape.delta(pending));
      pending = {};
    }
    if (!last) return;
    const std::optional<size_t> stop = update.event.stop;
    choice.ending = {.finish = engine::finish_reason_name(update.event.finish),
                     .stop_string = stop && *stop < plan_.stops};
    if (plan_.stream)
      for (Json& closing : shape.closing(choice.ending)) send(std::move(closing));
    if (++ended_ == choices_.size()) finish();
  }

  void take(Choice& choice, const engine::Update& update) {
    const engine::Event& event = update.event;
    Piece& pending = choice.pending;
    pending.text += event.text;
    pending.tokens.insert(pending.tokens.end(), event.tokens.begin(), event.tokens.end());
    for (const engine::Sampled& sampled : event.logprobs)
      choice.logprob += static_cast<double>(sampled.logprob);
    if (event.prompt_logprobs)  // all replies to the prompt begin with them
      for (size_t i = update.index; i < update.index + static_cast<size_t>(plan_.replies); ++i) {
        plan_.shapes[i]->set_prompt_logprobs(*event.prompt_logprobs);
        send(plan_.shapes[i]->opening());
      }
    // The token that ended the reply is not part of its text.
    const text::Tokenizer* tokenizer = plan_.model->tokenizer;
    for (const engine::Sampled& sampled : event.logprobs)
      if (event.finish != engine::FinishReason::stop || tokenizer == nullptr ||
          !tokenizer->ends_generation(sampled.token))
        pending.logprobs.push_back(sampled);
    for (size_t i = 0; i < event.tokens.size(); ++i) {
      if (choice.last_token == Clock::time_point())
        app_.metrics().observe_first_token(seconds_between(plan_.arrived, update.time));
      else
        app_.metrics().observe_next_token(seconds_between(choice.last_token, update.time));
      choice.last_token = update.time;
    }
  }

  void begin_stream() {
    http::Response head{.content_type = "text/event-stream; charset=utf-8"};
    head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    plan_.exchange->begin_stream(std::move(head));
    for (const auto& shape : plan_.shapes) send(shape->opening());
  }

  Usage usage() const {
    Usage usage;
    for (size_t i = 0; i < choices_.size(); ++i) {
      const engine::GenerationStats& stats = choices_[i].stats;
      usage.completion_tokens += stats.generated_tokens;
      // What the replies to one prompt share is counted once.
      if (static_cast<int64_t>(i) % plan_.replies != 0) continue;
      usage.prompt_tokens += stats.prompt_tokens;
      usage.cached_tokens += stats.cached_tokens;
    }
    return usage;
  }

  void send(Json choice) {
    if (!plan_.stream || choice.is_null()) return;
    Json chunk = head_;
    chunk["choices"] = Json::array({std::move(choice)});
    if (plan_.usage_in_chunks)
      chunk["usage"] = usage_json(usage());
    else if (plan_.include_usage)
      chunk["usage"] = nullptr;
    write(chunk);
  }

  void write(const Json& event) { plan_.exchange->write("data: " + dump(event) + "\n\n"); }

  void finish() {
    over_ = true;
    if (plan_.stream) {
      if (plan_.include_usage) {
        Json chunk = head_;
        chunk["choices"] = Json::array();
        chunk["usage"] = usage_json(usage());
        write(chunk);
      }
      plan_.exchange->write("data: [DONE]\n\n");
      plan_.exchange->end();
    } else {
      Json answer = head_;
      Json list = Json::array();
      for (const size_t i : best_choices()) {
        list.push_back(plan_.shapes[i]->whole(choices_[i].ending));
        list.back()["index"] = list.size() - 1;
      }
      answer["choices"] = std::move(list);
      answer["usage"] = usage_json(usage());
      plan_.exchange->respond({.body = dump(answer)});
    }
    close(choices_.front().ending.finish);
  }

  // Of each prompt the n replies whose tokens are the likeliest on average, as they were made where
  // they are all.
  std::vector<size_t> best_choices() const {
    const auto replies = static_cast<size_t>(plan_.replies), n = static_cast<size_t>(plan_.n);
    const auto mean = [&](size_t i) {
      return choices_[i].logprob /
             static_cast<double>(std::max<int64_t>(choices_[i].stats.generated_tokens, 1));
    };
    std::vector<size_t> best;
    for (size_t first = 0; first < choices_.size(); first += replies) {
      std::vector<size_t> order(replies);
      std::iota(order.begin(), order.end(), first);
      if (n < replies)
        std::ranges::stable_sort(order, [&](size_t a, size_t b) { return mean(a) > mean(b); });
      best.insert(best.end(), order.begin(), order.begin() + static_cast<ptrdiff_t>(n));
    }
    return best;
  }

  void fail(const Error& error) {
    if (over_) return;
    over_ = true;
    if (group_ != 0) plan_.model->service->cancel(group_);
    ApiError told = from_error(error, plan_.prompt_param);
    if (told.status == 500)
      if (const auto unavailable = app_.unavailable()) told = *unavailable;
    if (told.status == 429 && app_.phase() == App::Phase::draining) told = *app_.unavailable();
    if (told.status == 429) told.retry_after = app_.retry_after();
    if (plan_.stream && accepted_ == choices_.size()) {
      write(error_json(told));
      plan_.exchange->end();
    } else {
      plan_.exchange->respond(error_response(told));
    }
    plan_.exchange->note("error", told.message);
    close("error");
  }

  void on_gone() {
    if (over_) return;
    over_ = true;
    plan_.model->service->cancel(group_);
    close("gone");
  }

  void close(const std::string& finish) {
    app_.metrics().observe_end(seconds_between(plan_.arrived, Clock::now()), finish);
    const Usage used = usage();
    plan_.exchange->note("prompt_tokens", std::to_string(used.prompt_tokens));
    plan_.exchange->note("cached_tokens", std::to_string(used.cached_tokens));
    plan_.exchange->note("completion_tokens", std::to_string(used.completion_tokens));
    plan_.exchange->note("finish", finish);
  }

  App& app_;
  RunPlan plan_;
  std::vector<Choice> choices_;
  Json head_;
  int64_t group_ = 0;
  size_t accepted_ = 0;
  size_t ended_ = 0;
  bool over_ = false;
};

uint64_t random_seed() {
  static thread_local std::mt19937_64 random(std::random_device{}());
  return random();
}

}  // namespace

engine::Request base_request(const GenerationFields& fields) {
  engine::Request request;
  request.sampling = fields.sampling;
  request.max_tokens = fields.max_tokens;
  request.stop = fields.stop;
  request.stop_tokens = fields.stop_tokens;
  request.ignore_eos = fields.ignore_eos;
  if (!fields.skip_special_tokens) request.control = engine::ControlText::spelled;
  request.top_logprobs = fields.top_logprobs;
  if (fields.best_of > fields.n) request.top_logprobs = std::max(request.top_logprobs, 0);
  request.reuse_prefix = fields.cache_prompt;
  request.adapter = fields.adapter;
  return request;
}

void add_requests(RunPlan& plan, const engine::Request& base, const GenerationFields& fields) {
  const uint64_t seed = fields.seed ? *fields.seed : random_seed();
  const int64_t first = static_cast<int64_t>(plan.requests.size());
  plan.n = fields.n;
  plan.stops = fields.stop.size();
  plan.replies = std::max(fields.n, fields.best_of);
  for (int64_t i = 0; i < plan.replies; ++i) {
    engine::Request request = base;
    request.sampling.seed = seed + static_cast<uint64_t>(i);
    if (i > 0) {
      request.fork_of = -(first + 1);
      request.prompt_logprobs = -1;  // the first one's serve them all
    }
    plan.requests.push_back(std::move(request));
  }
}

void start_run(App& app, RunPlan plan) {
  const auto run = std::make_shared<Run>(app, std::move(plan));
  app.post([run] { run->start(); });
}

}  // namespace ringkeep::openai
