// An HTTP/1.1 server: connections as coroutines on one network thread, handlers beside it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/options.h"
#include "server/http/router.h"

namespace ringkeep::http {

class Server {
 public:
  // Listens on every address of `host` (name or literal; port 0: a free one) but does not answer
  // yet. Errors (usage): the host has no address; (runtime): the port is taken.
  static Result<std::unique_ptr<Server>> listen(const std::string& host, int port, Options options,
                                                Router router);
  ~Server();  // stops

  int port() const;
  // Addresses that are listened on, "127.0.0.1:8080".
  std::vector<std::string> addresses() const;

  // Answers on a thread of its own, until stop().
  void start();
  // Runs `work` on the network thread, soon or after some seconds. Dropped once stopped.
  void post(std::function<void()> work);
  void post_after(double seconds, std::function<void()> work);
  // Every connection ends after the answer it is waiting for; those between two requests end now.
  // New connections still get one answer each.
  void finish_connections();
  // Waits until all answers that were begun are sent, at most so many seconds.
  void flush(double seconds);
  void stop();

 private:
  Server();
  struct State;
  std::unique_ptr<State> state_;
};

// Whether every address of `host` is a loopback address. Errors (usage): it has none.
Result<bool> is_loopback(const std::string& host);

}  // namespace ringkeep::http
