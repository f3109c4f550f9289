// Finished parts of a long measurement, kept in a file so that a second run goes on where the first
// was stopped. JSON lines: a fingerprint of everything that the results depend on, then one
// {"key", "value"} a part, written as it is finished.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

namespace ringkeep::eval {

class WorkFile {
 public:
  // Opens or creates the file. A line that was cut short, and what follows it, is dropped. Another
  // fingerprint starts anew: `restarted` says so. Errors: a file of another kind is not touched
  // (usage); it cannot be written (runtime). An empty path keeps everything in memory.
  static Result<WorkFile> open(const std::string& path, const nlohmann::json& fingerprint);

  const nlohmann::json* find(const std::string& key) const;  // null: not finished yet
  Status add(const std::string& key, nlohmann::json value);  // on disk when it returns
  void remove();                                             // the file; the parts stay in memory

  bool restarted = false;
  const std::string& path() const { return path_; }
  size_t size() const { return parts_.size(); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  Status write_line(const nlohmann::json& line);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::map<std::string, nlohmann::json> parts_;
};

}  // namespace ringkeep::eval
