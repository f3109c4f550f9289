#include "checkpoint/gguf_split.h"

#include <filesystem>
#include <optional>
#include <set>

#include "checkpoint/byte_reader.h"

namespace ringkeep::checkpoint {

namespace {

constexpr int64_t kMostParts = 65535;  // split.no and split.count are u16 in the format

// "PREFIX-00002-of-00003.gguf"
struct PartName {
  std::string prefix;
  int64_t number = 0;  // from 1
  int64_t count = 0;
  static std::string make(const std::string& prefix, int64_t number, int64_t count) {
    return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
  }
};

std::optional<PartName> part_name(const std::string& path) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";
  if (path.size() <= kForm.size()) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kForm.size());
  int64_t numbers[2] = {0, 0};
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != '0') {
      if (tail[i] != kForm[i]) return std::nullopt;
    } else {
      if (tail[i] < '0' || tail[i] > '9') return std::nullopt;
      int64_t& number = numbers[i > 6];
      number = number * 10 + (tail[i] - '0');
    }
  }
  return PartName{path.substr(0, path.size() - kForm.size()), numbers[0], numbers[1]};
}

Status check_first(const GgufFile& file, const std::optional<PartName>& name, int64_t number,
                   int64_t count) {
  if (count < 1 || count > kMostParts)
    return input_error("{}: split.count is {}, expected 1 to {}", file.name(), count, kMostParts);
  if (number != 0 && name && name->number == 1)
    return input_error(
        "{}: named as the first part, but split.no is {}, expected 0: a renamed part?", file.name(),
        number);
  if (number != 0)
    return input_error("{}: this is part {} of {} of a split model; give the first part{}",
                       file.name(), number + 1, count,
                       name ? ", " + PartName::make(name->prefix, 1, count) : "");
  if (count == 1) return {};
  if (!name)
    return input_error(
        "{}: the first of {} parts must be named NAME-00001-of-{:05}.gguf so that the others are "
        "found",
        file.name(), count, count);
  if (name->number != 1)
    return input_error("{}: named as part {}, but split.no says that it is the first part",
                       file.name(), name->number);
  if (name->count != count)
    return input_error("{}: the name says {} parts, split.count says {}", file.name(), name->count,
                       count);
  return {};
}

// The tensors of all parts together.
Status check_tensors(const GgufModel& model) {
  std::set<std::string_view> names;
  int64_t count = 0;
  for (const GgufFile& part : model.parts)
    for (const auto& tensor : part.tensors()) {
      ++count;
      if (!names.insert(tensor.name).second)
        return input_error("{}: the tensor {} is also in an earlier part", part.name(),
                           tensor.name);
    }
  const int64_t expected = RK_TRY(model.head().integer("split.tensors.count", count));
  if (model.complete && expected != count)
    return input_error("{}: split.tensors.count is {}, the {} parts hold {} tensors",
                       model.head().name(), expected, model.parts.size(), count);
  return {};
}

}  // namespace

Result<GgufSet> open_gguf(const std::string& path, bool all_parts) {
  GgufSet set;
  const auto add = [&](const std::string& part) -> Status {
    MappedFile file = RK_TRY(MappedFile::open(part));
    set.model.parts.push_back(RK_TRY(GgufFile::parse(file.bytes(), part)));
    set.files.push_back(std::move(file));
    return {};
  };
  RK_TRY(add(path));
  const std::optional<PartName> name = part_name(path);
  const int64_t number = RK_TRY(set.model.head().integer("split.no", 0));
  const int64_t count = RK_TRY(set.model.head().integer("split.count", 1));
  RK_TRY(check_first(set.model.head(), name, number, count));

  for (int64_t i = 1; i < count; ++i) {
    const std::string part = PartName::make(name->prefix, i + 1, count);
    std::error_code error;
    if (!std::filesystem::exists(part, error)) {
      if (all_parts)
        return input_error("{}: part {} of {} is missing: {}", path, i + 1, count, part);
      set.model.complete = false;
      continue;
    }
    RK_TRY(add(part));
    const GgufFile& file = set.model.parts.back();
    const int64_t part_count = RK_TRY(file.integer("split.count"));
    if (part_count != count)
      return input_error("{}: split.count is {}, the first part says {}", part, part_count, count);
    const int64_t part_number = RK_TRY(file.integer("split.no"));
    if (part_number != i)
      return input_error("{}: split.no is {}, expected {}: a renamed part?", part, part_number, i);
  }
  RK_TRY(check_tensors(set.model));
  return set;
}

}  // namespace ringkeep::checkpoint
