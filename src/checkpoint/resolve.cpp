// MODEL -> a path: `demo`, a path, or org/name in the local Hugging Face cache.
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/mapped_file.h"
#include "checkpoint/adapter.h"
#include "checkpoint/checkpoint.h"

namespace ringkeep::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDemoFile = "gemma-3-270m-q4_k_m.gguf";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Of the user's own account where HOME is not set (services, containers), never of the current
// folder.
fs::path home() {
  if (const std::string home = environment("HOME"); !home.empty()) return home;
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "/";
}

fs::path user_cache() {
  const std::string cache = environment("XDG_CACHE_HOME");
  return cache.empty() ? home() / ".cache" : fs::path(cache);
}

fs::path hub_cache() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  return user_cache() / "huggingface" / "hub";
}

bool present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// "org/name" as the hub allows it: one slash, and letters, digits, '.', '_' or '-'.
bool is_repository(const std::string& model) {
  const size_t slash = model.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == model.size()) return false;
  if (model[0] == '.' || model[slash + 1] == '.') return false;
  return std::all_of(model.begin(), model.end(), [&, index = size_t{0}](char c) mutable {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return index++ == slash || letter || c == '.' || c == '_' || c == '-';
  });
}

Result<std::string> resolve_repository(const std::string& model) {
  std::string folder_name = "models--" + model;
  folder_name.replace(folder_name.find('/'), 1, "--");
  const fs::path folder = hub_cache() / folder_name;
  const fs::path reference = folder / "refs" / "main";
  if (!present(reference))
    return input_error(
        "{}: no such file or folder, and not in the Hugging Face cache ({}); download it with: hf "
        "download {}",
        model, folder.string(), model);
  std::string revision = RK_TRY(read_text_file(reference.string(), 256));
  while (!revision.empty() && (revision.back() == '\n' || revision.back() == ' '))
    revision.pop_back();
  if (revision.empty() || revision.find('/') != std::string::npos || revision[0] == '.')
    return input_error("{}: expected the name of a revision", reference.string());
  const fs::path snapshot = folder / "snapshots" / revision;
  if (!present(snapshot))
    return input_error(
        "{}: the snapshot that refs/main names is missing; download it with: hf "
        "download {}",
        snapshot.string(), model);
  return snapshot.string();
}

// A folder without config.json that holds one .gguf (or one split set) stands for that file.
Result<std::string> inside_folder(const std::string& folder) {
  if (present(fs::path(folder) / "config.json")) return folder;
  std::vector<std::string> found;
  std::error_code error;
  bool empty = true;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    empty = false;
    const std::string path = entry->path().string();
    if (entry->path().extension() != ".gguf") continue;
    const size_t of = path.rfind("-of-");
    const bool later_part = of != std::string::npos && of >= 6 && path.size() == of + 14 &&
                            path.compare(of - 6, 6, "-00001") != 0 && path[of - 6] == '-';
    if (!later_part) found.push_back(path);
  }
  if (error) return input_error("{}: cannot read the folder: {}", folder, error.message());
  if (found.size() == 1) return found.front();
  if (found.size() > 1) {
    std::sort(found.begin(), found.end());
    return input_error("{}: {} GGUF models in the folder; name one of them, e.g. {}", folder,
                       found.size(), found.front());
  }
  if (empty) return input_error("{}: the folder is empty", folder);
  return input_error("{}: the folder has neither config.json nor a .gguf file", folder);
}

}  // namespace

Result<std::string> resolve(const std::string& model) {
  if (model.empty()) return input_error("no model given");
  std::error_code error;
  if (fs::is_directory(model, error)) return inside_folder(model);
  if (present(model)) return model;
  if (model == "demo") {
    const fs::path path = user_cache() / "ringkeep" / kDemoFile;
    if (!present(path))
      return input_error("the demo model is not at {}; fetch it with: scripts/get-demo-model",
                         path.string());
    return path.string();
  }
  if (is_repository(model)) return inside_folder(RK_TRY(resolve_repository(model)));
  return input_error("{}: no such file or folder", model);
}

Result<std::string> resolve_adapter(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  if (present(path))
    return input_error("{}: expected a folder, as PEFT or mlx-lm writes it, found a file", path);
  if (is_repository(path)) return resolve_repository(path);
  return input_error("{}: no such folder", path);
}

}  // namespace ringkeep::checkpoint
