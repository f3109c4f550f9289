// The adapters of an engine.
#include <algorithm>
#include <charconv>

#include "base/sha256.h"
#include "engine/engine_state.h"

namespace ringkeep::engine {

Result<std::vector<weights::AdapterSource>> Engine::State::open_adapters(
    const EngineOptions& options, const ModelConfig& config) {
  if (options.adapter < -1 || options.adapter >= static_cast<int>(options.adapters.size()))
    return make_error(ErrorKind::usage, "adapter {} of {}", options.adapter,
                      options.adapters.size());
  std::vector<weights::AdapterSource> sources;
  for (const AdapterOption& option : options.adapters)
    sources.push_back(RK_TRY(weights::AdapterSource::open(option.path, option.scale, config)));
  return sources;
}

Status Engine::State::load_adapters(std::span<const weights::AdapterSource> sources) {
  for (size_t i = 0; i < sources.size(); ++i) {
    adapters.push_back(
        RK_TRY(weights::Adapter::load(sources[i], model->weights(), ops, exec.device())));
    const weights::Adapter& adapter = adapters.back();
    RK_TRY(model->reserve_adapter(adapter.sizes(), exec.device()));
    adapter_infos.push_back({options.adapters[i], adapter.sha256(), adapter.sizes().bytes});
  }
  return {};
}

uint64_t Engine::State::salt_with(int index, uint64_t salt) const {
  const weights::Adapter* used = adapter(index);
  if (used == nullptr) return salt;
  const std::string sum = sha256_hex(fmt::format("{} {}", used->sha256(), salt));
  uint64_t mixed = 0;
  std::from_chars(sum.data(), sum.data() + 16, mixed, 16);
  return mixed;
}

const std::vector<AdapterInfo>& Engine::adapters() const { return state_->adapter_infos; }
size_t Engine::adapter_bytes() const {
  size_t bytes = 0;
  for (const AdapterInfo& info : adapters()) bytes += info.bytes;
  return bytes;
}
const weights::Adapter* Engine::adapter() const { return state_->adapter(state_->options.adapter); }

}  // namespace ringkeep::engine
