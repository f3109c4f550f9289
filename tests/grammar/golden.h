// The goldens of tests/golden/grammar: written by tools/make_grammar_goldens.py.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace ringkeep::grammar {

inline nlohmann::ordered_json golden(const std::string& name) {
  const std::string path = std::string(RK_SOURCE_DIR) + "/tests/golden/grammar/" + name;
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  return nlohmann::ordered_json::parse(in)["cases"];
}

}  // namespace ringkeep::grammar
