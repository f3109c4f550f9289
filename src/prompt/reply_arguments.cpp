#include "prompt/reply_arguments.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "prompt/control_marks.h"
#include "prompt/parameter_types.h"

namespace ringkeep::prompt {
namespace {

using Json = nlohmann::ordered_json;
using Status = ArgumentReader::Status;

constexpr size_t kMaxDepth = 128;
constexpr size_t kMaxKey = 1024;           // bytes
constexpr size_t kMaxValue = 1024 * 1024;  // bytes of a value that must be read whole

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// JSON, and its relative with bare keys and strings between marks.
class ValueReader : public ArgumentReader {
 public:
  explicit ValueReader(std::string mark) : mark_(std::move(mark)) {}

  Status feed(char c, std::string& json) override {
    switch (state_) {
      case State::open: return open(c, json);
      case State::key: return key(c, json);
      case State::colon: return colon(c, json);
      case State::value: return value(c, json);
      case State::after: return after(c, json);
      case State::string: return string(c, json);
      case State::escape: return escape(c, json);
      case State::marked: return marked(c, json);
      case State::bare: return bare(c, json);
      case State::quoted: return quoted(c, json);
    }
    return Status::bad;
  }

 private:
  enum class State { open, key, colon, value, after, string, escape, marked, bare, quoted };

  Status more(State next) {
    state_ = next;
    return Status::more;
  }
  Status space(char c, std::string& json) {
    if (mark_.empty()) json += c;
    return Status::more;
  }

  Status open(char c, std::string& json) {
    if (is_space(c)) return Status::more;
    if (c == '"' && mark_.empty()) {
      text_ = c;
      return more(State::quoted);
    }
    return c == '{' ? push(c, json) : Status::bad;
  }

  Status push(char c, std::string& json) {
    if (stack_.size() == kMaxDepth) return Status::bad;
    stack_ += c;
    json += c;
    may_close_ = true;
    return more(c == '{' ? State::key : State::value);
  }

  Status close(char c, std::string& json) {
    if (c != (stack_.back() == '{' ? '}' : ']')) return Status::bad;
    stack_.pop_back();
    json += c;
    return ended();
  }

  // A value is whole.
  Status ended() {
    if (stack_.empty()) return Status::done;
    return more(State::after);
  }

  Status after(char c, std::string& json) {
    if (is_space(c)) return space(c, json);
    if (c != ',') return close(c, json);
    json += c;
    may_close_ = false;
    return more(stack_.back() == '{' ? State::key : State::value);
  }

  Status key(char c, std::string& json) {
    if (is_space(c)) return space(c, json);
    if (c == '}') return may_close_ ? close(c, json) : Status::bad;
    in_key_ = true;
    return c == '"' || !mark_.empty() ? begin_text(c, json) : Status::bad;
  }

  Status colon(char c, std::string& json) {
    if (is_space(c)) return space(c, json);
    if (c != ':') return Status::bad;
    json += c;
    may_close_ = false;
    return more(State::value);
  }

  Status value(char c, std::string& json) {
    if (is_space(c)) return space(c, json);
    if (c == '{' || c == '[') return push(c, json);
    if (c == ']' && stack_.back() == '[' && may_close_) return close(c, json);
    if (c == ',' || c == '}' || c == ']' || c == ':') return Status::bad;
    in_key_ = false;
    return begin_text(c, json);
  }

  // A string, or what has no marks around it.
  Status begin_text(char c, std::string& json) {
    text_.clear();
    if (c == '"') {
      json += c;
      return more(State::string);
    }
    return bare(c, json);
  }

  Status string(char c, std::string& json) {
    if (c == '"') {
      json += c;
      return in_key_ ? more(State::colon) : ended();
    }
    if (c == '\\') {
      json += c;
      hex_ = 0;
      return more(State::escape);
    }
    append_escaped(std::string_view(&c, 1), json);
    return Status::more;
  }

  Status escape(char c, std::string& json) {
    if (hex_ > 0) {
      if (!std::isxdigit(static_cast<unsigned char>(c))) return Status::bad;
      json += c;
      return --hex_ > 0 ? Status::more : more(State::string);
    }
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return Status::bad;
    json += c;
    if (c != 'u') return more(State::string);
    hex_ = 4;
    return Status::more;
  }

  Status marked(char c, std::string& json) {
    text_ += c;
    if (text_ == mark_) {
      json += '"';
      return in_key_ ? more(State::colon) : ended();
    }
    while (!mark_.starts_with(text_)) {
      append_escaped(std::string_view(text_).substr(0, 1), json);
      text_.erase(0, 1);
    }
    return Status::more;
  }

  Status bare(char c, std::string& json) {
    state_ = State::bare;
    if (in_key_ ? c != ':' : c != ',' && c != '}' && c != ']') {
      text_ += c;
      if (!mark_.empty() && text_ == mark_) {
        text_.clear();
        json += '"';
        return more(State::marked);
      }
      if (mark_.empty() && is_space(c)) return end_bare(json);
      return text_.size() <= (in_key_ ? kMaxKey : kMaxValue) ? Status::more : Status::bad;
    }
    if (end_bare(json) == Status::bad) return Status::bad;
    return in_key_ ? colon(c, json) : after(c, json);
  }

  Status end_bare(std::string& json) {
    remove_breaks(text_);
    const std::string_view text = trimmed(text_);
    if (text.empty()) return Status::bad;
    if (!in_key_ && Json::accept(text)) {
      json += text;
    } else {
      if (mark_.empty()) return Status::bad;
      json += '"';
      append_escaped(text, json);
      json += '"';
    }
    return more(in_key_ ? State::colon : State::after);
  }

  // The whole object once more as a string.
  Status quoted(char c, std::string& json) {
    text_ += c;
    if (text_.size() > kMaxValue) return Status::bad;
    if (std::exchange(escaped_, !escaped_ && c == '\\')) return Status::more;
    if (c != '"') return Status::more;
    remove_breaks(text_);
    const Json string = Json::parse(text_, nullptr, /*allow_exceptions=*/false);
    if (!string.is_string()) return Status::bad;
    const Json object = Json::parse(string.get_ref<const std::string&>(), nullptr, false);
    if (!object.is_object()) return Status::bad;
    json += trimmed(string.get_ref<const std::string&>());
    return Status::done;
  }

  const std::string mark_;  // around strings; empty: JSON
  State state_ = State::open;
  std::string stack_;       // the open { and [
  std::string text_;        // of a bare value or key, or what may be the closing mark
  bool may_close_ = false;  // right after { or [
  bool in_key_ = false;
  bool escaped_ = false;
  int hex_ = 0;  // digits of \u to come
};

class XmlReader : public ArgumentReader {
 public:
  explicit XmlReader(Json parameters) : parameters_(std::move(parameters)) {}

  Status feed(char c, std::string& json) override {
    text_ += c;
    switch (state_) {
      case State::between: return between(json);
      case State::key: return key(c, json);
      case State::value: return value(json);
    }
    return Status::bad;
  }

 private:
  enum class State { between, key, value };
  static constexpr std::string_view kOpen = "<parameter=";
  static constexpr std::string_view kClose = "</parameter>";
  static constexpr std::string_view kEnd = "</function>";

  Status between(std::string& json) {
    if (is_space(text_[0])) {
      text_.clear();
      return Status::more;
    }
    if (text_ == kEnd) {
      json += first_ ? "{}" : "}";
      return Status::done;
    }
    if (text_ == kOpen) {
      text_.clear();
      state_ = State::key;
      return Status::more;
    }
    return kOpen.starts_with(text_) || kEnd.starts_with(text_) ? Status::more : Status::bad;
  }

  Status key(char c, std::string& json) {
    if (c == '<' || c == '\n' || text_.size() > kMaxKey) return Status::bad;
    if (c != '>') return Status::more;
    text_.pop_back();
    const std::string name(trimmed(text_));
    if (name.empty()) return Status::bad;
    json += std::exchange(first_, false) ? "{\"" : ", \"";
    append_escaped(name, json);
    json += "\": ";
    types_ = parameter_types(parameters_, name).value_or(kParameterString);
    plain_ = types_ == kParameterString;
    if (plain_) json += '"';
    text_.clear();
    value_.clear();
    begun_ = false;
    state_ = State::value;
    return Status::more;
  }

  // The line breaks next to the marks are theirs. text_: what may be "\n</parameter>" or a part.
  Status value(std::string& json) {
    if (!std::exchange(begun_, true) && text_ == "\n") {
      text_.clear();
      return Status::more;
    }
    while (!text_.empty()) {
      const bool line = text_[0] == '\n';
      const std::string_view rest = std::string_view(text_).substr(line ? 1 : 0);
      if (rest == kClose) return end_value(json);
      if (kClose.starts_with(rest)) return Status::more;
      if (plain_) {
        append_escaped(std::string_view(text_).substr(0, 1), json);
      } else {
        value_ += text_[0];
        if (value_.size() > kMaxValue) return Status::bad;
      }
      text_.erase(0, 1);
    }
    return Status::more;
  }

  Status end_value(std::string& json) {
    text_.clear();
    remove_breaks(value_);
    state_ = State::between;
    if (plain_) {
      json += '"';
    } else {
      append_typed(json);
    }
    return Status::more;
  }

  void append_typed(std::string& json) const {
    std::string text(trimmed(value_));
    if (text == "True" || text == "False") text[0] = static_cast<char>(text[0] + 'a' - 'A');
    if (text == "None") text = "null";
    const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    // What may be anything is a string, unless it is an object or an array.
    const uint8_t types = types_ == kParameterAny ? kParameterObject | kParameterArray : types_;
    if (!parsed.is_discarded() && !parsed.is_string() && (parameter_type(parsed) & types) != 0) {
      json += text;
      return;
    }
    json += '"';
    append_escaped(value_, json);
    json += '"';
  }

  const Json parameters_;
  State state_ = State::between;
  std::string text_, value_;
  uint8_t types_ = 0;  // that the parameter may have
  bool first_ = true;  // no parameter yet
  bool plain_ = true;  // it is a string, and nothing else
  bool begun_ = false;
};

}  // namespace

void append_escaped(std::string_view text, std::string& json) {
  for (const char c : text) {
    switch (c) {
      case '"': json += "\\\""; break;
      case '\\': json += "\\\\"; break;
      case '\n': json += "\\n"; break;
      case '\r': json += "\\r"; break;
      case '\t': json += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          json += c;
        }
    }
  }
}

std::unique_ptr<ArgumentReader> read_json_arguments() { return std::make_unique<ValueReader>(""); }
std::unique_ptr<ArgumentReader> read_marked_arguments(std::string string_mark) {
  return std::make_unique<ValueReader>(std::move(string_mark));
}
std::unique_ptr<ArgumentReader> read_xml_arguments(Json parameters) {
  return std::make_unique<XmlReader>(std::move(parameters));
}

}  // namespace ringkeep::prompt
