#include "server/http/outbox.h"

namespace ringkeep::http {

void Outbox::respond(Response response) {
  {
    const std::lock_guard lock(mutex_);
    if (begun_) return;
    begun_ = done_ = true;
    head_ = std::move(response);
  }
  wake_();
}

void Outbox::begin_stream(Response head) {
  {
    const std::lock_guard lock(mutex_);
    if (begun_) return;
    begun_ = stream_ = true;
    head_ = std::move(head);
  }
  wake_();
}

bool Outbox::write(std::string bytes) {
  bool overflow = false;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return false;
    if (!stream_ || done_) return true;
    overflow = pending_.size() + bytes.size() > limit_;
    if (!overflow) pending_ += bytes;
  }
  if (overflow) on_network_([self = shared_from_this()] { self->set_gone(); });
  wake_();
  return !overflow;
}

void Outbox::end() {
  {
    const std::lock_guard lock(mutex_);
    if (!stream_) return;
    done_ = true;
  }
  wake_();
}

void Outbox::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      on_gone_ = std::move(callback);
      return;
    }
  }
  on_network_(std::move(callback));
}

void Outbox::note(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  notes_.emplace_back(key, value);
}

Outbox::Parts Outbox::take() {
  const std::lock_guard lock(mutex_);
  Parts parts{.stream = stream_, .done = done_};
  parts.head.swap(head_);
  parts.bytes.swap(pending_);
  return parts;
}

void Outbox::set_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    gone_ = true;
    callback.swap(on_gone_);
  }
  if (callback) callback();
  wake_();
}

bool Outbox::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

std::vector<std::pair<std::string, std::string>> Outbox::notes() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

}  // namespace ringkeep::http
