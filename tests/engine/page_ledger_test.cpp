// What the ledger lets in never finds the store without pages, whatever is shared and in whatever
// order the sequences go on.
#include "engine/page_ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kv/fake_ops.h"
#include "kv/layouts.h"
#include "kv/store.h"

namespace ringkeep::engine {
namespace {

using namespace kv::testing;

struct Running {
  int64_t reserved = 0;
  int64_t step = 1;
};

class Game {
 public:
  Game(const ModelConfig& config, CacheFlags flags, uint32_t seed)
      : random_(seed), device_(kernels::make_cpu_device(1)), ops_(fake_ops()), exec_(*device_) {
    const auto bytes_of = [&](int parallel) {
      flags.parallel = parallel;
      const auto plan = kv::make_plan(config, flags, ops_).value();
      return plan.kv_bytes + plan.kv_prefill_bytes;
    };
    const size_t one = bytes_of(1), all = bytes_of(6);
    flags.kv_memory = one + random_() % (all - one + 1);
    plan_ = kv::make_plan(config, flags, ops_).value();
    RK_CHECK(plan_.runnable(), "{}", kv::format_plan(plan_));
    store_ = kv::Store::create(plan_, *device_, ops_).value();
    ledger_.emplace(plan_);
  }

  int admitted = 0, turned_away = 0, steps = 0;

  void move() {
    switch (below(10)) {
      case 0: return admit(store_->open());
      case 1:
        if (auto id = any()) admit(store_->fork(*id));
        return;
      case 2:
        if (auto id = any()) {
          const auto snapshot = store_->freeze(*id);
          if (snapshot.ok()) snapshots_.push_back(*snapshot);
        }
        return;
      case 3:
        if (!snapshots_.empty()) {
          const auto snapshot = snapshots_[below(snapshots_.size())];
          admit(store_->thaw(snapshot, store_->snapshot_length(snapshot)));
        }
        return;
      case 4:
        if (snapshots_.size() > 3) {
          store_->drop(snapshots_.back());
          snapshots_.pop_back();
        }
        return;
      case 5:
        if (auto id = any(); id && below(3) == 0) {
          store_->close(*id);
          running_.erase(*id);
        }
        return;
      case 6:
        if (auto id = any()) {  // grows past its reservation, where there is room
          Running& r = running_[*id];
          const int64_t before = r.reserved;
          r.reserved = std::min<int64_t>(plan_.max_length(), r.reserved + 1 + below(100));
          if (!fits()) r.reserved = before;
        }
        return;
      default: return step();
    }
  }

 private:
  int64_t below(size_t n) { return static_cast<int64_t>(random_() % n); }

  std::optional<kv::SequenceId> any() {
    if (running_.empty()) return std::nullopt;
    return std::next(running_.begin(), below(running_.size()))->first;
  }

  bool fits() const {
    std::vector<Claim> claims;
    for (const auto& [id, r] : running_)
      claims.push_back({store_->length(id), r.reserved, r.step, store_->shares_tail(id)});
    std::vector<int64_t> owned;
    for (const auto& usage : store_->usage()) owned.push_back(usage.pages_owned);
    return ledger_->fits(claims, owned);
  }

  void admit(const Result<kv::SequenceId>& sequence) {
    if (!sequence.ok()) return;
    const int64_t length = store_->length(*sequence);
    running_[*sequence] = {
        .reserved = std::min<int64_t>(plan_.max_length(), length + 1 + below(300)),
        .step = 1 + below(static_cast<size_t>(plan_.chunk))};
    if (fits()) {
      ++admitted;
      return;
    }
    ++turned_away;
    store_->close(*sequence);
    running_.erase(*sequence);
  }

  void step() {
    std::vector<kv::StepEntry> entries;
    int64_t rows = 0;
    for (const auto& [id, r] : running_) {
      const int64_t most = std::min({r.step, store_->max_step_rows(id),
                                     r.reserved - store_->length(id), plan_.step_rows() - rows});
      if (most < 1 || below(4) == 0) continue;
      const int64_t n = below(3) == 0 ? 1 + below(static_cast<size_t>(most)) : most;
      entries.push_back({.sequence = id, .row0 = rows, .rows = n});
      rows += n;
    }
    if (entries.empty()) return;
    ++steps;
    const auto batch = store_->begin_step(entries);
    ASSERT_TRUE(batch.ok()) << batch.error().message << "\n" << kv::format_plan(plan_);
    for (const auto& entry : entries) {
      const int64_t n = below(8) == 0 ? below(static_cast<size_t>(entry.rows)) : entry.rows;
      const Status status = store_->commit(entry.sequence, n, exec_);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
    for (const auto& usage : store_->usage()) ASSERT_LE(usage.pages_owned, usage.pages_total);
  }

  std::mt19937 random_;
  std::unique_ptr<kernels::Device> device_;
  kernels::Ops ops_;
  kernels::Exec exec_;
  kv::KvPlan plan_;
  std::unique_ptr<kv::Store> store_;
  std::optional<PageLedger> ledger_;
  std::map<kv::SequenceId, Running> running_;
  std::vector<kv::SnapshotId> snapshots_;
};

TEST(PageLedger, NobodyWhoWasLetInIsEverShortOfPages) {
  const std::vector<std::pair<const char*, ModelConfig>> models = {
      {"full", model({full(), full()})},
      {"hybrid", model({sliding(100), full(), sliding(30)})},
      {"rings", model({sliding(100), sliding(64)})},
      {"wide", model({sliding(5000), full()})},
      {"chunked", model({chunked(130), full()})}};
  int admitted = 0, turned_away = 0, steps = 0;
  uint32_t seed = 0;
  for (const auto& [name, config] : models)
    for (const char* bits : {"f16", "8", "4"})
      for (const int64_t start : {0, 150})
        for (const int64_t rollback : {0, 70})
          for (int round = 0; round < 6; ++round) {
            SCOPED_TRACE(fmt::format("{}, --kv-bits {}, start {}, rollback {}, seed {}", name, bits,
                                     start, rollback, seed));
            CacheFlags flags;
            flags.kv_bits = bits;
            flags.quantized_kv_start = bits == std::string("f16") ? 0 : start;
            flags.rollback = rollback;
            flags.ctx = 700;
            flags.chunk = round % 2 == 0 ? 64 : 200;
            flags.prefix_cache_bytes = 200'000;
            Game game(config, flags, seed++);
            for (int i = 0; i < 400; ++i) {
              game.move();
              if (::testing::Test::HasFatalFailure()) return;
            }
            admitted += game.admitted;
            turned_away += game.turned_away;
            steps += game.steps;
          }
  EXPECT_GT(admitted, 1000);
  EXPECT_GT(turned_away, 1000);
  EXPECT_GT(steps, 10000);
}

// A prefix that many share is counted once.
TEST(PageLedger, SharedPagesCountOnce) {
  CacheFlags flags;
  flags.ctx = 64 * 20;
  flags.parallel = 8;
  const auto ops = fake_ops();
  auto plan = kv::make_plan(model({full()}), flags, ops).value();
  plan.groups[0].pages_total = 20;
  const PageLedger ledger(plan);
  // 16 pages shared, each goes on for a page of its own: the copy of none, since the tail is full.
  std::vector<Claim> claims(4, {.length = 16 * 64, .reserved = 17 * 64});
  const std::vector<int64_t> owned = {16};
  EXPECT_TRUE(ledger.fits(claims, owned));
  claims.push_back(claims.back());
  EXPECT_FALSE(ledger.fits(claims, owned));
  // Not shared, two do not even fit.
  EXPECT_FALSE(ledger.fits(std::span(claims).first(2), std::vector<int64_t>{32}));
}

TEST(PageLedger, SaysWhatCanNeverFit) {
  CacheFlags flags;
  flags.ctx = 6400;
  const auto ops = fake_ops();
  auto plan = kv::make_plan(model({full()}), flags, ops).value();
  EXPECT_EQ(PageLedger(plan).shortage(6400), std::nullopt);
  plan.groups[0].pages_total = 10;
  EXPECT_EQ(PageLedger(plan).shortage(640), std::nullopt);
  EXPECT_EQ(PageLedger(plan).shortage(641),
            "641 tokens need 11 pages of cache group 0, which has 10");
}

}  // namespace
}  // namespace ringkeep::engine
