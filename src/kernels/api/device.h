// The seam to a backend: memory and order of work. Rooms above hold DeviceBuffers and never look
// inside one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/thread_pool.h"

namespace ringkeep::kernels {

class Device;

// Memory of one device; freed with the object. Zero-filled when allocated.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device* device, std::byte* data, size_t size)
      : device_(device), data_(data), size_(size) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();
  std::byte* data() const { return data_; }  // an address of the device
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  void swap(DeviceBuffer& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;
  virtual Result<DeviceBuffer> allocate(size_t bytes) = 0;
  virtual void free(std::byte* data, size_t size) = 0;
  virtual void discard(std::byte* data,
                       size_t bytes) = 0;  // contents become zero, memory is given back
  virtual void copy_in(std::byte* to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, const std::byte* from, size_t bytes) = 0;
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void sync() = 0;
  virtual ThreadPool& pool() = 0;  // host threads for work of this device
};

inline DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) device_->free(data_, size_);
}

std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace ringkeep::kernels
