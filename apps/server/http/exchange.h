// One request and its answer. A handler may keep it and answer later, from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/http/message.h"

namespace ringkeep::http {

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;

  // The answer, whole. Of this and begin_stream() the first call counts, any other is ignored.
  virtual void respond(Response response) = 0;
  // The answer in parts: its head, then any number of write(), then end().
  virtual void begin_stream(Response head) = 0;
  // Never waits. False when the client is gone, or reads so slowly that the limit of its send
  // buffer is reached, which then counts as gone.
  virtual bool write(std::string bytes) = 0;
  virtual void end() = 0;
  // Called once, on the network thread, when the client is gone before the answer was all sent; at
  // once when that is so already.
  virtual void on_gone(std::function<void()> callback) = 0;
  // A field for the log line of this request.
  virtual void note(const std::string& key, const std::string& value) = 0;
};

using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

}  // namespace ringkeep::http
