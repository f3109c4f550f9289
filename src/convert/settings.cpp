#define PCRE2_CODE_UNIT_WIDTH 8
#include "convert/settings.h"

#include <pcre2.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace ringkeep::convert {
namespace {

// Bounds what one expression may cost on one name.
constexpr uint32_t kMatchLimit = 1000000;

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool is_width(int64_t bits) {
  return bits == 2 || bits == 3 || bits == 4 || bits == 5 || bits == 6 || bits == 8;
}

bool is_group(int64_t group) { return group == 32 || group == 64 || group == 128; }

Result<Override> Override::parse(const std::string& text, int group) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return make_error(ErrorKind::usage,
                      "--override: expected REGEX=BITS[:GROUP] or REGEX=keep, found \"{}\"", text);
  Override rule;
  rule.text_ = text;
  const std::string_view value = std::string_view(text).substr(equals + 1);
  if (value != "keep") {
    const size_t colon = value.find(':');
    const auto bits = whole_number(value.substr(0, colon));
    const auto size = colon == std::string_view::npos ? std::optional(group)
                                                      : whole_number(value.substr(colon + 1));
    if (!bits || !is_width(*bits) || !size || !is_group(*size))
      return make_error(ErrorKind::usage,
                        "--override {}: expected keep, or 2, 3, 4, 5, 6 or 8 bits with a group of "
                        "32, 64 or 128, found \"{}\"",
                        text, value);
    rule.setting_ = {*bits, *size};
  }
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), equals, 0, &error, &at, nullptr);
  if (code == nullptr) {
    char message[128] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    return make_error(ErrorKind::usage,
                      "--override {}: not a regular expression at character {}: {}", text, at,
                      message);
  }
  rule.code_ = std::shared_ptr<void>(
      code, [](void* owned) { pcre2_code_free(static_cast<pcre2_code*>(owned)); });
  return rule;
}

bool Override::matches(const std::string& module) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(
      pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  pcre2_set_match_limit(context.get(), kMatchLimit);
  return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(module.data()), module.size(), 0, 0,
                     data.get(), context.get()) >= 0;
}

Setting default_setting(Kind kind, const Setting& asked) {
  constexpr int kTableBits = 6;
  switch (kind) {
    case Kind::encoder:
    case Kind::vector: return {};
    case Kind::embedding:
    case Kind::lm_head: return {std::max(asked.bits, kTableBits), asked.group};
    case Kind::router:
    case Kind::residual: return {8, 64};
    default: return asked;
  }
}

Setting setting_of(const Module& module, const Setting& asked,
                   const std::vector<Override>& overrides, std::vector<bool>& used,
                   const Override** rule) {
  *rule = nullptr;
  const std::string name = module.module_name();
  for (size_t i = 0; i < overrides.size(); ++i) {
    if (!overrides[i].matches(name)) continue;
    used[i] = true;
    *rule = &overrides[i];
  }
  return *rule != nullptr ? (*rule)->setting() : default_setting(module.kind, asked);
}

}  // namespace ringkeep::convert
