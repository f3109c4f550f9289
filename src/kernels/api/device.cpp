#include "kernels/api/device.h"

#include <cstring>

#include "base/buffer.h"
#include "base/slab_memory.h"

namespace ringkeep::kernels {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : pool_(threads) {}
  const char* name() const override { return "cpu"; }

  Result<DeviceBuffer> allocate(size_t bytes) override {
    return DeviceBuffer(this, RK_TRY(memory_.allocate(bytes)), bytes);
  }
  void free(std::byte* data, size_t size) override { memory_.free(data, size); }
  void discard(std::byte* data, size_t bytes) override { discard_pages(data, bytes); }
  void copy_in(std::byte* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy_out(void* to, const std::byte* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    std::memmove(to, from, bytes);
  }
  void sync() override {}
  ThreadPool& pool() override { return pool_; }

 private:
  SlabMemory memory_;
  ThreadPool pool_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace ringkeep::kernels
