//===- OutputFileTest.cpp -------------------------------------------------===//
#include "runtime/io/OutputFile.h"
#include "TestFiles.h"
#include <csignal>
#include <sys/resource.h>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

TEST(OutputFile, AppearsWhole) {
  TestFolder folder;
  {
    OutputFile file, other;
    ASSERT_OK(OutputFile::create(folder / "a", 6, file));
    ASSERT_OK(OutputFile::join(file.getTemporaryPath(), other));
    ASSERT_OK(other.write(3, "def", 3));
    ASSERT_OK(file.write(0, "abc", 3));
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    ASSERT_OK(file.commit());
  }
  EXPECT_EQ(readAll(folder / "a"), "abcdef");
  EXPECT_EQ(folder.list(), "a");
}

TEST(OutputFile, LeavesNothingWithoutCommit) {
  TestFolder folder;
  folder.write("a", "old");
  {
    OutputFile file;
    ASSERT_OK(OutputFile::create(folder / "a", 6, file));
    ASSERT_OK(file.write(0, "abc", 3));
  }
  EXPECT_EQ(readAll(folder / "a"), "old");
  EXPECT_EQ(folder.list(), "a");
}

TEST(OutputFile, NamesAFullDisk) {
  // A limit on the size of files stands for the disk's.
  signal(SIGXFSZ, SIG_IGN);
  rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = 4096;
  TestFolder folder;
  setrlimit(RLIMIT_FSIZE, &small);
  OutputFile file;
  Status status = OutputFile::create(folder / "a", 8192, file);
  Status text = writeWholeFile(folder / "b", std::string(8192, 'x'));
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_ERROR(status, "a: cannot allocate 8192 bytes: File too large");
  EXPECT_ERROR(text, "b: cannot allocate 8192 bytes");
  EXPECT_EQ(folder.list(), "");
}

TEST(OutputFile, NamesAFolderThatIsNotThere) {
  OutputFile file;
  EXPECT_ERROR(OutputFile::create("/nowhere/a", 1, file),
               "/nowhere/a: cannot create: No such file");
  TestFolder folder;
  EXPECT_ERROR(OutputFile::create(folder.path, 1, file), "is a folder");
  EXPECT_ERROR(OutputFile::create(folder.path + "/", 1, file),
               "is not the name of a file");
  EXPECT_ERROR(OutputFile::join(folder / "x", file), "that rank 0 made");
  folder.write("f", "");
  EXPECT_ERROR(createFolder(folder / "f/g"), "cannot create the folder");
  EXPECT_OK(createFolder(folder / "g/h"));
  EXPECT_OK(createFolder(folder / "g/h"));
}

TEST(OutputFile, NamesAReadOnlyFolder) {
  // Root may write anywhere but here.
  OutputFile file;
  EXPECT_ERROR(OutputFile::create("/proc/a", 1, file),
               "/proc/a: cannot create");
}

} // namespace
