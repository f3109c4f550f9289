#include "kv/codec_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringkeep::kv {
namespace {

using kernels::KvCodec;
using kernels::KvScheme;
using ::testing::HasSubstr;

constexpr KvCodec kF16{};
KvCodec hadamard(int bits, int group = 0) { return {KvScheme::hadamard, bits, group}; }
KvCodec affine(int bits, int group = 64) { return {KvScheme::affine, bits, group}; }

CacheFlags flags_of(const std::string& bits) {
  CacheFlags flags;
  flags.kv_bits = bits;
  return flags;
}

CodecPair codec(const CacheFlags& flags, LayerKind kind = LayerKind::full) {
  auto pair = codec_for(flags, kind);
  EXPECT_TRUE(pair.ok()) << (pair.ok() ? "" : pair.error().message);
  return pair.ok() ? *pair : CodecPair{};
}

TEST(CodecFlags, EveryNameOfTheCommandLine) {
  struct Case {
    const char* name;
    KvCodec k, v;
  };
  const Case cases[] = {
      {"f16", kF16, kF16},
      {"8", hadamard(8), hadamard(8)},
      {"6", hadamard(6), hadamard(6)},
      {"5", hadamard(5), hadamard(5)},
      {"4", hadamard(4), hadamard(4)},
      {"3", hadamard(3), hadamard(3)},
      {"2", hadamard(2), hadamard(2)},
      {"K6V4", hadamard(6), hadamard(4)},
      {"K2V8", hadamard(2), hadamard(8)},
      {"Kf16V8", kF16, hadamard(8)},
      {"5.5", hadamard(6), hadamard(5)},
      {"4.5", hadamard(5), hadamard(4)},
      {"3.5", hadamard(4), hadamard(3)},
      {"2.5", hadamard(3), hadamard(2)},
      {"affine4:64", affine(4), affine(4)},
      {"affine8:32", affine(8, 32), affine(8, 32)},
      {"affine8", affine(8), affine(8)},
      {"8:64", hadamard(8, 64), hadamard(8, 64)},
      {"Kaffine8:32V4", affine(8, 32), hadamard(4)},
  };
  for (const Case& c : cases) {
    const CodecPair pair = codec(flags_of(c.name));
    EXPECT_EQ(pair.k, c.k) << c.name;
    EXPECT_EQ(pair.v, c.v) << c.name;
    // The canonical name means the same codecs.
    const CodecPair again = codec(flags_of(codec_name(pair)));
    EXPECT_EQ(again.k, pair.k) << codec_name(pair);
    EXPECT_EQ(again.v, pair.v) << codec_name(pair);
  }
  EXPECT_EQ(codec_name(codec(flags_of("K4V3"))), "K4V3");
  EXPECT_EQ(codec_name(codec(flags_of("3.5"))), "K4V3");
  EXPECT_EQ(codec_name(codec(flags_of("affine4:64"))), "affine4:64");
  EXPECT_EQ(codec_name(codec(flags_of("8"))), "8");
}

TEST(CodecFlags, ByLayerKind) {
  for (const char* text : {"full=4+sliding=K8V6", "sliding=K8V6+full=4"}) {
    const CacheFlags flags = flags_of(text);
    EXPECT_EQ(codec(flags, LayerKind::full).k, hadamard(4));
    for (const LayerKind kind : {LayerKind::sliding, LayerKind::chunked}) {
      EXPECT_EQ(codec(flags, kind).k, hadamard(8));
      EXPECT_EQ(codec(flags, kind).v, hadamard(6));
    }
  }
}

TEST(CodecFlags, HalvesAreOverridden) {
  CacheFlags flags = flags_of("8");
  flags.kv_value_bits = "4";
  EXPECT_EQ(codec_name(codec(flags)), "K8V4");
  flags.kv_key_bits = "f16";
  EXPECT_EQ(codec_name(codec(flags)), "Kf16V4");
  flags = flags_of("affine8:32");
  flags.kv_value_bits = "4";
  EXPECT_EQ(codec(flags).v, affine(4, 32));
  flags = flags_of("f16");
  flags.kv_key_bits = "8";
  EXPECT_EQ(codec_name(codec(flags)), "K8Vf16");
}

TEST(CodecFlags, SchemeAndGroup) {
  CacheFlags flags = flags_of("K8V4");
  flags.kv_scheme = "affine";
  EXPECT_EQ(codec(flags).k, affine(8));
  EXPECT_EQ(codec(flags).v, affine(4));
  EXPECT_TRUE(codec(flags).default_group);
  flags.kv_group_size = 32;
  EXPECT_EQ(codec(flags).v, affine(4, 32));
  EXPECT_FALSE(codec(flags).default_group);
  flags.kv_scheme = "hadamard";
  EXPECT_EQ(codec(flags).k, hadamard(8, 32));
  flags.kv_bits = "f16";
  EXPECT_FALSE(codec(flags).quantized());
}

TEST(CodecFlags, ErrorsNameTheFlagAndWhatWorks) {
  for (const char* text : {"",
                           "7",
                           "1",
                           "16",
                           "9",
                           "-8",
                           "8x",
                           "f32",
                           "F16",
                           "K8",
                           "KV",
                           "K8V",
                           "V8K4",
                           "K8V4 ",
                           "1.5",
                           "6.5",
                           "4.50",
                           "affine",
                           "affine7",
                           "affine4:",
                           "affine4:0",
                           "affine4:-64",
                           "affine4:64x",
                           "8:",
                           "full=8",
                           "sliding=8",
                           "full=8+full=4",
                           "full=+sliding=8",
                           "full=8+sliding=8+x=3",
                           "full=8+sliding",
                           "ring=8+full=8",
                           "=8",
                           "full=8+",
                           "full=8+sliding=4+",
                           "08",
                           "K8V04",
                           "affine4:064",
                           "99999999999999999999"}) {
    const auto pair = codec_for(flags_of(text), LayerKind::full);
    ASSERT_FALSE(pair.ok()) << text;
    EXPECT_EQ(pair.error().kind, ErrorKind::usage);
    EXPECT_THAT(pair.error().message, HasSubstr("--kv-bits"));
    EXPECT_THAT(pair.error().message, HasSubstr("full=CODEC+sliding=CODEC"));
  }
  // Other flags that give a codec.
  for (const char* text : {"7", "full=8", "full=8+sliding=9"}) {
    const std::string message =
        codec_for(flags_of(text), LayerKind::sliding, "--codecs").error().message;
    EXPECT_THAT(message, HasSubstr(std::string("--codecs ") + text));
    EXPECT_THAT(message, ::testing::Not(HasSubstr("--kv-bits")));
  }
  CacheFlags flags;
  flags.kv_key_bits = "4.5";
  EXPECT_THAT(codec_for(flags, LayerKind::full).error().message,
              HasSubstr("--kv-key-bits 4.5: expected f16, 8, 6, 5, 4, 3 or 2"));
  flags = {};
  flags.kv_value_bits = "affine4";
  EXPECT_THAT(codec_for(flags, LayerKind::full).error().message, HasSubstr("--kv-value-bits"));
  flags = {};
  flags.kv_scheme = "nf4";
  EXPECT_THAT(codec_for(flags, LayerKind::full).error().message, HasSubstr("hadamard or affine"));
  flags = {};
  flags.kv_group_size = -1;
  EXPECT_THAT(codec_for(flags, LayerKind::full).error().message, HasSubstr("--kv-group-size"));
  flags = flags_of("affine4:64");
  flags.kv_group_size = 32;
  EXPECT_THAT(codec_for(flags, LayerKind::full).error().message, HasSubstr("contradicts"));
}

}  // namespace
}  // namespace ringkeep::kv
