#include "checkpoint/safetensors_writer.h"

#include <nlohmann/json.hpp>

#include <bit>
#include <cstring>

namespace ringkeep::checkpoint {
namespace {

const std::string kNoSum(kSha256Digits, '0');

std::string checksum_field(const std::string& digits) {
  return fmt::format("\"{}\":\"{}\"", kChecksumKey, digits);
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::map<std::string, std::string> metadata,
                                                    std::span<const SafetensorsEntry> entries) {
  SafetensorsWriter writer(RK_TRY(AtomicFile::create(path)));
  metadata[kChecksumKey] = kNoSum;
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  for (const SafetensorsEntry& entry : entries) {
    header[entry.name] = {{"dtype", entry.type},
                          {"shape", entry.shape},
                          {"data_offsets", {writer.left_, writer.left_ + entry.bytes}}};
    writer.left_ += entry.bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begins at a multiple of 8
  const std::string field = checksum_field(kNoSum);
  const size_t at = text.find(field);
  RK_CHECK(at != std::string::npos);
  writer.checksum_at_ = sizeof(uint64_t) + at + field.find(kNoSum);

  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = text.size();
  for (const auto part : {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(text))}) {
    writer.sum_.update(part);
    RK_TRY(writer.file_.write(part));
  }
  return writer;
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  RK_CHECK(bytes.size() <= left_, "{} bytes, {} were left to write", bytes.size(), left_);
  left_ -= bytes.size();
  sum_.update(bytes);
  return file_.write(bytes);
}

Status SafetensorsWriter::finish() {
  RK_CHECK(left_ == 0, "{} bytes were not written", left_);
  digits_ = sum_.hex();
  RK_TRY(file_.write_at(checksum_at_, std::as_bytes(std::span(digits_))));
  return file_.commit();
}

Status check_safetensors_sum(std::span<const std::byte> bytes,
                             const std::map<std::string, std::string>& metadata,
                             const std::string& name) {
  const auto found = metadata.find(kChecksumKey);
  if (found == metadata.end() || found->second.size() != kSha256Digits)
    return input_error("{}: its metadata has no {}", name, kChecksumKey);
  uint64_t length = 0;
  RK_CHECK(bytes.size() >= sizeof(length));
  std::memcpy(&length, bytes.data(), sizeof(length));
  RK_CHECK(length <= bytes.size() - sizeof(length));
  std::string header(reinterpret_cast<const char*>(bytes.data()), sizeof(length) + length);
  const std::string field = checksum_field(found->second);
  const size_t at = header.find(field, sizeof(length));
  if (at == std::string::npos)
    return input_error("{}: its {} is written in another way", name, kChecksumKey);
  header.replace(at, field.size(), checksum_field(kNoSum));
  Sha256 sum;
  sum.update(header);
  sum.update(bytes.subspan(header.size()));
  const std::string digits = sum.hex();
  if (digits != found->second)
    return input_error("{}: its SHA-256 is {}, expected {}: the file was changed or damaged", name,
                       digits, found->second);
  return {};
}

}  // namespace ringkeep::checkpoint
