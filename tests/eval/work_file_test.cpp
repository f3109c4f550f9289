// A work file keeps what was finished, drops what was cut short, and touches no other file.
#include "eval/work_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "checkpoint/files.h"

namespace ringkeep::eval {
namespace {

using Json = nlohmann::json;

class WorkFileTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/work.jsonl"; }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void fill() {
    auto work = WorkFile::open(path(), fingerprint_);
    ASSERT_TRUE(work.ok()) << work.error().message;
    ASSERT_TRUE(work->add("a", Json{{"x", 0.1}}).ok());
    ASSERT_TRUE(work->add("b", Json{1, 2, 3}).ok());
  }
  ringkeep::testing::TempFolder folder_;
  const Json fingerprint_ = {{"model", "m"}, {"ctx", 4096}};
};

TEST_F(WorkFileTest, GoesOnWhereItStopped) {
  fill();
  auto work = WorkFile::open(path(), fingerprint_);
  ASSERT_TRUE(work.ok());
  EXPECT_FALSE(work->restarted);
  ASSERT_NE(work->find("a"), nullptr);
  EXPECT_EQ((*work->find("a"))["x"].get<double>(), 0.1);  // bit for bit
  EXPECT_EQ(work->find("c"), nullptr);
  ASSERT_TRUE(work->add("c", true).ok());
  EXPECT_EQ(WorkFile::open(path(), fingerprint_)->size(), 3u);
}

TEST_F(WorkFileTest, ALineThatWasCutShortIsDropped) {
  fill();
  const std::string whole = content();
  for (size_t cut = 1; cut <= 12; ++cut) {
    std::ofstream(path(), std::ios::binary) << whole.substr(0, whole.size() - cut);
    auto work = WorkFile::open(path(), fingerprint_);
    ASSERT_TRUE(work.ok());
    EXPECT_NE(work->find("a"), nullptr);
    EXPECT_EQ(work->find("b"), nullptr) << cut;
    ASSERT_TRUE(work->add("b", Json{1, 2, 3}).ok());
    EXPECT_EQ(content(), whole) << cut;
  }
}

TEST_F(WorkFileTest, AnotherFingerprintStartsAnew) {
  fill();
  auto work = WorkFile::open(path(), Json{{"model", "other"}});
  ASSERT_TRUE(work.ok());
  EXPECT_TRUE(work->restarted);
  EXPECT_EQ(work->size(), 0u);
}

TEST_F(WorkFileTest, AFileOfAnotherKindIsLeftAlone) {
  for (const std::string text : {"a novel\n", "{\"key\": 1}\n", "[1, 2]\n", "no newline"}) {
    std::ofstream(path(), std::ios::binary) << text;
    const auto work = WorkFile::open(path(), fingerprint_);
    ASSERT_FALSE(work.ok()) << text;
    EXPECT_EQ(work.error().kind, ErrorKind::usage);
    EXPECT_EQ(content(), text);
  }
  EXPECT_EQ(WorkFile::open(folder_.path(), fingerprint_).error().kind, ErrorKind::usage);
  EXPECT_EQ(WorkFile::open("/proc/none/work", fingerprint_).error().kind, ErrorKind::runtime);
}

TEST_F(WorkFileTest, RemoveTakesTheFileAway) {
  fill();
  auto work = WorkFile::open(path(), fingerprint_);
  ASSERT_TRUE(work.ok());
  work->remove();
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_NE(work->find("a"), nullptr);
}

}  // namespace
}  // namespace ringkeep::eval
