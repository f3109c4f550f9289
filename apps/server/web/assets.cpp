#include "server/web/assets.h"

namespace ringkeep::web {

const Asset* lookup(std::string_view path) {
  for (const Asset& asset : assets()) {
    if (asset.path == path) return &asset;
  }
  return nullptr;
}

}  // namespace ringkeep::web
