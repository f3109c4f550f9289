#include "server/http/server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "server/http/connection.h"
#include "server/http/log.h"

namespace ringkeep::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr int64_t kCrowd = 64;  // connections beyond the limit that are told so
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when the system has no more

Result<std::vector<tcp::endpoint>> resolve(const std::string& host, int port) {
  asio::io_context io;
  tcp::resolver resolver(io);
  error_code error;
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty())
    return make_error(ErrorKind::usage, "--host {}: it has no address ({})", host,
                      error ? error.message() : "none found");
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  return endpoints;
}

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + address + "]" : address,
                     endpoint.port());
}

}  // namespace

struct Server::State {
  State(Options options, Router router)
      : core(std::make_shared<Core>(std::move(options), std::move(router))),
        guard(asio::make_work_guard(core->io)) {}

  std::shared_ptr<Core> core;
  asio::executor_work_guard<asio::io_context::executor_type> guard;
  std::vector<std::unique_ptr<tcp::acceptor>> acceptors;
  std::thread thread;
  std::promise<void> ended;
  bool started = false;

  Result<tcp::endpoint> bind(const tcp::endpoint& endpoint);
  void accept(tcp::acceptor& acceptor);
};

Server::Server() = default;

Result<tcp::endpoint> Server::State::bind(const tcp::endpoint& endpoint) {
  auto acceptor = std::make_unique<tcp::acceptor>(core->io);
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6()) acceptor->set_option(asio::ip::v6_only(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return make_error(ErrorKind::runtime, "cannot listen on {}: {}", text_of(endpoint),
                      error.message());
  const tcp::endpoint bound = acceptor->local_endpoint();
  acceptors.push_back(std::move(acceptor));
  return bound;
}

Result<std::unique_ptr<Server>> Server::listen(const std::string& host, int port, Options options,
                                               Router router) {
  const auto endpoints = RK_TRY(resolve(host, port));
  std::unique_ptr<Server> server(new Server());
  server->state_ = std::make_unique<State>(std::move(options), std::move(router));
  State& s = *server->state_;
  std::optional<Error> failed;
  for (tcp::endpoint endpoint : endpoints) {
    if (!s.acceptors.empty()) endpoint.port(static_cast<uint16_t>(server->port()));
    const auto bound = s.bind(endpoint);
    if (!bound.ok()) failed = bound.error();
  }
  // A name may have addresses of a family that this machine does not speak.
  if (s.acceptors.empty()) return *failed;
  return server;
}

Server::~Server() {
  if (state_) stop();
}

int Server::port() const { return state_->acceptors.front()->local_endpoint().port(); }

std::vector<std::string> Server::addresses() const {
  std::vector<std::string> list;
  for (const auto& acceptor : state_->acceptors)
    list.push_back(text_of(acceptor->local_endpoint()));
  return list;
}

void Server::State::accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([this, &acceptor](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // out of file descriptors, mostly
      auto pause = std::make_shared<asio::steady_timer>(core->io, kAcceptPause);
      pause->async_wait([this, &acceptor, pause](error_code stopped) {
        if (!stopped) accept(acceptor);
      });
      return;
    }
    const int64_t open = static_cast<int64_t>(core->connections.size());
    const int64_t limit = core->options.limits.connections;
    if (open < limit + kCrowd)
      std::make_shared<Connection>(core, std::move(socket), open >= limit)->start();
    accept(acceptor);
  });
}

void Server::start() {
  State& s = *state_;
  s.started = true;
  for (const auto& acceptor : s.acceptors) s.accept(*acceptor);
  s.thread = std::thread([&s] {
    for (;;) {
      try {
        s.core->io.run();
        break;
      } catch (const std::exception& error) {  // of a callback: it loses its event, no more
        log_error("network", {{"error", std::string(error.what())}});
      }
    }
    s.ended.set_value();
  });
}

void Server::post(std::function<void()> work) { asio::post(state_->core->io, std::move(work)); }

void Server::post_after(double seconds, std::function<void()> work) {
  post([core = state_->core, seconds, work = std::move(work)] {
    auto timer = std::make_shared<asio::steady_timer>(core->io);
    timer->expires_after(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
    timer->async_wait([timer, work](error_code error) {
      if (!error) work();
    });
  });
}

void Server::finish_connections() {
  post([core = state_->core] {
    core->finishing = true;
    for (Connection* connection : core->connections)
      if (connection->idle()) connection->abort();
  });
}

void Server::flush(double seconds) {
  const auto end =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  while (std::chrono::steady_clock::now() < end) {
    std::promise<bool> busy;
    post([core = state_->core, &busy] {
      bool any = false;
      for (const Connection* connection : core->connections) any |= connection->answering();
      busy.set_value(any);
    });
    if (!busy.get_future().get()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void Server::stop() {
  State& s = *state_;
  s.core->work.stop();
  s.core->long_work.stop();
  if (!s.started) return;
  post([&s] {
    error_code ignored;
    for (const auto& acceptor : s.acceptors) acceptor->close(ignored);
    for (Connection* connection : s.core->connections) connection->abort();
    s.guard.reset();
  });
  // Coroutines end by themselves; timers of post_after() need not be waited for.
  if (s.ended.get_future().wait_for(std::chrono::milliseconds(500)) != std::future_status::ready)
    s.core->io.stop();
  s.thread.join();
  s.started = false;
}

Result<bool> is_loopback(const std::string& host) {
  for (const tcp::endpoint& endpoint : RK_TRY(resolve(host, 0)))
    if (!endpoint.address().is_loopback()) return false;
  return true;
}

}  // namespace ringkeep::http
