//===- InputFileTest.cpp - Files that are not files, or are cut short -----===//
#include "TestFiles.h"
#include "runtime/io/HuggingFaceWeights.h"
#include "runtime/io/TokenStream.h"
#include <csignal>
#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

/// Opening a pipe for reading would wait for a writer, for ever.
TEST(InputFile, RefusesWhatIsNotARegularFile) {
  TestFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (folder / "socket").c_str());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)),
            0);
  close(fd);
  for (auto [path, kind] : {std::pair(folder / "pipe", "a pipe"),
                            {folder / "socket", "a socket"},
                            {folder.path, "a folder"},
                            {std::string("/dev/null"), "a character device"}}) {
    std::string message =
        path + ": is not a regular file, but " + std::string(kind);
    InputFile file;
    EXPECT_ERROR(InputFile::open(path, file), message);
    MappedFile mapped;
    EXPECT_ERROR(MappedFile::open(path, mapped), message);
    TokenStream stream;
    EXPECT_ERROR(TokenStream::open({path}, stream), message);
    if (path != folder.path) {
      HuggingFaceWeights weights;
      EXPECT_ERROR(HuggingFaceWeights::open(path, weights), message);
    }
  }
  InputFile file;
  EXPECT_ERROR(InputFile::open(folder / "none", file), "none: cannot open: No");
}

TEST(InputFile, ReadsWhatIsThere) {
  TestFolder folder;
  InputFile file;
  ASSERT_OK(InputFile::open(folder.write("f", "0123456789"), file));
  EXPECT_EQ(file.getSize(), 10u);
  char bytes[4];
  ASSERT_OK(file.read(3, 4, bytes));
  EXPECT_EQ(std::string(bytes, 4), "3456");
  std::string all;
  ASSERT_OK(file.readAll(all));
  EXPECT_EQ(all, "0123456789");
  EXPECT_OK(file.checkSize());
  std::filesystem::resize_file(folder / "f", 5);
  EXPECT_ERROR(file.read(3, 4, bytes),
               "f: ends at byte 5, inside the 4 bytes at byte 3; it had 10");
  EXPECT_ERROR(file.checkSize(), "f: ends at byte 5; it had 10 bytes when");
}

int countDescriptors() {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder))
    ++count;
  closedir(folder);
  return count;
}

/// A process of many ranks opens each file once for each of them.
TEST(InputFile, TakesOneDescriptorAFile) {
  TestFolder folder;
  std::string path = folder.write("f", "text");
  int before = countDescriptors();
  {
    std::vector<InputFile> files(1000);
    for (InputFile &file : files)
      ASSERT_OK(InputFile::open(path, file));
    EXPECT_EQ(countDescriptors(), before + 1);
    // Another file of that name is not taken for this one.
    std::filesystem::remove(path);
    folder.write("f", "more text");
    InputFile other;
    ASSERT_OK(InputFile::open(path, other));
    std::string text;
    ASSERT_OK(other.readAll(text));
    EXPECT_EQ(text, "more text");
    ASSERT_OK(files[999].readAll(text));
    EXPECT_EQ(text, "text");
  }
  EXPECT_EQ(countDescriptors(), before);
}

TEST(MappedFile, SaysWhatWasCutOff) {
  TestFolder folder;
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  for (size_t left : {size_t(0), page - 1, page, 2 * page + 5, 4 * page - 1}) {
    std::string path = folder.write("f", std::string(4 * page, 'x'));
    MappedFile file, whole;
    ASSERT_OK(MappedFile::open(path, file));
    ASSERT_OK(MappedFile::open(folder.write("g", "whole"), whole));
    EXPECT_OK(file.check());
    std::filesystem::resize_file(path, left);
    size_t zeros = 0;
    for (char c : file.getBytes())
      zeros += c == 0;
    EXPECT_EQ(zeros, 4 * page - left);
    EXPECT_ERROR(file.check(), "f: ends at byte " + std::to_string(left) +
                                   "; it had " + std::to_string(4 * page));
    // Grown again, what was read is still not the file's.
    std::filesystem::resize_file(path, 4 * page);
    if (left < 3 * page) {
      EXPECT_ERROR(file.check(), "could not be read");
    }
    EXPECT_OK(whole.check());
  }
}

/// The handler is not one for the faults of others.
TEST(MappedFile, LeavesOtherFaultsAlone) {
  TestFolder folder;
  MappedFile file;
  ASSERT_OK(MappedFile::open(folder.write("f", "text"), file));
  pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(20);
    raise(SIGBUS);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

TEST(HuggingFaceWeights, SaysWhatWasCutOff) {
  TestFolder folder;
  std::string data(1 << 16, 'x');
  folder.write("model.safetensors",
               makeSafetensors(R"({"a":{"dtype":"F32","shape":[16384],)"
                               R"("data_offsets":[0,65536]}})",
                               data));
  HuggingFaceWeights weights;
  ASSERT_OK(HuggingFaceWeights::open(folder.path, weights));
  EXPECT_OK(weights.check());
  std::filesystem::resize_file(folder / "model.safetensors", 5000);
  const HuggingFaceWeights::Entry *entry = weights.find("a");
  std::vector<float> values(16384);
  readAsFloat(entry->getData(), "F32", 0, 1, values.size(), values.data());
  EXPECT_EQ(values.back(), 0);
  EXPECT_ERROR(weights.check(), "model.safetensors: ends at byte 5000; it "
                                "had ");
}

} // namespace
