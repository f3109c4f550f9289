#include "eval/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "eval/report_style.h"
#include "eval/svg_chart.h"

namespace ringkeep::eval {
namespace {

constexpr int kPositionBins = 8;

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }
std::string number(double value) { return cell(short_number(value)); }

std::string figure(const std::string& svg, const std::string& caption) {
  return "<figure>\n" + svg + "<figcaption>" + caption + "</figcaption></figure>\n";
}

std::string count_of(size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / 1e6);
}

double share(const KvResult& kv, const CaseResult& row) {
  return 100.0 * static_cast<double>(row.c.kv_bytes) /
         static_cast<double>(std::max<int64_t>(1, kv.reference.c.kv_bytes));
}

// "all", or what of the codec was quantized.
std::string case_name(const Case& c) {
  return escape_html(c.part == "all" ? c.codec : c.codec + " (" + c.part + ")");
}

std::string table_row(const KvResult& kv, const CaseResult& row, const std::string& name,
                      const char* style = "") {
  const Summary& s = row.summary;
  const bool floor = row.c.part == "noise";
  std::string out = fmt::format("<tr{}><th scope=\"row\">{}</th>", style, name);
  out += floor
             ? cell("") + cell("")
             : cell(megabytes(row.c.kv_bytes)) + cell(fmt::format("{:.0f}&nbsp;%", share(kv, row)));
  out += number(s.kld_mean) + cell(fmt::format("{:.2f}&nbsp;%", s.same_top1)) +
         cell(fmt::format("{:.4f}&nbsp;±&nbsp;{:.4f}", s.ppl_ratio, s.ppl_ratio_se)) +
         cell(fmt::format("{:.3f}", s.ppl));
  out += number(s.kld_median) + number(s.kld_p99) + number(s.kld_p999) + number(s.kld_max);
  out += cell(row.agreed.empty() ? "" : short_number(median_agreed(row)));
  for (const double speed : {row.prefill_tok_s, row.decode_tok_s})
    out += cell(speed > 0 ? fmt::format("{:.0f}", speed) : "");
  return out + "</tr>\n";
}

constexpr const char* kTableHead =
    "<thead><tr><th scope=\"col\">cache</th><th scope=\"col\">MB</th><th scope=\"col\">of f16</th>"
    "<th scope=\"col\">mean KLD</th><th scope=\"col\">same<br>top-1</th>"
    "<th scope=\"col\">perplexity<br>ratio ± s.e.</th><th scope=\"col\">perplexity</th>"
    "<th scope=\"col\">KLD<br>median</th><th scope=\"col\">99 %</th>"
    "<th scope=\"col\">99.9 %</th><th scope=\"col\">max</th><th scope=\"col\">greedy</th>"
    "<th scope=\"col\">prefill<br>tok/s</th><th scope=\"col\">decode<br>tok/s</th></tr></thead>";

std::string main_table(const KvResult& kv) {
  std::string out = fmt::format(
      "<div class=\"wide\" tabindex=\"0\"><table><caption>Each cache beside the f16 cache. MB: "
      "planned for {} tokens. Greedy: tokens of a continuation of {} that equal f16's, median of "
      "{}.</caption>{}<tbody>\n",
      kv.spec.ctx, kv.spec.free_run, kv.reference.agreed.size(), kTableHead);
  for (const auto& row : kv.rows) out += table_row(kv, row, case_name(row.c));
  if (kv.noise) out += table_row(kv, *kv.noise, "noise floor", " class=\"floor\"");
  return out + "</tbody></table></div>\n";
}

// The smallest cache that leaves perplexity within one percent.
std::string lead(const KvResult& kv) {
  const CaseResult* best = nullptr;
  for (const auto& row : kv.rows)
    if (!row.c.is_f16 && row.summary.ppl_ratio <= 1.01 &&
        (best == nullptr || row.c.kv_bytes < best->c.kv_bytes))
      best = &row;
  if (best == nullptr) return "None of the quantized caches keeps perplexity within 1 % of f16's.";
  return fmt::format(
      "The smallest cache that keeps perplexity within 1 % of f16's is <b>{}</b>: {:.0f} % of the "
      "bytes, and at {:.1f} % of the positions the same most likely token.",
      case_name(best->c), share(kv, *best), best->summary.same_top1);
}

std::string charts(const KvResult& kv) {
  std::vector<Point> against_bytes;
  std::vector<BarGroup> changed;
  std::vector<Series> by_position;
  std::vector<double> middles;
  const double half = static_cast<double>(kv.spec.ctx) / 2;
  for (const auto& row : kv.rows) {
    if (row.c.is_f16) continue;
    const std::string name = row.c.part == "all" ? row.c.codec : row.c.codec + " " + row.c.part;
    against_bytes.push_back(
        {static_cast<double>(row.c.kv_bytes) / 1e6, row.summary.kld_mean, name});
    changed.push_back({name, {100.0 - row.summary.same_top1}});
    Series& series = by_position.emplace_back(Series{name, {}});
    const auto kld = kld_by_position(kv, row, kPositionBins);
    for (int i = 0; i < kPositionBins; ++i)
      series.points.push_back(
          {half + (i + 0.5) * half / kPositionBins, kld[static_cast<size_t>(i)], ""});
  }
  if (against_bytes.empty()) return "";
  double smallest = against_bytes.front().y;
  for (const Point& p : against_bytes) smallest = std::min(smallest, p.y);
  // A floor far below everything would only press the marks together.
  const double floor = kv.noise ? kv.noise->summary.kld_mean : 0.0;
  const bool shown = floor > smallest / 30;
  std::string caption = "Lower and further left is better; the vertical axis is logarithmic.";
  if (shown)
    caption +=
        " Below the dashed line a difference is smaller than what the default activations cost.";
  else if (floor > 0)
    caption += " The noise floor of this run, " + short_number(floor) + ", lies below the chart.";
  std::string out = "<h2>Divergence against size</h2>\n";
  out += figure(scatter({.title = "Mean divergence against cache size",
                         .description = "One mark a codec; lower and further left is better.",
                         .x = {"cache, MB"},
                         .y = {"mean KLD, nats", true},
                         .rule = shown ? floor : 0.0,
                         .rule_label = "noise floor"},
                        against_bytes),
                caption);
  out += "<h2>Same top-1</h2>\n";
  out += figure(bars({.title = "Positions whose most likely token changes",
                      .description = "One bar a codec, in percent of the scored positions.",
                      .x = {"positions whose most likely token changes, %"}},
                     {"changed"}, changed),
                "Share of positions where greedy decoding would choose another token than with the "
                "f16 cache, given the same text before.");
  out += "<h2>By position</h2>\n";
  out += figure(lines({.title = "Mean divergence by position",
                       .description = "One line a codec over the scored half of the context.",
                       .x = {"position in the context, tokens"},
                       .y = {"mean KLD, nats", true}},
                      by_position),
                "Whether errors pile up as the context grows: mean divergence in eighths of the "
                "scored half.");
  return out;
}

std::string lengths(const KvResult& kv) {
  if (kv.spec.lengths.empty()) return "";
  std::string out =
      "<h2>By length</h2>\n<div class=\"wide\" tabindex=\"0\"><table><caption>The rows just before "
      "each length: mean KLD; same top-1, and perplexity ratio ± standard "
      "error.</caption><thead><tr><th scope=\"col\">cache</th>";
  for (const int64_t length : kv.spec.lengths)
    out += fmt::format("<th scope=\"col\">{} tokens</th>", length);
  out += "</tr></thead><tbody>\n";
  for (const auto& row : kv.rows) {
    out += "<tr><th scope=\"row\">" + case_name(row.c) + "</th>";
    for (const int64_t length : kv.spec.lengths) {
      const Summary s = summarize(before_length(kv, row, length));
      out += fmt::format(
          "<td>{}<br><span class=\"dim\">{:.2f}&nbsp;%, {:.4f}&nbsp;±&nbsp;{:.4f}</span></td>",
          short_number(s.kld_mean), s.same_top1, s.ppl_ratio, s.ppl_ratio_se);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string ablation(const KvResult& kv) {
  if (kv.ablation.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& row : kv.ablation)
    if (std::find(parts.begin(), parts.end(), row.c.part) == parts.end())
      parts.push_back(row.c.part);
  std::vector<BarGroup> groups;
  for (const auto& row : kv.ablation) {
    if (groups.empty() || groups.back().label != row.c.codec)
      groups.push_back({row.c.codec, std::vector<double>(parts.size(), std::nan(""))});
    const auto at = std::find(parts.begin(), parts.end(), row.c.part) - parts.begin();
    groups.back().values[static_cast<size_t>(at)] = row.summary.kld_mean;
  }
  std::vector<std::string> names;
  for (const auto& part : parts) names.push_back("only " + part);
  std::string out = "<h2>Where it comes from</h2>\n";
  out += figure(bars({.title = "Divergence when only a part is quantized",
                      .description = "Groups by codec; bars for keys, values and kinds of layers.",
                      .x = {"mean KLD, nats (logarithmic)", true}},
                     names, groups),
                "Each codec on keys alone, values alone, or one kind of layers alone; the rest "
                "stays f16.");
  out += "<div class=\"wide\" tabindex=\"0\"><table><caption>The same in numbers.</caption>";
  out += kTableHead + std::string("<tbody>\n");
  for (const auto& row : kv.ablation) out += table_row(kv, row, case_name(row.c));
  return out + "</tbody></table></div>\n";
}

std::string needle_section(const NeedleResult& needle) {
  std::string out = fmt::format(
      "<h2>Facts in a long text</h2>\n<p>{} (a code word of a city each) stood at every depth of a "
      "context of {} tokens and were asked for at its end. “Found” counts answers that greedy "
      "decoding gives token for token; the change in the log-probability of the true answer also "
      "says something of models that do not answer exactly.</p>\n"
      "<div class=\"wide\" tabindex=\"0\"><table><caption>Found, and change of log p from the f16 "
      "cache in nats (± standard error), by tokens between the fact and the "
      "question.</caption><thead><tr><th scope=\"col\">cache</th>",
      count_of(needle.spec.haystacks.size(), "fact"), needle.spec.ctx);
  for (const int64_t depth : needle.spec.depths)
    out += fmt::format("<th scope=\"col\">{}</th>", depth);
  out += "</tr></thead><tbody>\n";
  std::vector<Series> series;
  for (const auto& row : needle.rows) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", case_name(row.c));
    Series& line = series.emplace_back(Series{row.c.codec, {}});
    for (size_t d = 0; d < needle.spec.depths.size(); ++d) {
      const NeedleCell c = needle_cell(needle, row, d);
      out += fmt::format("<td>{}/{}<br><span class=\"dim\">{:+.2f}&nbsp;±&nbsp;{:.2f}</span></td>",
                         c.exact, needle.spec.haystacks.size(), c.delta, c.delta_se);
      line.points.push_back({static_cast<double>(std::max<int64_t>(1, needle.spec.depths[d])),
                             c.log_prob, fmt::format("{} tokens", needle.spec.depths[d])});
    }
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  return out + figure(lines({.title = "Log-probability of the true answer by depth",
                             .description = "One line a codec; higher is better.",
                             .x = {"tokens between fact and question (logarithmic)", true},
                             .y = {"mean log p of the answer, nats"}},
                            series),
                      "Higher is better.");
}

std::string facts(const Subject& subject, const KvResult* kv) {
  std::string out = "<dl>\n";
  const auto item = [&](const char* name, const std::string& value) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escape_html(value));
  };
  item("Model", subject.model);
  item("Text", subject.text.empty() ? "built in" : subject.text);
  if (kv != nullptr)
    item("Scored",
         fmt::format("{} positions: the second half of {} of {} tokens", kv->reference.summary.rows,
                     count_of(kv->spec.chunks.size(), "chunk"), kv->spec.ctx));
  item("Activations", subject.exact ? "float32 (--exact)" : "default (two int8 terms)");
  item("Machine", subject.machine);
  return out + "</dl>\n";
}

}  // namespace

std::string html_report(const Subject& subject, const KvResult* kv, const NeedleResult* needle) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>What a smaller cache costs: {}</title>\n<style>{}</style></head>\n<body><main>\n"
      "<h1>What a smaller cache costs</h1>\n",
      escape_html(subject.model), kReportStyle);
  if (kv != nullptr) out += "<p class=\"lead\">" + lead(*kv) + "</p>\n";
  out += facts(subject, kv);
  if (kv != nullptr) {
    out +=
        "<p>Every cache read the same text as the f16 cache did, step by step. KLD is the "
        "Kullback-Leibler divergence of the next-token distribution from f16's over the whole "
        "vocabulary, in nats: 0 is no difference at all. Speeds are those of this run; "
        "<code>ringkeep bench</code> measures them with more care.</p>\n";
    if (kv->noise)
      out +=
          "<p class=\"dim\">The noise floor is the divergence of the f16 cache from itself when "
          "activations are exact: what this run cannot resolve. <code>--exact</code> removes "
          "it.</p>\n";
    out += main_table(*kv) + charts(*kv) + lengths(*kv) + ablation(*kv);
  }
  if (needle != nullptr) out += needle_section(*needle);
  return out + "</main></body></html>\n";
}

}  // namespace ringkeep::eval
