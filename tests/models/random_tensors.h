// Random float32 tensors, one after the other, as the safetensors file of a tiny model.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "../checkpoint/files.h"

namespace ringkeep::testing {

class RandomTensors {
 public:
  explicit RandomTensors(unsigned seed) : random_(seed) {}

  void add(const std::string& name, const std::vector<int>& shape, float mean, float width) {
    std::normal_distribution<float> normal(mean, width);
    size_t count = 1;
    for (const int extent : shape) count *= static_cast<size_t>(extent);
    Bytes bytes;
    for (size_t i = 0; i < count; ++i) bytes.put(normal(random_));
    header_[name] = {{"dtype", "F32"},
                     {"shape", shape},
                     {"data_offsets", {data_.size(), data_.size() + bytes.data.size()}}};
    data_ += bytes.data;
  }
  // NAME.weight [rows, cols], whose products are about `gain` times as large as the input.
  void matrix(const std::string& name, int rows, int cols, float gain = 1.0f) {
    add(name + ".weight", {rows, cols}, 0.0f, gain / std::sqrt(static_cast<float>(cols)));
  }
  void norm(const std::string& name, int size, float mean, float width) {
    add(name + ".weight", {size}, mean, width);
  }

  std::string& data() { return data_; }  // of all tensors, in the order they came
  void write(const TempFolder& folder, const std::string& file = "model.safetensors") const {
    const std::string text = header_.dump();
    folder.write(file, Bytes().u64(text.size()).raw(text).raw(data_).data);
  }

 private:
  std::mt19937 random_;
  nlohmann::ordered_json header_;
  std::string data_;
};

}  // namespace ringkeep::testing
