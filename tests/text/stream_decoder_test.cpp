#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

namespace ringkeep::text {
namespace {

using Pieces = std::vector<std::string>;
const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD

// Everything that is shown, in the pieces in which it is shown; empty ones left out.
Pieces shown(StreamDecoder decoder, const Pieces& pushes) {
  Pieces out;
  const auto keep = [&](std::string text) {
    if (!text.empty()) out.push_back(std::move(text));
  };
  for (const std::string& push : pushes) keep(decoder.push(push));
  keep(decoder.finish());
  return out;
}

TEST(StreamDecoder, HoldsBytesUntilTheCharacterIsWhole) {
  EXPECT_EQ(shown(StreamDecoder(), {"\xF0", "\x9F", "\x98", "\x80"}), (Pieces{"😀"}));
  EXPECT_EQ(shown(StreamDecoder(), {"a\xF0\x9F",
                                    "\x98\x80"
                                    "b\xE2",
                                    "\x82\xAC"}),
            (Pieces{"a", "😀b", "€"}));
}

TEST(StreamDecoder, UnfinishedTailIsOneReplacement) {
  EXPECT_EQ(shown(StreamDecoder(), {"ok\xF0", "\x9F"}), (Pieces{"ok", kBad}));
  EXPECT_EQ(shown(StreamDecoder(), {"\xF0\x9F\x98"}), (Pieces{kBad}));
}

// The example of The Unicode Standard 15.0, table 3-8, and what its rule says of overlong forms,
// surrogates and bytes that begin nothing.
TEST(StreamDecoder, EachMaximalIllFormedPartIsOneReplacement) {
  EXPECT_EQ(shown(StreamDecoder(), {"a\xF1\x80\x80\xE1\x80\xC2"
                                    "b\x80"
                                    "c\x80\xBF"
                                    "d"}),
            (Pieces{"a" + kBad + kBad + kBad + "b" + kBad + "c" + kBad + kBad + "d"}));
  EXPECT_EQ(shown(StreamDecoder(), {"\xC0\xAF|\xE0\x80\xBF|\xED\xA0\x80|\xF4\x91\x92\x93|\xFF"}),
            (Pieces{kBad + kBad + "|" + kBad + kBad + kBad + "|" + kBad + kBad + kBad + "|" + kBad +
                    kBad + kBad + kBad + "|" + kBad}));
}

TEST(StreamDecoder, BadByteIsShownAsSoonAsItIsCertain) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.push("\xE2\x82"), "");
  EXPECT_EQ(decoder.push("x"), kBad + "x");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, StopAcrossThreePushes) {
  EXPECT_EQ(shown(StreamDecoder({"\nUser:"}), {"Hello.", "\nUs", "er", ": more", "text"}),
            (Pieces{"Hello."}));
}

TEST(StreamDecoder, StopInsideOnePush) {
  StreamDecoder decoder({"END"});
  EXPECT_EQ(decoder.push("abENDcd"), "ab");
  EXPECT_TRUE(decoder.stopped());
  EXPECT_EQ(decoder.push("more"), "");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, WhatOnlyLookedLikeAStopIsShown) {
  StreamDecoder decoder({"</answer>"});
  EXPECT_EQ(decoder.push("a</ans"), "a");
  EXPECT_EQ(decoder.push("</b>"), "</ans</b>");
  EXPECT_EQ(decoder.push("</answer"), "");
  EXPECT_EQ(decoder.finish(), "</answer");
  EXPECT_FALSE(decoder.stopped());
}

TEST(StreamDecoder, TwoStopsThatShareAPrefix) {
  const Pieces stops = {"<end>", "<enough>"};
  EXPECT_EQ(shown(StreamDecoder(stops), {"a<en", "d>b"}), (Pieces{"a"}));
  EXPECT_EQ(shown(StreamDecoder(stops), {"a<en", "ough", ">b"}), (Pieces{"a"}));
  EXPECT_EQ(shown(StreamDecoder(stops), {"a<en", "x>b"}), (Pieces{"a", "<enx>b"}));
  // One the beginning of the other: the shorter one decides at once.
  StreamDecoder decoder({"STOPPING", "STOP"});
  EXPECT_EQ(decoder.push("xSTOP"), "x");
  EXPECT_TRUE(decoder.stopped());
}

TEST(StreamDecoder, TheStopThatBeginsFirstWins) {
  StreamDecoder decoder({"cd", "abcdef"});
  EXPECT_EQ(decoder.push("-abcd"), "-");  // "abcdef" may still come, and begins before "cd"
  EXPECT_FALSE(decoder.stopped());
  EXPECT_EQ(decoder.push("e-"), "ab");
  EXPECT_TRUE(decoder.stopped());
  EXPECT_EQ(shown(StreamDecoder({"cd", "abcdef"}), {"-abcd", "efgh"}), (Pieces{"-"}));
  EXPECT_EQ(shown(StreamDecoder({"cd", "abcdef"}), {"-abcd"}), (Pieces{"-", "ab"}));
}

// Nor does what comes before a control token go on behind it; a stop that begins with one is met.
TEST(StreamDecoder, NoStopIsMetWithinAControlToken) {
  StreamDecoder decoder({"end", "a<", "|x", marked_control("<|start|>") + "user"});
  std::string shown = decoder.push("a");
  EXPECT_EQ(shown, "");  // a< may come
  shown += decoder.push_control("<|end|>");
  EXPECT_EQ(shown, "a" + marked_control("<|end|>"));
  EXPECT_EQ(decoder.push("x\xE2"), "x");
  EXPECT_EQ(decoder.push_control("<|start|>"), kBad);  // what follows decides
  EXPECT_EQ(decoder.push("us"), "");
  EXPECT_EQ(decoder.push("er b"), "");
  EXPECT_TRUE(decoder.stopped());
  EXPECT_EQ(decoder.met(), 3u);

  StreamDecoder text({"", "never", "end", "the end"});
  EXPECT_EQ(text.push("<|start|>user the end"), "<|start|>user ");
  EXPECT_EQ(text.met(), 3u);
}

TEST(StreamDecoder, StopOfManyByteCharacters) {
  EXPECT_EQ(shown(StreamDecoder({"。终"}), {"好\xE3\x80", "\x82\xE7\xBB", "\x88x"}),
            (Pieces{"好"}));
  EXPECT_EQ(shown(StreamDecoder({""}), {"abc"}), (Pieces{"abc"}));
}

// The definition, on the whole string: Unicode replacement first, then the first stop.
std::string whole(const std::string& bytes, const Pieces& stops) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    // The lead byte says how long a character is; the second byte's range depends on it.
    const auto at = [&](size_t k) { return k < bytes.size() ? uint8_t(bytes[k]) : 0; };
    const uint8_t b = at(i);
    const size_t size = b < 0x80   ? 1
                        : b < 0xC2 ? 0
                        : b < 0xE0 ? 2
                        : b < 0xF0 ? 3
                        : b < 0xF5 ? 4
                                   : 0;
    size_t good = size == 0 ? 0 : 1;
    while (good > 0 && good < size) {
      const uint8_t c = at(i + good);
      const uint8_t low = good > 1 ? 0x80 : b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
      const uint8_t high = good > 1 ? 0xBF : b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
      if (c < low || c > high) break;
      ++good;
    }
    const bool whole_character = size > 0 && good == size;
    text += whole_character ? bytes.substr(i, size) : kBad;
    i += std::max<size_t>(good, 1);
  }
  size_t cut = text.size();
  for (const std::string& stop : stops) cut = std::min(cut, text.find(stop));
  return text.substr(0, cut);
}

TEST(StreamDecoder, EqualsTheWholeStringDefinitionForEverySplit) {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return random() % n; };
  const Pieces parts = {"a",
                        "b",
                        "ab",
                        "\xF0\x9F\x98\x80",
                        "\xE2\x82\xAC",
                        "\xC3\xA9",
                        "\x80",
                        "\xF0",
                        "\x9F",
                        "\xE2",
                        "\x82",
                        "\xFF",
                        kBad};
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (size_t n = below(30); n > 0; --n) bytes += parts[below(parts.size())];
    Pieces stops;
    for (size_t n = below(4); n > 0; --n) {
      std::string stop;
      for (size_t m = 1 + below(4); m > 0; --m) stop += Pieces{"a", "b", "😀", "€", kBad}[below(5)];
      stops.push_back(stop);
    }
    Pieces pushes;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = below(5);
      pushes.push_back(bytes.substr(at, size));
      at += size;
    }
    StreamDecoder decoder(stops);
    std::string text;
    bool was_stopped = false;
    for (const std::string& push : pushes) {
      const std::string more = decoder.push(push);
      EXPECT_TRUE(!was_stopped || more.empty());
      EXPECT_EQ(whole(more, {}), more) << "shown in parts of characters";
      text += more;
      was_stopped = decoder.stopped();
    }
    text += decoder.finish();
    ASSERT_EQ(text, whole(bytes, stops)) << "round " << round;
  }
}

}  // namespace
}  // namespace ringkeep::text
