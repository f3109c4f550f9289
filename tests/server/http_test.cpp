#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <new>

#include "server/http/auth.h"
#include "server/http/log.h"
#include "server/http/outbox.h"
#include "server/http/response_head.h"
#include "server/http/router.h"
#include "server/http/server.h"

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
                            {"b", std::string("two words\n\"x\"\xff\xc2\x9b")},
                            {"c", int64_t{5}},
                            {"d", 0.5}};
  EXPECT_EQ(format_fields(LogFormat::text, fields),
            "a=plain b=\"two words\\n\\\"x\\\"\\ufffd\\u009b\" c=5 d=0.5");
  EXPECT_EQ(format_fields(LogFormat::json, fields),
            "\"a\":\"plain\",\"b\":\"two words\\n\\\"x\\\"\\ufffd\\u009b\",\"c\":5,\"d\":0.5");
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

// What a server says to these bytes until it closes the connection.
std::string talk(const Server& server, const std::string& bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  std::string said(1 << 16, '\0');
  size_t size = 0;
  for (ssize_t n = 0; (n = ::recv(fd, said.data() + size, said.size() - size, 0)) > 0;)
    size += static_cast<size_t>(n);
  ::close(fd);
  return said.substr(0, size);
}

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Router router;
    router.add({.method = "GET", .pattern = "/memory", .handler = [](const auto&) {
                  throw std::bad_alloc();
                }});
    router.add({.method = "GET", .pattern = "/", .handler = [](const auto& exchange) {
                  exchange->respond({.body = "here"});
                }});
    Options options;
    options.error = [](int status, const std::string& message) {
      return Response{.status = status, .body = "error: " + message};
    };
    server_ = Server::listen("127.0.0.1", 0, std::move(options), std::move(router)).value();
    server_->start();
  }
  static std::string get(const std::string& path, bool close = true) {
    return fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n{}\r\n", path,
                       close ? "Connection: close\r\n" : "");
  }
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AHandlerWithoutMemoryIsAnErrorOfItsRequest) {
  const std::string said = talk(*server_, get("/memory", false) + get("/"));
  EXPECT_TRUE(said.starts_with("HTTP/1.1 500 ")) << said;
  EXPECT_NE(said.find("error: out of memory"), std::string::npos) << said;
  EXPECT_EQ(said.find("bad_alloc"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("here")) << said;
}

TEST_F(ServerTest, EmptyLinesBeforeARequestArePassedOver) {
  const std::string line = "\r\n";
  for (const int lines : {1, 2, 16}) {
    std::string bytes;
    for (int i = 0; i < lines; ++i) bytes += line;
    EXPECT_TRUE(talk(*server_, bytes + get("/")).starts_with("HTTP/1.1 200 ")) << lines;
    const std::string said = talk(*server_, get("/", false) + bytes + get("/"));
    EXPECT_TRUE(said.ends_with("here")) << said;
    EXPECT_EQ(said.find(" 400 "), std::string::npos) << said;
  }
  std::string many;
  for (int i = 0; i < 17; ++i) many += line;
  EXPECT_TRUE(talk(*server_, many + get("/")).starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(talk(*server_, std::string("\r").append(get("/"))).starts_with("HTTP/1.1 400 "));
}

}  // namespace
}  // namespace ringkeep::http
