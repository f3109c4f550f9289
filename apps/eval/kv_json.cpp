#include "eval/kv_json.h"

#include <fmt/format.h>

namespace ringkeep::eval {
namespace {

using Json = nlohmann::ordered_json;

Json rate(double value) { return value > 0 ? Json(value) : Json(nullptr); }
Json bits(const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); }

Json row_json(const CaseResult& row, bool with_part) {
  const Summary& s = row.summary;
  Json json{{"codec", row.c.codec},
            {"k_bits", bits(row.c.k_bits)},
            {"v_bits", bits(row.c.v_bits)},
            {"kv_bytes", row.c.kv_bytes},
            {"ppl", s.ppl},
            {"ppl_ratio", s.ppl_ratio},
            {"ppl_ratio_se", s.ppl_ratio_se},
            {"kld_mean", s.kld_mean},
            {"kld_median", s.kld_median},
            {"kld_p99", s.kld_p99},
            {"kld_p999", s.kld_p999},
            {"kld_max", s.kld_max},
            {"same_top1", s.same_top1},
            {"prefill_tok_s", rate(row.prefill_tok_s)},
            {"decode_tok_s", rate(row.decode_tok_s)},
            {"greedy_agreed", row.agreed.empty() ? Json(nullptr) : Json(median_agreed(row))}};
  if (with_part) json["part"] = row.c.part;
  return json;
}

std::string rate_text(double value) { return value > 0 ? fmt::format("{:.0f}", value) : "-"; }

std::string line(const std::string& name, const CaseResult& row, double reference_bytes) {
  const Summary& s = row.summary;
  const double bytes = static_cast<double>(row.c.kv_bytes);
  return fmt::format(
      "{:<16} {:>8.2f} {:>6.1f}% {:>9.4f} {:>8.5f} +-{:.5f} {:>9.2g} {:>9.2g} {:>9.2g} {:>9.2g} "
      "{:>9.2g} {:>7.2f}% {:>7} {:>8} {:>7}\n",
      name, bytes / 1e6, reference_bytes > 0 ? 100 * bytes / reference_bytes : 0.0, s.ppl,
      s.ppl_ratio, s.ppl_ratio_se, s.kld_mean, s.kld_median, s.kld_p99, s.kld_p999, s.kld_max,
      s.same_top1, row.agreed.empty() ? "-" : fmt::format("{:g}", median_agreed(row)),
      rate_text(row.prefill_tok_s), rate_text(row.decode_tok_s));
}

}  // namespace

Json kv_json(const KvResult& result, const Subject& subject) {
  Json json{{"model", subject.model}, {"text", subject.text}, {"ctx", result.spec.ctx}};
  Json& rows = json["rows"] = Json::array();
  for (const auto& row : result.rows) rows.push_back(row_json(row, false));
  json["exact"] = subject.exact;
  json["chunks"] = result.spec.chunks.size();
  json["scored_rows"] = result.reference.summary.rows;
  json["greedy_tokens"] = result.spec.free_run;
  json["reference_ppl"] = result.reference.summary.ppl;
  json["noise_floor"] = nullptr;
  if (result.noise) {
    const Summary& s = result.noise->summary;
    json["noise_floor"] = {{"kld_mean", s.kld_mean}, {"kld_median", s.kld_median},
                           {"kld_p99", s.kld_p99},   {"kld_p999", s.kld_p999},
                           {"kld_max", s.kld_max},   {"same_top1", s.same_top1},
                           {"ppl_exact", s.ppl}};
  }
  if (!result.ablation.empty()) {
    Json& parts = json["ablation"] = Json::array();
    for (const auto& row : result.ablation) parts.push_back(row_json(row, true));
  }
  if (!result.spec.lengths.empty()) {
    Json& lengths = json["lengths"] = Json::array();
    for (const auto& row : result.rows)
      for (const int64_t length : result.spec.lengths) {
        const Summary s = summarize(before_length(result, row, length));
        lengths.push_back({{"codec", row.c.codec},
                           {"length", length},
                           {"rows", s.rows},
                           {"ppl_ratio", s.ppl_ratio},
                           {"ppl_ratio_se", s.ppl_ratio_se},
                           {"kld_mean", s.kld_mean},
                           {"same_top1", s.same_top1}});
      }
  }
  return json;
}

std::string kv_table(const KvResult& result) {
  const auto f16_bytes = static_cast<double>(result.reference.c.kv_bytes);
  std::string out = fmt::format(
      "{} x {} tokens, {} positions scored; KLD in nats from the f16 cache\n\n"
      "{:<16} {:>8} {:>7} {:>9} {:>18} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>7} {:>8} {:>7}\n",
      result.spec.chunks.size(), result.spec.ctx, result.reference.summary.rows, "cache", "MB",
      "of f16", "ppl", "ratio", "KLD mean", "median", "99%", "99.9%", "max", "top-1", "greedy",
      "prefill", "decode");
  for (const auto& row : result.rows) out += line(row.c.codec, row, f16_bytes);
  if (result.noise) out += line("noise floor", *result.noise, f16_bytes);
  if (!result.ablation.empty()) {
    out += "\nonly a part quantized\n";
    for (const auto& row : result.ablation)
      out += line(row.c.codec + " " + row.c.part, row, f16_bytes);
  }
  if (!result.spec.lengths.empty()) {
    out += fmt::format("\n{:<16} {:>8} {:>6} {:>9} {:>9} {:>8} {:>10}\n", "by length", "tokens",
                       "rows", "KLD mean", "top-1", "ratio", "+-");
    for (const auto& row : result.rows)
      for (const int64_t length : result.spec.lengths) {
        const Summary s = summarize(before_length(result, row, length));
        out +=
            fmt::format("{:<16} {:>8} {:>6} {:>9.2g} {:>8.2f}% {:>8.5f} {:>10.5f}\n", row.c.codec,
                        length, s.rows, s.kld_mean, s.same_top1, s.ppl_ratio, s.ppl_ratio_se);
      }
  }
  if (result.spec.free_run > 0)
    out += fmt::format(
        "\ngreedy: tokens of a greedy continuation that equal those of the f16 cache, of {} at "
        "most "
        "(median of {})\n",
        result.spec.free_run, result.reference.agreed.size());
  if (result.noise)
    out += "noise floor: the f16 cache from itself with exact activations (--exact)\n";
  return out;
}

}  // namespace ringkeep::eval
