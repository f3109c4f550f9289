#include "grammar/json_numbers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ringkeep::grammar {
namespace {

constexpr size_t kMostDigits = 19;
constexpr uint32_t kMostFraction = 17;
constexpr int kMostExponent = 300;

int compare_whole(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  const int compared = a.compare(b);
  return compared < 0 ? -1 : compared > 0;
}

int compare_magnitude(const Decimal& a, const Decimal& b) {
  const int whole = compare_whole(a.whole, b.whole);
  if (whole != 0) return whole;
  const int fraction = a.fraction.compare(b.fraction);  // no trailing zeros: as texts
  return fraction < 0 ? -1 : fraction > 0;
}

std::string plus_one(std::string digits) {
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') {
      ++digits[i];
      return digits;
    }
    digits[i] = '0';
  }
  return "1" + digits;
}

std::string minus_one(std::string digits) {  // of one that is not "0"
  for (size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '0') {
      --digits[i];
      break;
    }
    digits[i] = '9';
  }
  if (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  return digits;
}

// Expressions of digits.
class Digits {
 public:
  Digits(ExprPool& pool, uint32_t fraction_digits) : pool_(pool), fraction_(fraction_digits) {}

  ExprId between(char first, char last) {
    ByteSet set;
    for (int c = first; c <= last; ++c) set.set(static_cast<size_t>(c));
    return pool_.byte_set(set);
  }
  ExprId any(size_t low, size_t high) {
    return pool_.repeat(between('0', '9'), static_cast<uint32_t>(low), static_cast<uint32_t>(high));
  }

  // Whole numbers, digits without leading zeros, from `a` to `b`.
  ExprId wholes(const std::string& a, const std::string& b) {
    if (compare_whole(a, b) > 0) return kNothing;
    std::vector<ExprId> all;
    for (size_t size = a.size(); size <= b.size(); ++size) {
      const std::string low = size == a.size() ? a : "1" + std::string(size - 1, '0');
      const std::string high = size == b.size() ? b : std::string(size, '9');
      all.push_back(same_size(low, high));
    }
    return pool_.either(all);
  }

  // What may follow a whole number: nothing, or a point and digits.
  ExprId any_fraction() {
    return pool_.optional(pool_.concat(pool_.literal("."), any(1, fraction_)));
  }
  ExprId fraction_from(const std::string& f, bool exclusive) {
    if (f.empty() && !exclusive) return any_fraction();
    return pool_.concat(pool_.literal("."), from(f, 0, exclusive));
  }
  ExprId fraction_to(const std::string& f, bool exclusive) {
    if (f.empty() && exclusive) return kNothing;
    const ExprId digits =
        f.empty() ? pool_.repeat(pool_.literal("0"), 1, fraction_) : to(f, 0, exclusive);
    return pool_.optional(pool_.concat(pool_.literal("."), digits));
  }
  ExprId fraction_between(const std::string& f, bool f_exclusive, const std::string& g,
                          bool g_exclusive) {
    const ExprId digits = both(f, f_exclusive, g, g_exclusive, 0);
    const bool zero_is_in = f.empty() && !f_exclusive && (!g.empty() || !g_exclusive);
    const ExprId point = pool_.concat(pool_.literal("."), digits);
    return zero_is_in ? pool_.optional(point) : point;
  }

 private:
  ExprId digit(char c) { return between(c, c); }

  ExprId same_size(const std::string& a, const std::string& b) {
    // Built from the right: every prefix that equals a's or b's, or both.
    const size_t n = a.size();
    ExprId low = kEmpty, high = kEmpty, equal = kEmpty;
    for (size_t i = n; i-- > 0;) {
      const ExprId rest = any(n - i - 1, n - i - 1);
      if (a[i] == b[i]) {
        equal = pool_.concat(digit(a[i]), equal);
      } else {
        equal = pool_.either(
            {pool_.concat(digit(a[i]), low), pool_.concat(digit(b[i]), high),
             a[i] + 1 <= b[i] - 1 && a[i] < b[i]
                 ? pool_.concat(between(static_cast<char>(a[i] + 1), static_cast<char>(b[i] - 1)),
                                rest)
                 : kNothing});
      }
      low = pool_.either(
          {pool_.concat(digit(a[i]), low),
           a[i] < '9' ? pool_.concat(between(static_cast<char>(a[i] + 1), '9'), rest) : kNothing});
      high = pool_.either(
          {pool_.concat(digit(b[i]), high),
           b[i] > '0' ? pool_.concat(between('0', static_cast<char>(b[i] - 1)), rest) : kNothing});
    }
    return equal;
  }

  // Digits from place i on, all before equal to those of f.
  size_t left(size_t i) const { return i < fraction_ ? fraction_ - i : 0; }
  ExprId from(const std::string& f, size_t i, bool exclusive) {
    if (i == f.size()) {
      if (!exclusive) return any(0, left(i));
      return pool_.sequence({pool_.repeat(digit('0'), 0, static_cast<uint32_t>(left(i + 1))),
                             between('1', '9'), any(0, left(i + 1))});
    }
    const ExprId more =
        f[i] < '9' ? pool_.concat(between(static_cast<char>(f[i] + 1), '9'), any(0, left(i + 1)))
                   : kNothing;
    return pool_.either({pool_.concat(digit(f[i]), from(f, i + 1, exclusive)), more});
  }
  ExprId to(const std::string& f, size_t i, bool exclusive) {
    if (i == f.size())
      return exclusive ? kNothing : pool_.repeat(digit('0'), 0, static_cast<uint32_t>(left(i)));
    const ExprId less =
        f[i] > '0' ? pool_.concat(between('0', static_cast<char>(f[i] - 1)), any(0, left(i + 1)))
                   : kNothing;
    return pool_.either(
        {pool_.concat(digit(f[i]), to(f, i + 1, exclusive)), less, i > 0 ? kEmpty : kNothing});
  }
  ExprId both(const std::string& f, bool f_exclusive, const std::string& g, bool g_exclusive,
              size_t i) {
    if (i >= f.size() && i >= g.size()) {
      return f_exclusive || g_exclusive
                 ? kNothing
                 : pool_.repeat(digit('0'), i == 0 ? 1 : 0, static_cast<uint32_t>(left(i)));
    }
    if (i >= f.size() && !f_exclusive) return to(g, i, g_exclusive);
    const char a = i < f.size() ? f[i] : '0', b = i < g.size() ? g[i] : '0';
    if (a == b) return pool_.concat(digit(a), both(f, f_exclusive, g, g_exclusive, i + 1));
    const ExprId after_a = from(f, std::min(i + 1, f.size()), f_exclusive);
    const ExprId middle =
        a + 1 <= b - 1 ? pool_.concat(between(static_cast<char>(a + 1), static_cast<char>(b - 1)),
                                      any(0, left(i + 1)))
                       : kNothing;
    return pool_.either({pool_.concat(digit(a), after_a), middle,
                         pool_.concat(digit(b), to(g, i + 1, g_exclusive))});
  }

  ExprPool& pool_;
  uint32_t fraction_;
};

Decimal magnitude(Decimal number) {
  number.negative = false;
  return number;
}

struct Range {  // of magnitudes
  Bound low;
  std::optional<Bound> high;
};

// The parts of a range below zero (as magnitudes) and from zero on.
void split(const std::optional<Bound>& low, const std::optional<Bound>& high,
           std::optional<Range>& negative, std::optional<Range>& positive) {
  const bool below = !low || low->at.negative;
  const bool above = !high || !high->at.negative;
  if (below) {
    negative = Range{Bound{Decimal{}, true}, std::nullopt};
    if (low) negative->high = Bound{magnitude(low->at), low->exclusive};
    if (high && high->at.negative) negative->low = Bound{magnitude(high->at), high->exclusive};
  }
  if (above) {
    positive = Range{Bound{}, high};
    if (low && !low->at.negative) positive->low = *low;
  }
}

bool is_empty(const Range& range) {
  if (!range.high) return false;
  const int compared = compare_magnitude(range.low.at, range.high->at);
  return compared > 0 || (compared == 0 && (range.low.exclusive || range.high->exclusive));
}

ExprId integers_of(ExprPool& pool, const Range& range) {
  std::string low = range.low.at.whole;
  if (!range.low.at.fraction.empty() || range.low.exclusive) low = plus_one(low);
  std::string high;
  if (!range.high) {
    high = std::string(std::max(kMostDigits, low.size()), '9');
  } else {
    high = range.high->at.whole;
    if (range.high->at.fraction.empty() && range.high->exclusive) {
      if (high == "0") return kNothing;
      high = minus_one(high);
    }
  }
  return Digits(pool, 0).wholes(low, high);
}

ExprId numbers_of(ExprPool& pool, const Range& range) {
  if (is_empty(range)) return kNothing;
  const Bound& low = range.low;
  uint32_t fraction = std::max(kMostFraction, static_cast<uint32_t>(low.at.fraction.size()) + 1);
  if (range.high)
    fraction = std::max(fraction, static_cast<uint32_t>(range.high->at.fraction.size()) + 1);
  Digits digits(pool, fraction);
  const auto exactly = [&](const std::string& whole) { return digits.wholes(whole, whole); };
  if (!range.high) {
    const std::string next = plus_one(low.at.whole);
    return pool.either(
        {pool.concat(exactly(low.at.whole), digits.fraction_from(low.at.fraction, low.exclusive)),
         pool.concat(digits.wholes(next, std::string(std::max(kMostDigits, next.size()), '9')),
                     digits.any_fraction())});
  }
  const Bound& high = *range.high;
  if (low.at.whole == high.at.whole) {
    return pool.concat(
        exactly(low.at.whole),
        digits.fraction_between(low.at.fraction, low.exclusive, high.at.fraction, high.exclusive));
  }
  return pool.either(
      {pool.concat(exactly(low.at.whole), digits.fraction_from(low.at.fraction, low.exclusive)),
       pool.concat(digits.wholes(plus_one(low.at.whole), minus_one(high.at.whole)),
                   digits.any_fraction()),
       pool.concat(exactly(high.at.whole), digits.fraction_to(high.at.fraction, high.exclusive))});
}

template <typename Make>
ExprId signed_range(ExprPool& pool, const std::optional<Bound>& low,
                    const std::optional<Bound>& high, const Make& make) {
  std::optional<Range> negative, positive;
  split(low, high, negative, positive);
  std::vector<ExprId> all;
  if (negative && !is_empty(*negative))
    all.push_back(pool.concat(pool.literal("-"), make(pool, *negative)));
  if (positive && !is_empty(*positive)) all.push_back(make(pool, *positive));
  return pool.either(all);
}

}  // namespace

std::string Decimal::text() const {
  return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? -compare_magnitude(a, b) : compare_magnitude(a, b);
}

std::optional<Decimal> decimal(const nlohmann::ordered_json& number) {
  std::string text = number.dump();  // the shortest that reads back the same
  Decimal out;
  if (text[0] == '-') {
    out.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));  // a double's: at most three digits
    text.resize(e);
  }
  if (exponent < -kMostExponent || exponent > kMostExponent) return std::nullopt;
  const size_t point = std::min(text.find('.'), text.size());
  std::string whole = text.substr(0, point);
  std::string fraction = point < text.size() ? text.substr(point + 1) : "";
  for (; exponent > 0; --exponent) {
    whole += fraction.empty() ? '0' : fraction[0];
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    fraction.insert(0, 1, whole.empty() ? '0' : whole.back());
    if (!whole.empty()) whole.pop_back();
  }
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  fraction.resize(fraction.find_last_not_of('0') + 1);
  out.whole = whole.empty() ? "0" : whole;
  out.fraction = fraction;
  if (out.is_zero()) out.negative = false;
  return out;
}

ExprId integers(ExprPool& pool, const std::optional<Bound>& low, const std::optional<Bound>& high) {
  return signed_range(pool, low, high, integers_of);
}

ExprId numbers(ExprPool& pool, const std::optional<Bound>& low, const std::optional<Bound>& high) {
  return signed_range(pool, low, high, numbers_of);
}

}  // namespace ringkeep::grammar
