#include "server/openai/json.h"

#include <gtest/gtest.h>

namespace ringkeep::openai {
namespace {

std::string error_of(const std::string& text) {
  const auto parsed = parse_json(text);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(Json, IsWhatNlohmannReads) {
  for (const char* text :
       {"{}", "[]", "null", "-0.5e3", "\"\\u00e9\\n\"", R"({"a":[1,{"b":null}],"":true})",
        "18446744073709551615", "-9223372036854775808", R"([[[]]])"})
    EXPECT_EQ(parse_json(text).value(), Json::parse(text)) << text;
  EXPECT_EQ(dump(parse_json(R"({"b":1,"a":2})").value()), R"({"b":1,"a":2})");  // in order
}

TEST(Json, RefusesWhatIsNone) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1,}", "NaN", "[Infinity]", "-Infinity", "'a'", "1 2", "{a:1}",
        "\"\\ud800\"", "\"\xff\"", "\"\xc3(\"", "\xef\xbb", "01", "[1] //", "\"a\nb\""})
    EXPECT_NE(error_of(text), "") << text;
}

TEST(Json, NamesTheFault) {
  EXPECT_NE(error_of("[1e999]").find("too large"), std::string::npos);
  EXPECT_NE(error_of(R"({"x":{"k":1,"j":2,"k":3}})").find("\"k\" comes twice"), std::string::npos);
  EXPECT_EQ(error_of(R"([{"k":1},{"k":2}])"), "");  // two objects
  EXPECT_NE(error_of("[1,2").find("byte"), std::string::npos);
}

TEST(Json, HasALimitOfDepth) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(error_of(nested(kMaxJsonDepth)), "");
  EXPECT_NE(error_of(nested(kMaxJsonDepth + 1)).find("inside each other"), std::string::npos);
  EXPECT_NE(error_of(std::string(5'000'000, '[')), "");
  EXPECT_FALSE(parse_json("[[1]]", 1).ok());
}

TEST(Json, IsAlwaysValidOutside) {
  const std::string text = dump(Json{{"a", "x\xff\xfey\xe2\x82"}});
  EXPECT_EQ(Json::parse(text)["a"], "x\xef\xbf\xbd\xef\xbf\xbdy\xef\xbf\xbd");
}

}  // namespace
}  // namespace ringkeep::openai
