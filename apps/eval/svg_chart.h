// Small charts as inline SVG. Colours are CSS classes (s0, s1, ...), so that a page chooses them
// for light and dark; every mark has a <title>, every chart a description.
#pragma once

#include <string>
#include <vector>

namespace ringkeep::eval {

std::string escape_html(const std::string& text);
// Enough digits to read: "0.00034", "1.7e-07", "41.5".
std::string short_number(double value);

struct Axis {
  std::string label;
  bool log = false;
};

struct Point {
  double x = 0.0, y = 0.0;
  std::string label;  // beside the mark (scatter) or on hover
};
struct Series {
  std::string name;
  std::vector<Point> points;
};

struct Chart {
  std::string title;        // for screen readers
  std::string description;  // what it shows, in a sentence
  Axis x, y;
  double rule = 0.0;  // > 0: a dashed line across at this y
  std::string rule_label;
};

// Marks with their labels beside them; labels that would overlap move or are left to hover.
std::string scatter(const Chart& chart, const std::vector<Point>& points);
// One line a series, with a legend.
std::string lines(const Chart& chart, const std::vector<Series>& series);
// Groups of horizontal bars: one group a label, one bar a series; series share their x order.
struct BarGroup {
  std::string label;
  std::vector<double> values;  // one a series; NaN: none
};
std::string bars(const Chart& chart, const std::vector<std::string>& series,
                 const std::vector<BarGroup>& groups);

}  // namespace ringkeep::eval
