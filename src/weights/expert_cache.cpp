#include "weights/expert_cache.h"

#include <algorithm>
#include <atomic>
#include <new>

namespace ringkeep::weights {
namespace {

// A page fault maps the neighbours of its page too.
constexpr size_t kFaultAround = 64 << 10;

// Packed bytes of experts between two signs of life, while their part of the file is in memory too:
// a fraction of a second of a slow disk.
constexpr size_t kPortionBytes = 16 << 20;

const ExpertMatrices& matrices(const ExpertSources& sources, int part) {
  switch (static_cast<ExpertPart>(part)) {
    case ExpertPart::gate: return sources.gate;
    case ExpertPart::up: return sources.up;
    default: return sources.down;
  }
}

size_t part_bytes(const StackShape& shape, const kernels::Ops& ops) {
  constexpr size_t kAlign = 64;
  return (ops.weight_bytes(shape.spec, shape.rows, shape.cols) + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

Result<size_t> expert_slot_bytes(const ExpertSources& sources, const PackOptions& options,
                                 const kernels::Ops& ops) {
  size_t bytes = 0;
  for (int i = 0; i < kExpertParts; ++i) {
    const ExpertMatrices& part = matrices(sources, i);
    bytes += part_bytes(RK_TRY(stack_shape(part.experts, part.order, options)), ops);
  }
  return bytes;
}

Result<int> ExpertCache::add(ExpertSources sources) {
  Layer layer;
  layer.sources = std::move(sources);
  for (ExpertMatrices* part : {&layer.sources.gate, &layer.sources.up, &layer.sources.down})
    part->bias = {};  // these are in memory whole
  for (int i = 0; i < kExpertParts; ++i) {
    const ExpertMatrices& part = matrices(layer.sources, i);
    const StackShape shape = RK_TRY(stack_shape(part.experts, part.order, options_));
    const int64_t step = pack_step(ops_);
    layer.parts[i] = {shape.spec, shape.rows, shape.cols, layer.bytes,
                      (shape.rows + step - 1) / step};
    layer.bytes += part_bytes(shape, ops_);
    layer.packed_bytes += ops_.weight_bytes(shape.spec, shape.rows, shape.cols);
  }
  const size_t experts = layer.sources.gate.experts.size();
  layer.slot.assign(experts, -1);
  layer.slot_on_device = RK_TRY(device_.allocate(experts * sizeof(int32_t)));
  device_.copy_in(layer.slot_on_device.data(), layer.slot.data(), experts * sizeof(int32_t));
  slot_bytes_ = std::max(slot_bytes_, layer.bytes);
  layers_.push_back(std::move(layer));
  return static_cast<int>(layers_.size()) - 1;
}

Status ExpertCache::allocate(size_t bytes) {
  RK_CHECK(slot_bytes_ > 0 && slots_.empty());
  size_t experts = 0;
  for (const Layer& layer : layers_) experts += layer.slot.size();
  const size_t count = std::clamp<size_t>(bytes / slot_bytes_, 1, experts);
  memory_ = RK_TRY(device_.allocate(count * slot_bytes_));
  slots_.resize(count);
  missing_.reserve(count);
  taken_.reserve(count);
  for (size_t i = 0; i < count; ++i)
    slots_[i].place = by_use_.insert(by_use_.end(), static_cast<int32_t>(i));
  return {};
}

kernels::PackedStack ExpertCache::stack(int layer, ExpertPart part) const {
  const Layer& of = layers_[static_cast<size_t>(layer)];
  const PartLayout& layout = of.parts[static_cast<int>(part)];
  return {.first = {.spec = layout.spec,
                    .rows = layout.rows,
                    .cols = layout.cols,
                    .data = memory_.data() + layout.at},
          .count = static_cast<int64_t>(of.slot.size()),
          .stride = slot_bytes_,
          .slot = of.slot_on_device.as<int32_t>()};
}

int ExpertCache::hold(int layer_index, std::span<const int32_t> begin, int first,
                      const std::function<void()>& alive) {
  Layer& layer = layers_[static_cast<size_t>(layer_index)];
  const int experts = static_cast<int>(layer.slot.size());
  // Those that are there are marked as used first, lest one of them makes room for another.
  missing_.clear();
  size_t count = 0;
  int end = first;
  for (; end < experts; ++end) {
    const auto e = static_cast<size_t>(end);
    if (begin[e + 1] == begin[e]) continue;
    if (count == slots_.size()) break;
    ++count;
    if (layer.slot[e] < 0)
      missing_.push_back(end);
    else
      by_use_.splice(by_use_.end(), by_use_, slots_[static_cast<size_t>(layer.slot[e])].place);
  }
  stats_.hits += static_cast<int64_t>(count - missing_.size());
  if (missing_.empty()) return end;

  const auto want = [](const MappedFile& file, size_t at, size_t size) { file.want(at, size); };
  const size_t portion = std::max<size_t>(1, kPortionBytes / layer.packed_bytes);
  const auto portion_at = [&](size_t at) {
    const std::span<const int> rest = std::span(missing_).subspan(std::min(at, missing_.size()));
    return rest.first(std::min(portion, rest.size()));
  };
  for_pieces(layer, portion_at(0), want);
  for (size_t at = 0; at < missing_.size(); at += portion) {
    for_pieces(layer, portion_at(at + portion), want);
    load(layer_index, portion_at(at));
    if (alive) alive();
  }
  return end;
}

// The slot that was not used for longest, now empty. Tables of other layers reach the device when
// these layers need them: nobody reads an expert that hold() did not return.
int32_t ExpertCache::take_slot() {
  const int32_t taken = by_use_.front();
  by_use_.splice(by_use_.end(), by_use_, by_use_.begin());
  Slot& slot = slots_[static_cast<size_t>(taken)];
  if (slot.layer >= 0)
    layers_[static_cast<size_t>(slot.layer)].slot[static_cast<size_t>(slot.expert)] = -1;
  slot.layer = slot.expert = -1;
  return taken;
}

void ExpertCache::load(int layer_index, std::span<const int> experts) {
  Layer& layer = layers_[static_cast<size_t>(layer_index)];
  taken_.clear();
  for (size_t i = 0; i < experts.size(); ++i) taken_.push_back(take_slot());
  int64_t each = 0;  // tasks of an expert
  for (const PartLayout& part : layer.parts) each += part.blocks;
  const int64_t step = pack_step(ops_);
  std::atomic<bool> failed = false;
  device_.pool().parallel_for(each * static_cast<int64_t>(experts.size()), [&](int64_t t, int) {
    const auto i = static_cast<size_t>(t / each);
    int64_t block = t % each;
    int part = 0;
    for (; block >= layer.parts[part].blocks; ++part) block -= layer.parts[part].blocks;
    const PartLayout& layout = layer.parts[part];
    const ExpertMatrices& all = matrices(layer.sources, part);
    std::byte* to = memory_.data() + static_cast<size_t>(taken_[i]) * slot_bytes_ + layout.at;
    try {
      pack_part(all.experts[static_cast<size_t>(experts[i])], all.order, layout.spec, layout.rows,
                block * step, ops_, to);
    } catch (const std::bad_alloc&) {  // no thread of the pool may throw
      failed = true;
    }
  });
  if (failed) throw std::bad_alloc();
  for (size_t i = 0; i < experts.size(); ++i) {
    Slot& slot = slots_[static_cast<size_t>(taken_[i])];
    slot.layer = layer_index;
    slot.expert = experts[i];
    layer.slot[static_cast<size_t>(experts[i])] = taken_[i];
  }
  device_.copy_in(layer.slot_on_device.data(), layer.slot.data(),
                  layer.slot.size() * sizeof(int32_t));
  stats_.loads += static_cast<int64_t>(experts.size());
  stats_.loaded_bytes += static_cast<int64_t>(experts.size() * layer.packed_bytes);
  // The packed form is what is held; the file's pages are left to the system.
  for_pieces(layer, experts, [](const MappedFile& file, size_t at, size_t size) {
    const size_t begin = at - std::min(at, kFaultAround);
    file.drop(begin, std::min(at + size + kFaultAround, file.bytes().size()) - begin);
  });
}

template <typename Body>
void ExpertCache::for_pieces(const Layer& layer, std::span<const int> experts,
                             const Body& body) const {
  for (int part = 0; part < kExpertParts; ++part)
    for (const int e : experts) {
      const auto& source = matrices(layer.sources, part).experts[static_cast<size_t>(e)];
      for (const std::span<const std::byte> piece : quant::pieces_of(source))
        for (const MappedFile& file : files_) {  // scales may lie in another one than codes
          const std::byte* begin = file.bytes().data();
          if (piece.data() < begin || piece.data() >= begin + file.bytes().size()) continue;
          body(file, static_cast<size_t>(piece.data() - begin), piece.size());
          break;
        }
    }
}

}  // namespace ringkeep::weights
