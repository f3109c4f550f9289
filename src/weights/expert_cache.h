// Experts that are not all in memory: those used last are held packed, in slots of one size; one
// that a step chooses and that is not held is packed from the mapped file, in place of the one that
// was not used for longest. What is held is what pack_stack() makes, so that results are the same,
// bit for bit. One thread uses it, between the ops of a step.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "weights/experts.h"
#include "weights/packed.h"

namespace ringkeep::weights {

// The parts of an expert, in the order in which they lie in its slot.
enum class ExpertPart : uint8_t { gate, up, down };
inline constexpr int kExpertParts = 3;

// Bytes of a slot for any expert of a layer. Errors: as of pack_stack().
Result<size_t> expert_slot_bytes(const ExpertSources& sources, const PackOptions& options,
                                 const kernels::Ops& ops);

class ExpertCache {
 public:
  // The files that sources lie in, and what else is used, outlive the cache.
  ExpertCache(std::span<const MappedFile> files, const PackOptions& options,
              const kernels::Ops& ops, kernels::Device& device)
      : files_(files), options_(options), ops_(ops), device_(device) {}
  ExpertCache(const ExpertCache&) = delete;
  ExpertCache& operator=(const ExpertCache&) = delete;

  // Another layer; returns its number. Nothing is read. Errors: as of pack_stack().
  Result<int> add(ExpertSources sources);
  // Makes as many slots as `bytes` hold, one at least, for all layers. Errors (runtime): memory.
  Status allocate(size_t bytes);
  // Where the matrices of a layer are, once there are slots. Only those that hold() returned are.
  kernels::PackedStack stack(int layer, ExpertPart part) const;

  // Holds experts of a layer that have rows ([begin[e], begin[e + 1]) is not empty), from `first`
  // on: all of them, or as many as there are slots. Returns the end of the range of experts that
  // can be read now. Nobody may be reading others meanwhile. `alive` is called now and then: files
  // may be slow. It may throw, and std::bad_alloc is thrown where packing has no memory; what is
  // held stays right then.
  int hold(int layer, std::span<const int32_t> begin, int first,
           const std::function<void()>& alive);

  struct Stats {
    int64_t hits = 0;          // experts with rows that were held
    int64_t loads = 0;         // and that were packed from the file
    int64_t loaded_bytes = 0;  // packed bytes of these
  };
  const Stats& stats() const { return stats_; }
  int64_t slots() const { return static_cast<int64_t>(slots_.size()); }
  size_t bytes() const { return memory_.size(); }

 private:
  struct PartLayout {
    quant::WeightSpec spec;
    int64_t rows = 0, cols = 0;
    size_t at = 0;       // in the slot
    int64_t blocks = 0;  // tasks of packing
  };
  struct Layer {
    ExpertSources sources;
    PartLayout parts[kExpertParts];
    size_t bytes = 0;                      // of an expert in a slot
    size_t packed_bytes = 0;               // without what aligns its parts
    std::vector<int32_t> slot;             // [experts], -1: not held
    kernels::DeviceBuffer slot_on_device;  // the same
  };
  struct Slot {
    int layer = -1, expert = -1;         // -1: empty
    std::list<int32_t>::iterator place;  // in by_use_
  };
  int32_t take_slot();
  void load(int layer, std::span<const int> experts);
  // Calls with the file, and with offset and size of each piece of it that the experts lie in.
  template <typename Body>
  void for_pieces(const Layer& layer, std::span<const int> experts, const Body& body) const;

  std::span<const MappedFile> files_;
  PackOptions options_;
  const kernels::Ops& ops_;
  kernels::Device& device_;
  std::vector<Layer> layers_;
  size_t slot_bytes_ = 0;
  kernels::DeviceBuffer memory_;  // [slots][slot_bytes]
  std::vector<Slot> slots_;
  std::list<int32_t> by_use_;   // slots, the one not used for longest first
  std::vector<int> missing_;    // experts, of the current hold()
  std::vector<int32_t> taken_;  // slots, of the current load()
  Stats stats_;
};

}  // namespace ringkeep::weights
