#include <gtest/gtest.h>

#include "server/http/auth.h"
#include "server/http/log.h"
#include "server/http/outbox.h"
#include "server/http/response_head.h"
#include "server/http/router.h"

namespace ringkeep::http {
namespace {

TEST(Router, FindsMethodAndPath) {
  Router router;
  for (const char* pattern : {"/", "/a", "/a/{id}"})
    router.add({.method = "GET", .pattern = pattern});
  router.add({.method = "POST", .pattern = "/a"});
  EXPECT_EQ(router.find("GET", "/").route->pattern, "/");
  EXPECT_EQ(router.find("HEAD", "/a").route->method, "GET");
  EXPECT_EQ(router.find("POST", "/a").route->method, "POST");
  EXPECT_EQ(router.find("PUT", "/a").allow, "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(router.find("GET", "/b").allow, "");
  EXPECT_EQ(router.find("GET", "/a/").route, nullptr);
  EXPECT_EQ(router.find("GET", "/a/x%2Fy/z%zz").parameters.at("id"), "x/y/z%zz");
}

Request with(const std::string& name, const std::string& value) {
  Request request;
  request.headers.emplace_back(name, value);
  return request;
}

TEST(ApiKeys, InEveryForm) {
  ApiKeys keys;
  keys.add("one");
  keys.add("two");
  EXPECT_TRUE(keys.accepts(with("authorization", "bEaReR   two")));
  EXPECT_TRUE(keys.accepts(with("X-API-KEY", "one")));
  EXPECT_TRUE(keys.accepts(with("Authorization", "Basic OnR3bw==")));     // ":two"
  EXPECT_TRUE(keys.accepts(with("Authorization", "Basic dXNlcjpvbmU")));  // "user:one", unpadded
  for (const char* bad : {"", "Bearer", "Bearer ", "Bearer onetwo", "Bearer on", "Basic dHdv",
                          "Basic !", "one", "Bearer one ", "Digest one"})
    EXPECT_FALSE(keys.accepts(with("Authorization", bad))) << bad;
  EXPECT_FALSE(keys.accepts(Request{}));
}

TEST(Cors, OnlyForOriginsThatAreAllowed) {
  const auto origin = [](const std::vector<std::string>& allowed, const std::string& sent) {
    Response response;
    add_cors(allowed, with("Origin", sent), response);
    const std::string* found = find_header(response.headers, "Access-Control-Allow-Origin");
    return found != nullptr ? *found : "";
  };
  EXPECT_EQ(origin({}, "https://a"), "");
  EXPECT_EQ(origin({"https://a"}, "https://a"), "https://a");
  EXPECT_EQ(origin({"https://a"}, "https://a.evil"), "");
  EXPECT_EQ(origin({"*"}, "null"), "*");
}

TEST(ResponseHead, NothingBeginsAHeaderOfItsOwn) {
  Response response{.status = 404};
  response.headers = {{"X-A", "b\r\nEvil: yes"}};
  const std::string head = response_head(response, "id", Framing::length, 7, true);
  EXPECT_TRUE(head.starts_with("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_NE(head.find("\r\nX-A: bEvil: yes\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nContent-Length: 7\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_EQ(chunk(std::string(17, 'x')), "11\r\n" + std::string(17, 'x') + "\r\n");
  EXPECT_EQ(chunk(""), "");  // an empty one would end the body
}

TEST(Message, MediaTypesAndIds) {
  EXPECT_EQ(media_type(" Application/JSON ; charset=utf-8"), "application/json");
  EXPECT_EQ(media_type(""), "");
  EXPECT_TRUE(sane_request_id("a-1"));
  for (const char* bad : {"", "a b", "a\nb", "\xff"}) EXPECT_FALSE(sane_request_id(bad)) << bad;
  EXPECT_FALSE(sane_request_id(std::string(129, 'a')));
}

TEST(Log, ValuesStayInTheirLine) {
  const LogFields fields = {{"a", std::string("plain")},
                            {"b", std::string("two words\n\"x\"")},
                            {"c", int64_t{5}},
                            {"d", 0.5}};
  EXPECT_EQ(format_fields(LogFormat::text, fields),
            "a=plain b=\"two words\\u000a\\\"x\\\"\" c=5 d=0.5");
  EXPECT_EQ(format_fields(LogFormat::json, fields),
            "\"a\":\"plain\",\"b\":\"two words\\u000a\\\"x\\\"\",\"c\":5,\"d\":0.5");
}

class OutboxTest : public ::testing::Test {
 protected:
  std::shared_ptr<Outbox> make(size_t limit) {
    return std::make_shared<Outbox>(
        Request{}, limit, [this] { ++wakes; }, [](const std::function<void()>& work) { work(); });
  }
  int wakes = 0;
};

TEST_F(OutboxTest, OneAnswerOnly) {
  const auto box = make(100);
  EXPECT_FALSE(box->take().head.has_value());
  box->respond({.status = 201});
  box->respond({.status = 500});
  box->begin_stream({});
  const auto parts = box->take();
  EXPECT_EQ(parts.head->status, 201);
  EXPECT_TRUE(parts.done && !parts.stream);
  EXPECT_FALSE(box->take().head.has_value());
}

TEST_F(OutboxTest, StreamsInOrder) {
  const auto box = make(100);
  box->begin_stream({});
  EXPECT_TRUE(box->write("a"));
  EXPECT_TRUE(box->write("b"));
  auto parts = box->take();
  EXPECT_TRUE(parts.head && parts.stream && !parts.done);
  EXPECT_EQ(parts.bytes, "ab");
  box->write("c");
  box->end();
  parts = box->take();
  EXPECT_TRUE(parts.done);
  EXPECT_EQ(parts.bytes, "c");
  EXPECT_GE(wakes, 4);
}

TEST_F(OutboxTest, AFullBufferCountsAsGone) {
  const auto box = make(10);
  int gone = 0;
  box->on_gone([&] { ++gone; });
  box->begin_stream({});
  EXPECT_TRUE(box->write("0123456789"));
  EXPECT_EQ(gone, 0);
  EXPECT_FALSE(box->write("x"));
  EXPECT_EQ(gone, 1);
  EXPECT_FALSE(box->write("x"));
  box->set_gone();
  EXPECT_EQ(gone, 1);  // once
  int late = 0;
  box->on_gone([&] { ++late; });
  EXPECT_EQ(late, 1);  // at once
}

}  // namespace
}  // namespace ringkeep::http
