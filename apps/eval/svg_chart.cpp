#include "eval/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ringkeep::eval {
namespace {

constexpr double kWidth = 640, kHeight = 340;
constexpr double kLeft = 104, kRight = 20, kTop = 16, kBottom = 56;
constexpr double kCharWidth = 11.0;  // of the 18 px text of small screens

// From values to a stretch of the drawing, with ticks.
class Scale {
 public:
  Scale(std::vector<double> values, bool log, double from, double to)
      : log_(log), from_(from), to_(to) {
    std::erase_if(values, [&](double v) { return !std::isfinite(v) || (log && v <= 0); });
    if (values.empty()) values = {1.0};
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    low_ = transform(*low);
    high_ = transform(*high);
    if (log_) {
      low_ = std::floor(low_ - 0.05);
      high_ = std::ceil(high_ + 0.05);
    } else {
      const double room =
          high_ > low_ ? 0.08 * (high_ - low_) : std::max(std::fabs(low_), 1.0) / 10;
      low_ = low_ >= 0 && low_ - room < 0 ? 0 : low_ - room;
      high_ += room;
    }
  }
  void start_at_zero() { low_ = 0; }

  double at(double value) const {
    const double t = log_ && value <= 0 ? low_ : transform(value);
    return from_ + (to_ - from_) * std::clamp((t - low_) / (high_ - low_), 0.0, 1.0);
  }
  std::vector<double> ticks() const {
    std::vector<double> out;
    if (log_) {
      const int step = std::max(1, static_cast<int>(high_ - low_) / 6);
      for (int e = static_cast<int>(low_); e <= static_cast<int>(high_); e += step)
        out.push_back(std::pow(10.0, e));
      return out;
    }
    const double raw = (high_ - low_) / 5;
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    const double step = power * (raw / power < 1.5   ? 1
                                 : raw / power < 3.5 ? 2
                                 : raw / power < 7.5 ? 5
                                                     : 10);
    for (double v = std::ceil(low_ / step) * step; v <= high_ + step * 1e-9; v += step)
      out.push_back(std::fabs(v) < step * 1e-9 ? 0.0 : v);
    return out;
  }

 private:
  double transform(double value) const { return log_ ? std::log10(value) : value; }
  bool log_;
  double from_, to_, low_ = 0, high_ = 1;
};

std::string begin_svg(const Chart& chart, double height) {
  return fmt::format(
      "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\"><title>{}</title><desc>{}</desc>\n",
      kWidth, height, escape_html(chart.title), escape_html(chart.title),
      escape_html(chart.description));
}

std::string text(double x, double y, const char* anchor, const std::string& content,
                 const char* kind = "t") {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                     kind, x, y, anchor, escape_html(content));
}

std::string line(const char* kind, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
      y1, x2, y2);
}

// Grid, tick labels and axis names of a chart with both axes.
std::string frame(const Chart& chart, const Scale& x, const Scale& y, double bottom) {
  std::string out;
  for (const double v : y.ticks()) {
    out += line("grid", kLeft, y.at(v), kWidth - kRight, y.at(v));
    out += text(kLeft - 8, y.at(v) + 4, "end", short_number(v));
  }
  for (const double v : x.ticks()) out += text(x.at(v), bottom + 22, "middle", short_number(v));
  out += line("axis", kLeft, bottom, kWidth - kRight, bottom);
  out += text((kLeft + kWidth - kRight) / 2, bottom + 46, "middle", chart.x.label, "a");
  out += fmt::format(
      "<text class=\"a\" transform=\"translate(20 {:.1f}) rotate(-90)\" "
      "text-anchor=\"middle\">{}</text>\n",
      (kTop + bottom) / 2, escape_html(chart.y.label));
  if (chart.rule > 0) {
    out += line("rule", kLeft, y.at(chart.rule), kWidth - kRight, y.at(chart.rule));
    out += text(kWidth - kRight, y.at(chart.rule) - 6, "end", chart.rule_label);
  }
  return out;
}

struct Box {
  double left, top, right, bottom;
  bool meets(const Box& o) const {
    return left < o.right && o.left < right && top < o.bottom && o.top < bottom;
  }
};

// More lines than colours: the second round is dashed.
std::string line_class(size_t i) { return fmt::format("s{}{}", i % 8, i >= 8 ? " dashed" : ""); }

std::string legend(const std::vector<std::string>& names, bool of_lines, double& y) {
  std::string out;
  double x = kLeft;
  for (size_t i = 0; i < names.size(); ++i) {
    const double width = 26 + kCharWidth * static_cast<double>(names[i].size()) + 12;
    if (x > kLeft && x + width > kWidth - kRight) {
      x = kLeft;
      y += 24;
    }
    if (of_lines)
      out += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}h16\"/>\n", line_class(i), x, y - 4);
    else
      out += fmt::format(
          "<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"10\" rx=\"2\"/>\n",
          i % 8, x, y - 9);
    out += text(x + 20, y, "start", names[i]);
    x += width;
  }
  return out;
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string short_number(double value) {
  const double size = std::fabs(value);
  if (size == 0) return "0";
  if (size < 1e-4) return fmt::format("{:.2g}", value);
  if (size >= 1e5) return fmt::format("{:.3g}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

std::string scatter(const Chart& chart, const std::vector<Point>& points) {
  const double bottom = kHeight - kBottom;
  std::vector<double> xs, ys;
  for (const Point& p : points) {
    xs.push_back(p.x);
    ys.push_back(p.y);
  }
  if (chart.rule > 0) ys.push_back(chart.rule);
  Scale x(xs, chart.x.log, kLeft + 10, kWidth - kRight - 40), y(ys, chart.y.log, bottom, kTop);
  std::string out = begin_svg(chart, kHeight) + frame(chart, x, y, bottom);
  std::vector<Box> taken;
  for (const Point& p : points)
    taken.push_back({x.at(p.x) - 6, y.at(p.y) - 6, x.at(p.x) + 6, y.at(p.y) + 6});
  if (chart.rule > 0)
    taken.push_back({kWidth - kRight - kCharWidth * static_cast<double>(chart.rule_label.size()),
                     y.at(chart.rule) - 20, kWidth - kRight, y.at(chart.rule)});
  for (const Point& p : points) {
    const double px = x.at(p.x), py = y.at(p.y);
    const double width = kCharWidth * static_cast<double>(p.label.size());
    const Box places[] = {{px + 9, py - 9, px + 9 + width, py + 7},
                          {px - 9 - width, py - 9, px - 9, py + 7},
                          {px - width / 2, py - 25, px + width / 2, py - 9},
                          {px - width / 2, py + 9, px + width / 2, py + 25}};
    out += fmt::format(
        "<circle class=\"f0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5.5\"><title>{}: {} at "
        "{}</title></circle>\n",
        px, py, escape_html(p.label), short_number(p.y), short_number(p.x));
    for (const Box& place : places) {
      const bool inside = place.left >= kLeft && place.right <= kWidth && place.bottom <= bottom;
      if (!inside || std::any_of(taken.begin(), taken.end(),
                                 [&](const Box& other) { return place.meets(other); }))
        continue;
      taken.push_back(place);
      const size_t at = static_cast<size_t>(&place - places);
      const char* anchor = at == 0 ? "start" : at == 1 ? "end" : "middle";
      const double tx = at == 0 ? place.left : at == 1 ? place.right : px;
      out += text(tx, place.bottom - 3, anchor, p.label, "l");
      break;
    }
  }
  return out + "</svg>\n";
}

std::string lines(const Chart& chart, const std::vector<Series>& series) {
  std::vector<std::string> names;
  std::vector<double> xs, ys;
  for (const Series& s : series) {
    names.push_back(s.name);
    for (const Point& p : s.points) {
      xs.push_back(p.x);
      ys.push_back(p.y);
    }
  }
  if (chart.rule > 0) ys.push_back(chart.rule);
  const double bottom = kHeight - kBottom;
  double legend_y = kHeight + 14;
  const std::string names_text = legend(names, true, legend_y);
  const Scale x(xs, chart.x.log, kLeft + 10, kWidth - kRight - 14),
      y(ys, chart.y.log, bottom, kTop);
  std::string out = begin_svg(chart, legend_y + 12) + frame(chart, x, y, bottom);
  for (size_t i = 0; i < series.size(); ++i) {
    std::string path;
    for (const Point& p : series[i].points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x.at(p.x), y.at(p.y));
    out += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", line_class(i), path);
    for (const Point& p : series[i].points)
      out += fmt::format(
          "<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}, {}: "
          "{}</title></circle>\n",
          i % 8, x.at(p.x), y.at(p.y), escape_html(series[i].name),
          escape_html(p.label.empty() ? short_number(p.x) : p.label), short_number(p.y));
  }
  return out + names_text + "</svg>\n";
}

std::string bars(const Chart& chart, const std::vector<std::string>& series,
                 const std::vector<BarGroup>& groups) {
  constexpr double kBar = 18, kGap = 14, kValueRoom = 84;
  size_t longest = 4;
  std::vector<double> values;
  for (const BarGroup& group : groups) {
    longest = std::max(longest, group.label.size());
    values.insert(values.end(), group.values.begin(), group.values.end());
  }
  const double left = std::min(300.0, 14 + kCharWidth * static_cast<double>(longest));
  Scale x(values, chart.x.log, left, kWidth - kRight - kValueRoom);
  if (!chart.x.log) x.start_at_zero();
  const double group_height = kBar * static_cast<double>(series.size()) + kGap;
  const double bottom = kTop + group_height * static_cast<double>(groups.size());
  double legend_y = bottom + 74;
  const std::string names = series.size() > 1 ? legend(series, false, legend_y) : "";
  std::string out = begin_svg(chart, series.size() > 1 ? legend_y + 10 : bottom + 58);
  for (const double v : x.ticks()) {
    out += line("grid", x.at(v), kTop, x.at(v), bottom);
    out += text(x.at(v), bottom + 20, "middle", short_number(v));
  }
  out += text((left + kWidth - kRight - kValueRoom) / 2, bottom + 46, "middle", chart.x.label, "a");
  for (size_t g = 0; g < groups.size(); ++g) {
    const double top = kTop + group_height * static_cast<double>(g) + kGap / 2;
    out += text(left - 8, top + (group_height - kGap) / 2 + 4, "end", groups[g].label, "l");
    for (size_t s = 0; s < groups[g].values.size(); ++s) {
      const double value = groups[g].values[s];
      if (!std::isfinite(value)) continue;
      const double y = top + kBar * static_cast<double>(s), end = x.at(value);
      out += fmt::format(
          "<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "rx=\"2\"><title>{}{}: {}</title></rect>\n",
          s % 8, left, y + 1, std::max(1.0, end - left), kBar - 3, escape_html(groups[g].label),
          series.size() > 1 ? ", " + escape_html(series[s]) : "", short_number(value));
      out += text(end + 5, y + kBar - 4, "start", short_number(value));
    }
  }
  return out + line("axis", left, kTop, left, bottom) + names + "</svg>\n";
}

}  // namespace ringkeep::eval
