// MODEL -> a path: `demo`, a path, or org/name in the local Hugging Face cache.
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// A part of a name as the hub allows it: letters, digits, '.', '_' or '-', and no dot first. So no
// name leads out of the folder that it is looked up in.
bool is_plain(std::string_view part) {
  return !part.empty() && part[0] != '.' && std::ranges::all_of(part, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
}

// "org/name", "org/name:QUANT" or "org/name/FILE.gguf", which may lie in a folder of the
// repository.
struct HubName {
  std::string repository;
  std::string quant;
  fs::path file;
};

std::optional<HubName> hub_name(const std::string& model) {
  HubName out;
  const size_t colon = std::min(model.find(':'), model.size());
  if (colon < model.size()) {
    out.quant = model.substr(colon + 1);
    if (!is_plain(out.quant)) return std::nullopt;
  }
  std::vector<std::string> parts(1);
  for (const char c : std::string_view(model).substr(0, colon))
    if (c == '/')
      parts.emplace_back();
    else
      parts.back() += c;
  if (parts.size() < 2 || !std::ranges::all_of(parts, is_plain)) return std::nullopt;
  out.repository = parts[0] + "/" + parts[1];
  for (size_t i = 2; i < parts.size(); ++i) out.file /= parts[i];
  if (parts.size() > 2 && (out.file.extension() != ".gguf" || !out.quant.empty()))
    return std::nullopt;
  return out;
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

// A .gguf file that is no later part of a split set.
bool is_model_file(const fs::path& file) {
  if (file.extension() != ".gguf") return false;
  const std::string path = file.string();
  const size_t of = path.rfind("-of-");
  return of == std::string::npos || of < 6 || path.size() != of + 14 ||
         path.compare(of - 6, 6, "-00001") == 0 || path[of - 6] != '-';
}

// Whether a file's name has the quantization between marks: Q4_K in "m-q4_k.gguf", and not in
// "m-Q4_K_M.gguf".
bool has_quant(const fs::path& file, const std::string& quant) {
  const std::string name = file.stem().string();
  const auto same = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  for (auto at = name.begin(); at != name.end(); ++at) {
    at = std::search(at, name.end(), quant.begin(), quant.end(), same);
    if (at == name.end()) return false;
    const auto end = at + static_cast<ptrdiff_t>(quant.size());
    const bool begins =
        at == name.begin() || std::string_view("-._").find(at[-1]) != std::string_view::npos;
    if (begins && (end == name.end() || *end == '-' || *end == '.')) return true;
  }
  return false;
}

// The GGUF models of a snapshot, by their names within it. Projectors of images are none.
std::vector<std::string> models_in(const fs::path& snapshot) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(snapshot, error), end; !error && entry != end;
       entry.increment(error))
    if (is_model_file(entry->path()) && !entry->path().filename().string().starts_with("mmproj"))
      found.push_back(entry->path().lexically_relative(snapshot).string());
  std::ranges::sort(found);
  return found;
}

// The one file of a snapshot that the name asks for.
Result<std::string> file_of(const std::string& model, const HubName& name,
                            const fs::path& snapshot) {
  if (!name.file.empty() && present(snapshot / name.file)) return (snapshot / name.file).string();
  const std::vector<std::string> all = models_in(snapshot);
  std::vector<std::string> fit;
  if (name.file.empty())
    std::ranges::copy_if(all, std::back_inserter(fit),
                         [&](const std::string& file) { return has_quant(file, name.quant); });
  if (fit.size() == 1) return (snapshot / fit.front()).string();
  if (!fit.empty())
    return input_error("{}: {} files fit, name one of them: {}", model, fit.size(),
                       fmt::join(fit, ", "));
  return input_error("{}: no such GGUF file in the Hugging Face cache, which has {} of {}", model,
                     all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", ")),
                     name.repository);
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
    if (is_model_file(entry->path())) found.push_back(entry->path().string());
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
  if (fs::path(model).extension() == ".safetensors" && present(model)) {
    const fs::path folder = fs::path(model).parent_path();
    return input_error("{}: give the folder that holds it and config.json, {}", model,
                       folder.empty() ? "." : folder.string());
  }
  if (present(model)) return model;
  if (model == "demo") {
    const fs::path path = user_cache() / "ringkeep" / kDemoFile;
    if (!present(path))
      return input_error("the demo model is not at {}; fetch it with: scripts/get-demo-model",
                         path.string());
    return path.string();
  }
  if (const auto name = hub_name(model)) {
    const std::string snapshot = RK_TRY(resolve_repository(name->repository));
    if (name->quant.empty() && name->file.empty()) return inside_folder(snapshot);
    return file_of(model, *name, snapshot);
  }
  return input_error("{}: no such file or folder", model);
}

Result<std::string> resolve_adapter(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  if (present(path))
    return input_error("{}: expected a folder, as PEFT or mlx-lm writes it, found a file", path);
  if (const auto name = hub_name(path); name && name->repository == path)
    return resolve_repository(path);
  return input_error("{}: no such folder", path);
}

}  // namespace ringkeep::checkpoint
