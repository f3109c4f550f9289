// Model files written byte by byte, and folders that go away with the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringkeep::testing {

class Bytes {
 public:
  template <typename T>
  Bytes& put(T value) {
    data.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Bytes& u32(uint32_t value) { return put(value); }
  Bytes& u64(uint64_t value) { return put(value); }
  Bytes& raw(std::string_view bytes) {
    data += bytes;
    return *this;
  }
  Bytes& text(std::string_view value) { return u64(value.size()).raw(value); }  // GGUF string
  Bytes& pad(size_t alignment) {
    while (data.size() % alignment != 0) data += '\0';
    return *this;
  }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(data)); }
  std::string data;
};

// GGUF header: counts, then what the caller appends.
inline Bytes gguf_header(uint64_t tensors, uint64_t values, uint32_t version = 3) {
  return Bytes().raw("GGUF").u32(version).u64(tensors).u64(values);
}

struct TestTensor {
  std::string name;
  std::vector<uint64_t> dims;  // innermost first, as in the file
  uint32_t type = 0;           // F32
  uint64_t offset = 0;
};

inline Bytes& add_tensor(Bytes& bytes, const TestTensor& tensor) {
  bytes.text(tensor.name).u32(static_cast<uint32_t>(tensor.dims.size()));
  for (const uint64_t extent : tensor.dims) bytes.u64(extent);
  return bytes.u32(tensor.type).u64(tensor.offset);
}

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ringkeep-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string file = *this / name;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file;
  }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}
inline std::string golden(const std::string& name) {
  return std::string(RK_SOURCE_DIR) + "/tests/golden/checkpoint/" + name;
}

}  // namespace ringkeep::testing

// The expression fails with ErrorKind::input and a message that has `part` in it.
#define EXPECT_INPUT_ERROR(expression, part)                                                     \
  do {                                                                                           \
    const auto& result_ = (expression);                                                          \
    ASSERT_FALSE(result_.ok()) << "expected an error with: " << (part);                          \
    EXPECT_EQ(result_.error().kind, ::ringkeep::ErrorKind::input);                               \
    EXPECT_NE(result_.error().message.find(part), std::string::npos) << result_.error().message; \
  } while (false)
