// The folder DST.converting beside DST: what an unfinished conversion has made so far, and what it
// was asked for. It becomes DST at the end, by one rename.
//
//   DST.converting/state.json   options, sources, and the checksum of each shard that is complete
//   DST.converting/model/       the folder that becomes DST
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "convert/shard.h"

namespace ringkeep::convert {

// What must agree for a conversion to go on: names ("--bits", "model.safetensors") and values.
using Asked = std::vector<std::pair<std::string, std::string>>;

class Workspace {
 public:
  // Opens the folder, or makes it. One process at a time holds it. Errors: runtime (disk, another
  // process), usage (an unfinished conversion that was asked for something else, by the first value
  // that differs; not with `restart`, which begins again).
  static Result<Workspace> open(const std::string& destination, const Asked& asked, bool restart);
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&&) = delete;
  ~Workspace();

  const std::string& model() const { return model_; }  // the folder that becomes DST
  std::string path(const std::string& file) const { return model_ + "/" + file; }

  // What an earlier run recorded of a shard, when the file is there with the size and the checksum
  // that it should have; else nullptr, and the shard is to be written.
  const WrittenShard* complete(const Shard& shard);
  Status record(const Shard& shard, const WrittenShard& written);  // the file is there and whole

  // model/ becomes the destination; what that was is removed afterwards (`replace`).
  Status finish(bool replace);

 private:
  Workspace() = default;
  Status read_state(const Asked& asked);
  Status write_state() const;
  Status remove_unfinished();

  struct Entry {
    size_t bytes = 0;  // of the file
    WrittenShard written;
  };
  std::string destination_, folder_, model_;
  int lock_ = -1;
  Asked asked_;
  std::map<std::string, Entry> shards_;  // by file name
};

}  // namespace ringkeep::convert
