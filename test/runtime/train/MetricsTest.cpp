//===- MetricsTest.cpp - Lines that are whole, of one writer --------------===//
#include "runtime/train/Metrics.h"
#include "test/runtime/io/TestFiles.h"
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cleave::runtime;

namespace {

std::string makeLine(int64_t step) {
  StepReport report;
  report.step = step;
  report.loss = 1.5;
  report.rankLosses = {1, 2};
  return formatJson(report);
}

/// The lines of steps [begin, end).
std::string makeLines(int64_t begin, int64_t end) {
  std::string text;
  for (int64_t step = begin; step < end; ++step)
    text += makeLine(step) + "\n";
  return text;
}

TEST(Metrics, WritesWhatIsNotFiniteAsNull) {
  StepReport report;
  report.loss = std::nan("");
  report.gradNorm = std::numeric_limits<double>::infinity();
  report.rankLosses = {-std::numeric_limits<double>::infinity(), 1};
  report.phases = {{"forward", std::nan("")}};
  std::string line = formatJson(report);
  auto object = nlohmann::json::parse(line, nullptr, false);
  ASSERT_TRUE(object.is_object()) << line;
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_TRUE(object["grad_norm"].is_null());
  EXPECT_TRUE(object["rank_losses"][0].is_null());
  EXPECT_EQ(object["rank_losses"][1], 1);
  EXPECT_TRUE(object["phases"]["forward"].is_null());
}

TEST(LineWriter, WritesLines) {
  TestFolder folder;
  std::string path = folder.write("m", "before\n");
  LineWriter writer;
  ASSERT_OK(LineWriter::create(path, writer));
  ASSERT_OK(writer.write("a"));
  EXPECT_EQ(readAll(path), "a\n");
  ASSERT_OK(writer.write("b"));
  EXPECT_EQ(readAll(path), "a\nb\n");
  EXPECT_ERROR(LineWriter::create("/nowhere/m", writer),
               "/nowhere/m: cannot create");
  EXPECT_ERROR(LineWriter::create(folder.path, writer), "Is a directory");
}

/// Two runs on one file: the second fails, and the first's lines stay whole.
TEST(LineWriter, RefusesWhatAnotherWrites) {
  TestFolder folder;
  std::string path = folder / "m";
  {
    LineWriter writer, other;
    ASSERT_OK(LineWriter::create(path, writer));
    ASSERT_OK(writer.write("mine"));
    std::string message = path + ": another process writes it";
    EXPECT_ERROR(LineWriter::create(path, other), message);
    EXPECT_ERROR(LineWriter::resume(path, 0, other), message);
    EXPECT_EQ(readAll(path), "mine\n");
  }
  LineWriter next;
  EXPECT_OK(LineWriter::create(path, next));
}

TEST(LineWriter, NamesTheProcessThatWrites) {
  TestFolder folder;
  std::string path = folder / "m";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    LineWriter writer;
    char ok = LineWriter::create(path, writer).ok();
    if (::write(ready[1], &ok, 1) == 1)
      pause();
    _exit(1);
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  LineWriter writer;
  Status status = LineWriter::create(path, writer);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_ERROR(status, path + ": another process writes it");
  // Where this file system's locks are listed.
  if (status.message().find("with id") != std::string::npos) {
    EXPECT_ERROR(status, "with id " + std::to_string(child));
  }
  EXPECT_OK(LineWriter::create(path, writer));
}

TEST(LineWriter, GoesOnFromAStep) {
  struct Case {
    const char *what;
    std::string before;
    int64_t firstStep;
    std::string kept;
  } cases[] = {
      {"nothing", "", 5, ""},
      {"all", makeLines(0, 5), 5, makeLines(0, 5)},
      {"some", makeLines(0, 8), 5, makeLines(0, 5)},
      {"none", makeLines(3, 8), 3, ""},
      {"a cut line", makeLines(0, 4) + makeLine(4).substr(0, 60), 9,
       makeLines(0, 4)},
      {"a line without its end", makeLines(0, 4) + makeLine(4), 9,
       makeLines(0, 4)},
      {"a cut digit", makeLines(0, 2) + "{\"step\":1", 9, makeLines(0, 2)},
      {"other text", "x\n\n" + makeLines(0, 3) + "{}\n[]\n{\"step\":-1}\n", 9,
       makeLines(0, 3)},
      {"other orders", "{\"loss\": 1, \"step\": 2}\n{ \"step\" : 7}\n", 3,
       "{\"loss\": 1, \"step\": 2}\n"},
      {"a run inside", makeLines(0, 6) + makeLines(2, 4), 4,
       makeLines(0, 4) + makeLines(2, 4)},
      {"steps as text", "{\"step\":\"1\"}\n{\"step\":1.5}\n", 3, ""},
  };
  for (const Case &c : cases) {
    TestFolder folder;
    std::string path = folder.write("m", c.before);
    LineWriter writer;
    ASSERT_OK(LineWriter::resume(path, c.firstStep, writer));
    EXPECT_EQ(readAll(path), c.kept) << c.what;
    ASSERT_OK(writer.write("next"));
    EXPECT_EQ(readAll(path), c.kept + "next\n") << c.what;
  }
  TestFolder folder;
  LineWriter writer;
  ASSERT_OK(LineWriter::resume(folder / "new", 5, writer));
  EXPECT_EQ(readAll(folder / "new"), "");
}

/// The disk is full for a while: no half a line, and it goes on after.
TEST(LineWriter, LeavesNoHalfLineOnAFullDisk) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = 100;
  TestFolder folder;
  LineWriter writer;
  ASSERT_OK(LineWriter::create(folder / "m", writer));
  std::string line(59, 'x');
  ASSERT_OK(writer.write(line));
  setrlimit(RLIMIT_FSIZE, &small);
  Status status = writer.write(line);
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_ERROR(status, "m: cannot write: File too large");
  EXPECT_EQ(readAll(folder / "m"), line + "\n");
  ASSERT_OK(writer.write("y"));
  EXPECT_EQ(readAll(folder / "m"), line + "\ny\n");
  EXPECT_OK(LineWriter::create("/dev/full", writer));
  EXPECT_ERROR(writer.write("x"), "/dev/full: cannot write: No space left");
}

TEST(LineWriter, DoesNotWaitForAPipesReader) {
  TestFolder folder;
  std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  LineWriter writer;
  EXPECT_ERROR(LineWriter::create(path, writer), "pipe: is a pipe that nobody");
  int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_OK(LineWriter::create(path, writer));
  ASSERT_OK(writer.write("line"));
  char bytes[5];
  EXPECT_EQ(read(reader, bytes, 5), 5);
  close(reader);
}

} // namespace
