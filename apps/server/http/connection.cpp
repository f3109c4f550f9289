#include "server/http/connection.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <exception>
#include <new>
#include <tuple>

#include "base/memory_reserve.h"
#include "server/http/response_head.h"

namespace ringkeep::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kWriteBytes = 64 << 10;
constexpr int kEmptyLines = 16;               // before a request, that are passed over
constexpr size_t kDiscardedBody = 64 << 10;   // a refused request's body that is read all the same
constexpr int kKernelSendBuffer = 128 << 10;  // so that a slow reader is seen
constexpr size_t kLongBody = 256 << 10;       // bytes
constexpr const char* kNoMemory =
    "out of memory: the server could not hold what this request needs";
constexpr std::chrono::milliseconds kPoll{
    50};  // of a client that has sent its next request already
constexpr std::chrono::seconds kLinger{2};

std::chrono::nanoseconds seconds(double value) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(value));
}

// Whether the peer has closed its side, with bytes of it still unread or not.
bool peer_closed(int fd) {
  pollfd state{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// "http://host/path" says "/path" (RFC 9112, 3.2.2).
std::string_view origin_form(std::string_view target) {
  const size_t scheme = target.find("://");
  if (scheme == target.npos || target.find_first_of("/?") < scheme) return target;
  const size_t path = target.find_first_of("/?", scheme + 3);
  if (path == target.npos) return "/";
  return target.substr(path);
}

// A peer that is gone without a word is found within a minute.
void set_socket_options(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kKernelSendBuffer), ignored);
  const int fd = socket.native_handle();
  const auto set = [fd](int option, int value) {
    ::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 20);
  set(TCP_KEEPINTVL, 10);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 60'000);
}

}  // namespace

// What the connection itself needs to know of a request.
struct Connection::Head {
  Clock::time_point start;
  bool http10 = false;
  bool keep_alive = false;
  bool head_only = false;  // HEAD
  bool has_body = false;
  std::optional<uint64_t> length;
  int refused = 0;  // status with which the head itself is refused
  std::string why;
  int status = 0;  // of the answer
  uint64_t sent = 0;
};

struct Connection::Watch {
  explicit Watch(const asio::any_io_executor& executor) : pause(executor) {}
  bool active = true;
  std::shared_ptr<Outbox> box;
  asio::steady_timer pause;
};

Connection::Connection(std::shared_ptr<Core> core, tcp::socket socket, bool crowded)
    : core_(std::move(core)),
      stream_(std::move(socket)),
      buffer_(core_->options.limits.header_bytes + kReadBytes),
      signal_(stream_.get_executor()),
      deadline_(stream_.get_executor()),
      crowded_(crowded) {
  core_->connections.insert(this);
}

Connection::~Connection() { core_->connections.erase(this); }

void Connection::start() {
  set_socket_options(stream_.socket());
  error_code ignored;
  const auto peer = stream_.socket().remote_endpoint(ignored);
  if (!ignored) remote_ = peer.address().to_string();
  asio::co_spawn(
      stream_.get_executor(),
      [self = shared_from_this()]() -> asio::awaitable<void> { co_await self->run(); },
      asio::detached);
}

void Connection::abort() {
  error_code ignored;
  stream_.socket().close(ignored);
  signal_.cancel();
}

asio::awaitable<void> Connection::run() {
  try {
    while (co_await serve_one()) {
    }
    co_await linger();
  } catch (const std::exception&) {  // out of memory; the connection is lost, the server is not
  }
  error_code ignored;
  stream_.socket().close(ignored);
}

// Ends our side and waits for the client to end its own: closing with unread bytes would reset the
// connection, and the client might lose our last answer.
asio::awaitable<void> Connection::linger() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  if (ignored) co_return;
  stream_.expires_after(kLinger);
  std::string sink(kReadBytes, '\0');
  for (;;) {
    const auto [error, count] = co_await stream_.async_read_some(asio::buffer(sink), kAwait);
    if (error) co_return;
  }
}

void Connection::set_deadline(double time) {
  expired_ = false;
  deadline_.expires_after(seconds(time));
  deadline_.async_wait([self = shared_from_this(), id = ++deadlines_](error_code error) {
    if (error || id != self->deadlines_) return;
    self->expired_ = true;
    self->stream_.cancel();
  });
}

void Connection::clear_deadline() {
  ++deadlines_;
  deadline_.cancel();
}

// Waits for the first byte of a request. Old clients send an empty line behind a body, which is
// passed over (RFC 9112, 2.2); of too many of them the parser complains.
asio::awaitable<bool> Connection::await_request() {
  const Limits& limits = core_->options.limits;
  stream_.expires_after(seconds(served_ == 0 ? limits.header_timeout : limits.idle_timeout));
  for (int lines = 0;;) {
    const std::string_view bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    if (bytes.starts_with("\r\n") && lines < kEmptyLines) {
      buffer_.consume(2);
      ++lines;
    } else if (bytes.empty() || bytes == "\r") {
      const auto [error, count] =
          co_await stream_.async_read_some(buffer_.prepare(kReadBytes), kAwait);
      if (error) co_return false;
      buffer_.commit(count);
    } else {
      co_return true;
    }
  }
}

asio::awaitable<bool> Connection::serve_one() {
  const Limits& limits = core_->options.limits;
  if (!co_await await_request()) co_return false;
  answering_ = true;
  struct Done {
    bool& flag;
    ~Done() { flag = false; }
  } done{answering_};

  Head head{.start = Clock::now()};
  beast::http::request_parser<beast::http::string_body> parser;
  parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser.body_limit(boost::none);
  stream_.expires_never();
  set_deadline(limits.header_timeout);
  const auto [header_error, header_count] =
      co_await beast::http::async_read_header(stream_, buffer_, parser, kAwait);
  clear_deadline();
  if (header_error == beast::http::error::end_of_stream) co_return false;
  if (header_error && expired_) {
    head.refused = 408;
    head.why = fmt::format("no whole header within {} seconds", limits.header_timeout);
  } else if (header_error == beast::http::error::header_limit ||
             header_error == beast::http::error::buffer_overflow) {
    head.refused = 431;
    head.why = fmt::format("the header has more than {} bytes", limits.header_bytes);
  } else if (header_error == beast::http::error::bad_version) {
    head.refused = 505;
    head.why = "expected HTTP/1.0 or HTTP/1.1";
  } else if (header_error.category() ==
             beast::http::make_error_code(beast::http::error::bad_target).category()) {
    head.refused = 400;
    head.why = fmt::format("not a valid HTTP request: {}", header_error.message());
  } else if (header_error) {
    co_return false;
  }

  Request request;
  request.remote = remote_;
  if (head.refused != 0) {
    request.id = random_request_id();
    co_await answer(head, std::move(request), nullptr,
                    core_->options.error(head.refused, head.why));
    co_return false;
  }

  auto& message = parser.get();
  request.method = std::string(message.method_string());
  request.target = std::string(origin_form(message.target()));
  request.path = request.target.substr(0, request.target.find('?'));
  if (request.path.size() < request.target.size())
    request.query = request.target.substr(request.path.size() + 1);
  for (const auto& field : message)
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  const std::string* id = request.header("X-Request-Id");
  request.id = id != nullptr && sane_request_id(*id) ? *id : random_request_id();
  head.http10 = message.version() == 10;
  head.keep_alive = message.keep_alive();
  head.head_only = request.method == "HEAD";
  if (const auto length = parser.content_length()) head.length = *length;
  head.has_body = parser.chunked() || head.length.value_or(0) > 0;
  // Where such a body ends is not known: what follows must not be read as a request.
  if (request.header("Transfer-Encoding") != nullptr && !parser.chunked()) head.keep_alive = false;

  Router::Match match = core_->router.find(request.method, request.path);
  request.parameters = std::move(match.parameters);
  std::optional<Response> response = refusal(head, request, match.route, match.allow);
  const std::string* expect = request.header("Expect");
  const bool waits =
      !head.http10 && expect != nullptr && equal_ignoring_case(*expect, "100-continue");
  if (response && head.has_body && (waits || parser.chunked() || *head.length > kDiscardedBody)) {
    head.keep_alive = false;  // the rest of the body is not worth reading
  } else if (head.has_body) {
    if (waits && !co_await send("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    parser.body_limit(limits.body_bytes);
    set_deadline(limits.body_timeout);
    error_code body_error;
    try {
      std::tie(body_error, std::ignore) =
          co_await beast::http::async_read(stream_, buffer_, parser, kAwait);
    } catch (const std::bad_alloc&) {
      body_error = asio::error::no_memory;
    }
    clear_deadline();
    if (body_error == asio::error::no_memory) {
      response = core_->options.error(500, kNoMemory);
      head.keep_alive = false;
    } else if (body_error == beast::http::error::body_limit) {
      response = core_->options.error(
          413, fmt::format("the body has more than {} bytes", limits.body_bytes));
      head.keep_alive = false;
    } else if (body_error && expired_) {
      response = core_->options.error(
          408, fmt::format("no whole body within {} seconds", limits.body_timeout));
      head.keep_alive = false;
    } else if (body_error.category() ==
               beast::http::make_error_code(beast::http::error::bad_target).category()) {
      if (body_error == beast::http::error::partial_message) co_return false;
      response =
          core_->options.error(400, fmt::format("not a valid HTTP body: {}", body_error.message()));
      head.keep_alive = false;
    } else if (body_error) {
      co_return false;
    }
    if (!response) request.body = std::move(parser.get().body());
  }
  ++served_;
  if (crowded_ || served_ >= limits.requests_per_connection) head.keep_alive = false;
  co_return co_await answer(head, std::move(request), match.route, std::move(response));
}

// What can be said before the body is read; nothing when the handler is to answer.
std::optional<Response> Connection::refusal(const Head& head, const Request& request,
                                            const Route* route, const std::string& allow) const {
  const Options& options = core_->options;
  const Limits& limits = options.limits;
  if (crowded_) {
    Response response =
        options.error(503, fmt::format("more than {} connections", limits.connections));
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  if (request.headers.size() > limits.header_count)
    return options.error(431, fmt::format("the header has {} fields, at most {} are allowed",
                                          request.headers.size(), limits.header_count));
  if (request.target.size() > limits.target_bytes)
    return options.error(414, fmt::format("the target has {} bytes, at most {} are allowed",
                                          request.target.size(), limits.target_bytes));
  const auto hosts = std::ranges::count_if(
      request.headers, [](const auto& field) { return equal_ignoring_case(field.first, "Host"); });
  if (hosts > 1 || (hosts == 0 && !head.http10))
    return options.error(400, fmt::format("an HTTP/1.1 request needs one Host header, found {}",
                                          hosts == 0 ? "none" : "several"));
  if (const std::string* coding = request.header("Transfer-Encoding")) {
    if (!equal_ignoring_case(*coding, "chunked"))
      return options.error(501, fmt::format("Transfer-Encoding \"{}\" is not known", *coding));
    if (request.header("Content-Length") != nullptr)
      return options.error(400, "Transfer-Encoding and Content-Length exclude each other");
  }
  if (const std::string* expect = request.header("Expect");
      expect != nullptr && !equal_ignoring_case(*expect, "100-continue"))
    return options.error(417, fmt::format("Expect \"{}\" cannot be met", *expect));

  const std::string* host = request.header("Host");
  if (options.this_machine_only && host != nullptr && (route == nullptr || !route->open) &&
      !names_this_machine(*host, options.cors_origins))
    return options.error(
        403, fmt::format("Host {}: without a key the server is there for this machine's names "
                         "only; give it a key, or name the host with --cors-origin",
                         *host));

  // A preflight request of a browser never carries a key.
  if (request.method == "OPTIONS")
    if (const std::string methods = core_->router.allow(request.path); !methods.empty())
      return options_response(options.cors_origins, request, methods);
  if (!options.keys.empty() && request.method != "OPTIONS" && (route == nullptr || !route->open) &&
      !options.keys.accepts(request)) {
    Response response =
        options.error(401, "this server needs an API key, as in \"Authorization: Bearer KEY\"");
    const std::string* accepts = request.header("Accept");
    const bool browser = request.method == "GET" && accepts != nullptr &&
                         accepts->find("text/html") != std::string::npos;
    response.headers.emplace_back(
        "WWW-Authenticate",
        browser ? "Basic realm=\"ringkeep: the API key is the password\"" : "Bearer");
    return response;
  }
  if (route == nullptr && allow.empty()) {
    const std::string advice = core_->router.advice(request.path);
    return options.error(404, fmt::format("there is nothing at {}{}{}", request.path,
                                          advice.empty() ? "" : ", ", advice));
  }
  if (route == nullptr) {
    Response response = options.error(
        405, fmt::format("{} does not take {}, but {}", request.path, request.method, allow));
    response.headers.emplace_back("Allow", allow);
    return response;
  }
  if (!route->consumes.empty()) {
    const std::string* type = request.header("Content-Type");
    if (type == nullptr || media_type(*type) != route->consumes)
      return options.error(415, fmt::format("expected Content-Type {}, found {}", route->consumes,
                                            type == nullptr ? "none" : *type));
    const std::string* coding = request.header("Content-Encoding");
    if (coding != nullptr && !equal_ignoring_case(*coding, "identity"))
      return options.error(415, fmt::format("Content-Encoding \"{}\" is not known", *coding));
  }
  if (head.length.value_or(0) > limits.body_bytes)
    return options.error(413, fmt::format("the body has {} bytes, at most {} are allowed",
                                          *head.length, limits.body_bytes));
  return options.gate ? options.gate(request, *route) : std::nullopt;
}

void Connection::dispatch(const std::shared_ptr<Outbox>& box, const Route* route,
                          std::optional<Response> response) {
  if (response) return box->respond(std::move(*response));
  const bool is_long = box->request().body.size() > kLongBody;
  const auto handle = [core = core_, box, route] {
    try {
      if (!refill_memory_reserve()) throw std::bad_alloc();  // which an earlier request needed
      route->handler(box);
    } catch (const std::bad_alloc&) {  // what the request held is free again
      box->respond(core->options.error(500, kNoMemory));
    } catch (const std::exception& error) {
      box->respond(core->options.error(500, error.what()));
    }
  };
  if (route->quick)
    handle();
  else
    (is_long ? core_->long_work : core_->work).push(handle);
}

asio::awaitable<bool> Connection::answer(Head& head, Request request, const Route* route,
                                         std::optional<Response> response) {
  const std::weak_ptr<Connection> weak = weak_from_this();
  const auto on_network = [core = core_](std::function<void()> work) {
    asio::post(core->io, std::move(work));
  };
  const auto wake = [weak, on_network] {
    on_network([weak] {
      const auto self = weak.lock();
      if (!self) return;
      self->signal_.cancel();
      if (self->box_ && self->box_->gone()) self->stream_.cancel();
    });
  };
  const auto box = std::make_shared<Outbox>(std::move(request), core_->options.limits.send_buffer,
                                            wake, on_network);
  box_ = box;
  stream_.expires_never();
  const auto watch = std::make_shared<Watch>(stream_.get_executor());
  watch->box = box;
  dispatch(box, route, std::move(response));
  asio::co_spawn(
      stream_.get_executor(),
      [self = shared_from_this(), watch]() -> asio::awaitable<void> {
        co_await self->watch(watch);
      },
      asio::detached);
  const bool whole = co_await deliver(box, head);
  watch->active = false;
  watch->pause.cancel();
  error_code ignored;
  stream_.socket().cancel(ignored);
  if (!whole) box->set_gone();
  box_ = nullptr;
  if (core_->options.on_served) {
    Served served{.request = &box->request(),
                  .route = route,
                  .status = head.status,
                  .gone = !whole,
                  .bytes = head.sent,
                  .seconds = std::chrono::duration<double>(Clock::now() - head.start).count(),
                  .notes = box->notes()};
    core_->options.on_served(served);
  }
  co_return whole&& head.keep_alive;
}

asio::awaitable<bool> Connection::deliver(const std::shared_ptr<Outbox>& box, Head& head) {
  Framing framing = Framing::length;
  for (;;) {
    Outbox::Parts parts = box->take();
    std::string bytes;
    if (parts.head) {
      Response& response = *parts.head;
      head.status = response.status;
      add_cors(core_->options.cors_origins, box->request(), response);
      if (parts.stream) framing = head.http10 ? Framing::until_end : Framing::chunked;
      if (framing == Framing::until_end || core_->finishing) head.keep_alive = false;
      bytes = response_head(response, box->request().id, framing, response.body.size(),
                            head.keep_alive);
      if (!head.head_only && !parts.stream && response.status != 304) bytes += response.body;
    }
    bytes += framing == Framing::chunked ? chunk(parts.bytes) : parts.bytes;
    if (parts.done && framing == Framing::chunked) bytes += kLastChunk;
    if (!bytes.empty() && !co_await send(bytes)) co_return false;
    head.sent += bytes.size();
    if (parts.done) co_return true;
    if (box->gone()) co_return false;
    if (!bytes.empty()) continue;
    signal_.expires_at(Clock::time_point::max());
    co_await signal_.async_wait(kAwait);
  }
}

asio::awaitable<bool> Connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    stream_.expires_after(seconds(core_->options.limits.write_timeout));
    const auto [error, count] = co_await stream_.async_write_some(
        asio::buffer(bytes.data(), std::min(bytes.size(), kWriteBytes)), kAwait);
    if (error) co_return false;
    bytes.remove_prefix(count);
  }
  stream_.expires_never();
  co_return true;
}

asio::awaitable<void> Connection::watch(std::shared_ptr<Watch> watch) {
  while (watch->active) {
    const auto [error] = co_await stream_.socket().async_wait(tcp::socket::wait_read, kAwait);
    if (!watch->active) co_return;
    if (error || peer_closed(stream_.socket().native_handle()) || watch->box->gone()) {
      watch->box->set_gone();
      stream_.cancel();
      signal_.cancel();
      co_return;
    }
    // The bytes are the next request's, and stay readable.
    watch->pause.expires_after(kPoll);
    co_await watch->pause.async_wait(kAwait);
  }
}

}  // namespace ringkeep::http
