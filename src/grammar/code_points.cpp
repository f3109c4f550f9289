#include "grammar/code_points.h"

#include <algorithm>
#include <array>
#include <map>

#include "text/utf8.h"

namespace ringkeep::grammar {
namespace {

struct Bytes {
  std::array<uint8_t, 4> first{}, last{};
  size_t size = 0;
};

size_t utf8_size(uint32_t point) {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

std::array<uint8_t, 4> encode(uint32_t point, size_t size) {
  std::array<uint8_t, 4> out{};
  static constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = size; i-- > 1; point >>= 6) out[i] = static_cast<uint8_t>(0x80 | (point & 0x3F));
  out[0] = static_cast<uint8_t>(kLead[size] | point);
  return out;
}

// Splits a range until every byte position has a range of its own.
void split(uint32_t first, uint32_t last, std::vector<Bytes>& out) {
  for (const uint32_t limit : {0x7Fu, 0x7FFu, 0xFFFFu}) {
    if (first <= limit && last > limit) {
      split(first, limit, out);
      split(limit + 1, last, out);
      return;
    }
  }
  const size_t size = utf8_size(first);
  for (size_t tail = 1; tail < size; ++tail) {
    const uint32_t mask = (uint32_t{1} << (6 * tail)) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      split(first, first | mask, out);
      split((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      split(first, (last & ~mask) - 1, out);
      split(last & ~mask, last, out);
      return;
    }
  }
  out.push_back({encode(first, size), encode(last, size), size});
}

}  // namespace

CodePoints::CodePoints(std::initializer_list<Range> ranges) {
  CodePoints raw;
  raw.ranges_ = ranges;
  ranges_ = raw.normalised().ranges_;
}

CodePoints CodePoints::normalised() const {
  std::vector<Range> cut;
  for (const Range& range : ranges_) {  // around the surrogates
    if (range.first < 0xD800) cut.push_back({range.first, std::min(range.last, 0xD7FFu)});
    if (range.last > 0xDFFF) {
      cut.push_back({std::max(range.first, 0xE000u), std::min(range.last, kLastCodePoint)});
    }
  }
  std::sort(cut.begin(), cut.end(), [](Range a, Range b) { return a.first < b.first; });
  CodePoints out;
  for (const Range& range : cut) {
    if (range.first > range.last) continue;
    if (!out.ranges_.empty() && range.first <= out.ranges_.back().last + 1) {
      out.ranges_.back().last = std::max(out.ranges_.back().last, range.last);
    } else {
      out.ranges_.push_back(range);
    }
  }
  return out;
}

CodePoints CodePoints::complement() const {
  CodePoints out;
  uint32_t next = 0;
  for (const Range& range : normalised().ranges_) {
    if (range.first > next) out.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.add(next, kLastCodePoint);
  return out.normalised();
}

CodePoints CodePoints::with(const CodePoints& other) const {
  CodePoints out = *this;
  out.add(other);
  return out.normalised();
}

CodePoints CodePoints::without(const CodePoints& other) const {
  return complement().with(other).complement();
}

bool CodePoints::contains(uint32_t point) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](Range range) { return point >= range.first && point <= range.last; });
}

ExprId utf8(ExprPool& pool, const CodePoints& points) {
  std::vector<Bytes> pieces;
  for (const CodePoints::Range& range : points.ranges()) split(range.first, range.last, pieces);
  // Characters with the same bytes after the first share them.
  std::map<ExprId, ByteSet> heads;
  for (const Bytes& piece : pieces) {
    ExprId tail = kEmpty;
    ByteSet set;
    for (size_t i = piece.size; i-- > 0;) {
      set.reset();
      for (uint32_t byte = piece.first[i]; byte <= piece.last[i]; ++byte) set.set(byte);
      if (i > 0) tail = pool.concat(pool.byte_set(set), tail);
    }
    heads[tail] |= set;
  }
  std::vector<ExprId> alternatives;
  for (const auto& [tail, set] : heads)
    alternatives.push_back(pool.concat(pool.byte_set(set), tail));
  return pool.either(alternatives);
}

std::string utf8(uint32_t point) {
  const size_t size = utf8_size(point);
  const auto bytes = encode(point, size);
  return std::string(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
}

std::optional<uint32_t> take_code_point(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const text::Utf8Step step = text::utf8_step(text);
  if (step.kind != text::Utf8Step::Kind::valid) return std::nullopt;
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  static constexpr uint32_t kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t point = byte(0) & kLeadBits[step.size];
  for (size_t i = 1; i < step.size; ++i) point = point << 6 | (byte(i) & 0x3F);
  text.remove_prefix(step.size);
  return point;
}

}  // namespace ringkeep::grammar
