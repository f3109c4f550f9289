#include <algorithm>

#include "kv/codec_flags.h"
#include "kv/plan.h"

namespace ringkeep::kv {
namespace {

constexpr size_t kColumns = 11;
using Row = std::vector<std::string>;
using kernels::KvGeometry;

std::string bytes_text(size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string count_text(int64_t value) { return value > 0 ? fmt::format("{}", value) : "-"; }

Row layer_row(const KvPlan& plan, const LayerPlan& layer) {
  std::string window = count_text(layer.window);
  if (layer.keep > 0) window = fmt::format("{}+{}", layer.keep, layer.window);
  const bool rows = layer.geometry.kv_heads > 0;
  const std::string before = layer.f16_group >= 0 ? "f16>" : "";
  std::string hot = "-";
  if (layer.hot_group >= 0) {
    const KvGeometry& tier = plan.groups[static_cast<size_t>(layer.hot_group)].geometry;
    hot = codec_name(CodecPair{tier.k, tier.v});
  }
  return {"",
          layer_kind_name(layer.kind),
          window,
          layer.donor >= 0 ? fmt::format("{}", layer.donor) : "-",
          cache_class_name(layer.cache),
          rows ? before + describe(layer.geometry.k) : "-",
          rows ? before + describe(layer.geometry.v) : "-",
          hot,
          layer.bytes_per_token > 0 ? fmt::format("{}", layer.bytes_per_token) : "-",
          count_text(layer.max_tokens),
          layer.max_bytes > 0 ? bytes_text(layer.max_bytes) : "-"};
}

// "all layers alike" is told once: a row per run of equal layers, in layer order.
std::vector<Row> layer_rows(const KvPlan& plan) {
  std::vector<Row> rows;
  size_t begin = 0;
  while (begin < plan.layers.size()) {
    Row row = layer_row(plan, plan.layers[begin]);
    size_t end = begin + 1;
    while (end < plan.layers.size() && layer_row(plan, plan.layers[end]) == row) ++end;
    row[0] = end == begin + 1 ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, end - 1);
    rows.push_back(std::move(row));
    begin = end;
  }
  return rows;
}

void add_table(std::string& text, std::vector<Row> rows) {
  rows.insert(rows.begin(), Row{"layer", "kind", "window", "donor", "cache", "K", "V", "hot",
                                "B/token", "tokens", "bytes each"});
  size_t width[kColumns] = {};
  for (const Row& row : rows)
    for (size_t i = 0; i < kColumns; ++i) width[i] = std::max(width[i], row[i].size());
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < kColumns; ++i) {
      const bool number = i == 2 || i == 3 || i >= 8;
      line += number ? fmt::format("{:>{}}  ", row[i], width[i])
                     : fmt::format("{:<{}}  ", row[i], width[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
}

std::string refusal_line(const Refusal& refusal) {
  const std::string where =
      refusal.layer < 0 ? std::string("cache") : fmt::format("layer {}", refusal.layer);
  const std::string cache = refusal.cache.empty() ? "" : fmt::format(" ({})", refusal.cache);
  return fmt::format("{}{}: {}: {}", where, cache, refusal.feature, refusal.reason);
}

}  // namespace

Error refusal_error(const KvPlan& plan) {
  std::string text = "this cache cannot run:";
  const Refusal* last = nullptr;
  for (const Refusal& refusal : plan.refusals) {
    if (last != nullptr && refusal.layer >= 0 && refusal.layer == last->layer)
      text += fmt::format("; {}: {}", refusal.feature, refusal.reason);
    else
      text += "\n  " + refusal_line(refusal);
    last = &refusal;
  }
  return Error{ErrorKind::refused, std::move(text)};
}

std::string format_plan(const KvPlan& plan) {
  std::string text;
  add_table(text, layer_rows(plan));
  text += '\n';
  if (plan.max_kv_size > 0)
    text += fmt::format("max-kv-size {}", plan.max_kv_size);
  else
    text += fmt::format("ctx {}", plan.ctx);
  text += fmt::format(", {} sequence{}, steps of up to {} rows", plan.parallel,
                      plan.parallel == 1 ? "" : "s", plan.chunk);
  if (plan.rollback > 0) text += fmt::format(", rollback of up to {}", plan.rollback);
  if (plan.quantized_start > 0) text += fmt::format(", f16 before token {}", plan.quantized_start);
  if (!plan.budget_codec.empty())
    text += fmt::format("\nkv-budget {}: chose --kv-bits {}", bytes_text(plan.budget),
                        plan.budget_codec);
  if (plan.kv_memory > 0) {
    text += fmt::format("\nkv-memory {}:", bytes_text(plan.kv_memory));
    text += plan.pool_tokens > 0
                ? fmt::format(" {} tokens in full layers, all sequences together", plan.pool_tokens)
                : fmt::format(" less than every sequence's bound");
  }
  text += fmt::format("\ncache {} while decoding, {} more while prefilling\n",
                      bytes_text(plan.kv_bytes), bytes_text(plan.kv_prefill_bytes));
  if (plan.prefix_cache_bytes > 0)
    text += fmt::format("prefix cache {} at most\n", bytes_text(plan.prefix_cache_bytes));
  for (const std::string& note : plan.notes) text += "note: " + note + '\n';
  for (const std::string& warning : plan.warnings) text += "warning: " + warning + '\n';
  for (const Refusal& refusal : plan.refusals) text += "refused: " + refusal_line(refusal) + '\n';
  return text;
}

}  // namespace ringkeep::kv
