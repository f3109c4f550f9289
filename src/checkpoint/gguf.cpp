#include "checkpoint/gguf.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf_types.h"

namespace ringkeep::checkpoint {

namespace {

constexpr uint32_t kTypeCount = 13;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kLargestAlignment = 1u << 30;
constexpr uint32_t kMostDims = 4;
// The smallest encodings, which bound the counts that a file of a given size can hold.
constexpr uint64_t kLeastValueBytes = 8 + 1 + 4 + 1;           // key length, key, type, u8
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, dims, one dim, type, offset

// Bytes of one scalar; 0 for strings and arrays.
size_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean: return 1;
    case GgufType::u16:
    case GgufType::i16: return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32: return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return 8;
    case GgufType::string:
    case GgufType::array: return 0;
  }
  return 0;
}

bool read_string(ByteReader& reader, std::string_view& out) {
  uint64_t length = 0;
  std::span<const std::byte> bytes;
  if (!reader.read(length) || !reader.take(length, bytes)) return false;
  out = as_text(bytes);
  return true;
}

// Keys and names go into messages: shorten them and keep control characters out.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 80))
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() > 80) result += "...";
  return result;
}

std::optional<int64_t> integer_at(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::u8: return load_as<uint8_t>(bytes);
    case GgufType::i8: return load_as<int8_t>(bytes);
    case GgufType::u16: return load_as<uint16_t>(bytes);
    case GgufType::i16: return load_as<int16_t>(bytes);
    case GgufType::u32: return load_as<uint32_t>(bytes);
    case GgufType::i32: return load_as<int32_t>(bytes);
    case GgufType::i64: return load_as<int64_t>(bytes);
    case GgufType::u64: {
      const auto value = load_as<uint64_t>(bytes);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::optional<double> number_at(GgufType type, const std::byte* bytes) {
  if (type == GgufType::f32) return load_as<float>(bytes);
  if (type == GgufType::f64) return load_as<double>(bytes);
  if (const auto value = integer_at(type, bytes)) return static_cast<double>(*value);
  return std::nullopt;
}

std::string describe_scalar(GgufType type, const std::byte* bytes) {
  if (type == GgufType::boolean) return load_as<uint8_t>(bytes) != 0 ? "true" : "false";
  if (type == GgufType::u64) return fmt::format("{}", load_as<uint64_t>(bytes));
  if (type == GgufType::f32) return fmt::format("{}", load_as<float>(bytes));
  if (type == GgufType::f64) return fmt::format("{}", load_as<double>(bytes));
  return fmt::format("{}", integer_at(type, bytes).value_or(0));
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  static constexpr std::array<const char*, kTypeCount> names = {
      "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
      "bool", "string", "array", "u64", "i64", "f64"};
  return names[static_cast<size_t>(type)];
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  GgufFile file;
  file.name_ = name;
  RK_TRY(file.read_header(bytes));
  return file;
}

Status GgufFile::read_header(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto truncated = [&](std::string_view what) {
    return input_error("{}: the file ends inside {} ({} bytes in all): truncated?", name_, what,
                       bytes.size());
  };
  std::span<const std::byte> magic;
  if (!reader.take(4, magic)) return truncated("the GGUF magic");
  if (as_text(magic) != "GGUF") return input_error("{}: not a GGUF file (no GGUF magic)", name_);
  uint32_t version = 0;
  uint64_t tensor_count = 0;
  uint64_t value_count = 0;
  if (!reader.read(version)) return truncated("the header");
  if (version != 2 && version != 3) {
    if ((version & 0xffff) == 0 && version != 0)
      return input_error("{}: a big-endian GGUF file; only little-endian ones are read", name_);
    return input_error("{}: GGUF version {}, expected 2 or 3", name_, version);
  }
  if (!reader.read(tensor_count) || !reader.read(value_count)) return truncated("the header");
  if (value_count > reader.left() / kLeastValueBytes)
    return input_error("{}: {} metadata entries announced, but {} bytes are left", name_,
                       value_count, reader.left());
  if (tensor_count > reader.left() / kLeastTensorBytes)
    return input_error("{}: {} tensors announced, but {} bytes are left", name_, tensor_count,
                       reader.left());

  for (uint64_t i = 0; i < value_count; ++i) {
    GgufValue value;
    uint32_t type = 0;
    if (!read_string(reader, value.key)) return truncated(fmt::format("metadata key {}", i));
    if (value.key.empty()) return input_error("{}: metadata entry {} has an empty key", name_, i);
    const std::string shown = printable(value.key);
    if (!reader.read(type)) return truncated(shown);
    if (type >= kTypeCount) return input_error("{}: {}: unknown value type {}", name_, shown, type);
    value.type = static_cast<GgufType>(type);
    if (value.type == GgufType::string) {
      std::string_view text;
      if (!read_string(reader, text)) return truncated(shown);
      value.bytes = std::as_bytes(std::span(text.data(), text.size()));
    } else if (value.type != GgufType::array) {
      if (!reader.take(scalar_bytes(value.type), value.bytes)) return truncated(shown);
    } else {
      uint32_t element = 0;
      if (!reader.read(element) || !reader.read(value.count)) return truncated(shown);
      if (element >= kTypeCount)
        return input_error("{}: {}: unknown element type {}", name_, shown, element);
      value.element = static_cast<GgufType>(element);
      if (value.element == GgufType::array)
        return input_error("{}: {}: arrays of arrays are not supported", name_, shown);
      const size_t size = scalar_bytes(value.element);
      if (value.count > reader.left() / (size > 0 ? size : 8))
        return input_error("{}: {}: {} elements of {} announced, but {} bytes are left", name_,
                           shown, value.count, gguf_type_name(value.element), reader.left());
      const size_t begin = reader.position();
      if (size > 0) {
        std::span<const std::byte> skipped;
        reader.take(value.count * size, skipped);
      } else {
        std::string_view text;
        for (uint64_t k = 0; k < value.count; ++k)
          if (!read_string(reader, text)) return truncated(fmt::format("{}[{}]", shown, k));
      }
      value.bytes = bytes.subspan(begin, reader.position() - begin);
    }
    if (!value_index_.emplace(value.key, values_.size()).second)
      return input_error("{}: the metadata key {} occurs twice", name_, shown);
    values_.push_back(value);
  }

  for (uint64_t i = 0; i < tensor_count; ++i) {
    quant::SourceTensor tensor;
    std::string_view tensor_name;
    uint32_t dims = 0;
    if (!read_string(reader, tensor_name)) return truncated(fmt::format("tensor name {}", i));
    if (tensor_name.empty()) return input_error("{}: tensor {} has an empty name", name_, i);
    tensor.name = std::string(tensor_name);
    const std::string shown = printable(tensor_name);
    if (!reader.read(dims)) return truncated(fmt::format("tensor {}", shown));
    if (dims < 1 || dims > kMostDims)
      return input_error("{}: tensor {}: {} dimensions, expected 1 to {}", name_, shown, dims,
                         kMostDims);
    uint64_t elements = 1;
    for (uint32_t d = 0; d < dims; ++d) {
      uint64_t extent = 0;
      if (!reader.read(extent)) return truncated(fmt::format("tensor {}", shown));
      if (extent == 0) return input_error("{}: tensor {}: dimension {} is zero", name_, shown, d);
      if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / elements)
        return input_error("{}: tensor {}: its dimensions overflow 64 bits", name_, shown);
      elements *= extent;
      tensor.shape.push_back(static_cast<int64_t>(extent));  // innermost first in the file
    }
    uint32_t type_id = 0;
    uint64_t offset = 0;
    if (!reader.read(type_id) || !reader.read(offset))
      return truncated(fmt::format("tensor {}", shown));
    const GgufTensorType* type = gguf_tensor_type(type_id);
    tensor.type = type != nullptr ? type->source : quant::SourceType::other;
    tensor.type_name = type != nullptr ? type->name : fmt::format("type {}", type_id);
    if (type != nullptr) {
      if (tensor.shape[0] % type->block != 0)
        return input_error("{}: tensor {}: {} columns, expected a multiple of {} for {}", name_,
                           shown, tensor.shape[0], type->block, type->name);
      const uint64_t blocks = elements / static_cast<uint64_t>(type->block);
      if (blocks > bytes.size() / static_cast<uint64_t>(type->bytes))
        return input_error("{}: tensor {}: {} blocks of {} do not fit into {} bytes: truncated?",
                           name_, shown, blocks, type->name, bytes.size());
      tensor.bytes = static_cast<size_t>(blocks) * static_cast<size_t>(type->bytes);
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second)
      return input_error("{}: the tensor {} occurs twice", name_, shown);
    tensors_.push_back(std::move(tensor));
    offsets_.push_back(offset);
  }
  return place_tensors(bytes, reader.position());
}

// Turns offsets into pointers: aligned, inside the file, not overlapping.
Status GgufFile::place_tensors(std::span<const std::byte> bytes, size_t header_end) {
  uint64_t alignment = kDefaultAlignment;
  if (const GgufValue* value = find("general.alignment")) {
    if (value->type != GgufType::u32) return wrong_type(*value, "u32");
    alignment = load_as<uint32_t>(value->bytes.data());
    if (!std::has_single_bit(alignment) || alignment > kLargestAlignment)
      return input_error("{}: general.alignment is {}, expected a power of two up to {}", name_,
                         alignment, kLargestAlignment);
  }
  const uint64_t start = (header_end + alignment - 1) / alignment * alignment;
  const uint64_t available = bytes.size() > start ? bytes.size() - start : 0;

  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(offsets_[a], a) < std::pair(offsets_[b], b);
  });
  uint64_t end = 0;  // of the tensors so far
  for (size_t k = 0; k < order.size(); ++k) {
    quant::SourceTensor& tensor = tensors_[order[k]];
    const uint64_t offset = offsets_[order[k]];
    const std::string shown = printable(tensor.name);
    if (offset % alignment != 0)
      return input_error("{}: tensor {}: offset {} is no multiple of the alignment {}", name_,
                         shown, offset, alignment);
    if (offset > available || tensor.bytes > available - offset)
      return input_error(
          "{}: tensor {}: {} bytes at offset {} of the data, which has {} bytes: truncated?", name_,
          shown, tensor.bytes, offset, available);
    if (offset < end)
      return input_error("{}: tensor {} overlaps tensor {}", name_, shown,
                         printable(tensors_[order[k - 1]].name));
    if (tensor.bytes == 0) {  // of an unknown type: up to its neighbour
      const uint64_t next =
          k + 1 < order.size() ? std::min(offsets_[order[k + 1]], available) : available;
      tensor.bytes = static_cast<size_t>(next - offset);
    }
    tensor.data = bytes.data() + start + offset;
    end = offset + tensor.bytes;
  }

  const uint64_t after = start + (end + alignment - 1) / alignment * alignment;
  if (after < bytes.size() && bytes.size() - after >= 4 &&
      as_text(bytes.subspan(static_cast<size_t>(after), 4)) == "GGUF")
    return input_error(
        "{}: a second GGUF file begins at byte {}: parts of a split model joined with cat? Keep "
        "the "
        "parts apart and give the first one, or merge them with llama-gguf-split --merge",
        name_, after);
  return {};
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = value_index_.find(key);
  return found == value_index_.end() ? nullptr : &values_[found->second];
}

const quant::SourceTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Error GgufFile::wrong_type(const GgufValue& value, std::string_view expected) const {
  const std::string found =
      value.type == GgufType::array
          ? fmt::format("an array of {} {}", value.count, gguf_type_name(value.element))
          : gguf_type_name(value.type);
  return input_error("{}: {}: expected {}, found {}", name_, printable(value.key), expected, found);
}

Error GgufFile::missing(std::string_view key) const {
  return input_error("{}: the metadata lacks {}", name_, key);
}

Result<int64_t> GgufFile::integer(std::string_view key) const {
  if (!has(key)) return missing(key);
  return integer(key, 0);
}

Result<int64_t> GgufFile::integer(std::string_view key, int64_t fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  if (const auto result = integer_at(value->type, value->bytes.data())) return *result;
  return wrong_type(*value, "an integer that fits 63 bits");
}

Result<double> GgufFile::number(std::string_view key, double fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  if (const auto result = number_at(value->type, value->bytes.data())) return *result;
  return wrong_type(*value, "a number");
}

Result<bool> GgufFile::boolean(std::string_view key, bool fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  if (value->type != GgufType::boolean) return wrong_type(*value, "a bool");
  return load_as<uint8_t>(value->bytes.data()) != 0;
}

Result<std::string> GgufFile::text(std::string_view key, std::string_view fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->type != GgufType::string) return wrong_type(*value, "a string");
  return std::string(as_text(value->bytes));
}

Result<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  std::vector<int64_t> result;
  const GgufValue* value = find(key);
  if (value == nullptr) return result;
  const bool array = value->type == GgufType::array;
  const GgufType type = array ? value->element : value->type;
  const size_t size = scalar_bytes(type);
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::byte* at = value->bytes.data() + i * size;
    const auto element = type == GgufType::boolean
                             ? std::optional<int64_t>(load_as<uint8_t>(at) != 0)
                             : integer_at(type, at);
    if (!element) return wrong_type(*value, "integers");
    result.push_back(*element);
  }
  return result;
}

Result<std::vector<float>> GgufFile::floats(std::string_view key) const {
  std::vector<float> result;
  const GgufValue* value = find(key);
  if (value == nullptr) return result;
  if (value->type != GgufType::array || value->element != GgufType::f32)
    return wrong_type(*value, "an array of f32");
  result.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i)
    result.push_back(load_as<float>(value->bytes.data() + i * sizeof(float)));
  return result;
}

Result<uint64_t> GgufFile::array_size(std::string_view key, GgufType element) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (value->type != GgufType::array || value->element != element)
    return wrong_type(*value, fmt::format("an array of {}", gguf_type_name(element)));
  return value->count;
}

Status GgufFile::for_each_string(
    std::string_view key, const std::function<void(uint64_t, std::string_view)>& visit) const {
  const uint64_t count = RK_TRY(array_size(key, GgufType::string));
  ByteReader reader(find(key)->bytes);
  std::string_view text;
  for (uint64_t i = 0; i < count; ++i) {
    RK_CHECK(read_string(reader, text));  // was walked when the file was parsed
    visit(i, text);
  }
  return {};
}

std::string describe(const GgufValue& value) {
  if (value.type == GgufType::string) return std::string(as_text(value.bytes));
  if (value.type != GgufType::array) return describe_scalar(value.type, value.bytes.data());
  constexpr uint64_t kShown = 4;
  std::string result = fmt::format("{} x {}", value.count, gguf_type_name(value.element));
  ByteReader reader(value.bytes);
  for (uint64_t i = 0; i < std::min(value.count, kShown); ++i) {
    result += i == 0 ? ": " : ", ";
    if (value.element == GgufType::string) {
      std::string_view text;
      read_string(reader, text);
      result += fmt::format("\"{}\"", printable(text));
    } else {
      result +=
          describe_scalar(value.element, value.bytes.data() + i * scalar_bytes(value.element));
    }
  }
  if (value.count > kShown) result += ", ...";
  return result;
}

}  // namespace ringkeep::checkpoint
