#include "convert/workspace.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/log.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

namespace ringkeep::convert {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;  // of the state, and of what options make of weights
constexpr size_t kLargestState = size_t{1} << 28;
constexpr const char* kState = "state.json";

Error disk_error(const std::string& path, const char* what, const std::error_code& error) {
  return make_error(ErrorKind::runtime, "{}: cannot {}: {}", path, what, error.message());
}

std::string value_of(const Asked& asked, const std::string& name) {
  for (const auto& [key, value] : asked)
    if (key == name) return value;
  return "none";
}

// The first name whose values differ, or empty.
std::string difference(const Asked& a, const Asked& b) {
  for (const Asked* list : {&a, &b})
    for (const auto& [name, value] : *list)
      if (value_of(a, name) != value_of(b, name)) return name;
  return "";
}

}  // namespace

Workspace::Workspace(Workspace&& other) noexcept
    : destination_(std::move(other.destination_)),
      folder_(std::move(other.folder_)),
      model_(std::move(other.model_)),
      lock_(std::exchange(other.lock_, -1)),
      asked_(std::move(other.asked_)),
      shards_(std::move(other.shards_)) {}

Workspace::~Workspace() {
  if (lock_ >= 0) ::close(lock_);
}

Result<Workspace> Workspace::open(const std::string& destination, const Asked& asked,
                                  bool restart) {
  Workspace space;
  space.destination_ = destination;
  space.folder_ = destination + ".converting";
  space.model_ = space.folder_ + "/model";
  space.asked_ = asked;
  std::error_code error;
  fs::create_directories(space.folder_, error);
  if (error) return disk_error(space.folder_, "make the folder", error);
  space.lock_ = ::open(space.folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (space.lock_ < 0)
    return make_error(ErrorKind::runtime, "{}: cannot open: {}", space.folder_,
                      std::strerror(errno));
  if (::flock(space.lock_, LOCK_EX | LOCK_NB) != 0)
    return make_error(ErrorKind::runtime, "{}: another process is converting into {}",
                      space.folder_, destination);
  if (restart) {
    fs::remove_all(space.model_, error);
    fs::remove(space.folder_ + "/" + kState, error);
  }
  if (fs::exists(space.folder_ + "/" + kState, error)) RK_TRY(space.read_state(asked));
  fs::create_directories(space.model_, error);
  if (error) return disk_error(space.model_, "make the folder", error);
  RK_TRY(space.remove_unfinished());
  RK_TRY(space.write_state());
  return space;
}

Status Workspace::read_state(const Asked& asked) {
  const std::string path = folder_ + "/" + kState;
  const auto damaged = [&] {
    return input_error("{}: not the state of a conversion of this version; --restart begins again",
                       path);
  };
  const std::string text = RK_TRY(read_text_file(path, kLargestState));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    if (json.at("version") != kVersion) return damaged();
    Asked before;
    for (const auto& [name, value] : json.at("asked").items())
      before.emplace_back(name, value.get<std::string>());
    if (const std::string name = difference(before, asked); !name.empty())
      return make_error(ErrorKind::usage,
                        "{}: an unfinished conversion with {} {}, now it is {}; give what it was "
                        "begun with to go on, or --restart to begin again",
                        folder_, name, value_of(before, name), value_of(asked, name));
    for (const auto& [file, value] : json.at("shards").items()) {
      Entry entry;
      entry.bytes = value.at("bytes").get<size_t>();
      entry.written.sha256 = value.at("sha256").get<std::string>();
      for (const Json& e : value.at("errors"))
        entry.written.errors.push_back({e.at(0).get<double>(), e.at(1).get<double>(),
                                        e.at(2).get<double>(), e.at(3).get<double>()});
      shards_.emplace(file, std::move(entry));
    }
  } catch (const Json::exception&) {
    return damaged();
  }
  return {};
}

Status Workspace::write_state() const {
  Json asked = Json::object();
  for (const auto& [name, value] : asked_) asked[name] = value;
  Json shards = Json::object();
  for (const auto& [file, entry] : shards_) {
    Json errors = Json::array();
    for (const ModuleError& e : entry.written.errors)
      errors.push_back({e.squared, e.weight, e.output_squared, e.output_weight});
    shards[file] = {
        {"bytes", entry.bytes}, {"sha256", entry.written.sha256}, {"errors", std::move(errors)}};
  }
  const std::string text =
      Json{{"version", kVersion}, {"asked", std::move(asked)}, {"shards", std::move(shards)}}.dump(
          1, ' ', false, Json::error_handler_t::replace);
  auto file = RK_TRY(AtomicFile::create(folder_ + "/" + kState));
  RK_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

// Files that an earlier run left and did not record.
Status Workspace::remove_unfinished() {
  std::error_code error;
  std::vector<fs::path> others;
  for (fs::directory_iterator entry(model_, error), end; !error && entry != end;
       entry.increment(error))
    if (!shards_.contains(entry->path().filename().string())) others.push_back(entry->path());
  for (const fs::path& path : others) {
    fs::remove_all(path, error);
    if (error) return disk_error(path.string(), "remove", error);
  }
  return {};
}

const WrittenShard* Workspace::complete(const Shard& shard) {
  const auto found = shards_.find(shard.file);
  if (found == shards_.end()) return nullptr;
  const Entry& entry = found->second;
  const auto sound = [&]() -> Status {
    const MappedFile file = RK_TRY(MappedFile::open(path(shard.file)));
    if (file.bytes().size() != entry.bytes)
      return input_error("{} bytes, expected {}", file.bytes().size(), entry.bytes);
    const auto parsed = RK_TRY(checkpoint::parse_safetensors(file.bytes(), shard.file));
    RK_TRY(checkpoint::check_safetensors_sum(file.bytes(), parsed.metadata, shard.file));
    if (parsed.metadata.at(checkpoint::kChecksumKey) != entry.written.sha256)
      return input_error("another SHA-256 than was written");
    if (entry.written.errors.size() != shard.last - shard.first)
      return input_error("of other modules");
    return {};
  }();
  if (sound.ok()) return &entry.written;
  spdlog::warn("{}: written again: {}", path(shard.file), sound.error().message);
  shards_.erase(found);
  return nullptr;
}

Status Workspace::record(const Shard& shard, const WrittenShard& written) {
  std::error_code error;
  const auto bytes = fs::file_size(path(shard.file), error);
  if (error) return disk_error(path(shard.file), "read", error);
  shards_[shard.file] = {static_cast<size_t>(bytes), written};
  return write_state();
}

Status Workspace::finish(bool replace) {
  std::error_code error;
  const std::string old = folder_ + "/replaced";
  if (fs::exists(destination_, error)) {
    RK_CHECK(replace);
    fs::remove_all(old, error);
    fs::rename(destination_, old, error);
    if (error) return disk_error(destination_, "rename", error);
  }
  fs::rename(model_, destination_, error);
  if (error) {
    const Error failure = disk_error(model_, "rename", error);
    fs::rename(old, destination_, error);  // as it was
    return failure;
  }
  fs::remove_all(folder_, error);
  if (error) spdlog::warn("{}: cannot remove: {}", folder_, error.message());
  return {};
}

}  // namespace ringkeep::convert
