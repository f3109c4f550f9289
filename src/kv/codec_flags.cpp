#include "kv/codec_flags.h"

#include <charconv>
#include <string_view>

namespace ringkeep::kv {
namespace {

using kernels::KvCodec;
using kernels::KvScheme;

constexpr const char* kCodecs =
    "f16, 8, 6, 5, 4, 3, 2, KaVb (K6V4), 5.5, 4.5, 3.5, 2.5, affineB:G (affine4:64), or "
    "full=CODEC+sliding=CODEC";
constexpr int kAffineGroup = 64;

// The halves that are written as one number: K takes the larger width.
struct Fraction {
  std::string_view name;
  int k_bits;
  int v_bits;
};
constexpr Fraction kFractions[] = {{"5.5", 6, 5}, {"4.5", 5, 4}, {"3.5", 4, 3}, {"2.5", 3, 2}};

// Half of a CODEC as it was written; the flags fill in what was not.
struct Half {
  bool f16 = false;
  bool affine = false;
  int bits = 0;
  int group = 0;  // 0: not written
};
struct Halves {
  Half k;
  Half v;
};

bool parse_int(std::string_view text, int& value) {
  if (text.starts_with('0') && text.size() > 1) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// What to write for the name that another program has for a format; empty for any other text.
std::string counterpart(std::string_view name) {
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"q8_0", "8"},     {"q8", "8"},         {"fp8", "8"},    {"fp8_e4m3", "8"},
      {"fp8_e5m2", "8"}, {"int8", "8"},       {"q5_0", "5"},   {"q5_1", "5"},
      {"q4_0", "4"},     {"q4_1", "4"},       {"iq4_nl", "4"}, {"int4", "4"},
      {"q4", "4"},       {"16", "f16"},       {"fp16", "f16"}, {"float16", "f16"},
      {"bf16", "f16"},   {"bfloat16", "f16"}, {"f32", "f16"},  {"auto", "f16"}};
  for (const auto& [theirs, ours] : kNames)
    if (name == theirs) return fmt::format(" (write {} for it)", ours);
  return "";
}

bool is_width(int bits) { return (bits >= 2 && bits <= 6) || bits == 8; }

// f16 | B | B:G | affineB | affineB:G
bool parse_half(std::string_view text, Half& half) {
  half = Half{};
  if (text == "f16") {
    half.f16 = true;
    return true;
  }
  if (text.starts_with("affine")) {
    half.affine = true;
    text.remove_prefix(6);
  }
  if (const size_t colon = text.find(':'); colon != text.npos) {
    if (!parse_int(text.substr(colon + 1), half.group) || half.group < 1) return false;
    text = text.substr(0, colon);
  }
  return parse_int(text, half.bits) && is_width(half.bits);
}

bool parse_codec(std::string_view text, Halves& halves) {
  for (const Fraction& fraction : kFractions)
    if (text == fraction.name) {
      halves.k = Half{.bits = fraction.k_bits};
      halves.v = Half{.bits = fraction.v_bits};
      return true;
    }
  if (text.starts_with('K')) {
    const size_t v = text.find('V');
    return v != text.npos && parse_half(text.substr(1, v - 1), halves.k) &&
           parse_half(text.substr(v + 1), halves.v);
  }
  if (!parse_half(text, halves.k)) return false;
  halves.v = halves.k;
  return true;
}

// The part of `text` that holds for `kind`; the whole where it is not written by kind.
Result<std::string_view> part_for(const char* flag, std::string_view text, LayerKind kind) {
  const std::string_view all = text;
  if (text.find('=') == text.npos) return text;
  std::string_view full, sliding;
  for (bool more = true; more;) {
    const size_t plus = text.find('+');
    const std::string_view part = text.substr(0, plus);
    more = plus != text.npos;
    if (more) text = text.substr(plus + 1);
    const size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    std::string_view* slot = name == "full" ? &full : name == "sliding" ? &sliding : nullptr;
    if (slot == nullptr || equals == part.npos || !slot->empty() || equals + 1 == part.size())
      return make_error(ErrorKind::usage,
                        "{} {}: found '{}', expected full=CODEC+sliding=CODEC with each kind once "
                        "(sliding covers chunked layers too)",
                        flag, all, part);
    *slot = part.substr(equals + 1);
  }
  if (full.empty() || sliding.empty())
    return make_error(ErrorKind::usage, "{} {}: '{}=' is missing; write full=CODEC+sliding=CODEC",
                      flag, all, full.empty() ? "full" : "sliding");
  return kind == LayerKind::sliding || kind == LayerKind::chunked ? sliding : full;
}

// --kv-key-bits and --kv-value-bits change the width of a half and leave its scheme.
Status override_half(const char* flag, const std::optional<std::string>& text, Half& half) {
  if (!text) return {};
  Half given;
  if (!parse_half(*text, given) || given.affine || given.group != 0)
    return make_error(ErrorKind::usage, "{} {}: expected f16, 8, 6, 5, 4, 3 or 2{}", flag, *text,
                      counterpart(*text));
  half.f16 = given.f16;
  half.bits = given.bits;
  return {};
}

Result<KvCodec> finish(const CacheFlags& flags, const Half& half, const char* flag) {
  if (half.f16) return KvCodec{};
  if (half.group != 0 && flags.kv_group_size != 0 && half.group != flags.kv_group_size)
    return make_error(ErrorKind::usage,
                      "--kv-group-size {} contradicts the group of {} in {} {}; give one",
                      flags.kv_group_size, half.group, flag, flags.kv_bits);
  const bool affine = half.affine || flags.kv_scheme == "affine";
  int group = half.group != 0 ? half.group : flags.kv_group_size;
  if (affine && group == 0) group = kAffineGroup;
  return KvCodec{affine ? KvScheme::affine : KvScheme::hadamard, half.bits, group};
}

}  // namespace

Result<CodecPair> codec_for(const CacheFlags& flags, LayerKind kind, const char* flag) {
  if (flags.kv_scheme != "hadamard" && flags.kv_scheme != "affine")
    return make_error(ErrorKind::usage, "--kv-scheme {}: expected hadamard or affine",
                      flags.kv_scheme);
  if (flags.kv_group_size < 0)
    return make_error(ErrorKind::usage,
                      "--kv-group-size {}: expected a number of channels such as 32 or 64, or 0 "
                      "for the scheme's own",
                      flags.kv_group_size);
  const std::string_view part = RK_TRY(part_for(flag, flags.kv_bits, kind));
  Halves halves;
  if (!parse_codec(part, halves))
    return make_error(ErrorKind::usage, "{} {}: '{}' is no codec{}; expected {}", flag,
                      flags.kv_bits, part, counterpart(part), kCodecs);
  RK_TRY(override_half("--kv-key-bits", flags.kv_key_bits, halves.k));
  RK_TRY(override_half("--kv-value-bits", flags.kv_value_bits, halves.v));
  CodecPair pair;
  pair.k = RK_TRY(finish(flags, halves.k, flag));
  pair.v = RK_TRY(finish(flags, halves.v, flag));
  pair.default_group = flags.kv_group_size == 0 && halves.k.group == 0 && halves.v.group == 0;
  return pair;
}

std::string codec_name(const CodecPair& pair) {
  const std::string k = describe(pair.k), v = describe(pair.v);
  return k == v ? k : fmt::format("K{}V{}", k, v);
}

}  // namespace ringkeep::kv
