#include "server/openai/json.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/json_release.h"

namespace ringkeep::openai {
namespace {

// Builds the value and looks at what nlohmann-json would let pass.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(int max_depth, bool last_of_twice)
      : max_depth_(max_depth), last_of_twice_(last_of_twice) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder() override {  // where memory ran out
    for (Level& level : levels_) {
      release_json(level.array);
      for (auto& [key, value] : level.members) release_json(value);
    }
    release_json(root);
  }

  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }
  bool start_object(size_t) override { return open(Json()); }
  bool end_object() override {
    // Sorted and not hashed: an object may have been made for its keys to fall together.
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : levels_.back().members) keys.push_back(key);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice != keys.end() && !last_of_twice_)
      return fail(fmt::format("the key \"{}\" comes twice", *twice));
    if (twice != keys.end()) keep_last(levels_.back().members);
    return close(make_object(levels_.back().members));
  }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(std::move(levels_.back().array)); }
  bool key(string_t& name) override {
    levels_.back().key = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (error.id == 406) return fail(fmt::format("a number near byte {} is too large", position));
    std::string_view what = error.what();
    if (const size_t end = what.rfind("; last read"); end != what.npos) what = what.substr(0, end);
    if (const size_t reason = what.rfind(": "); reason != what.npos) what = what.substr(reason + 2);
    return fail(fmt::format("not JSON at byte {}: {}", position, what));
  }

  Json root;
  std::string error;

 private:
  using Members = std::vector<std::pair<std::string, Json>>;
  struct Level {
    Json array;       // null: an object
    Members members;  // of it
    std::string key;
  };

  // All room at once: an object that grows copies what it has. As keys are known to differ, the
  // look-up of push_back() is not needed.
  static Json make_object(Members& members) {
    Json object = Json::object();
    Json::object_t::Container& out = object.get_ref<Json::object_t&>();
    out.reserve(members.size());
    for (auto& [key, value] : members) out.emplace_back(std::move(key), std::move(value));
    return object;
  }

  // Of members with the same key, each in the place of its first.
  static void keep_last(Members& members) {
    std::map<std::string_view, size_t> place;
    Members kept;
    kept.reserve(members.size());  // `place` holds views of its keys
    for (auto& [key, value] : members) {
      if (const auto found = place.find(key); found != place.end()) {
        release_json(kept[found->second].second);
        kept[found->second].second = std::move(value);
      } else {
        kept.emplace_back(std::move(key), std::move(value));
        place.emplace(kept.back().first, kept.size() - 1);
      }
    }
    members = std::move(kept);
  }

  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }
  bool open(Json value) {
    if (static_cast<int>(levels_.size()) >= max_depth_)
      return fail(fmt::format("more than {} arrays and objects inside each other", max_depth_));
    levels_.push_back({.array = std::move(value)});
    return true;
  }
  bool close(Json value) {
    levels_.pop_back();
    return put(std::move(value));
  }
  bool put(Json value) {
    const JsonRelease release(value);
    if (levels_.empty()) {
      root = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.array.is_array())
      level.array.push_back(std::move(value));
    else
      level.members.emplace_back(std::move(level.key), std::move(value));
    return true;
  }

  const int max_depth_;
  const bool last_of_twice_;
  std::vector<Level> levels_;
};

Result<Json> parse(std::string_view text, int max_depth, bool last_of_twice) {
  // The parser takes it for the end of the text.
  if (const size_t nul = text.find('\0'); nul != text.npos)
    return make_error(ErrorKind::usage, "not JSON at byte {}: a NUL byte", nul + 1);
  Builder builder(max_depth, last_of_twice);
  if (!Json::sax_parse(text, &builder))
    return make_error(ErrorKind::usage, "{}", builder.error.empty() ? "not JSON" : builder.error);
  return std::move(builder.root);
}

// The code unit of "\\uXXXX" at `at`; nothing where there is none.
std::optional<unsigned> escaped_unit(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text.substr(at, 2) != "\\u") return std::nullopt;
  unsigned unit = 0;
  const char* end = text.data() + at + 6;
  const auto [stopped, error] = std::from_chars(text.data() + at + 2, end, unit, 16);
  return error == std::errc() && stopped == end ? std::optional(unit) : std::nullopt;
}

// Halves of surrogate pairs, in escapes, become U+FFFD.
std::string whole_pairs(std::string_view text) {
  const auto half = [](std::optional<unsigned> unit, unsigned first) {
    return unit && *unit >= first && *unit < first + 0x400;
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t size = text[at] == '\\' ? 2 : 1;
    const auto unit = escaped_unit(text, at);
    if (half(unit, 0xd800) && half(escaped_unit(text, at + 6), 0xdc00)) {
      size = 12;
    } else if (half(unit, 0xd800) || half(unit, 0xdc00)) {
      out += "\\ufffd";
      at += 6;
      continue;
    }
    out += text.substr(at, size);
    at += size;
  }
  return out;
}

}  // namespace

Result<Json> parse_json(std::string_view text, int max_depth) {
  return parse(text, max_depth, /*last_of_twice=*/false);
}

Result<Json> parse_arguments(std::string_view text) {
  constexpr int kMaxDepth = 128;  // as prompt/reply_arguments.cpp
  return parse(whole_pairs(text), kMaxDepth, /*last_of_twice=*/true);
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string describe(const Json& value) {
  constexpr size_t kMost = 60;
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return value.empty() ? "an empty array" : "an array";
    default: break;
  }
  const std::string text = dump(value);
  if (text.size() <= kMost) return text;
  return value.is_string()
             ? fmt::format("a string of {} bytes", value.get_ref<const std::string&>().size())
             : std::string(value.type_name());
}

}  // namespace ringkeep::openai
