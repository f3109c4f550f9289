// SHA-256 against the examples of FIPS 180-4, and files that appear whole or not at all.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace ringkeep {
namespace {

TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(sha256_hex(std::string_view("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 sum;
  for (int i = 0; i < 1000; ++i) sum.update(std::string(1000, 'a'));
  const std::string million = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  EXPECT_EQ(sum.hex(), million);
  EXPECT_EQ(sum.hex(), million);  // it may be asked for on the way
  EXPECT_NE(sum.update("x").hex(), million);
}

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() { std::filesystem::create_directory(folder_); }
  ~AtomicFileTest() override { std::filesystem::remove_all(folder_); }
  std::string text() const { return read_text_file(path_, 1 << 20).value(); }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  static std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
  static Status write(const std::filesystem::path& path, std::string_view text) {
    AtomicFile file = RK_TRY(AtomicFile::create(path.string()));
    RK_TRY(file.write(bytes(text)));
    return file.commit();
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("ringkeep-atomic-{}", ::getpid());
  const std::string path_ = (folder_ / "file").string();
};

TEST_F(AtomicFileTest, AppearsWhenItIsWhole) {
  {
    AtomicFile file = AtomicFile::create(path_).value();
    file.write(bytes("0000 text")).value();
    file.write_at(1, bytes("12")).value();
    EXPECT_FALSE(std::filesystem::exists(path_));
    file.commit().value();
  }
  EXPECT_EQ(text(), "0120 text");
  {
    AtomicFile file = AtomicFile::create(path_).value();
    file.write(bytes("another")).value();
    EXPECT_EQ(text(), "0120 text");
    file.commit().value();
  }
  EXPECT_EQ(text(), "another");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, KeepsTheAccessRightsOfWhatItReplaces) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(write(path_, "first").ok());
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(write(path_, "second").ok());
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(AtomicFileTest, LeavesNothingBehind) {
  {
    AtomicFile file = AtomicFile::create(path_).value();
    file.write(bytes("given up")).value();
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(AtomicFileTest, NamesWhatCannotBeWritten) {
  for (const std::string& path : {folder_.string(), (folder_ / "none" / "file").string()}) {
    const auto file = AtomicFile::create(path);
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.error().message.find(path), std::string::npos) << file.error().message;
  }
}

TEST_F(AtomicFileTest, WritesWhereLinksLead) {
  std::filesystem::create_directory(folder_ / "other");
  std::filesystem::create_symlink("other/file", folder_ / "link");  // relative, and not there yet
  std::filesystem::create_symlink(folder_ / "link", folder_ / "again");
  for (const char* text : {"first", "second"}) {
    ASSERT_TRUE(write(folder_ / "again", text).ok());
    EXPECT_EQ(read_text_file((folder_ / "other/file").string(), 1 << 20).value(), text);
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "again"));
  std::filesystem::create_symlink("b", folder_ / "a");
  std::filesystem::create_symlink("a", folder_ / "b");
  EXPECT_NE(write(folder_ / "a", "x").error().message.find("leads nowhere"), std::string::npos);
}

TEST_F(AtomicFileTest, SaysWhatIsInTheWay) {
  std::filesystem::create_directory(folder_ / "other");
  const auto error = [&](const std::filesystem::path& path) { return write(path, "x").error(); };
  const auto folder = error(folder_ / "other");
  EXPECT_EQ(folder.kind, ErrorKind::runtime);
  EXPECT_NE(folder.message.find("expected a regular file or none, found a folder"),
            std::string::npos);
  EXPECT_NE(error("/dev/null").message.find("found a device"), std::string::npos);
  std::filesystem::create_symlink("other", folder_ / "to_other");
  EXPECT_NE(error(folder_ / "to_other").message.find("to_other (a link to "), std::string::npos);
  const std::string missing = error(folder_ / "no/file").message;
  EXPECT_NE(missing.find((folder_ / "no").string() + ":"), std::string::npos) << missing;
  // It was there when the file was begun.
  auto late = AtomicFile::create((folder_ / "other/late").string());
  ASSERT_TRUE(late.ok());
  std::filesystem::remove_all(folder_ / "other");
  const std::string gone = late->commit().error().message;
  EXPECT_NE(gone.find("other/late: cannot "), std::string::npos) << gone;
}

}  // namespace
}  // namespace ringkeep
