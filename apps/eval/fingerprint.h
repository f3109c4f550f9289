// What a result depends on, so that a work file of something else is not continued.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"
#include "config/cache_flags.h"

namespace ringkeep::eval {

// 64-bit FNV-1a as 16 hexadecimal digits: tells files apart, no protection against forgery.
std::string hash_text(std::span<const std::byte> bytes);

// Configuration, tensor names, and of every file its size and samples of its bytes.
std::string hash_model(const checkpoint::Checkpoint& checkpoint);

// The flags that every cache of the run shares.
nlohmann::json describe(const CacheFlags& flags);

}  // namespace ringkeep::eval
