// JSON values of nlohmann-json, taken apart without asking for memory. Their own destructor moves
// the members into a list that it makes first; where there is no memory for that the process ends.
#pragma once

namespace ringkeep {

// Recursive: for values whose depth was bounded when they were read.
template <typename Json>
void release_json(Json& value) noexcept {
  if (value.is_array()) {
    auto& items = *value.template get_ptr<typename Json::array_t*>();
    for (Json& item : items) release_json(item);
    items.clear();
  } else if (value.is_object()) {
    auto& members = *value.template get_ptr<typename Json::object_t*>();
    for (auto& member : members) release_json(member.second);
    members.clear();
  }
}

// Takes `value` apart at the end of a scope.
template <typename Json>
class JsonRelease {
 public:
  explicit JsonRelease(Json& value) : value_(value) {}
  JsonRelease(const JsonRelease&) = delete;
  JsonRelease& operator=(const JsonRelease&) = delete;
  ~JsonRelease() { release_json(value_); }

 private:
  Json& value_;
};

}  // namespace ringkeep
