// One GGUF file, versions 2 and 3 (specification: docs/gguf.md of the ggml project). Parsing keeps
// views into the bytes, allocates in proportion to them, and checks every count, length, offset and
// size against the file before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "quant/source_tensor.h"

namespace ringkeep::checkpoint {

// The type ids of the specification.
enum class GgufType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};
const char* gguf_type_name(GgufType type);  // "u32", "string", ...

struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;   // arrays only
  uint64_t count = 1;                // arrays: elements
  std::span<const std::byte> bytes;  // a scalar, the text of a string, the elements of an array
};

class GgufFile {
 public:
  // `name` begins every error message. The result points into `bytes`.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const { return name_; }
  const std::vector<GgufValue>& values() const { return values_; }              // in file order
  const std::vector<quant::SourceTensor>& tensors() const { return tensors_; }  // in file order
  const GgufValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const quant::SourceTensor* find_tensor(std::string_view name) const;

  // Values by key. Errors (input) name the file, the key, and the type expected and found; a
  // missing key is an error only without a fallback. integer() takes any integer type, number()
  // any integer or floating type.
  Result<int64_t> integer(std::string_view key) const;
  Result<int64_t> integer(std::string_view key, int64_t fallback) const;
  Result<double> number(std::string_view key, double fallback) const;
  Result<bool> boolean(std::string_view key, bool fallback) const;
  Result<std::string> text(std::string_view key, std::string_view fallback) const;
  // Empty when the key is missing; a scalar counts as one element.
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<float>> floats(std::string_view key) const;
  // Calls visit(index, text) for each string of an array. The key must exist.
  Status for_each_string(std::string_view key,
                         const std::function<void(uint64_t, std::string_view)>& visit) const;
  Result<uint64_t> array_size(std::string_view key, GgufType element) const;

 private:
  Status read_header(std::span<const std::byte> bytes);
  Status place_tensors(std::span<const std::byte> bytes, size_t header_end);
  Error wrong_type(const GgufValue& value, std::string_view expected) const;
  Error missing(std::string_view key) const;

  std::string name_;
  std::vector<GgufValue> values_;
  std::vector<quant::SourceTensor> tensors_;
  std::vector<uint64_t> offsets_;  // per tensor, from the start of the data
  std::map<std::string_view, size_t> value_index_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

// A value for people: scalars and strings as they are, arrays by length and first elements.
std::string describe(const GgufValue& value);

}  // namespace ringkeep::checkpoint
