#include "checkpoint/safetensors.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>

#include "checkpoint/byte_reader.h"
#include "checkpoint/json_fields.h"

namespace ringkeep::checkpoint {

namespace {

constexpr uint64_t kLongestHeader = 100'000'000;  // the reference implementation's limit
constexpr size_t kMostDims = 8;

struct ElementType {
  std::string_view name;
  uint64_t bits;
  quant::SourceType source;
};
constexpr ElementType kTypes[] = {
    {"F32", 32, quant::SourceType::f32},      {"F16", 16, quant::SourceType::f16},
    {"BF16", 16, quant::SourceType::bf16},    {"BOOL", 8, quant::SourceType::other},
    {"U8", 8, quant::SourceType::other},      {"I8", 8, quant::SourceType::other},
    {"U16", 16, quant::SourceType::other},    {"I16", 16, quant::SourceType::other},
    {"U32", 32, quant::SourceType::other},    {"I32", 32, quant::SourceType::other},
    {"U64", 64, quant::SourceType::other},    {"I64", 64, quant::SourceType::other},
    {"F64", 64, quant::SourceType::other},    {"C64", 64, quant::SourceType::other},
    {"F8_E4M3", 8, quant::SourceType::other}, {"F8_E5M2", 8, quant::SourceType::other},
    {"F8_E8M0", 8, quant::SourceType::other}, {"F6_E2M3", 6, quant::SourceType::other},
    {"F6_E3M2", 6, quant::SourceType::other}, {"F4", 4, quant::SourceType::other},
};

// The range that an entry claims in the data, from its start.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  size_t tensor = 0;
};

Result<quant::SourceTensor> read_entry(const std::string& file, const std::string& name,
                                       const Json& entry, Range& range) {
  const JsonFields fields(entry, fmt::format("{}: {}", file, name));
  if (!entry.is_object()) return input_error("{}: expected an object", fields.where());
  quant::SourceTensor tensor;
  tensor.name = name;
  tensor.type_name = RK_TRY(fields.text("dtype")).value_or("");
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const ElementType& t) { return t.name == tensor.type_name; });
  if (type == std::end(kTypes)) return fields.wrong("dtype", "a type of the format");
  tensor.type = type->source;

  const Json* shape = fields.find("shape");
  if (shape == nullptr || !shape->is_array() || shape->size() > kMostDims)
    return fields.wrong("shape", fmt::format("an array of at most {} sizes", kMostDims));
  uint64_t bits = type->bits;
  for (const Json& extent : *shape) {
    if (!extent.is_number_unsigned()) return fields.wrong("shape", "sizes that are not negative");
    const auto size = extent.get<uint64_t>();
    if (size == 0) return input_error("{}: shape: a dimension is zero", fields.where());
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / bits)
      return input_error("{}: shape: its dimensions overflow 64 bits", fields.where());
    bits *= size;
    tensor.shape.push_back(static_cast<int64_t>(size));
  }

  const Json* offsets = fields.find("data_offsets");
  if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned())
    return fields.wrong("data_offsets", "two offsets");
  range.begin = (*offsets)[0].get<uint64_t>();
  range.end = (*offsets)[1].get<uint64_t>();
  if (bits % 8 != 0 || range.end < range.begin || range.end - range.begin != bits / 8)
    return input_error("{}: data_offsets [{}, {}], expected {} bytes for its shape and {}",
                       fields.where(), range.begin, range.end, bits / 8, tensor.type_name);
  tensor.bytes = static_cast<size_t>(bits / 8);
  return tensor;
}

}  // namespace

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes,
                                          const std::string& name) {
  ByteReader reader(bytes);
  uint64_t length = 0;
  std::span<const std::byte> header;
  if (!reader.read(length))
    return input_error("{}: {} bytes, too short for a safetensors file", name, bytes.size());
  if (length > kLongestHeader)
    return input_error("{}: the header length is {}, expected at most {}: not a safetensors file?",
                       name, length, kLongestHeader);
  if (!reader.take(length, header))
    return input_error("{}: the header has {} bytes, but {} are left: truncated?", name, length,
                       reader.left());
  if (as_text(header).substr(0, 1) != "{")
    return input_error("{}: the header does not begin with {{: not a safetensors file?", name);
  const Json json = RK_TRY(parse_json(as_text(header), name));

  SafetensorsFile file;
  std::vector<Range> ranges;
  for (const auto& [key, value] : json.items()) {
    if (key == "__metadata__") {
      if (value.is_null()) continue;  // mlx, where a program gives it none
      if (!value.is_object()) return input_error("{}: __metadata__: expected an object", name);
      for (const auto& [meta_key, meta_value] : value.items())
        file.metadata[meta_key] =
            meta_value.is_string() ? meta_value.get<std::string>() : meta_value.dump();
      continue;
    }
    Range range;
    file.tensors.push_back(RK_TRY(read_entry(name, key, value, range)));
    range.tensor = file.tensors.size() - 1;
    ranges.push_back(range);
  }

  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const std::span<const std::byte> data = bytes.subspan(reader.position());
  uint64_t end = 0;
  std::vector<quant::SourceTensor> ordered;
  ordered.reserve(ranges.size());
  for (const Range& range : ranges) {
    quant::SourceTensor& tensor = file.tensors[range.tensor];
    if (range.end > data.size())
      return input_error("{}: {}: ends at byte {} of the data, which has {} bytes: truncated?",
                         name, tensor.name, range.end, data.size());
    if (range.begin != end)
      return input_error("{}: {}: begins at byte {} of the data, expected {} ({})", name,
                         tensor.name, range.begin, end, range.begin < end ? "an overlap" : "a gap");
    tensor.data = data.data() + range.begin;
    end = range.end;
    ordered.push_back(std::move(tensor));
  }
  if (end != data.size())
    return input_error("{}: {} bytes after the last tensor, expected none", name,
                       data.size() - end);
  file.tensors = std::move(ordered);
  return file;
}

}  // namespace ringkeep::checkpoint
