//===- OutputFileTest.cpp -------------------------------------------------===//
#include "runtime/io/OutputFile.h"
#include "TestFiles.h"
#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
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

/// Forks a process that creates `path` and says so; it waits to be killed.
pid_t startWriter(const std::string &path) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    OutputFile file;
    char ok = OutputFile::create(path, 100, file).ok();
    if (::write(ready[1], &ok, 1) == 1)
      pause();
    _exit(1);
  }
  close(ready[1]);
  char ok = 0;
  EXPECT_EQ(read(ready[0], &ok, 1), 1);
  EXPECT_EQ(ok, 1);
  close(ready[0]);
  return child;
}

void endWriter(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(OutputFile, RemovesWhatAKilledProcessLeft) {
  TestFolder folder;
  pid_t child = startWriter(folder / "a");
  std::string left = folder.list();
  EXPECT_EQ(left.rfind("a.tmp-", 0), 0u) << left;
  // While it lives, it is not touched.
  ASSERT_OK(writeWholeFile(folder / "a", "one"));
  EXPECT_EQ(folder.list(), "a " + left);
  endWriter(child);
  EXPECT_EQ(folder.list(), "a " + left);
  // That of another file stays.
  ASSERT_OK(writeWholeFile(folder / "b", "two"));
  EXPECT_EQ(folder.list(), "a " + left + " b");
  ASSERT_OK(writeWholeFile(folder / "a", "three"));
  EXPECT_EQ(folder.list(), "a b");
  EXPECT_EQ(readAll(folder / "a"), "three");
}

TEST(OutputFile, LeavesWhatMayBeAnothers) {
  TestFolder folder;
  // No such names are its own; a backup of a user's is one.
  for (const char *name : {"a.tmp-backup", "a.tmp-1", "a.tmp-", "a.tmp-x-1",
                           "a.tmp--1-2", "aa.tmp-x-1-2", "b.tmp-x-1-2"})
    folder.write(name, "x");
  std::string others = folder.list();
  folder.write("a.tmp-other.host-17-0", "x");
  std::string all = folder.list();
  // Another host's: its lock may not be seen here, so it must also be old.
  ASSERT_OK(writeWholeFile(folder / "a", "one"));
  EXPECT_EQ(folder.list(), "a " + all);
  timespec old[2] = {};
  old[0].tv_sec = old[1].tv_sec = time(nullptr) - 3700;
  utimensat(AT_FDCWD, (folder / "a.tmp-other.host-17-0").c_str(), old, 0);
  int fd = open((folder / "a.tmp-other.host-17-0").c_str(), O_RDWR);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  ASSERT_OK(writeWholeFile(folder / "a", "two"));
  EXPECT_EQ(folder.list(), "a " + all);
  close(fd);
  ASSERT_OK(writeWholeFile(folder / "a", "three"));
  EXPECT_EQ(folder.list(), "a " + others);
}

/// Threads and processes that write one name at once: each time one whole file
/// wins, and nothing else is left.
TEST(OutputFile, WritersOfOneNameDoNotDisturbEachOther) {
  TestFolder folder;
  std::vector<pid_t> children;
  auto writeMany = [&](char letter) {
    std::string text(5000, letter);
    for (int i = 0; i < 100; ++i)
      if (Status status = writeWholeFile(folder / "a", text); !status.ok())
        return status;
    return Status();
  };
  for (char letter : {'a', 'b', 'c'})
    if (children.emplace_back(fork()); children.back() == 0)
      _exit(writeMany(letter).ok() ? 0 : 1);
  std::vector<std::thread> threads;
  for (char letter : {'d', 'e', 'f'})
    threads.emplace_back([&, letter] { EXPECT_OK(writeMany(letter)); });
  for (std::thread &thread : threads)
    thread.join();
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(folder.list(), "a");
  std::string text = readAll(folder / "a");
  EXPECT_EQ(text, std::string(5000, text[0]));
}

TEST(OutputFile, SaysWhatSpaceIsMissing) {
  TestFolder folder;
  EXPECT_OK(checkFreeSpace(folder.path, 0));
  EXPECT_OK(checkFreeSpace(folder / "not/there/yet", 1));
  EXPECT_OK(checkFreeSpace("relative", 1));
  EXPECT_OK(checkFreeSpace("", 1));
  std::string much = std::to_string(UINT64_MAX);
  EXPECT_ERROR(checkFreeSpace(folder / "x", UINT64_MAX),
               "x: needs " + much + " bytes, but its disk has ");
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
