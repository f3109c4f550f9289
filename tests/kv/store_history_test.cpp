// Random histories of the store against the naive cache. A failing history is shrunk to a short one
// and printed.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>

#include "kv/fake_ops.h"
#include "kv/layouts.h"
#include "kv/naive_cache.h"
#include "kv/store.h"

namespace ringkeep::kv::testing {
namespace {

using kernels::KvSegment;
using kernels::PageRef;

enum class Do : uint8_t { open, fork, close, step, decode, rollback, too_far, freeze, thaw, drop };
constexpr const char* kNames[] = {"open",     "fork",    "close",  "step", "decode",
                                  "rollback", "too_far", "freeze", "thaw", "drop"};

// `seed` decides the details of the operation when it runs, so that any part of a history is one.
struct Operation {
  Do what;
  uint32_t seed;
};
using History = std::vector<Operation>;

struct Setting {
  std::string name;
  ModelConfig config;
  CacheFlags flags;
  bool starved = false;  // half of the planned pages: steps may fail
};

class Player {
 public:
  explicit Player(const Setting& setting)
      : setting_(setting), device_(kernels::make_cpu_device(1)), ops_(fake_ops()), exec_(*device_) {
    auto plan = make_plan(setting.config, setting.flags, ops_);
    RK_CHECK(plan.ok(), "{}", plan.error().message);
    plan_ = std::move(plan).value();
    RK_CHECK(plan_.runnable(), "{}", refusal_error(plan_).message);
    if (setting.starved)
      for (GroupPlan& group : plan_.groups) group.pages_total = (group.pages_total + 1) / 2;
    store_ = Store::create(plan_, *device_, ops_).value();
  }

  // The first thing that is wrong, or empty.
  std::string play(const History& history) {
    for (size_t i = 0; i < history.size() && wrong_.empty(); ++i) {
      random_.seed(history[i].seed);
      apply(history[i].what);
      if (wrong_.empty()) check_all();
      if (!wrong_.empty())
        wrong_ = fmt::format("after operation {} ({} {}): {}", i,
                             kNames[static_cast<int>(history[i].what)], history[i].seed, wrong_);
    }
    while (wrong_.empty() && !sequences_.empty()) close(sequences_.begin()->first);
    while (wrong_.empty() && !snapshots_.empty()) drop(snapshots_.begin()->first);
    for (const GroupUsage& usage : store_->usage())
      expect(usage.pages_used == 0, "{} pages are used by nobody", usage.pages_used);
    return wrong_;
  }

 private:
  template <typename... Args>
  void expect(bool condition, fmt::format_string<Args...> format, Args&&... args) {
    if (!condition && wrong_.empty()) wrong_ = fmt::format(format, std::forward<Args>(args)...);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  SequenceId any() {
    auto it = sequences_.begin();
    std::advance(it, below(static_cast<int64_t>(sequences_.size())));
    return it->first;
  }

  void apply(Do what) {
    if (what == Do::thaw && !snapshots_.empty()) return thaw(any_snapshot());
    if (what == Do::drop && !snapshots_.empty()) return drop(any_snapshot());
    if (sequences_.empty() || what == Do::open) return open();
    switch (what) {
      case Do::open: break;
      case Do::fork: return fork(any());
      case Do::close: return close(any());
      case Do::step: return step(false);
      case Do::decode: return step(true);
      case Do::rollback: return rollback(any());
      case Do::too_far: return too_far(any());
      case Do::freeze: return freeze(any());
      case Do::thaw:
      case Do::drop: break;
    }
  }

  void open() {
    auto id = store_->open();
    const bool room = static_cast<int>(sequences_.size()) < plan_.parallel;
    expect(id.ok() == room, "open with {} of {} open", sequences_.size(), plan_.parallel);
    if (id.ok()) sequences_[*id] = {};
  }

  void fork(SequenceId from) {
    auto id = store_->fork(from);
    const bool room = static_cast<int>(sequences_.size()) < plan_.parallel;
    expect(id.ok() == room, "fork with {} of {} open", sequences_.size(), plan_.parallel);
    if (!id.ok()) return;
    sequences_[*id] = sequences_[from];
    forked_ = shared_ = true;
  }

  void freeze(SequenceId id) {
    const auto before = picture();
    const size_t bytes = store_->freeze_bytes(id), held = store_->snapshot_bytes();
    auto snapshot = store_->freeze(id);
    // The pages that other snapshots hold already are not counted twice.
    expect(snapshot.ok() || held + bytes > plan_.prefix_cache_bytes, "freeze: {}",
           snapshot.ok() ? std::string() : snapshot.error().message);
    expect(snapshot.ok() || picture() == before, "a refused freeze changed the store");
    if (!snapshot.ok()) return;
    forked_ = true;
    snapshots_[*snapshot] = sequences_[id];
    expect(store_->snapshot_length(*snapshot) == sequences_[id].length(), "length of a snapshot");
    expect(store_->snapshot_bytes() >= std::max(held, bytes), "bytes of snapshots");
  }

  SnapshotId any_snapshot() {
    auto it = snapshots_.begin();
    std::advance(it, below(static_cast<int64_t>(snapshots_.size())));
    return it->first;
  }

  // Whether every row that a row at or after `length` sees is one that a row at or after the
  // snapshot's length sees: those are what a snapshot promises to hold.
  bool naive_can_thaw(const NaiveSequence& snapshot, int64_t length) const {
    if (snapshot.coded && length < plan_.quantized_start) return false;
    for (size_t g = 0; g < plan_.groups.size(); ++g)
      for (int64_t k = 0; k < length; ++k) {
        const int64_t end = snapshot.length();
        if (naive_visible(plan_.groups[g], length, k, length) &&
            !naive_visible(plan_.groups[g], end, k, end))
          return false;
      }
    return true;
  }

  void thaw(SnapshotId snapshot) {
    NaiveSequence copy = snapshots_[snapshot];
    if (below(3) == 0) copy.rollback(std::min(copy.length(), below(100)));
    const int64_t length = copy.length();
    const bool can = store_->can_thaw(snapshot, length);
    expect(!can || naive_can_thaw(snapshots_[snapshot], length), "can_thaw({}) of {} rows", length,
           snapshots_[snapshot].length());
    expect(can || length < snapshots_[snapshot].length(), "a snapshot cannot go on");
    if (!can) return;
    auto id = store_->thaw(snapshot, length);
    const bool room = static_cast<int>(sequences_.size()) < plan_.parallel;
    expect(id.ok() == room, "thaw with {} of {} open", sequences_.size(), plan_.parallel);
    if (!id.ok()) return;
    copy.floor = length;
    sequences_[*id] = copy;
    shared_ = true;
  }

  void drop(SnapshotId snapshot) {
    store_->drop(snapshot);
    snapshots_.erase(snapshot);
  }

  void close(SequenceId id) {
    store_->close(id);
    sequences_.erase(id);
  }

  void rollback(SequenceId id) {
    NaiveSequence& sequence = sequences_[id];
    const int64_t limit = store_->rollback_limit(id);
    expect(limit == sequence.length() - sequence.floor, "rollback limit {}, expected {}", limit,
           sequence.length() - sequence.floor);
    const int64_t rows = below(limit + 3);
    const auto before = picture();
    const Status status = store_->rollback(id, rows);
    expect(status.ok() == (rows <= limit), "rollback of {} with a limit of {}", rows, limit);
    if (status.ok())
      sequence.rollback(rows);
    else
      expect(picture() == before, "a refused rollback changed the store");
  }

  // A step that the sequence must refuse: past the chunk, the quantized start or the context, or
  // with a span that does not end within it.
  void too_far(SequenceId id) {
    const auto before = picture();
    const int64_t most = store_->max_step_rows(id);
    const std::vector<int64_t> span(1, sequences_[id].length() + 1);
    const bool split = most > 0 && below(2) == 0;
    const StepEntry entry{id, 0, split ? 1 : most + 1, split ? span.data() : nullptr};
    expect(!store_->begin_step({&entry, 1}).ok(), "a step of {} rows was taken", entry.rows);
    expect(picture() == before, "a refused step changed the store");
  }

  void step(bool decode) {
    std::vector<StepEntry> entries;
    std::vector<std::vector<int64_t>> spans(sequences_.size());
    int64_t row = 0;
    for (auto& [id, sequence] : sequences_) {
      const int64_t most = store_->max_step_rows(id);
      if (most == 0 || (sequences_.size() > 1 && below(4) == 0)) continue;
      row += below(3);  // rows of nobody in between
      const int64_t rows = decode ? 1 : below(3) == 0 ? most : 1 + below(most);
      entries.push_back({id, row, rows, nullptr});
      row += rows;
      if (below(3) == 0)
        entries.back().span_end = make_spans(sequence, rows, spans[entries.size() - 1]);
    }
    if (entries.empty()) return;
    std::shuffle(entries.begin(), entries.end(), random_);
    const auto before = picture();
    auto batch = store_->begin_step(entries);
    if (!batch.ok()) {
      expect(setting_.starved, "begin_step: {}", batch.error().message);
      expect(picture() == before, "a failed step changed the store");
      return;
    }
    for (const StepEntry& entry : entries) add_rows(entry);
    write(*batch);
    check_batch(*batch);
    check_bounds();
    std::shuffle(entries.begin(), entries.end(), random_);
    for (const StepEntry& entry : entries) finish(entry);
  }

  const int64_t* make_spans(const NaiveSequence& sequence, int64_t rows,
                            std::vector<int64_t>& spans) {
    for (int64_t i = 0; i < rows;) {
      const int64_t n = std::min(rows - i, 1 + below(5));
      for (int64_t j = 0; j < n; ++j) spans.push_back(sequence.length() + i + n - 1);
      i += n;
    }
    return spans.data();
  }

  void add_rows(const StepEntry& entry) {
    NaiveSequence& sequence = sequences_[entry.sequence];
    sequence.step_rows = entry.rows;
    for (int64_t i = 0; i < entry.rows; ++i) sequence.rows.push_back(next_number_ += 1.0f);
  }

  void finish(const StepEntry& entry) {
    NaiveSequence& sequence = sequences_[entry.sequence];
    const int64_t choice = below(40);
    if (choice == 0) return close(entry.sequence);
    if (choice < 4) {
      store_->abort_step(entry.sequence);
      return sequence.commit(plan_, 0);
    }
    const int64_t rows = choice < 10 ? below(entry.rows + 1) : entry.rows;
    const Status status = store_->commit(entry.sequence, rows, exec_);
    expect(status.ok() || setting_.starved, "commit: {}",
           status.ok() ? std::string() : status.error().message);
    sequence.commit(plan_, status.ok() ? rows : 0);
  }

  // Through kv_append, as a model would: K is the row's number, V its token index.
  void write(const KvBatch& batch) {
    std::vector<float> k(static_cast<size_t>(batch.rows * 8)), v(k.size());
    for (const StepEntry& entry : batch.entries)
      for (int64_t i = 0; i < entry.rows; ++i) {
        const NaiveSequence& sequence = sequences_[entry.sequence];
        const auto at = static_cast<size_t>((entry.row0 + i) * 8);
        k[at] = sequence.rows[static_cast<size_t>(sequence.length() + i)];
        v[at] = static_cast<float>(sequence.length() + i);
      }
    for (const LayerPlan& layer : plan_.layers) {
      if (layer.kind == LayerKind::shared) continue;
      for (const LayerStorage& place : store_->storage(layer.index)) {
        int32_t non_finite = 0;
        kernels::run(ops_.kv_append,
                     append_params(plan_, batch, place, k.data(), v.data(), &non_finite), exec_);
      }
    }
  }

  // {number, index} of a slot in one layer of a group.
  std::pair<float, float> read(const GroupStorage& place, int64_t slot) {
    float k[8], v[8];
    kernels::run(
        ops_.kv_read,
        kernels::KvReadParams{.geometry = plan_.groups[static_cast<size_t>(place.group)].geometry,
                              .storage = place.data,
                              .page_stride = place.page_stride,
                              .slots = &slot,
                              .n = 1,
                              .k = k,
                              .v = v},
        exec_);
    return {k[0], v[0]};
  }

  // Every row of the step finds what it sees in the pages of its segment, in every layer and tier.
  void check_batch(const KvBatch& batch) {
    for (const LayerPlan& layer : plan_.layers)
      for (const LayerStorage& place : store_->storage(layer.index))
        if (place.hot) check_parallel(batch, place.group, place.hot->group);
    for (const LayerPlan& layer : plan_.layers)
      for (const GroupStorage& place : places_of(*store_, layer.index)) {
        const GroupPlan& group = plan_.groups[static_cast<size_t>(place.group)];
        const GroupBatch& part = batch.groups[static_cast<size_t>(place.group)];
        std::vector<bool> owned(static_cast<size_t>(batch.rows), false);
        size_t tenants = 0;
        for (const StepEntry& entry : batch.entries) {
          const NaiveSequence& sequence = sequences_[entry.sequence];
          if (!naive_lives_in(plan_, sequence, place.group)) continue;
          ++tenants;
          const KvSegment* segment = nullptr;
          for (const KvSegment& s : part.segments)
            if (s.row0 == entry.row0) segment = &s;
          if (segment == nullptr) return expect(false, "group {}: no segment", place.group);
          expect(segment->rows == entry.rows && segment->index0 == sequence.length() &&
                     segment->span_end == entry.span_end,
                 "group {}: wrong segment", place.group);
          for (int64_t i = 0; i < entry.rows; ++i)
            owned[static_cast<size_t>(entry.row0 + i)] = true;
          check_segment(place, group, *segment, sequence);
        }
        expect(tenants == part.segments.size(), "group {}: {} segments for {} sequences",
               place.group, part.segments.size(), tenants);
        for (size_t r = 0; r < owned.size(); ++r)
          expect((part.slots[r] >= 0) == owned[r], "group {}: slot of row {}", place.group, r);
      }
  }

  void check_parallel(const KvBatch& batch, int cold, int hot) {
    const auto& a = batch.groups[static_cast<size_t>(cold)].segments;
    const auto& b = batch.groups[static_cast<size_t>(hot)].segments;
    expect(a.size() == b.size(), "group {}: {} segments, its hot tier has {}", cold, a.size(),
           b.size());
    for (size_t s = 0; s < std::min(a.size(), b.size()); ++s)
      expect(a[s].row0 == b[s].row0 && a[s].rows == b[s].rows && a[s].index0 == b[s].index0,
             "group {}: segment {} is another in its hot tier", cold, s);
  }

  void check_segment(const GroupStorage& place, const GroupPlan& group, const KvSegment& segment,
                     const NaiveSequence& sequence) {
    std::map<int64_t, int64_t> pages;
    for (int64_t p = 0; p < segment.n_pages; ++p) {
      expect(p == 0 || segment.pages[p - 1].logical < segment.pages[p].logical,
             "pages out of order");
      pages[segment.pages[p].logical] = segment.pages[p].physical;
    }
    std::vector<int64_t> rows = {0, segment.rows - 1};
    for (int i = 0; i < 3; ++i) rows.push_back(below(segment.rows));
    std::set<int64_t> seen;
    for (const int64_t i : rows) {
      const int64_t q = segment.index0 + i;
      const int64_t span_end = segment.span_end != nullptr ? segment.span_end[i] : q;
      for (int64_t k = 0; k < static_cast<int64_t>(sequence.rows.size()); ++k)
        if (naive_visible(group, q, k, span_end)) seen.insert(k);
    }
    for (const int64_t k : seen) {
      const auto page = pages.find(k / kPageTokens);
      if (page == pages.end())
        return expect(false, "group {}: row {} is not in sight", place.group, k);
      check_row(place, page->second * kPageTokens + k % kPageTokens, sequence, k);
    }
  }

  void check_row(const GroupStorage& place, int64_t slot, const NaiveSequence& sequence,
                 int64_t k) {
    const auto [number, index] = read(place, slot);
    expect(number == sequence.rows[static_cast<size_t>(k)] && index == static_cast<float>(k),
           "group {}: row {} holds number {} of row {}, expected {}", place.group, k, number, index,
           sequence.rows[static_cast<size_t>(k)]);
  }

  // Between steps: whatever may be taken back, the next row finds what it sees.
  void check_all() {
    check_bounds();
    for (auto& [id, sequence] : sequences_) {
      expect(store_->length(id) == sequence.length(), "length {}, expected {}", store_->length(id),
             sequence.length());
      for (const LayerPlan& layer : plan_.layers)
        for (const GroupStorage& place : places_of(*store_, layer.index)) {
          if (!naive_lives_in(plan_, sequence, place.group)) {
            expect(store_->resident(id, place.group).empty(), "group {} should be empty",
                   place.group);
            continue;
          }
          const GroupPlan& group = plan_.groups[static_cast<size_t>(place.group)];
          std::set<int64_t> seen;
          for (const int64_t q :
               {sequence.floor, sequence.length(), (sequence.floor + sequence.length()) / 2})
            for (int64_t k = 0; k < q; ++k)
              if (naive_visible(group, q, k, q)) seen.insert(k);
          for (const int64_t k : seen) {
            const int64_t slot = store_->slot(id, place.group, k);
            if (slot < 0) return expect(false, "group {}: row {} is gone", place.group, k);
            check_row(place, slot, sequence, k);
          }
        }
    }
  }

  // Pages in use never exceed the plan, and are those of the sequences' rows.
  void check_bounds() {
    const auto usage = store_->usage();
    size_t bytes = 0;
    for (size_t g = 0; g < usage.size(); ++g) {
      const GroupPlan& group = plan_.groups[g];
      int64_t bound = 0, held = 0;
      std::set<int64_t> owned;  // physical pages that are known to be some sequence's
      for (const auto& [id, sequence] : sequences_) {
        const auto indices = store_->resident(id, static_cast<int>(g));
        std::set<int64_t> pages;
        for (const int64_t index : indices) {
          pages.insert(index / kPageTokens);
          owned.insert(store_->slot(id, static_cast<int>(g), index) / kPageTokens);
        }
        // The page that the next row goes on with is held though its rows may be out of sight.
        if (sequence.length() % kPageTokens != 0 &&
            naive_lives_in(plan_, sequence, static_cast<int>(g)))
          pages.insert(sequence.length() / kPageTokens);
        const int64_t most =
            group.pages_decode + (sequence.step_rows > 1 ? group.pages_prefill : 0);
        expect(static_cast<int64_t>(pages.size()) <= most, "group {}: {} pages, planned {}", g,
               pages.size(), most);
        held += static_cast<int64_t>(pages.size());
        bound += most;
      }
      bound += usage[g].pages_held;
      expect(usage[g].pages_used <= bound, "group {}: {} pages in use, planned {}", g,
             usage[g].pages_used, bound);
      expect(forked_ || usage[g].pages_used == held, "group {}: {} pages in use, {} hold rows", g,
             usage[g].pages_used, held);
      expect(usage[g].pages_owned <= std::min(held, group.pages_total) &&
                 usage[g].pages_owned >= static_cast<int64_t>(owned.size()),
             "group {}: sequences own {} pages of {}, hold {}, {} in sight", g,
             usage[g].pages_owned, group.pages_total, held, owned.size());
      expect(shared_ || usage[g].pages_owned == held, "group {}: {} pages owned, {} held", g,
             usage[g].pages_owned, held);
      bytes += static_cast<size_t>(usage[g].pages_used) * group.page_bytes * group.layers.size();
    }
    expect(store_->bytes_used() == bytes, "bytes in use");
    const size_t held = store_->snapshot_bytes();
    expect(held <= plan_.prefix_cache_bytes, "snapshots hold {} bytes", held);
    expect(bytes <= plan_.kv_bytes + plan_.kv_prefill_bytes + held, "bytes beyond the plan");
  }

  // Everything that can be asked about the store, for "nothing changed".
  std::vector<int64_t> picture() const {
    std::vector<int64_t> all = {static_cast<int64_t>(store_->snapshot_bytes())};
    for (const GroupUsage& usage : store_->usage()) all.push_back(usage.pages_used);
    for (const auto& [id, sequence] : sequences_) {
      all.insert(all.end(),
                 {id, store_->length(id), store_->rollback_limit(id), store_->max_step_rows(id)});
      for (size_t g = 0; g < plan_.groups.size(); ++g)
        for (const int64_t index : store_->resident(id, static_cast<int>(g)))
          all.push_back(store_->slot(id, static_cast<int>(g), index));
    }
    return all;
  }

  const Setting& setting_;
  std::unique_ptr<kernels::Device> device_;
  kernels::Ops ops_;
  kernels::Exec exec_;
  KvPlan plan_;
  std::unique_ptr<Store> store_;
  std::map<SequenceId, NaiveSequence> sequences_;
  std::map<SnapshotId, NaiveSequence> snapshots_;
  std::mt19937 random_;
  float next_number_ = 0.0f;
  bool forked_ = false;
  bool shared_ = false;  // among sequences
  std::string wrong_;
};

std::string play(const Setting& setting, const History& history) {
  return Player(setting).play(history);
}

// Removes what can be removed while the history still fails.
History shrink(const Setting& setting, History history) {
  for (size_t size = history.size() / 2; size > 0; size /= 2)
    for (size_t begin = 0; begin + size <= history.size();) {
      History shorter = history;
      shorter.erase(shorter.begin() + static_cast<ptrdiff_t>(begin),
                    shorter.begin() + static_cast<ptrdiff_t>(begin + size));
      if (!play(setting, shorter).empty())
        history = shorter;
      else
        begin += size;
    }
  return history;
}

std::string describe(const Setting& setting, const History& history) {
  const CacheFlags& f = setting.flags;
  std::string text = fmt::format(
      "{}: --kv-bits {} --kv-hot {} --quantized-kv-start {} --max-kv-size {} --keep {} --ctx {} "
      "--chunk {} --parallel {}, rollback {}, prefix cache {}{}\n",
      setting.name, f.kv_bits, *f.kv_hot, f.quantized_kv_start, f.max_kv_size, f.keep, f.ctx,
      f.chunk, f.parallel, f.rollback, f.prefix_cache_bytes, setting.starved ? ", starved" : "");
  for (const Operation& op : history)
    text += fmt::format("  {} {}\n", kNames[static_cast<int>(op.what)], op.seed);
  return text;
}

template <typename T>
T pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

Setting random_setting(const std::string& name, const ModelConfig& config, CacheFlags flags,
                       std::mt19937& random) {
  flags.kv_bits = pick(random, {"f16", "8", "full=f16+sliding=4", "full=4+sliding=8", "3.5"});
  flags.kv_hot = pick(random, {"none", "8", "f16"});
  flags.quantized_kv_start = pick<int64_t>(random, {0, 0, 1, 5, 64, 100, 130, 5000});
  flags.rollback = pick<int64_t>(random, {0, 0, 1, 7, 64, 100});
  flags.chunk = pick<int64_t>(random, {1, 7, 64, 100, 512});
  flags.ctx = flags.max_kv_size > 0 ? 0 : pick<int64_t>(random, {30, 200, 1000, 1500});
  flags.parallel = pick(random, {1, 1, 2, 4});
  flags.prefix_cache_bytes = pick<int64_t>(random, {0, 20'000, 100'000, -1});
  return {name, config, flags, random() % 5 == 0};
}

History random_history(std::mt19937& random) {
  History history;
  const size_t length = 10 + random() % 90;
  while (history.size() < length)
    history.push_back(
        {pick(random, {Do::open,     Do::fork,     Do::close,   Do::step,   Do::step,   Do::step,
                       Do::step,     Do::step,     Do::step,    Do::step,   Do::step,   Do::step,
                       Do::step,     Do::step,     Do::step,    Do::step,   Do::decode, Do::decode,
                       Do::rollback, Do::rollback, Do::too_far, Do::freeze, Do::freeze, Do::freeze,
                       Do::thaw,     Do::thaw,     Do::drop}),
         static_cast<uint32_t>(random())});
  return history;
}

struct Layout {
  std::string name;
  std::vector<LayerSpec> layers;
  int64_t max_kv_size = 0;
  int64_t keep = 0;
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class StoreHistory : public ::testing::TestWithParam<Layout> {};

TEST_P(StoreHistory, AgreesWithTheNaiveCache) {
  const Layout& layout = GetParam();
  CacheFlags flags;
  flags.max_kv_size = layout.max_kv_size;
  flags.keep = layout.keep;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    const Setting setting = random_setting(layout.name, model(layout.layers), flags, random);
    const History history = random_history(random);
    if (play(setting, history).empty()) continue;
    const History shortest = shrink(setting, history);
    FAIL() << play(setting, shortest) << "\nseed " << seed << ", " << describe(setting, shortest);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, StoreHistory,
    ::testing::Values(
        Layout{"full", {full(), full()}}, Layout{"window1", {sliding(1)}},
        Layout{"window4", {sliding(4)}}, Layout{"window63", {sliding(63)}},
        Layout{"window64", {sliding(64)}}, Layout{"window65", {sliding(65)}},
        Layout{"window512", {sliding(512)}}, Layout{"bounded100keep0", {full()}, 100, 0},
        Layout{"bounded2keep1", {full()}, 2, 1}, Layout{"bounded68keep4", {full()}, 68, 4},
        Layout{"bounded200keep70", {full()}, 200, 70}, Layout{"chunked16", {chunked(16)}},
        Layout{"chunked64", {chunked(64)}}, Layout{"chunked100", {chunked(100)}},
        Layout{"shared", {sliding(20), full(), shared(0), shared(1)}},
        Layout{"mixed", {sliding(64), full(), chunked(48), sliding(64), shared(2), sliding(5)}},
        Layout{"mixedbounded", {sliding(512), full(), chunked(48), shared(1)}, 150, 40}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ringkeep::kv::testing
