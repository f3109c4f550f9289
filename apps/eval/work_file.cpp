#include "eval/work_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace ringkeep::eval {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = uintmax_t{4} << 30;
constexpr std::string_view kStart = "{\"fingerprint\"";

struct Parsed {
  bool ours = false;     // begins with the fingerprint
  bool foreign = false;  // no work file at all
  uintmax_t good = 0;    // bytes of whole lines
  std::map<std::string, Json> parts;
};

Parsed parse(const std::string& path, const Json& fingerprint) {
  Parsed out;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) {  // no newline: cut short while it was written
      out.foreign =
          out.foreign || (out.good == 0 && !kStart.starts_with(line.substr(0, kStart.size())));
      break;
    }
    const Json json = Json::parse(line, nullptr, false);
    if (out.good == 0) {
      out.foreign = !json.is_object() || !json.contains("fingerprint");
      if (json != Json{{"fingerprint", fingerprint}}) return out;
      out.ours = true;
    } else {
      if (!json.is_object() || !json.contains("key") || !json["key"].is_string() ||
          !json.contains("value"))
        break;
      out.parts[json["key"].get<std::string>()] = json["value"];
    }
    out.good += line.size() + 1;
  }
  return out;
}

}  // namespace

Result<WorkFile> WorkFile::open(const std::string& path, const Json& fingerprint) {
  WorkFile work;
  if (path.empty()) return work;
  work.path_ = path;
  std::error_code ignored;
  const bool exists = fs::exists(path, ignored);
  Parsed parsed;
  if (exists) {
    if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) > kMaxBytes)
      return make_error(ErrorKind::usage, "{}: expected a work file of an earlier run", path);
    parsed = parse(path, fingerprint);
    if (parsed.foreign)
      return make_error(ErrorKind::usage,
                        "{}: expected a work file of an earlier run, found something else", path);
    work.restarted = !parsed.ours && fs::file_size(path, ignored) > 0;
  }
  if (parsed.ours) fs::resize_file(path, parsed.good, ignored);
  if (const auto folder = fs::path(path).parent_path(); !folder.empty())
    fs::create_directories(folder, ignored);
  work.file_.reset(std::fopen(path.c_str(), parsed.ours ? "ab" : "wb"));
  if (!work.file_)
    return make_error(ErrorKind::runtime, "{}: cannot be written: {}", path, std::strerror(errno));
  work.parts_ = std::move(parsed.parts);
  if (!parsed.ours) RK_TRY(work.write_line(Json{{"fingerprint", fingerprint}}));
  return work;
}

const Json* WorkFile::find(const std::string& key) const {
  const auto found = parts_.find(key);
  return found == parts_.end() ? nullptr : &found->second;
}

Status WorkFile::add(const std::string& key, Json value) {
  RK_TRY(write_line(Json{{"key", key}, {"value", value}}));
  parts_[key] = std::move(value);
  return {};
}

void WorkFile::remove() {
  if (!file_) return;
  file_.reset();
  std::error_code ignored;
  fs::remove(path_, ignored);
}

Status WorkFile::write_line(const Json& line) {
  if (!file_) return {};
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
      std::fflush(file_.get()) != 0)
    return make_error(ErrorKind::runtime, "{}: cannot be written: {}", path_, std::strerror(errno));
  return {};
}

}  // namespace ringkeep::eval
