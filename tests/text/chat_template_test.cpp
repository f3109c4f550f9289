#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ringkeep::text {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

const std::filesystem::path kGoldens =
    std::filesystem::path(RK_SOURCE_DIR) / "tests/golden/templates";

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<std::string> render(const std::string& source, const Json& context = Json::object()) {
  return RK_TRY(ChatTemplate::parse(source)).render(context);
}

std::string text(const std::string& source, const Json& context = Json::object()) {
  const auto result = render(source, context);
  EXPECT_TRUE(result.ok()) << source << "\n" << (result.ok() ? "" : result.error().message);
  return result.ok() ? *result : "";
}

std::string error(const std::string& source, const Json& context = Json::object()) {
  const auto result = render(source, context);
  EXPECT_FALSE(result.ok()) << source << "\nrenders " << (result.ok() ? *result : "");
  return result.ok() ? "" : result.error().message;
}

// What jinja2 gave: a text, an error of the template's own, or another error.
void expect_golden(const Json& golden, const std::string& source, const Json& context,
                   const std::string& name) {
  const auto result = render(source, context);
  if (golden.contains("text")) {
    ASSERT_TRUE(result.ok()) << name << ": " << result.error().message;
    EXPECT_EQ(*result, golden["text"].get<std::string>()) << name;
  } else {
    ASSERT_FALSE(result.ok()) << name << ": expected an error, got " << *result;
    if (golden.contains("raised")) {
      EXPECT_EQ(result.error().message, golden["raised"].get<std::string>()) << name;
    }
  }
}

TEST(ChatTemplate, RendersConversationsAsJinja2) {
  const Json contexts = Json::parse(read(kGoldens / "contexts.json"));
  int renderings = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string source = read(entry.path());
    const Json golden =
        Json::parse(read(std::filesystem::path(entry.path()).replace_extension(".json")));
    for (const auto& [name, result] : golden["results"].items()) {
      expect_golden(result, source, contexts[name],
                    entry.path().filename().string() + " x " + name);
      ++renderings;
    }
  }
  EXPECT_GE(renderings, 180);
}

TEST(ChatTemplate, RendersSnippetsAsJinja2) {
  const Json golden = Json::parse(read(kGoldens / "snippets.json"));
  ASSERT_GE(golden["results"].size(), 150u);
  for (const Json& snippet : golden["results"]) {
    const auto source = snippet["template"].get<std::string>();
    expect_golden(snippet, source, golden["context"], source);
  }
}

TEST(ChatTemplate, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error("ok\n  {{ 1 + }}"),
            "chat template, line 2, column 10: expected an expression, found '}}'");
  EXPECT_EQ(error("é{% if x %}"),
            "chat template, line 1, column 12: expected '{% elif %}' or '{% else %}' or "
            "'{% endif %}', found the end of the template");
  EXPECT_EQ(error("\n\n{{ 'a' | nosuch }}"),
            "chat template, line 3, column 10: unknown filter 'nosuch'");
  EXPECT_EQ(error("{{ 1 }}\n{{ x.y.z }}", {{"x", Json::object()}}),
            "chat template, line 2, column 7: 'dict object' has no attribute 'y'");
  EXPECT_THAT(error("{% include 'x' %}"), HasSubstr("'include' is not supported"));
  EXPECT_THAT(error("{{ 'abc }}"), HasSubstr("line 1, column 4"));
  EXPECT_THAT(error("a\xff"), HasSubstr("UTF-8"));
}

TEST(ChatTemplate, KindsOfErrors) {
  EXPECT_EQ(ChatTemplate::parse("{{").error().kind, ErrorKind::input);
  EXPECT_EQ(render("{{ 1 + 'a' }}").error().kind, ErrorKind::usage);
  const Error raised = render("{{ raise_exception('exactly this') }}").error();
  EXPECT_EQ(raised.kind, ErrorKind::usage);
  EXPECT_EQ(raised.message, "exactly this");
}

TEST(ChatTemplate, LineBreaksAreNormalized) {
  EXPECT_EQ(text("a\r\nb\rc\n"), "a\nb\nc");
  EXPECT_EQ(text("{% if true %}\r\nx{% endif %}"), "x");
}

TEST(ChatTemplate, StrftimeNow) {
  const auto year = [] {
    const std::time_t now = std::time(nullptr);
    return std::to_string(1900 + std::localtime(&now)->tm_year);
  };
  const std::string before = year();
  const std::string got = text("{{ strftime_now('%Y') }}");
  EXPECT_TRUE(got == before || got == year()) << got;
}

TEST(ChatTemplate, InvalidTextPassesThrough) {
  EXPECT_EQ(text("{{ x }}|{{ x | upper }}", {{"x", "a\xff"}}), "a\xff|A\xff");
}

TEST(ChatTemplate, IntegersDoNotWrap) {
  EXPECT_THAT(error("{{ 9223372036854775807 + 1 }}"), HasSubstr("64-bit"));
  EXPECT_THAT(error("{{ 10 ** 19 }}"), HasSubstr("64-bit"));
  EXPECT_THAT(error("{{ 9223372036854775808 }}"), HasSubstr("64 bits"));
  EXPECT_EQ(text("{{ (0 - 9223372036854775807 - 1) % -1 }}"), "0");
}

// An untrusted template ends with an error, whatever it does.
TEST(ChatTemplate, LimitsEndRunawayTemplates) {
  const std::string grow =
      "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
      "endfor %}";
  EXPECT_THAT(error(grow), HasSubstr("16 MiB"));
  EXPECT_THAT(error("{{ 'x' * 999999999 }}"), HasSubstr("too much"));
  EXPECT_THAT(error("{{ [0] * 99999999999 }}"), HasSubstr("too much"));
  EXPECT_THAT(error("{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}"),
              HasSubstr("16 MiB"));
  EXPECT_THAT(
      error("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
      HasSubstr("steps"));
  EXPECT_THAT(
      error("{% set ns = namespace(n=0) %}{% for i in range(3000) %}{% for j in range(3000) %}"
            "{% set ns.n = j %}{% endfor %}{% endfor %}"),
      HasSubstr("steps"));
  EXPECT_THAT(error("{{ range(100001) }}"), HasSubstr("range"));
  EXPECT_THAT(error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), HasSubstr("nested deeper"));
  const std::string nest =
      "{% set ns = namespace(a=[]) %}{% for i in range(999) %}{% set ns.a = [ns.a, ns.a] %}{% "
      "endfor %}";
  EXPECT_THAT(error(nest + "{{ ns.a }}"), HasSubstr("nested deeper"));
  const std::string wide =
      "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% "
      "endfor %}";
  error(wide + "{{ ns.a }}");
  error(wide + "{{ ns.a | tojson }}");
  error(
      wide + wide +
      "{% set b = ns.a %}{{ [b] == [ns.a + []] }}{% set ns.c = ns.a[:] + [1] %}{{ ns.c < ns.a }}" +
      "{{ ns.a }}");
  EXPECT_THAT(error("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"),
              HasSubstr("nested deeper"));
}

TEST(ChatTemplate, DeepSourceIsAnError) {
  const auto repeat = [](const std::string& s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  for (const char* open :
       {"(", "[", "{1:", "not ", "-", "x[", "f(", "x|d(", "x is in ", "x if x else "}) {
    error("{{ " + repeat(open, 100000));
  }
  for (const char* chain : {" + 1", ".a", "|d", " and 1", " if 1", "()", "[0]", " ** 1"}) {
    error("{{ x" + repeat(chain, 100000) + " }}");
  }
  for (const char* open :
       {"{% if x %}", "{% for a in b %}", "{% macro m() %}", "{% filter upper %}", "{% set x %}"}) {
    error(repeat(open, 100000));
  }
  Json deep = Json::array();
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THAT(error("{{ x }}", {{"x", deep}}), HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace ringkeep::text
