//===- CommandLineTest.cpp - Exit codes and messages ----------------------===//
#include "runtime/io/Safetensors.h"
#include "test/runtime/train/RunToy.h"

using namespace cleave::runtime;
using namespace cleave::test;

namespace {

/// One message on stderr with `part` in it, and nothing left behind but
/// `files`.
void expectFailure(const TestFolder &folder, const std::string &arguments,
                   int exitCode, const std::string &part,
                   const std::string &files,
                   const std::string &environment = getLayout(2, 1),
                   const std::string &launcher = "") {
  SCOPED_TRACE(environment + " " + arguments);
  ToyResult result = runToy(folder, arguments, environment, launcher);
  EXPECT_EQ(result.exitCode, exitCode) << result.out;
  EXPECT_EQ(result.err.rfind("error: ", 0), 0u) << result.err;
  if (launcher.empty()) {
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1)
        << result.err;
  }
  EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("error: ", 1), std::string::npos) << result.err;
  EXPECT_EQ(folder.list(), files);
}

TEST(CommandLine, SaysWhatIsWrong) {
  TestFolder folder;
  folder.write("text", std::string(100, '\1'));
  std::string data = "--data " + (folder / "text") + " --steps 2 ";
  auto fails = [&](const std::string &arguments, const std::string &part) {
    expectFailure(folder, data + arguments, 1, part, "text");
  };
  expectFailure(folder, "--steps 2", 2, "expects --data or --tokens", "text");
  expectFailure(folder, data + "--lr x", 2, "--lr", "text");
  expectFailure(folder, "--data /nowhere --steps 2", 1, "/nowhere: cannot open",
                "text");
  fails("--init /nowhere", "/nowhere: cannot open");
  fails("--init " + folder.path, "has neither model.safetensors nor");
  fails("--export /proc/x", "/proc/x: cannot create the folder");
  fails("--export /proc", "/proc/model.safetensors: cannot create");
  fails("--metrics /nowhere/m", "/nowhere/m: cannot create");
  fails("--trace /nowhere/t", "/nowhere/t: cannot create");
  fails("--dump-outputs /nowhere/d", "/nowhere/d: cannot create");
  fails("--metrics /dev/full", "/dev/full: cannot write: No space left");
  fails("--threads 3", "compiled for 1 to 2");
  expectFailure(folder, data + "--lr 1e38", 5, "the loss is infinite", "text");
  folder.write("text", "hello");
  expectFailure(folder, data, 1, "token", "text");
  folder.write("text", "\1\2");
  expectFailure(folder, data, 1, "has 2 tokens in all; one sample needs 5",
                "text");
}

TEST(CommandLine, NamesADamagedProgram) {
  TestFolder folder;
  folder.write("text", std::string(100, '\1'));
  for (int byte : {0, 9, 13, 20, 100, 1000})
    expectFailure(folder, "--data " + (folder / "text") + " --steps 1", 1, "",
                  "text",
                  getLayout(1, 1) + " TOY_DAMAGE=" + std::to_string(byte));
}

TEST(CommandLine, LeavesNoFileWhenTheDiskIsFull) {
  // A limit on the size of files stands for the disk's. What is printed goes
  // through a pipe, which has none.
  TestFolder folder;
  folder.write("text", std::string(100, '\1'));
  std::filesystem::create_directory(folder / "out");
  for (const char *option :
       {"--export", "--trace", "--metrics", "--dump-outputs"}) {
    SCOPED_TRACE(option);
    std::string target = folder / "out";
    if (std::string(option) != "--export")
      target += "/file";
    std::string command = "ulimit -f 0; TOY_DP=2 timeout 120 " CLEAVE_TOY_TRAIN
                          " --data " +
                          (folder / "text") + " --steps 1 " + option + " " +
                          target + " 2>&1 >/dev/null";
    FILE *pipe = popen(command.c_str(), "r");
    ASSERT_TRUE(pipe);
    std::string err;
    for (int c; (c = std::fgetc(pipe)) != EOF;)
      err += char(c);
    int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
    EXPECT_EQ(err.rfind("error: rank 0: " + (folder / "out"), 0), 0u) << err;
    EXPECT_NE(err.find("File too large"), std::string::npos) << err;
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
    // --metrics is a log: the file stays, empty.
    std::filesystem::remove(folder / "out/file");
    EXPECT_TRUE(std::filesystem::is_empty(folder / "out"));
  }
}

TEST(CommandLine, NamesAWrongWorldSize) {
  if (std::string(CLEAVE_MPIRUN).empty())
    GTEST_SKIP() << "no Open MPI here";
  TestFolder folder;
  folder.write("text", std::string(100, '\1'));
  std::string data = "--data " + (folder / "text") + " --steps 1 ";
  ToyResult result = runToy(folder, data, getLayout(2, 1), mpirun + "-np 3 ");
  EXPECT_NE(result.exitCode, 0);
  size_t first = result.err.find("error: the launcher started 3 ranks, but the "
                                 "program was compiled for 2");
  EXPECT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("error: ", first + 1), std::string::npos)
      << result.err;
  // A failure that all ranks have is told once.
  result = runToy(folder, "--data /nowhere --steps 1", getLayout(2, 1),
                  mpirun + "-np 2 ");
  EXPECT_NE(result.exitCode, 0);
  first = result.err.find("error: /nowhere: cannot open");
  EXPECT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("error: ", first + 1), std::string::npos)
      << result.err;
}

TEST(CommandLine, Helps) {
  TestFolder folder;
  ToyResult result = runToy(folder, "--help");
  EXPECT_EQ(result.exitCode, 0);
  EXPECT_NE(result.out.find("--dump-outputs"), std::string::npos);
  EXPECT_EQ(result.err, "");
}

TEST(CommandLine, ShowsProgress) {
  TestFolder folder;
  folder.write("text", std::string(100, '\1'));
  ToyResult result =
      runToy(folder, "--data " + (folder / "text") + " --steps 5 --log-every 2",
             getLayout(2, 2));
  ASSERT_EQ(result.exitCode, 0) << result.err;
  EXPECT_NE(
      result.out.find(
          "4 ranks (dp=2 x tp=2), local, 2 CPU threads; batch 8 x 4 tokens"),
      std::string::npos)
      << result.out;
  for (const char *line : {"step 1/5  loss ", "step 3/5  loss ",
                           "step 5/5  loss ", "5 steps in ", "high-water mark"})
    EXPECT_NE(result.out.find(line), std::string::npos) << line << result.out;
  EXPECT_EQ(result.out.find("step 2/5"), std::string::npos);
}

} // namespace
