#include "server/web/assets.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace ringkeep::web {
namespace {

std::string read(const std::string& name) {
  std::ifstream file(std::string(RK_SOURCE_DIR) + "/apps/server/web/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Assets, AreTheFilesOfTheFolder) {
  ASSERT_GE(assets().size(), 10u);
  std::set<std::string_view> etags;
  for (const Asset& asset : assets()) {
    SCOPED_TRACE(asset.path);
    const std::string name(asset.path == "/" ? "index.html" : asset.path.substr(1));
    EXPECT_EQ(asset.bytes, read(name));
    EXPECT_EQ(lookup(asset.path), &asset);
    EXPECT_TRUE(asset.etag.size() > 10 && asset.etag.front() == '"' && asset.etag.back() == '"');
    etags.insert(asset.etag);
  }
  EXPECT_EQ(etags.size(), assets().size());
  EXPECT_EQ(lookup("/index.htm"), nullptr);
  EXPECT_EQ(lookup(""), nullptr);
  EXPECT_EQ(lookup("/app.js")->content_type, "text/javascript; charset=utf-8");
}

// What a file asks for is there, and nothing lies elsewhere.
TEST(Assets, NeedNothingElse) {
  const std::regex reference(R"re((?:src=|href=|from |url\()["'](?!#)([^"']+)["'])re");
  int found = 0;
  for (const Asset& asset : assets()) {
    if (asset.path.ends_with(".svg")) continue;
    const std::string text(asset.bytes);
    for (std::sregex_iterator it(text.begin(), text.end(), reference), end; it != end; ++it) {
      std::string target = (*it)[1];
      if (target.starts_with("./")) target.erase(0, 2);
      EXPECT_NE(lookup("/" + target), nullptr) << asset.path << " asks for " << target;
      ++found;
    }
  }
  EXPECT_GT(found, 15);
}

}  // namespace
}  // namespace ringkeep::web
