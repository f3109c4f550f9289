// One connection: reads requests one after the other, has each answered, and watches meanwhile
// whether the client is still there. Private to the room: it is what includes Boost.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <memory>
#include <unordered_set>

#include "server/http/options.h"
#include "server/http/outbox.h"
#include "server/http/work_queue.h"

namespace ringkeep::http {

class Connection;

// What the connections of a server share. Touched on the network thread.
struct Core {
  Core(Options options, Router router) : options(std::move(options)), router(std::move(router)) {}

  const Options options;
  const Router router;
  boost::asio::io_context io{1};
  std::unordered_set<Connection*> connections;
  bool finishing = false;  // answers say that the connection ends
  WorkQueue work{2};
  WorkQueue long_work{1};  // of bodies that take long to read, so that no other waits for them
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `crowded`: there are too many; it is told so and closed.
  Connection(std::shared_ptr<Core> core, boost::asio::ip::tcp::socket socket, bool crowded);
  ~Connection();

  void start();
  bool answering() const { return answering_; }
  // Between two requests: its client expects that it may end now.
  bool idle() const { return !answering_ && served_ > 0; }
  // Ends it now, whatever it is doing.
  void abort();

 private:
  struct Head;
  struct Watch;

  boost::asio::awaitable<void> run();
  boost::asio::awaitable<bool> await_request();  // false: none came
  boost::asio::awaitable<bool> serve_one();      // false: the connection ends
  boost::asio::awaitable<bool> answer(Head& head, Request request, const Route* route,
                                      std::optional<Response> response);
  boost::asio::awaitable<bool> deliver(const std::shared_ptr<Outbox>& box, Head& head);
  boost::asio::awaitable<bool> send(std::string_view bytes);
  boost::asio::awaitable<void> watch(std::shared_ptr<Watch> watch);
  boost::asio::awaitable<void> linger();
  // Cancels what is being read after so many seconds, and says so in expired_. (The stream's own
  // time-out closes the socket: nothing could be said any more.)
  void set_deadline(double seconds);
  void clear_deadline();
  std::optional<Response> refusal(const Head& head, const Request& request, const Route* route,
                                  const std::string& allow) const;
  void dispatch(const std::shared_ptr<Outbox>& box, const Route* route,
                std::optional<Response> response);

  const std::shared_ptr<Core> core_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;  // what was read and not yet used
  boost::asio::steady_timer signal_;  // cancelled when the outbox has something
  boost::asio::steady_timer deadline_;
  uint64_t deadlines_ = 0;  // set or cleared so far: one that is late does nothing
  bool expired_ = false;
  std::shared_ptr<Outbox> box_;  // of the request that is being answered
  std::string remote_;
  bool crowded_ = false;
  bool answering_ = false;
  int64_t served_ = 0;
};

}  // namespace ringkeep::http
