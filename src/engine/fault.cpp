#include "engine/fault.h"

#include <charconv>
#include <chrono>
#include <new>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

namespace ringkeep::engine {
namespace {

bool parse_count(std::string_view text, int64_t& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && value > 0;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':')) {
    parts.push_back(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  parts.push_back(text);
  return parts;
}

}  // namespace

Result<Fault> Fault::parse(const std::string& text) {
  Fault fault;
  if (text.empty()) return fault;
  const auto parts = split(text);
  int64_t seconds = 0;
  if (parts.size() == 2 && parts[0] == "throw" && parse_count(parts[1], fault.step_)) {
    fault.kind_ = Kind::raise;
  } else if (parts.size() == 2 && parts[0] == "memory" && parse_count(parts[1], fault.step_)) {
    fault.kind_ = Kind::memory_within;
  } else if (parts.size() == 3 && parts[0] == "memory" && parse_count(parts[1], fault.step_) &&
             parts[2] == "step") {
    fault.kind_ = Kind::memory;
  } else if (parts.size() == 3 && parts[0] == "memory" && parse_count(parts[1], fault.step_) &&
             parts[2] == "always") {
    fault.kind_ = Kind::memory_always;
  } else if (parts.size() == 3 && parts[0] == "stall" && parse_count(parts[1], fault.step_) &&
             parse_count(parts[2], seconds)) {
    fault.kind_ = Kind::stall;
    fault.milliseconds_ = 1000 * seconds;
  } else if (parts.size() == 2 && parts[0] == "slow" &&
             parse_count(parts[1], fault.milliseconds_)) {
    fault.kind_ = Kind::slow;
  } else {
    return make_error(ErrorKind::usage,
                      "fault: expected throw:N, memory:N, memory:N:step, memory:N:always, "
                      "stall:N:SECONDS or slow:MS, found \"{}\"",
                      text);
  }
  return fault;
}

void Fault::strike(const std::function<void()>& beat) {
  ++steps_;
  if (kind_ == Kind::slow) {
    beat();
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    beat();
  } else if (steps_ == step_ && kind_ == Kind::raise) {
    throw std::runtime_error("a fault that was asked for");
  } else if ((steps_ == step_ && kind_ == Kind::memory) ||
             (steps_ >= step_ && kind_ == Kind::memory_always)) {
    throw std::bad_alloc();
  } else if (steps_ == step_ && kind_ == Kind::stall) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
  }
}

void Fault::strike_within() {
  if (kind_ != Kind::memory_within || steps_ != step_) return;
  kind_ = Kind::none;  // once: what is tried again has the memory
  throw std::bad_alloc();
}

}  // namespace ringkeep::engine
