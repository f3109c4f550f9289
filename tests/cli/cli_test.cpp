// The helpers behind the commands. The commands themselves are tested as programs, in tests/e2e.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/npy.h"
#include "cli/numbers.h"
#include "cli/options.h"
#include "cli/output.h"

namespace ringkeep::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// numpy.lib.format: magic, version, little-endian length, a dictionary that ends in a newline; the
// data begins at a multiple of 64.
TEST(Npy, HeaderFollowsTheFormat) {
  for (const int64_t rows : {1, 12, 123456}) {
    const std::string header = npy_header(rows, 262144);
    EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    EXPECT_EQ(header.size() % 64, 0u);
    EXPECT_EQ(static_cast<uint8_t>(header[8]) + 256 * static_cast<uint8_t>(header[9]),
              header.size() - 10);
    EXPECT_THAT(header, HasSubstr(fmt::format("'shape': ({}, 262144)", rows)));
    EXPECT_EQ(header.back(), '\n');
  }
}

TEST(Npy, AFileAppearsOnlyWhenItIsComplete) {
  const auto path = std::filesystem::path(testing::TempDir()) / "ringkeep_npy_test.npy";
  std::filesystem::remove(path);
  const std::vector<float> row = {1.0f, -2.5f};
  {
    auto writer = NpyWriter::open(path.string(), 2, 2);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->write_row(row).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));

  auto writer = NpyWriter::open(path.string(), 2, 2);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write_row(row).ok());
  ASSERT_TRUE(writer->write_row(row).ok());
  ASSERT_TRUE(writer->finish().ok());
  const std::string bytes = read_all(path);
  const std::string header = npy_header(2, 2);
  ASSERT_EQ(bytes.size(), header.size() + 4 * sizeof(float));
  EXPECT_EQ(bytes.substr(0, header.size()), header);
  float last = 0.0f;
  std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
  EXPECT_EQ(last, -2.5f);
  std::filesystem::remove(path);
}

TEST(Options, RangesAreHalfOpenAndInside) {
  EXPECT_THAT(parse_range(":", 7).value(), Pair(0, 7));
  EXPECT_THAT(parse_range("2:", 7).value(), Pair(2, 7));
  EXPECT_THAT(parse_range(":3", 7).value(), Pair(0, 3));
  EXPECT_THAT(parse_range("2:7", 7).value(), Pair(2, 7));
  for (const char* text : {"", "3", "3:3", "4:3", "0:8", "-1:3", "a:b", "1:2:3", "1:2 "}) {
    const auto range = parse_range(text, 7);
    ASSERT_FALSE(range.ok()) << text;
    EXPECT_EQ(range.error().kind, ErrorKind::usage) << text;
  }
}

TEST(Options, TokenIdsBySeparatorsOfEitherKind) {
  EXPECT_THAT(parse_token_ids("2,10,11", 12, "ids").value(), ElementsAre(2, 10, 11));
  EXPECT_THAT(parse_token_ids(" 2\n10\t11 , 3,\n4\n", 12, "ids").value(),
              ElementsAre(2, 10, 11, 3, 4));
  EXPECT_TRUE(parse_token_ids("", 12, "ids").value().empty());
  EXPECT_TRUE(parse_token_ids(" \n", 12, "ids").value().empty());
  for (const char* text : {"12", "-1", "1.5", "x", "99999999999", "1,,2", "1,", "1,\n", ",1", ",",
                           "1, ,2", "1 , , 2"}) {
    const auto ids = parse_token_ids(text, 12, "--some-flag");
    ASSERT_FALSE(ids.ok()) << text;
    EXPECT_EQ(ids.error().kind, ErrorKind::usage) << text;
    EXPECT_THAT(ids.error().message, HasSubstr("--some-flag")) << text;
  }
}

TEST(Options, ListsHaveNoEmptyEntries) {
  EXPECT_THAT(split_list("8", "--x").value(), ElementsAre("8"));
  EXPECT_THAT(split_list("8,K6V4,4", "--x").value(), ElementsAre("8", "K6V4", "4"));
  for (const char* text : {"", ",", "8,", ",8", "8,,4", "8,4,,"}) {
    const auto list = split_list(text, "--codecs");
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_EQ(list.error().kind, ErrorKind::usage);
    EXPECT_THAT(list.error().message, HasSubstr("--codecs")) << text;
  }
}

TEST(Options, LogitBiasesAreParsedWhole) {
  SamplingOptions options;
  options.logit_bias = {"5:2.5", "7:-100", "9:+1"};
  EXPECT_THAT(sampling_params(options).value().logit_bias,
              ElementsAre(Pair(5, 2.5f), Pair(7, -100.0f), Pair(9, 1.0f)));
  for (const char* text : {"5", "a:1", "5:", ":1", "5:x", "5:1x", "5:1e40"}) {
    options.logit_bias = {text};
    EXPECT_FALSE(sampling_params(options).ok()) << text;
  }
  options.logit_bias = {"5:1", "6:1", "05:1"};  // which of the two?
  EXPECT_THAT(sampling_params(options).error().message, HasSubstr("token 5 has a bias already"));
}

TEST(Output, BytesForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(3.0 * (1 << 20)), "3.0 MiB");
}

TEST(Output, ARateWithoutTimeIsNull) {
  EXPECT_TRUE(rate_json(5, 0).is_null());
  EXPECT_EQ(rate_json(6, 2).get<double>(), 3.0);
}

}  // namespace
}  // namespace ringkeep::cli
