#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/files.h"

namespace ringkeep::checkpoint {
namespace {

class Resolve : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      saved_[name] = value != nullptr ? std::optional<std::string>(value) : std::nullopt;
      ::unsetenv(name);
    }
    ::setenv("HOME", folder.path().c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_)
      if (value)
        ::setenv(name.c_str(), value->c_str(), 1);
      else
        ::unsetenv(name.c_str());
  }
  testing::TempFolder folder;

 private:
  std::map<std::string, std::optional<std::string>> saved_;
};

TEST_F(Resolve, Demo) {
  EXPECT_INPUT_ERROR(resolve("demo"), "scripts/get-demo-model");
  const std::string file = folder.write(".cache/ringkeep/gemma-3-270m-q4_k_m.gguf", "x");
  EXPECT_EQ(resolve("demo").value(), file);
  ::setenv("XDG_CACHE_HOME", (folder / "other").c_str(), 1);
  EXPECT_INPUT_ERROR(resolve("demo"), folder / "other");
}

TEST_F(Resolve, WithoutHomeTheAccountsFolderCounts) {
  ::unsetenv("HOME");
  const passwd* account = ::getpwuid(::getuid());
  if (account == nullptr) GTEST_SKIP() << "the user has no account";
  const auto missing = resolve("org/no-such-model");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find(std::string(account->pw_dir) + "/.cache"),
            std::string::npos)
      << missing.error().message;
}

TEST_F(Resolve, HuggingFaceCache) {
  EXPECT_INPUT_ERROR(resolve("org/some-model.v1"), "hf download org/some-model.v1");
  const auto check = [&](const std::string& cache) {
    folder.write(cache + "/models--org--name/refs/main", "abc123\n");
    EXPECT_INPUT_ERROR(resolve("org/name"), "hf download org/name");
    folder.write(cache + "/models--org--name/snapshots/abc123/config.json", "{}");
    EXPECT_EQ(resolve("org/name").value(),
              folder / (cache + "/models--org--name/snapshots/abc123"));
  };
  check(".cache/huggingface/hub");
  ::setenv("HF_HOME", (folder / "home").c_str(), 1);
  check("home/hub");
  ::setenv("HF_HUB_CACHE", (folder / "hub").c_str(), 1);
  check("hub");
  folder.write("hub/models--org--gguf/refs/main", "r");
  const std::string file = folder.write("hub/models--org--gguf/snapshots/r/m.gguf", "x");
  EXPECT_EQ(resolve("org/gguf").value(), file);
  folder.write("hub/models--org--name/refs/main", "../../..");
  EXPECT_INPUT_ERROR(resolve("org/name"), "the name of a revision");
}

// As llama.cpp spells it: the file of a quantization, or a file by its name.
TEST_F(Resolve, FilesOfARepository) {
  ::setenv("HF_HUB_CACHE", (folder / "hub").c_str(), 1);
  const std::string root = "hub/models--acme--gg/";
  const std::string snapshot = root + "snapshots/r/";
  folder.write(root + "refs/main", "r");
  const std::string blob = folder.write(root + "blobs/0123", "x");
  const std::string q4 = folder.write(snapshot + "gg-Q4_K_M.gguf", "x");
  const std::string small = folder.write(snapshot + "gg-q4_k.gguf", "x");
  const std::string big = folder.write(snapshot + "BF16/gg-BF16-00001-of-00002.gguf", "x");
  folder.write(snapshot + "BF16/gg-BF16-00002-of-00002.gguf", "x");
  folder.write(snapshot + "mmproj-gg-BF16.gguf", "x");
  std::filesystem::create_symlink("../../blobs/0123", folder / (snapshot + "gg.Q8_0.gguf"));
  EXPECT_EQ(resolve("acme/gg:Q4_K_M").value(), q4);
  EXPECT_EQ(resolve("acme/gg:q4_k_m").value(), q4);
  EXPECT_EQ(resolve("acme/gg:Q4_K").value(), small);
  EXPECT_EQ(resolve("acme/gg:Q8_0").value(), folder / (snapshot + "gg.Q8_0.gguf"));
  EXPECT_EQ(resolve("acme/gg:bf16").value(), big);
  EXPECT_EQ(resolve("acme/gg/gg-Q4_K_M.gguf").value(), q4);
  EXPECT_EQ(resolve("acme/gg/BF16/gg-BF16-00001-of-00002.gguf").value(), big);

  const std::string all =
      "BF16/gg-BF16-00001-of-00002.gguf, gg-Q4_K_M.gguf, gg-q4_k.gguf, gg.Q8_0.gguf";
  EXPECT_INPUT_ERROR(resolve("acme/gg:Q5_K_M"), all);
  EXPECT_INPUT_ERROR(resolve("acme/gg/Q4_K_M.gguf"), all);
  EXPECT_INPUT_ERROR(resolve("acme/gg:Q"), all);
  folder.write(snapshot + "gg-it-Q8_0.gguf", "x");
  EXPECT_INPUT_ERROR(resolve("acme/gg:Q8_0"),
                     "2 files fit, name one of them: gg-it-Q8_0.gguf, gg.Q8_0.gguf");
  EXPECT_INPUT_ERROR(resolve("acme/other:Q8_0"), "hf download acme/other");
}

TEST_F(Resolve, NamesDoNotLeaveTheCache) {
  ::setenv("HF_HUB_CACHE", (folder / "hub").c_str(), 1);
  folder.write("hub/models--acme--gg/refs/main", "r");
  folder.write("hub/models--acme--gg/snapshots/r/gg-Q8_0.gguf", "x");
  folder.write("hub/models--acme--gg/secret.gguf", "x");
  for (const std::string name :
       {"acme/gg/../../secret.gguf", "acme/gg/./gg-Q8_0.gguf", "acme/gg//gg-Q8_0.gguf",
        "acme/gg:../../secret", "acme/gg:/etc/x", "acme/gg:", "acme/gg:.", "../gg:Q8_0",
        "acme/..:Q8_0", "acme/gg/x.gguf:Q8_0", "acme/gg/refs", "/acme/gg:Q8_0", "acme:Q8_0"})
    EXPECT_INPUT_ERROR(resolve(name), "no such file or folder");
}

TEST_F(Resolve, Paths) {
  EXPECT_INPUT_ERROR(resolve(""), "no model");
  EXPECT_INPUT_ERROR(resolve(folder / "absent.gguf"), "no such file or folder");
  EXPECT_INPUT_ERROR(resolve("absent.gguf"), "no such file or folder");
  const std::string one = folder.write("m/one.gguf", "x");
  EXPECT_EQ(resolve(one).value(), one);
  EXPECT_EQ(resolve(folder / "m").value(), one);
  folder.write("m/two.gguf", "x");
  EXPECT_INPUT_ERROR(resolve(folder / "m"), "2 GGUF models");
  EXPECT_INPUT_ERROR(open(one), "GGUF magic");
  const std::string weights = folder.write("w/model.safetensors", "x");
  EXPECT_INPUT_ERROR(resolve(weights), "give the folder that holds it");
}

}  // namespace
}  // namespace ringkeep::checkpoint
