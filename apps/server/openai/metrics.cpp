#include "server/openai/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <sstream>

namespace ringkeep::openai {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

const Histogram::BucketBoundaries kFirstToken = {.01, .025, .05, .1, .25, .5, 1,
                                                 2.5, 5,    10,  25, 50,  100};
const Histogram::BucketBoundaries kNextToken = {.001, .0025, .005, .01, .02, .04,
                                                .08,  .15,   .3,   .6,  1.2, 2.5};
const Histogram::BucketBoundaries kEnd = {.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600};
constexpr double kWeightOfNewest = 0.2;

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
  Family<Histogram>& first_token =
      histogram("time_to_first_token_seconds", "From the arrival of a request to its first token.");
  Family<Histogram>& next_token =
      histogram("inter_token_seconds", "Between two tokens of a reply.");
  Family<Histogram>& end =
      histogram("request_seconds", "From the arrival of a request to the end of its reply.");
  Family<Histogram>& batch = histogram("batch_rows", "Replies that a step wrote a token of.");
  Family<Counter>& requests = counter("http_requests_total", "Answers by route and status.");
  Family<Counter>& finished = counter("replies_total", "Replies by how they ended.");
  Family<Counter>& tokens = counter("tokens_total", "Tokens by kind: prompt, cached, generated.");
  Family<Counter>& prefix_hits =
      counter("prefix_hits_total", "Requests whose prompt began in the prefix cache.");
  Family<Counter>& preemptions =
      counter("preemptions_total", "Requests that gave their place in the cache to older ones.");
  Family<Counter>& steps = counter("engine_steps_total", "Forward passes.");
  Family<Counter>& experts =
      counter("experts_total", "Experts that steps chose, by where they were: memory, file.");
  Family<Counter>& expert_bytes =
      counter("expert_bytes_loaded_total", "Bytes of experts packed from the file.");
  Family<Gauge>& expert_memory =
      gauge("expert_memory_bytes", "Memory of packed experts, at most, where not all are held.");
  Family<Gauge>& running = gauge("requests_running", "Requests in the cache.");
  Family<Gauge>& waiting = gauge("requests_waiting", "Requests that wait for a place.");
  Family<Gauge>& healthy = gauge("healthy", "1 when a request sent now would be served.");
  Family<Gauge>& pages = gauge("kv_pages", "Pages of 64 tokens by group, codec and state.");
  Family<Gauge>& bytes = gauge("kv_bytes_used", "Bytes of the pages in use.");

  Histogram& first_token_all = first_token.Add({}, kFirstToken);
  Histogram& next_token_all = next_token.Add({}, kNextToken);
  Histogram& end_all = end.Add({}, kEnd);
  Histogram& batch_all = batch.Add(
      {}, Histogram::BucketBoundaries(engine::kRowBounds.begin(), engine::kRowBounds.end()));
  std::vector<int64_t> batch_seen = std::vector<int64_t>(engine::kRowBounds.size() + 1);
  int64_t batch_sum = 0;
  std::atomic<double> typical{1.0};

  Family<Histogram>& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram()
        .Name(std::string("ringkeep_") + name)
        .Help(help)
        .Register(registry);
  }
  Family<Counter>& counter(const char* name, const char* help) {
    return prometheus::BuildCounter()
        .Name(std::string("ringkeep_") + name)
        .Help(help)
        .Register(registry);
  }
  Family<Gauge>& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge()
        .Name(std::string("ringkeep_") + name)
        .Help(help)
        .Register(registry);
  }
  void follow_batches(const engine::Snapshot& snapshot);
  // The engine counts by itself: the counter follows.
  static void follow(Counter& counter, int64_t value) {
    const double more = static_cast<double>(value) - counter.Value();
    if (more > 0) counter.Increment(more);
  }
};

void Metrics::State::follow_batches(const engine::Snapshot& snapshot) {
  std::vector<double> more(batch_seen.size());
  for (size_t i = 0; i < more.size(); ++i)
    more[i] = static_cast<double>(snapshot.steps_by_rows[i] - batch_seen[i]);
  batch_all.ObserveMultiple(more, static_cast<double>(snapshot.rows - batch_sum));
  batch_seen = snapshot.steps_by_rows;
  batch_sum = snapshot.rows;
}

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::observe_first_token(double seconds) { state_->first_token_all.Observe(seconds); }

void Metrics::observe_next_token(double seconds) { state_->next_token_all.Observe(seconds); }

void Metrics::observe_end(double seconds, const std::string& finish) {
  state_->end_all.Observe(seconds);
  state_->finished.Add({{"finish", finish}}).Increment();
  const double before = state_->typical;
  state_->typical = before + kWeightOfNewest * (seconds - before);
}

void Metrics::count_request(const std::string& route, const std::string& method, int status) {
  // A client may send any word as its method.
  const bool known = method == "GET" || method == "POST" || method == "HEAD" || method == "OPTIONS";
  state_->requests
      .Add({{"route", route},
            {"method", known ? method : "other"},
            {"status", status == 0 ? "gone" : std::to_string(status)}})
      .Increment();
}

double Metrics::typical_seconds() const { return state_->typical; }

std::string Metrics::text(const engine::Snapshot* snapshot, const kv::KvPlan* plan, bool healthy) {
  State& s = *state_;
  s.healthy.Add({}).Set(healthy ? 1 : 0);
  if (snapshot != nullptr) {
    const engine::ServingStats& serving = snapshot->serving;
    s.running.Add({}).Set(static_cast<double>(serving.running));
    s.waiting.Add({}).Set(static_cast<double>(serving.waiting));
    State::follow(s.tokens.Add({{"kind", "prompt"}}), serving.prompt_tokens);
    State::follow(s.tokens.Add({{"kind", "cached"}}), serving.cached_tokens);
    State::follow(s.tokens.Add({{"kind", "generated"}}), serving.generated_tokens);
    State::follow(s.prefix_hits.Add({}), serving.prefix_hits);
    State::follow(s.preemptions.Add({}), serving.preemptions);
    State::follow(s.steps.Add({}), serving.steps);
    s.follow_batches(*snapshot);
    if (const auto& experts = snapshot->experts) {
      State::follow(s.experts.Add({{"from", "memory"}}), experts->hits);
      State::follow(s.experts.Add({{"from", "file"}}), experts->loads);
      State::follow(s.expert_bytes.Add({}), experts->loaded_bytes);
      s.expert_memory.Add({}).Set(static_cast<double>(experts->memory_bytes));
    }
    s.bytes.Add({}).Set(static_cast<double>(snapshot->bytes_used));
    for (size_t i = 0; i < snapshot->groups.size(); ++i) {
      const kv::GroupPlan& group = plan->groups[i];
      const std::string codec =
          kernels::describe(group.geometry.k) + "/" + kernels::describe(group.geometry.v);
      const auto set = [&](const char* state, int64_t pages) {
        s.pages.Add({{"group", std::to_string(i)}, {"codec", codec}, {"state", state}})
            .Set(static_cast<double>(pages));
      };
      set("used", snapshot->groups[i].pages_used);
      set("owned", snapshot->groups[i].pages_owned);
      set("held", snapshot->groups[i].pages_held);
      set("total", group.pages_total + group.pages_snapshots);
    }
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, s.registry.Collect());
  return out.str();
}

}  // namespace ringkeep::openai
