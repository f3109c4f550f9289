#include "eval/needle_json.h"

#include <fmt/format.h>

namespace ringkeep::eval {

nlohmann::ordered_json needle_json(const NeedleResult& result, const Subject& subject) {
  using Json = nlohmann::ordered_json;
  Json json{{"model", subject.model},
            {"text", subject.text.empty() ? Json(nullptr) : Json(subject.text)},
            {"ctx", result.spec.ctx},
            {"facts", result.spec.haystacks.size()},
            {"exact_activations", subject.exact}};
  Json& rows = json["rows"] = Json::array();
  for (const auto& row : result.rows)
    for (size_t d = 0; d < result.spec.depths.size(); ++d) {
      const NeedleCell cell = needle_cell(result, row, d);
      rows.push_back({{"codec", row.c.codec},
                      {"depth", result.spec.depths[d]},
                      {"exact", cell.exact},
                      {"log_prob", cell.log_prob},
                      {"log_prob_delta", cell.delta},
                      {"log_prob_delta_se", cell.delta_se}});
    }
  return json;
}

std::string needle_table(const NeedleResult& result) {
  std::string out = fmt::format(
      "{} facts at each depth, context of {} tokens; log p of the answer in nats, and its change\n"
      "from the f16 cache +- its standard error\n\n{:<10} {:>7} {:>9} {:>9} {:>18}\n",
      result.spec.haystacks.size(), result.spec.ctx, "cache", "depth", "found", "log p", "change");
  for (const auto& row : result.rows)
    for (size_t d = 0; d < result.spec.depths.size(); ++d) {
      const NeedleCell cell = needle_cell(result, row, d);
      out += fmt::format("{:<10} {:>7} {:>5}/{:<3} {:>9.3f} {:>+8.3f} +-{:>7.3f}\n", row.c.codec,
                         result.spec.depths[d], cell.exact, result.spec.haystacks.size(),
                         cell.log_prob, cell.delta, cell.delta_se);
    }
  return out;
}

}  // namespace ringkeep::eval
