#include "kv/page_pool.h"

namespace ringkeep::kv {

Result<PagePool> PagePool::create(const GroupPlan& group, kernels::Device& device) {
  PagePool pool;
  pool.device_ = &device;
  pool.layers_ = group.layers.size();
  pool.page_bytes_ = group.page_bytes;
  pool.limit_ = group.pages_total;
  const auto pages = static_cast<size_t>(group.pages_total + group.pages_snapshots);
  pool.memory_ = RK_TRY(device.allocate(pages * group.page_bytes * pool.layers_));
  pool.references_.assign(pages, 0);
  pool.holds_.assign(pages, 0);
  return pool;
}

int32_t PagePool::take() {
  RK_CHECK(used_ < static_cast<int64_t>(references_.size()));
  int32_t page = next_;
  if (free_.empty()) {
    ++next_;
  } else {
    page = *free_.begin();
    free_.erase(free_.begin());
  }
  references_[static_cast<size_t>(page)] = 1;
  ++used_;
  ++owned_;
  return page;
}

void PagePool::share(int32_t page) {
  if (owners(page) == 0) ++owned_;
  ++references_[static_cast<size_t>(page)];
}

void PagePool::release(int32_t page) {
  RK_CHECK(owners(page) > 0, "page {} released twice", page);
  drop_reference(page);
  if (owners(page) == 0) --owned_;
}

void PagePool::drop_reference(int32_t page) {
  if (--references_[static_cast<size_t>(page)] > 0) return;
  free_.insert(page);
  --used_;
}

void PagePool::hold(int32_t page) {
  ++references_[static_cast<size_t>(page)];
  if (++holds_[static_cast<size_t>(page)] == 1) ++pages_held_;
}

void PagePool::let_go(int32_t page) {
  int32_t& holds = holds_[static_cast<size_t>(page)];
  RK_CHECK(holds > 0, "page {} is held by no snapshot", page);
  if (--holds == 0) --pages_held_;
  drop_reference(page);
  if (references_[static_cast<size_t>(page)] > 0) return;
  for (size_t layer = 0; layer < layers_; ++layer)
    device_->discard(layer_data(layer) + static_cast<size_t>(page) * page_bytes_, page_bytes_);
}

int32_t PagePool::copy(int32_t page) {
  const int32_t fresh = take();
  for (size_t layer = 0; layer < layers_; ++layer) {
    std::byte* data = layer_data(layer);
    device_->copy(data + static_cast<size_t>(fresh) * page_bytes_,
                  data + static_cast<size_t>(page) * page_bytes_, page_bytes_);
  }
  release(page);
  return fresh;
}

void PagePool::trim() {
  const int32_t end = next_;
  while (!free_.empty() && *free_.rbegin() == next_ - 1) {
    free_.erase(std::prev(free_.end()));
    --next_;
  }
  if (next_ == end) return;
  for (size_t layer = 0; layer < layers_; ++layer)
    device_->discard(layer_data(layer) + static_cast<size_t>(next_) * page_bytes_,
                     static_cast<size_t>(end - next_) * page_bytes_);
}

std::byte* PagePool::layer_data(size_t layer_in_group) const {
  return memory_.data() + layer_in_group * references_.size() * page_bytes_;
}

}  // namespace ringkeep::kv
