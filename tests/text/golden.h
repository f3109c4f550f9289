// The goldens of tests/golden/text: written by tools/make_tokenizer_goldens.py.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace ringkeep::text {

using Json = nlohmann::ordered_json;

inline Json golden(const std::string& name) {
  const std::string path = std::string(RK_SOURCE_DIR) + "/tests/golden/text/" + name;
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  return Json::parse(in);
}

}  // namespace ringkeep::text
