// The two sides of an answer: the handler fills it from any thread, the connection empties it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/http/exchange.h"

namespace ringkeep::http {

class Outbox : public Exchange, public std::enable_shared_from_this<Outbox> {
 public:
  // `wake` is called when there is something to take; `on_network` runs its argument on the network
  // thread. `limit`: most bytes that wait to be taken.
  Outbox(Request request, size_t limit, std::function<void()> wake,
         std::function<void(std::function<void()>)> on_network)
      : request_(std::move(request)),
        limit_(limit),
        wake_(std::move(wake)),
        on_network_(std::move(on_network)) {}

  const Request& request() const override { return request_; }
  void respond(Response response) override;
  void begin_stream(Response head) override;
  bool write(std::string bytes) override;
  void end() override;
  void on_gone(std::function<void()> callback) override;
  void note(const std::string& key, const std::string& value) override;

  // For the connection, on the network thread.
  struct Parts {
    std::optional<Response> head;  // once; with its body unless the answer is a stream
    bool stream = false;
    std::string bytes;  // further ones of a stream
    bool done = false;
  };
  Parts take();
  void set_gone();
  bool gone() const;
  std::vector<std::pair<std::string, std::string>> notes() const;

 private:
  const Request request_;
  const size_t limit_;
  const std::function<void()> wake_;
  const std::function<void(std::function<void()>)> on_network_;

  mutable std::mutex mutex_;
  std::optional<Response> head_;
  std::string pending_;
  bool begun_ = false;
  bool stream_ = false;
  bool done_ = false;
  bool gone_ = false;
  std::function<void()> on_gone_;
  std::vector<std::pair<std::string, std::string>> notes_;
};

}  // namespace ringkeep::http
