#include "eval/kv.h"

#include <algorithm>

namespace ringkeep::eval {
namespace {

constexpr size_t kLanes = 4;  // caches beside the reference in one pass: bounds memory

// The runs that are needed: the reference, and each cache once.
class Runner {
 public:
  Runner(engine::Engine& engine, const KvSpec& spec, const Case& reference, WorkFile& work,
         const RunHooks& hooks)
      : engine_(engine),
        spec_(spec),
        reference_(reference),
        work_(work),
        hooks_(hooks),
        scored_(scored_positions(spec).size()) {
    for (const Step& step : make_steps(spec, 1, 1)) prompts_ += step.continued > 0;
  }

  Status run(const std::vector<Case>& cases) {
    std::vector<std::vector<Case>> missing(spec_.chunks.size());
    for (size_t chunk = 0; chunk < spec_.chunks.size(); ++chunk) {
      for (const Case& c : cases)
        if (!find(chunk, c)) missing[chunk].push_back(c);
      // The reference runs beside every pass, and alone when nothing else is left to run.
      const size_t passes = missing[chunk].empty() ? size_t{!find(chunk, reference_)}
                                                   : (missing[chunk].size() + kLanes - 1) / kLanes;
      total_ +=
          static_cast<double>(missing[chunk].size() + passes) * static_cast<double>(spec_.ctx - 1);
    }
    for (size_t chunk = 0; chunk < spec_.chunks.size(); ++chunk) {
      size_t at = 0;
      while (at < missing[chunk].size() || !find(chunk, reference_)) {
        const size_t count = std::min(kLanes, missing[chunk].size() - at);
        RK_TRY(pass(chunk, std::span(missing[chunk]).subspan(at, count)));
        at += count;
      }
    }
    return {};
  }

  std::optional<Part> find(size_t chunk, const Case& c) const {
    const auto* json = work_.find(key(chunk, c));
    return json == nullptr ? std::nullopt : Part::from_json(*json, scored_, prompts_);
  }

 private:
  static std::string key(size_t chunk, const Case& c) {
    return fmt::format("kv {} {}", chunk, c.key());
  }

  Status pass(size_t chunk, std::span<const Case> cases) {
    int noise = -1;
    for (size_t i = 0; i < cases.size(); ++i)
      if (cases[i].part == "noise") noise = static_cast<int>(i);
    LockStep lock_step = RK_TRY(LockStep::create(engine_, reference_, cases, noise, hooks_.stop));
    for (const Step& step : make_steps(spec_, engine_.max_step_rows(), lock_step.block())) {
      RK_TRY(lock_step.step(spec_.chunks[chunk], step));
      done_ +=
          static_cast<double>((step.end - step.begin) * (1 + static_cast<int64_t>(cases.size())));
      if (hooks_.update) hooks_.update(done_, total_);
    }
    const std::vector<Part> parts = lock_step.take();
    for (size_t i = 0; i < cases.size(); ++i)
      RK_TRY(work_.add(key(chunk, cases[i]), parts[i + 1].to_json()));
    if (!find(chunk, reference_)) RK_TRY(work_.add(key(chunk, reference_), parts[0].to_json()));
    return {};
  }

  engine::Engine& engine_;
  const KvSpec& spec_;
  const Case& reference_;
  WorkFile& work_;
  const RunHooks& hooks_;
  size_t scored_;
  size_t prompts_ = 0;
  double done_ = 0.0;
  double total_ = 0.0;
};

CaseResult assemble(const Runner& runner, const KvResult& result, const Case& reference,
                    const Case& c) {
  CaseResult out{.c = c};
  int64_t prefill = 0, decode = 0;
  double prefill_seconds = 0.0, decode_seconds = 0.0;
  for (size_t chunk = 0; chunk < result.spec.chunks.size(); ++chunk) {
    const auto f16 = runner.find(chunk, reference);
    const auto part = c.is_f16 && c.part != "noise" ? f16 : runner.find(chunk, c);
    RK_CHECK(f16 && part, "chunk {} of {} was not run", chunk, c.key());
    out.rows.kld.insert(out.rows.kld.end(), part->kld.begin(), part->kld.end());
    out.rows.nll.insert(out.rows.nll.end(), part->nll.begin(), part->nll.end());
    out.rows.nll_reference.insert(out.rows.nll_reference.end(), f16->nll.begin(), f16->nll.end());
    out.rows.same_top.insert(out.rows.same_top.end(), part->same_top.begin(), part->same_top.end());
    out.agreed.insert(out.agreed.end(), part->agreed.begin(), part->agreed.end());
    prefill += part->prefill_tokens;
    decode += part->decode_tokens;
    prefill_seconds += part->prefill_seconds;
    decode_seconds += part->decode_seconds;
  }
  if (prefill_seconds > 0) out.prefill_tok_s = static_cast<double>(prefill) / prefill_seconds;
  if (decode_seconds > 0) out.decode_tok_s = static_cast<double>(decode) / decode_seconds;
  out.summary = summarize(second_half(result, out));
  return out;
}

Rows rows_where(const KvResult& result, const CaseResult& row,
                const std::function<bool(int64_t)>& wanted) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < result.positions.size(); ++i)
    if (wanted(result.positions[i])) indices.push_back(i);
  return select(row.rows, indices);
}

}  // namespace

Result<KvResult> run_kv(engine::Engine& engine, const KvSpec& spec, const Case& reference,
                        const std::vector<Case>& cases, const std::vector<Case>& ablation,
                        bool noise, WorkFile& work, const RunHooks& hooks) {
  Case floor = reference;
  floor.part = "noise";
  floor.exact = true;
  std::vector<Case> needed;
  const auto need = [&](const Case& c) {
    const auto same = [&](const Case& other) { return other.key() == c.key(); };
    if (std::none_of(needed.begin(), needed.end(), same)) needed.push_back(c);
  };
  for (const auto* list : {&cases, &ablation})
    for (const Case& c : *list)
      if (!c.is_f16) need(c);
  if (noise) need(floor);

  Runner runner(engine, spec, reference, work, hooks);
  RK_TRY(runner.run(needed));

  KvResult result{.spec = spec};
  const auto positions = scored_positions(spec);
  for (size_t chunk = 0; chunk < spec.chunks.size(); ++chunk)
    result.positions.insert(result.positions.end(), positions.begin(), positions.end());
  result.reference = assemble(runner, result, reference, reference);
  for (const Case& c : cases) result.rows.push_back(assemble(runner, result, reference, c));
  for (const Case& c : ablation) result.ablation.push_back(assemble(runner, result, reference, c));
  if (noise) result.noise = assemble(runner, result, reference, floor);
  return result;
}

Rows second_half(const KvResult& result, const CaseResult& row) {
  return rows_where(result, row, [&](int64_t p) { return in_second_half(result.spec, p); });
}

Rows before_length(const KvResult& result, const CaseResult& row, int64_t length) {
  return rows_where(result, row, [&](int64_t p) { return before_length(result.spec, length, p); });
}

std::vector<double> kld_by_position(const KvResult& result, const CaseResult& row, int bins) {
  const int64_t first = result.spec.ctx / 2, size = result.spec.ctx - first;
  std::vector<double> out;
  for (int bin = 0; bin < bins; ++bin) {
    const int64_t begin = first + bin * size / bins, end = first + (bin + 1) * size / bins;
    out.push_back(
        mean(rows_where(result, row, [&](int64_t p) { return p >= begin && p < end; }).kld));
  }
  return out;
}

double median_agreed(const CaseResult& row) {
  return quantile(std::vector<double>(row.agreed.begin(), row.agreed.end()), 0.5);
}

}  // namespace ringkeep::eval
