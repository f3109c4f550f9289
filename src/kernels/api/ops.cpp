#include "kernels/api/ops.h"

namespace ringkeep::kernels {

std::byte* Exec::scratch(size_t bytes) {
  if (bytes > scratch_.size()) {
    scratch_ = DeviceBuffer();
    auto buffer = device_->allocate(bytes + bytes / 4);
    RK_CHECK(buffer.ok(), "{}", buffer.error().message);
    scratch_ = std::move(buffer).value();
  }
  return scratch_.data();
}

}  // namespace ringkeep::kernels
