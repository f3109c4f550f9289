// Bytes of a connection, as a socket gets them: whatever they are, each request is answered once,
// in order and well formed, and when the client is gone nothing of its connection is left.
// The first byte of an input chooses the server's settings and how the rest arrives.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "server/http/connection.h"
#include "server/http/log.h"
#include "server/openai/app.h"

namespace {

using namespace ringkeep;
using boost::asio::ip::tcp;
using http::Connection;
using http::Core;
using openai::ExchangePointer;
using openai::Json;
using std::chrono::milliseconds;

enum : uint8_t { kKeys = 1, kThisMachine = 2, kCors = 4, kSmall = 8, kPieces = 48, kLeaves = 64 };

struct Answered {
  std::string method;
  int status = 0;
  bool gone = false;
};
std::vector<Answered> answered;     // by the connection that runs
std::vector<ExchangePointer> late;  // answers that are due

void answer(const ExchangePointer& exchange, bool stream) {
  if (!stream) return exchange->respond({.body = R"({"ok": true})"});
  exchange->begin_stream({.content_type = "text/event-stream"});
  for (int i = 0; i < 3; ++i) exchange->write("data: {}\n\n");
  exchange->end();
}

// The fields of a body, and an answer in place of the engine's.
template <typename Fields>
void generate(const ExchangePointer& exchange) {
  static const openai::Defaults defaults{.vocab_size = 1000};
  const auto body = openai::read_body(exchange);
  if (!body) return;
  Fields fields;
  openai::FieldReader reader(*body);
  visit(reader, fields, defaults);
  if (const auto error = reader.finish()) return exchange->respond(openai::error_response(*error));
  answer(exchange, fields.stream);
}

void answer_late(const ExchangePointer& exchange) {
  late.push_back(exchange);
  exchange->on_gone([] {});
}

http::Router make_router() {
  http::Router router;
  const auto add = [&](const char* method, const char* pattern, http::Handler handler,
                       const char* consumes = "") {
    router.add({.method = method,
                .pattern = pattern,
                .handler = std::move(handler),
                .quick = true,
                .open = std::string_view(pattern) == "/health",
                .consumes = consumes});
  };
  add("GET", "/health", [](const ExchangePointer& e) { answer(e, false); });
  add("GET", "/stream", [](const ExchangePointer& e) { answer(e, true); });
  add("GET", "/late", answer_late);
  add("GET", "/memory", [](const ExchangePointer&) { throw std::bad_alloc(); });
  add("GET", "/v1/models/{id}", [](const ExchangePointer& e) {
    e->respond({.body = openai::dump({{"id", e->request().parameters.at("id")}})});
  });
  add("POST", "/v1/completions", generate<openai::CompletionFields>, "application/json");
  add("POST", "/v1/chat/completions", generate<openai::ChatFields>, "application/json");
  return router;
}

// One for each of the settings; they serve input after input.
std::shared_ptr<Core> core_of(uint8_t settings) {
  static std::array<std::shared_ptr<Core>, 16> cores;
  std::shared_ptr<Core>& core = cores[settings % cores.size()];
  if (core != nullptr) return core;
  static openai::App app(openai::Settings{.names = {"m"}});
  http::Limits limits;
  if ((settings & kSmall) != 0) {
    limits.header_bytes = 300;
    limits.header_count = 5;
    limits.target_bytes = 40;
    limits.body_bytes = 100;
    limits.send_buffer = 20;
    limits.requests_per_connection = 2;
  }
  http::ApiKeys keys;
  if ((settings & kKeys) != 0) keys.add("key");
  std::vector<std::string> origins;
  if ((settings & kCors) != 0) origins = {"https://a.example"};
  http::Options options = app.http_options(limits, origins, keys);
  options.this_machine_only = (settings & kThisMachine) != 0;
  options.on_served = [](const http::Served& served) {
    answered.push_back({served.request->method, served.status, served.gone});
  };
  core = std::make_shared<Core>(std::move(options), make_router());
  return core;
}

class Client {
 public:
  explicit Client(Core& core) : core_(core) {
    int ends[2];
    RK_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    fd_ = ends[0];
    server_end_ = ends[1];
  }
  int server_end() const { return server_end_; }

  // All that the server can do now.
  void let_it_run() {
    for (size_t done = 1; done > 0;) {
      core_.io.restart();
      done = core_.io.poll();
      char bytes[4096];
      for (ssize_t n = 0; (n = ::recv(fd_, bytes, sizeof bytes, 0)) > 0; ++done)
        received_.append(bytes, static_cast<size_t>(n));
    }
  }
  bool send(std::string_view bytes) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    let_it_run();
    return sent == static_cast<ssize_t>(bytes.size());
  }
  void say_no_more() { ::shutdown(fd_, SHUT_WR); }
  void leave() {
    ::close(fd_);
    fd_ = -1;
    for (int i = 0; i < 100 && !core_.connections.empty(); ++i) {
      core_.io.restart();
      if (core_.io.poll() == 0) core_.io.run_one_for(milliseconds(60));
    }
    RK_CHECK(core_.connections.empty(), "a connection outlives its client");
  }
  const std::string& received() const { return received_; }

 private:
  Core& core_;
  int fd_ = -1;
  int server_end_ = -1;
  std::string received_;
};

std::string header(std::string_view head, std::string_view name) {
  const size_t at = head.find(std::string("\r\n") + std::string(name) + ": ");
  if (at == head.npos) return "";
  const size_t begin = at + 4 + name.size();
  return std::string(head.substr(begin, head.find("\r\n", begin) - begin));
}

size_t number(std::string_view text, int base) {
  size_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  RK_CHECK(code == std::errc() && end == text.data() + text.size(), "no number: {}", text);
  return value;
}

// Cuts a body in pieces off the front.
std::string chunked_body(std::string_view& bytes) {
  std::string body;
  for (;;) {
    const size_t line = bytes.find("\r\n");
    RK_CHECK(line != bytes.npos, "a piece without a size");
    const size_t size = number(bytes.substr(0, line), 16);
    RK_CHECK(bytes.size() >= line + size + 4 && bytes.substr(line + 2 + size, 2) == "\r\n");
    body += bytes.substr(line + 2, size);
    bytes.remove_prefix(line + size + 4);
    if (size == 0) return body;
  }
}

// What came back is the answers that the server says it gave.
void check(std::string_view bytes) {
  bool closes = false;
  for (const Answered& answer : answered) {
    if (answer.gone) return;  // it may be any beginning of one
    while (bytes.starts_with("HTTP/1.1 100 Continue\r\n\r\n")) bytes.remove_prefix(25);
    const size_t end = bytes.find("\r\n\r\n");
    RK_CHECK(!closes && end != bytes.npos, "an answer is missing");
    const std::string head(bytes.substr(0, end + 2));
    bytes.remove_prefix(end + 4);
    RK_CHECK(head.starts_with("HTTP/1.1 ") &&
                 number(head.substr(9, 3), 10) == static_cast<size_t>(answer.status),
             "{}", head);
    closes = header(head, "Connection") == "close";
    RK_CHECK(!header(head, "X-Request-Id").empty());
    std::string body;
    const std::string length = header(head, "Content-Length");
    if (header(head, "Transfer-Encoding") == "chunked") {
      body = chunked_body(bytes);
    } else if (length.empty()) {  // until the end, to HTTP/1.0; or none
      if (answer.status != 204) {
        RK_CHECK(closes);
        bytes = {};
      }
    } else if (answer.method != "HEAD") {
      RK_CHECK(bytes.size() >= number(length, 10), "a body is cut short");
      body = bytes.substr(0, number(length, 10));
      bytes.remove_prefix(body.size());
    }
    if (answer.status < 400 || answer.method == "HEAD") continue;
    const auto told = openai::parse_json(body);
    RK_CHECK(told.ok() && (*told)["error"]["message"].is_string(), "{}", body);
  }
  RK_CHECK(bytes.empty() || bytes.starts_with("HTTP/1.1 100"), "bytes that nobody asked for");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = (http::init_server_log(http::LogFormat::text, 0), true);
  if (size == 0 || !quiet) return 0;
  const uint8_t settings = data[0];
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto core = core_of(settings);
  answered.clear();
  Client client(*core);
  std::make_shared<Connection>(core, tcp::socket(core->io, tcp::v4(), client.server_end()),
                               /*crowded=*/false)
      ->start();
  static constexpr size_t kPieceSizes[] = {SIZE_MAX, 1, 7, 64};
  size_t piece = kPieceSizes[(settings & kPieces) >> 4];
  for (int i = 0; !bytes.empty(); ++i) {
    if (i == 64) piece = SIZE_MAX;
    const std::string_view part = bytes.substr(0, piece);
    if (!client.send(part)) break;
    bytes.remove_prefix(part.size());
  }
  if ((settings & kLeaves) != 0) {
    client.leave();
    late.clear();
    return 0;
  }
  for (int i = 0; i < 64 && !late.empty(); ++i) {  // each lets the next request in
    const ExchangePointer exchange = late.back();
    late.pop_back();
    answer(exchange, exchange->request().query == "stream");
    client.let_it_run();
  }
  client.say_no_more();
  client.let_it_run();
  late.clear();
  client.leave();
  check(client.received());
  return 0;
}
