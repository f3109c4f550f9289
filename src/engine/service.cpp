#include "engine/service.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "engine/fault.h"

namespace ringkeep::engine {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kWatchTick{100};
constexpr milliseconds kSnapshotAge{100};
// Tries to tell a request of its end where there is no memory for that, and between two of them.
constexpr int kTellings = 50;
constexpr milliseconds kBetweenTellings{20};

// What the process takes of what it may, as far as the system tells.
std::string memory_in_use() {
  long pages = 0;
  if (std::FILE* sizes = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(sizes, "%ld", &pages) != 1) pages = 0;
    std::fclose(sizes);
  }
  const auto mib = [](uint64_t bytes) { return bytes >> 20; };
  rlimit limit{};
  std::string text;
  if (pages > 0)
    text = fmt::format(
        "the process has {} MiB",
        mib(static_cast<uint64_t>(pages) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))));
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    text += fmt::format("{}{} MiB are allowed", text.empty() ? "" : ", ", mib(limit.rlim_cur));
  return text.empty() ? text : " (" + text + ")";
}

}  // namespace

struct Service::State {
  struct Group {
    std::vector<Request> requests;  // until the engine takes them
    Handler handler;
    std::vector<int64_t> engine_ids;  // by index; 0: the engine does not have it
    std::vector<bool> ended;          // by index
    int64_t open() const { return std::count(ended.begin(), ended.end(), false); }
  };
  using GroupPointer = std::shared_ptr<Group>;

  Engine& engine;
  ServiceOptions options;
  Fault fault;

  mutable std::mutex mutex;  // guards what follows, up to `beats`
  std::condition_variable changed;
  std::map<int64_t, GroupPointer> groups;  // those that are open
  std::vector<int64_t> arrived;            // groups that the engine has not seen
  std::vector<int64_t> to_cancel;          // engine ids
  bool cancel_all = false;                 // and all that the engine has
  int64_t next_group = 1;
  int64_t open = 0;  // requests
  bool stopping = false;
  bool draining = false;
  EngineHealth health;
  Snapshot snapshot;

  std::atomic<uint64_t> beats{0};
  const char* doing = "";       // engine thread: what may need memory
  Clock::time_point published;  // engine thread
  std::vector<int64_t> steps_by_rows = std::vector<int64_t>(kRowBounds.size() + 1);  // same
  int64_t rows = 0;                                                                  // same
  std::map<int64_t, std::pair<int64_t, size_t>> requests;  // engine id -> group, index; same
  std::thread worker;
  std::thread watcher;

  explicit State(Engine& engine) : engine(engine) {}

  void work();
  void watch();
  void take_arrived(std::unique_lock<std::mutex>& lock);
  void admit(int64_t id, const GroupPointer& group);
  void step();
  void publish(bool always);
  // Ends every open request with the error. Takes the lock by itself.
  void fail_all(const Error& error);
  void die(const std::string& reason);
  void work_once();  // waits for work, and does what there is
};

// Where it is memory that failed them, this must do with what little there is.
void Service::State::fail_all(const Error& error) {
  std::map<int64_t, GroupPointer> failed;
  {
    const std::lock_guard lock(mutex);
    failed.swap(groups);
    arrived.clear();
    cancel_all = true;
    open = 0;
  }
  changed.notify_all();
  const auto tell = [&](const GroupPointer& group, size_t index) {
    Update update{.index = index, .time = Clock::now()};
    update.event.error = error;
    group->handler(update);
  };
  for (const auto& [id, group] : failed)
    for (size_t i = 0; i < group->ended.size(); ++i)
      for (int left = group->ended[i] ? 0 : kTellings; left > 0; --left) {
        try {
          tell(group, i);
          break;
        } catch (const std::bad_alloc&) {
          std::this_thread::sleep_for(kBetweenTellings);
        }
      }
}

void Service::State::die(const std::string& reason) {
  {
    const std::lock_guard lock(mutex);
    health = {EngineHealth::State::dead, reason};
  }
  fail_all(make_error(ErrorKind::runtime, "the engine stopped: {}", reason));
}

// Hands the group to the engine. All of its requests or none.
void Service::State::admit(int64_t id, const GroupPointer& group) {
  std::vector<int64_t> ids;
  std::optional<Error> error;
  for (Request& request : group->requests) {
    if (request.fork_of < 0) request.fork_of = ids[static_cast<size_t>(-request.fork_of - 1)];
    try {
      auto submitted = engine.submit(std::move(request));
      if (submitted.ok())
        ids.push_back(*submitted);
      else
        error = submitted.error();
    } catch (const std::bad_alloc&) {
      error = out_of_memory();
    }
    if (error) break;
  }
  bool gone = false;
  {
    const std::lock_guard lock(mutex);
    gone = !groups.contains(id);  // cancelled meanwhile
    group->requests.clear();
    if (!gone && !error) group->engine_ids = ids;
    if (!gone && error) {
      groups.erase(id);
      open -= group->open();
    }
  }
  if (gone || error)
    for (const int64_t engine_id : ids) engine.cancel(engine_id);
  if (gone) return;
  for (size_t i = 0; i < group->engine_ids.size(); ++i) {
    Update update{.index = i, .accepted = !error, .time = Clock::now()};
    update.event.error = error;
    if (!error) requests[ids[i]] = {id, i};
    group->handler(update);
  }
}

void Service::State::take_arrived(std::unique_lock<std::mutex>& lock) {
  std::vector<int64_t> cancelled;
  cancelled.swap(to_cancel);
  const bool all = std::exchange(cancel_all, false);
  std::vector<std::pair<int64_t, GroupPointer>> fresh;
  for (const int64_t id : arrived)
    if (const auto found = groups.find(id); found != groups.end()) fresh.emplace_back(*found);
  arrived.clear();
  lock.unlock();
  if (all) {
    for (const auto& [engine_id, group] : requests) engine.cancel(engine_id);
    requests.clear();
  }
  for (const int64_t engine_id : cancelled) {
    requests.erase(engine_id);
    engine.cancel(engine_id);
  }
  for (const auto& [id, group] : fresh) admit(id, group);
}

void Service::State::step() {
  std::vector<Event> events = engine.step();
  if (const int64_t served = static_cast<int64_t>(events.size()); served > 0) {
    ++steps_by_rows[static_cast<size_t>(std::ranges::lower_bound(kRowBounds, served) -
                                        kRowBounds.begin())];
    rows += served;
  }
  // Who has the last of a reply finds it counted.
  publish(std::ranges::any_of(events, [](const Event& event) {
    return event.finish != FinishReason::none || event.error.has_value();
  }));
  for (Event& event : events) {
    const auto request = requests.find(event.id);
    if (request == requests.end()) continue;
    const auto [id, index] = request->second;
    Update update{.index = index, .stats = engine.stats(event.id), .time = Clock::now()};
    update.event = std::move(event);
    GroupPointer group;
    {
      const std::lock_guard lock(mutex);
      const auto found = groups.find(id);
      if (found != groups.end()) {
        group = found->second;
        if (update.last()) {
          group->engine_ids[index] = 0;
          group->ended[index] = true;
          --open;
          if (group->open() == 0) groups.erase(found);
        }
      }
    }
    if (update.last()) {
      requests.erase(request);
      changed.notify_all();
    }
    if (group) group->handler(update);
  }
}

void Service::State::publish(bool always) try {
  const Clock::time_point now = Clock::now();
  if (!always && now - published < kSnapshotAge) return;
  published = now;
  Snapshot fresh;
  fresh.serving = engine.serving();
  fresh.groups = engine.store().usage();
  fresh.bytes_used = engine.store().bytes_used();
  fresh.sequences = engine.sequences();
  fresh.experts = engine.expert_usage();
  fresh.steps_by_rows = steps_by_rows;
  fresh.rows = rows;
  const std::lock_guard lock(mutex);
  snapshot = std::move(fresh);
} catch (const std::bad_alloc&) {  // /kv and /metrics show what was before
}

void Service::State::work_once() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] {
    return stopping || !engine.idle() || !arrived.empty() || !to_cancel.empty() || cancel_all;
  });
  if (stopping) return;
  doing = "taking requests in";
  take_arrived(lock);  // unlocks
  beats.fetch_add(1, std::memory_order_relaxed);
  if (!engine.idle()) {
    doing = "a step of the engine";
    fault.strike([this] { beats.fetch_add(1, std::memory_order_relaxed); });
    step();
  }
  publish(engine.idle());
}

void Service::State::work() {
  try {
    engine.set_heartbeat([this] {
      beats.fetch_add(1, std::memory_order_relaxed);
      fault.strike_within();
    });
    for (bool failed = false;;) {
      try {
        work_once();
        failed = false;
      } catch (const std::bad_alloc&) {
        // The engine has dealt with what a request alone wants; this concerns them all. Without
        // them there should be memory.
        const std::string what =
            fmt::format("out of memory: there was none for {}{}", doing, memory_in_use());
        if (failed)
          return die(what +
                     ", nor once all requests were ended: start the server with a smaller "
                     "--kv-memory, --prefix-cache-bytes, --parallel, --chunk or --ctx");
        failed = true;
        fail_all(make_error(ErrorKind::runtime, "{}: this request is ended, send it again", what));
      }
      const std::lock_guard lock(mutex);
      if (stopping) return;
    }
  } catch (const std::bad_alloc&) {
    die("out of memory");
  } catch (const std::exception& error) {
    die(error.what());
  } catch (...) {
    die("an exception of an unknown type");
  }
}

// Counts its own ticks, not the clock: when the whole process was stopped, so was this.
void Service::State::watch() {
  const int64_t limit = std::max<int64_t>(
      1, static_cast<int64_t>(options.stalled_after * 1000.0) / kWatchTick.count());
  uint64_t seen = 0;
  int64_t silent = 0;  // ticks
  std::unique_lock lock(mutex);
  while (!stopping && health.state != EngineHealth::State::dead) {
    lock.unlock();
    std::this_thread::sleep_for(kWatchTick);
    lock.lock();
    const uint64_t now = beats.load(std::memory_order_relaxed);
    const bool working = open > 0 || health.state == EngineHealth::State::stalled;
    silent = now == seen && working ? silent + 1 : 0;
    seen = now;
    if (health.state == EngineHealth::State::dead) return;
    if (silent < limit) {
      health = {};
      continue;
    }
    const double seconds = static_cast<double>(silent * kWatchTick.count()) / 1000.0;
    health = {EngineHealth::State::stalled,
              fmt::format("the engine has shown no sign of life for {:.1f} seconds", seconds),
              seconds};
    if (open == 0) continue;
    const std::string reason = health.reason;
    lock.unlock();
    fail_all(make_error(ErrorKind::runtime, "{}", reason));
    lock.lock();
  }
}

Service::Service() = default;

Result<std::unique_ptr<Service>> Service::start(Engine& engine, const ServiceOptions& options) {
  std::unique_ptr<Service> service(new Service());
  service->state_ = std::make_unique<State>(engine);
  State& s = *service->state_;
  s.options = options;
  s.fault = RK_TRY(Fault::parse(options.fault));
  s.publish(true);
  s.worker = std::thread([&s] { s.work(); });
  s.watcher = std::thread([&s] { s.watch(); });
  return service;
}

Service::~Service() {
  if (state_ == nullptr) return;
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    s.stopping = true;
  }
  s.changed.notify_all();
  if (s.worker.joinable()) s.worker.join();
  if (s.watcher.joinable()) s.watcher.join();
  s.fail_all(make_error(ErrorKind::runtime, "the server is shutting down"));
  s.engine.set_heartbeat({});
}

Result<int64_t> Service::submit(std::vector<Request> group, Handler handler) {
  State& s = *state_;
  RK_CHECK(!group.empty());
  const int64_t count = static_cast<int64_t>(group.size());
  int64_t id = 0;
  {
    const std::lock_guard lock(s.mutex);
    if (s.health.state != EngineHealth::State::alive)
      return make_error(ErrorKind::runtime, "{}", s.health.reason);
    if (s.draining || s.stopping) return make_error(ErrorKind::busy, "the server is shutting down");
    if (s.options.max_open > 0 && s.open + count > s.options.max_open)
      return make_error(ErrorKind::busy, "{} requests are open, {} more would be over the limit {}",
                        s.open, count, s.options.max_open);
    id = s.next_group++;
    auto entry = std::make_shared<State::Group>();
    entry->engine_ids.resize(group.size());
    entry->ended.resize(group.size());
    entry->requests = std::move(group);
    entry->handler = std::move(handler);
    s.groups.emplace(id, std::move(entry));
    s.arrived.push_back(id);
    s.open += count;
  }
  s.changed.notify_all();
  return id;
}

void Service::cancel(int64_t id) {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    const auto found = s.groups.find(id);
    if (found == s.groups.end()) return;
    for (const int64_t engine_id : found->second->engine_ids)
      if (engine_id != 0) s.to_cancel.push_back(engine_id);
    s.open -= found->second->open();
    s.groups.erase(found);
  }
  s.changed.notify_all();
}

Snapshot Service::snapshot() const {
  const std::lock_guard lock(state_->mutex);
  return state_->snapshot;
}

EngineHealth Service::health() const {
  const std::lock_guard lock(state_->mutex);
  return state_->health;
}

int64_t Service::open_requests() const {
  const std::lock_guard lock(state_->mutex);
  return state_->open;
}

bool Service::drain(double seconds) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.draining = true;
  const bool ended =
      s.changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return s.open == 0; });
  lock.unlock();
  if (!ended) s.fail_all(make_error(ErrorKind::runtime, "the server is shutting down"));
  return ended;
}

}  // namespace ringkeep::engine
