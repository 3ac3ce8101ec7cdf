//===- ChoiceCacheTest.cpp ------------------------------------------------===//
#include "runtime/cuda/ChoiceCache.h"
#include "runtime/cuda/CublasLt.h"
#include "test/runtime/io/TestFiles.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cleave::runtime::cuda;

namespace {

class ChoiceCacheTest : public testing::Test {
protected:
  ChoiceCacheTest() { setenv("CLEAVE_CACHE", folder.path.c_str(), 1); }
  ~ChoiceCacheTest() override {
    unsetenv("CLEAVE_CACHE");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home.c_str(), 1);
  }

  /// What is said as `body` runs.
  template <typename Body>
  static std::string listen(const Body &body) {
    testing::internal::CaptureStderr();
    body();
    return testing::internal::GetCapturedStderr();
  }
  static void keep(const std::string &name, const std::string &choice) {
    ChoiceCache cache(owner);
    cache.add(name, choice);
    cache.save();
  }
  static std::string find(const std::string &name) {
    ChoiceCache cache(owner);
    const std::string *found = cache.find(name);
    return found ? *found : "none";
  }

  static constexpr const char *owner = "cuBLASLt 130100, NVIDIA H200 (sm_90)";
  static constexpr const char *file =
      "cuBLASLt-130100-NVIDIA-H200-sm_90.choices";
  std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  TestFolder folder;
};

} // namespace

TEST_F(ChoiceCacheTest, KeepsChoicesOfOneOwner) {
  EXPECT_EQ(find("a"), "none");
  EXPECT_EQ(folder.list(), "");
  keep("a", "1");
  keep("b", "2");
  keep("a", "3");
  EXPECT_EQ(folder.list(), file);
  EXPECT_EQ(find("a"), "3");
  EXPECT_EQ(find("b"), "2");
  EXPECT_EQ(find("c"), "none");
  EXPECT_EQ(ChoiceCache("cuBLASLt 130101, NVIDIA H200 (sm_90)").find("a"),
            nullptr);
  // The checksum, bit by bit: RFC 3720, appendix B.4.
  EXPECT_EQ(readAll(folder / file), "cleave choices 1\n"
                                    "cuBLASLt 130100, NVIDIA H200 (sm_90)\n"
                                    "a\t3\nb\t2\ncrc32c 509a5ad8\n");
}

TEST_F(ChoiceCacheTest, WritesOnlyWhatIsNew) {
  keep("a", "1");
  struct stat before, after;
  ASSERT_EQ(stat((folder / file).c_str(), &before), 0);
  ChoiceCache cache(owner);
  cache.save();
  ASSERT_EQ(stat((folder / file).c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(ChoiceCacheTest, Folders) {
  ChoiceCache chosen(owner);
  EXPECT_EQ(chosen.getPath(), folder / file);
  setenv("CLEAVE_CACHE", "", 1);
  setenv("XDG_CACHE_HOME", folder.path.c_str(), 1);
  EXPECT_EQ(ChoiceCache(owner).getPath(), "");
  keep("a", "1");
  EXPECT_EQ(folder.list(), "");
  unsetenv("CLEAVE_CACHE");
  EXPECT_EQ(ChoiceCache(owner).getPath(), folder / "cleave/" + file);
  setenv("XDG_CACHE_HOME", "", 1);
  setenv("HOME", folder.path.c_str(), 1);
  EXPECT_EQ(ChoiceCache(owner).getPath(), folder / ".cache/cleave/" + file);
  keep("a", "1");
  EXPECT_EQ(find("a"), "1");
  unsetenv("HOME");
  EXPECT_EQ(ChoiceCache(owner).getPath(), "");
}

// One line, and a whole file again.
TEST_F(ChoiceCacheTest, FilesThatAreNotAsTheyShouldBe) {
  keep("a", "1");
  std::string whole = readAll(folder / file);
  std::string changed = whole;
  changed[whole.find("a\t1")] = 'b';
  std::string other = whole;
  other.replace(whole.find("H200"), 4, "H100");
  for (const auto &[text, says] :
       std::initializer_list<std::pair<std::string, std::string>>{
           {"", "does not begin as the choices of "},
           {"{\"version\": 1}\n", "does not begin as the choices of "},
           {other, "does not begin as the choices of "},
           {whole.substr(0, whole.size() - 1), "does not have the checksum"},
           {whole.substr(0, whole.find("a\t1")), "does not have the checksum"},
           {whole + "b\t2\n", "does not have the checksum"},
           {changed, "does not have the checksum"}}) {
    folder.write(file, text);
    std::string found = "nothing";
    EXPECT_EQ(listen([&] {
                found = find("a");
              }).find("warning: " + folder / file + ": " + says),
              0u);
    EXPECT_EQ(found, "none");
    listen([&] { keep("a", "1"); });
    EXPECT_EQ(readAll(folder / file), whole);
  }
}

TEST_F(ChoiceCacheTest, FoldersThatCannotBeWrittenTo) {
  folder.write("file", "");
  setenv("CLEAVE_CACHE", (folder / "file").c_str(), 1);
  std::string said = listen([] { keep("a", "1"); });
  EXPECT_EQ(said.find("warning: what was found the fastest is not kept for "
                      "later runs: "),
            0u)
      << said;
  EXPECT_NE(said.find("; CLEAVE_CACHE names a folder for it, or is empty for "
                      "none\n"),
            std::string::npos)
      << said;
}

TEST_F(ChoiceCacheTest, ProcessesAtOnce) {
  constexpr int processes = 4, choices = 20;
  for (int process = 0; process < processes; ++process)
    if (fork() == 0) {
      for (int i = 0; i < choices; ++i)
        keep(std::to_string(process) + " " + std::to_string(i), "kept");
      _exit(0);
    }
  for (int process = 0, status = 0; process < processes; ++process) {
    wait(&status);
    EXPECT_EQ(status, 0);
  }
  for (int process = 0; process < processes; ++process)
    for (int i = 0; i < choices; ++i)
      EXPECT_EQ(find(std::to_string(process) + " " + std::to_string(i)),
                "kept");
  EXPECT_EQ(folder.list(), file);
}

TEST(MatmulAlgoText, ThereAndBack) {
  MatmulAlgo algorithm{{1, 0xfedcba9876543210, 0, 3, 4, 5, 6, UINT64_MAX}};
  std::string text = toString(algorithm);
  EXPECT_EQ(text.substr(0, 32), "0000000000000001fedcba9876543210");
  MatmulAlgo read{};
  ASSERT_TRUE(parse(text, read));
  EXPECT_EQ(std::memcmp(&read, &algorithm, sizeof(read)), 0);
  for (std::string wrong : {std::string(), text.substr(1), text + "0",
                            "g" + text.substr(1), "+" + text.substr(1)})
    EXPECT_FALSE(parse(wrong, read)) << wrong;
}
