// The physical pages of one group: reference counts, the free ones, and the memory behind them.
#pragma once

#include <set>
#include <vector>

#include "base/result.h"
#include "kernels/api/device.h"
#include "kv/plan.h"

namespace ringkeep::kv {

class PagePool {
 public:
  // Reserves address space for the pages of sequences and snapshots; memory comes with first use.
  static Result<PagePool> create(const GroupPlan& group, kernels::Device& device);

  int64_t used() const { return used_; }
  // Of sequences: pages that some sequence refers to, and the most that there may be. Snapshots
  // have pages of their own beside these.
  int64_t owned() const { return owned_; }
  int64_t limit() const { return limit_; }
  int64_t available() const { return limit_ - owned_; }
  // References of sequences.
  int32_t owners(int32_t page) const {
    return references_[static_cast<size_t>(page)] - holds_[static_cast<size_t>(page)];
  }
  bool shared(int32_t page) const { return references_[static_cast<size_t>(page)] > 1; }

  // A page for a sequence: the lowest free one, so that the memory touched is the most that was in
  // use at once. There must be one.
  int32_t take();
  void share(int32_t page);    // one more sequence
  void release(int32_t page);  // of a sequence
  // A reference of a snapshot. The last one gives the page's memory back to the device.
  void hold(int32_t page);
  void let_go(int32_t page);
  bool held(int32_t page) const { return holds_[static_cast<size_t>(page)] > 0; }
  int64_t pages_held() const { return pages_held_; }
  // Takes a page, copies the bytes of `page` in every layer, and gives up a sequence's reference to
  // `page`.
  int32_t copy(int32_t page);
  // Gives the memory above the highest page in use back to the device.
  void trim();

  std::byte* layer_data(size_t layer_in_group) const;  // page 0
  size_t page_bytes() const { return page_bytes_; }
  size_t bytes_of_pages(int64_t pages) const {
    return static_cast<size_t>(pages) * page_bytes_ * layers_;
  }
  size_t bytes_used() const { return bytes_of_pages(used_); }

 private:
  void drop_reference(int32_t page);

  kernels::Device* device_ = nullptr;
  kernels::DeviceBuffer memory_;  // [layer in group][page][page_bytes]
  size_t layers_ = 0;
  size_t page_bytes_ = 0;
  std::vector<int32_t> references_;  // [page]
  std::vector<int32_t> holds_;       // [page] references of snapshots, of those above
  std::set<int32_t> free_;           // of the pages below next_
  int32_t next_ = 0;                 // pages at and above it have no memory
  int64_t limit_ = 0;
  int64_t used_ = 0;
  int64_t owned_ = 0;
  int64_t pages_held_ = 0;
};

}  // namespace ringkeep::kv
