//===- RunCommand.cpp - cleave run: supervise a training run --------------===//
//
// Starts a command and starts it again when it fails; the command itself goes
// on from its newest good checkpoint. State of the supervisor is only in
// memory: killing and starting it again is always right.
//
//===----------------------------------------------------------------------===//
#include "CommandLine.h"
#include "runtime/base/ExitCodes.h"
#include "runtime/watch/Heartbeat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <cerrno>
#include <chrono>
#include <csignal>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace cleave;
using cleave::runtime::ExitCode;

namespace {

/// Restarts in a row without a new checkpoint, after which it gives up.
constexpr int maxFutileRestarts = 3;
/// Between an end and the restart: twice as long after each futile restart.
constexpr double firstBackoff = 1;

double getNow() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

void say(const llvm::Twine &message) {
  llvm::errs() << "cleave: note: " << message << "\n";
}

struct RunFlags {
  int64_t restarts = 100;
  int64_t startTimeout = 600;
  std::string checkpoints, fewerRanks;
  std::vector<std::string> command;
};

/// The value of `--name VALUE` or `--name=VALUE` in a command.
std::optional<std::string> findValue(llvm::ArrayRef<std::string> command,
                                     llvm::StringRef name) {
  for (size_t i = 0; i < command.size(); ++i) {
    llvm::StringRef argument = command[i];
    if (argument == name && i + 1 < command.size())
      return command[i + 1];
    if (argument.consume_front(name) && argument.consume_front("="))
      return argument.str();
  }
  return std::nullopt;
}

bool hasFlag(llvm::ArrayRef<std::string> command, llvm::StringRef name) {
  return llvm::any_of(command, [&](llvm::StringRef argument) {
    return argument == name ||
           (argument.consume_front(name) && argument.starts_with("="));
  });
}

/// Number of the newest checkpoint in a folder; -1: there is none.
int64_t findNewestStep(const std::string &folder) {
  int64_t newest = -1;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       it != end && !error; it.increment(error)) {
    llvm::StringRef name = llvm::sys::path::filename(it->path());
    int64_t step;
    if (name.consume_front("step-") && !name.getAsInteger(10, step) &&
        llvm::sys::fs::exists(it->path() + "/manifest.json"))
      newest = std::max(newest, step);
  }
  return newest;
}

/// How a command ended.
struct Ending {
  int status = 0;         ///< as wait gives it
  std::string silence;    ///< it was killed for this one; empty: it was not
  bool wasAsked = false;  ///< this process passed a signal on
  bool wasForced = false; ///< and a second one
  std::string lastError;  ///< its last line with an error

  bool exited() const { return WIFEXITED(status); }
  int getCode() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
  /// Whether a rank or its host is lost, as far as can be seen from here: also
  /// launchers and shells say 128 and the signal's number.
  bool isRankLost() const {
    return !silence.empty() || !exited() || getCode() == runtime::ExitHung ||
           getCode() > 128;
  }
  std::string describe() const {
    std::string text =
        !silence.empty() ? silence
        : exited()       ? "exit code " + std::to_string(getCode())
                         : "signal " + std::to_string(WTERMSIG(status)) + " (" +
                               std::string(::strsignal(WTERMSIG(status))) + ")";
    return lastError.empty() ? text : text + ": " + lastError;
  }
};

/// The processes that descend from this one, which is their reaper, too.
std::vector<pid_t> findDescendants() {
  std::vector<std::pair<pid_t, pid_t>> all; // and parent
  DIR *folder = ::opendir("/proc");
  while (dirent *entry = folder ? ::readdir(folder) : nullptr) {
    pid_t id;
    if (llvm::StringRef(entry->d_name).getAsInteger(10, id))
      continue;
    // ID (NAME) STATE PARENT; a name may have blanks and parentheses.
    char line[512] = "";
    int fd = ::open(("/proc/" + std::to_string(id) + "/stat").c_str(),
                    O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : ::read(fd, line, sizeof(line) - 1);
    if (fd >= 0)
      ::close(fd);
    llvm::StringRef rest =
        llvm::StringRef(line, size_t(std::max<ssize_t>(size, 0)))
            .rsplit(')')
            .second.ltrim();
    pid_t parent;
    if (!rest.split(' ').second.split(' ').first.getAsInteger(10, parent))
      all.emplace_back(id, parent);
  }
  if (folder)
    ::closedir(folder);
  std::vector<pid_t> found{::getpid()};
  for (size_t i = 0; i < found.size(); ++i)
    for (auto [id, parent] : all)
      if (parent == found[i])
        found.push_back(id);
  found.erase(found.begin());
  return found;
}

/// Ends every process that a command has left, stopped ones too, and the
/// command itself; `status`: how that ended, if it does here.
void killDescendants(pid_t command, int &status) {
  for (;;) {
    std::vector<pid_t> left = findDescendants();
    for (pid_t id : left)
      ::kill(id, SIGKILL);
    pid_t reaped;
    int ended;
    while ((reaped = ::waitpid(-1, &ended, WNOHANG)) > 0)
      if (reaped == command)
        status = ended;
    if (left.empty() && reaped < 0)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Where a command tells that it is alive.
class HeartbeatPipe {
public:
  ~HeartbeatPipe() {
    if (fd >= 0)
      ::close(fd);
    if (!folder.empty()) {
      ::unlink(path.c_str());
      ::rmdir(folder.c_str());
    }
  }
  llvm::Error create() {
    llvm::SmallString<128> pattern;
    llvm::sys::path::system_temp_directory(true, pattern);
    llvm::sys::path::append(pattern, "cleave-run-XXXXXX");
    std::string name = pattern.str().str();
    if (!::mkdtemp(name.data()))
      return fail(name);
    folder = name;
    path = folder + "/heartbeat";
    // Open for writing, too, so that it has no end when a command has.
    if (::mkfifo(path.c_str(), 0600) != 0 ||
        (fd = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0)
      return fail(path);
    ::setenv(runtime::heartbeatVariable, path.c_str(), 1);
    return llvm::Error::success();
  }
  int getFd() const { return fd; }

private:
  static llvm::Error fail(const std::string &what) {
    return llvm::createStringError(
        std::error_code(errno, std::generic_category()),
        what + ": cannot create: " + std::strerror(errno));
  }
  std::string folder, path;
  int fd = -1;
};

/// One run of a command, from its start to its end.
class Supervised {
public:
  Supervised(const HeartbeatPipe &heartbeat, int signals, int64_t startTimeout)
      : heartbeat(heartbeat), signals(signals), limit(double(startTimeout)) {}

  llvm::Error start(llvm::ArrayRef<std::string> command);
  Ending wait();

private:
  void readHeartbeat();
  void readErrors(bool toTheEnd);
  void takeLine(llvm::StringRef line);
  void readSignals(Ending &ending);
  void pass(int signal, Ending &ending);

  const HeartbeatPipe &heartbeat;
  int signals;
  pid_t child = -1;
  int errors = -1; ///< the command's stderr
  bool isMpirun = false;
  std::string partialLine, lastError, beats;
  bool hasBeaten = false;
  double lastBeat = 0; ///< or the start
  /// Seconds of silence that are no more normal: until the first heartbeat the
  /// start's, then what the last one said. 0: any are.
  double limit;
};

/// Before a run is watched, what an earlier one wrote is dropped.
void drain(int fd) {
  char buffer[4096];
  while (::read(fd, buffer, sizeof(buffer)) > 0)
    continue;
}

} // namespace

llvm::Error Supervised::start(llvm::ArrayRef<std::string> command) {
  isMpirun = llvm::StringSwitch<bool>(llvm::sys::path::filename(command[0]))
                 .Cases({"mpirun", "mpiexec", "orterun", "prterun"}, true)
                 .Default(false);
  drain(heartbeat.getFd());
  lastBeat = getNow();
  auto fail = [](int error, const std::string &what) {
    return llvm::createStringError(
        std::error_code(error, std::generic_category()),
        what + ": " + std::strerror(error));
  };
  // What execvp fails with comes back through a pipe that it closes.
  int output[2], result[2];
  if (::pipe2(output, O_CLOEXEC) != 0)
    return fail(errno, "cannot make a pipe");
  if (::pipe2(result, O_CLOEXEC) != 0)
    return fail(errno, "cannot make a pipe");
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  child = ::fork();
  if (child < 0)
    return fail(errno, "cannot start a process");
  if (child == 0) {
    ::setpgid(0, 0);
    // Should this process be killed, the command saves and stops.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGXFSZ, SIG_DFL);
    int input = ::open("/dev/null", O_RDONLY);
    ::dup2(input, STDIN_FILENO);
    ::dup2(output[1], STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    int error = errno;
    [[maybe_unused]] ssize_t size = ::write(result[1], &error, sizeof(error));
    ::_exit(127);
  }
  ::setpgid(child, child);
  ::close(output[1]);
  ::close(result[1]);
  errors = output[0];
  ::fcntl(errors, F_SETFL, O_NONBLOCK);
  int error = 0;
  ssize_t size = ::read(result[0], &error, sizeof(error));
  ::close(result[0]);
  if (size != ssize_t(sizeof(error)))
    return llvm::Error::success();
  ::waitpid(child, nullptr, 0);
  ::close(errors);
  return fail(error, command[0]);
}

/// "STEP LIMIT", a line a second and process.
void Supervised::readHeartbeat() {
  char buffer[4096];
  ssize_t size;
  while ((size = ::read(heartbeat.getFd(), buffer, sizeof(buffer))) > 0) {
    beats.append(buffer, size_t(size));
    lastBeat = getNow();
  }
  size_t end = beats.rfind('\n');
  if (end == beats.npos)
    return;
  llvm::StringRef line = llvm::StringRef(beats).take_front(end);
  line = line.substr(line.rfind('\n') + 1);
  double seconds;
  if (llvm::to_float(line.split(' ').second, seconds)) {
    limit = seconds;
    hasBeaten = true;
  }
  beats.erase(0, end + 1);
}

void Supervised::takeLine(llvm::StringRef line) {
  if (line.contains("error: "))
    lastError = line.str();
}

/// Passes on what the command writes to stderr, and keeps its last error.
void Supervised::readErrors(bool toTheEnd) {
  char buffer[4096];
  ssize_t size;
  while ((size = ::read(errors, buffer, sizeof(buffer))) > 0) {
    llvm::StringRef text(buffer, size_t(size));
    llvm::errs() << text;
    partialLine += text;
    size_t end;
    while ((end = partialLine.find('\n')) != partialLine.npos) {
      takeLine(llvm::StringRef(partialLine).take_front(end));
      partialLine.erase(0, end + 1);
    }
  }
  if (toTheEnd)
    takeLine(partialLine);
}

void Supervised::pass(int signal, Ending &ending) {
  if (ending.wasAsked) {
    ending.wasForced = true;
    killDescendants(child, ending.status);
    return;
  }
  ending.wasAsked = true;
  // mpirun ends its ranks a second after a SIGTERM; a SIGUSR1 it passes on.
  ::kill(-child, isMpirun ? SIGUSR1 : signal);
}

void Supervised::readSignals(Ending &ending) {
  signalfd_siginfo info;
  while (::read(signals, &info, sizeof(info)) == ssize_t(sizeof(info)))
    if (info.ssi_signo != SIGCHLD)
      pass(int(info.ssi_signo), ending);
}

Ending Supervised::wait() {
  Ending ending;
  for (;;) {
    pollfd polls[] = {{signals, POLLIN, 0},
                      {errors, POLLIN, 0},
                      {heartbeat.getFd(), POLLIN, 0}};
    ::poll(polls, 3, 500);
    // A signal that comes with the end is still one that asked for it.
    readSignals(ending);
    if (ending.wasForced)
      break;
    readErrors(/*toTheEnd=*/false);
    readHeartbeat();
    if (::waitpid(child, &ending.status, WNOHANG) != 0)
      break;
    if (limit > 0 && getNow() - lastBeat > limit) {
      ending.silence = hasBeaten ? "its heartbeat stopped"
                                 : "no heartbeat within " +
                                       std::to_string(int64_t(limit)) +
                                       " s of its start (--start-timeout)";
      killDescendants(child, ending.status);
      break;
    }
  }
  // What the command leaves behind would write to the same files.
  killDescendants(child, ending.status);
  readErrors(/*toTheEnd=*/true);
  ::close(errors);
  ending.lastError = lastError;
  return ending;
}

/// Refuses a command that would begin at the start again.
static llvm::Error checkResumes(llvm::ArrayRef<std::string> command,
                                llvm::StringRef what, bool hasCheckpoints) {
  std::string missing;
  if (!hasCheckpoints && !findValue(command, "--save"))
    missing = "--save DIR";
  if (!hasFlag(command, "--resume"))
    missing += std::string(missing.empty() ? "" : " and ") + "--resume";
  if (missing.empty())
    return llvm::Error::success();
  return llvm::createStringError(
      what + " has no " + missing +
      ": without it a restart would begin at the start; add it to the "
      "executable's arguments");
}

/// What the signals ask for while no command runs.
static bool isAskedToStop(int signals, double seconds) {
  pollfd poll = {signals, POLLIN, 0};
  double end = getNow() + seconds;
  for (double now; (now = getNow()) < end;) {
    if (::poll(&poll, 1, int((end - now) * 1000) + 1) <= 0)
      continue;
    signalfd_siginfo info;
    while (::read(signals, &info, sizeof(info)) == ssize_t(sizeof(info)))
      if (info.ssi_signo != SIGCHLD)
        return true;
  }
  return false;
}

/// The exit code where an ending is final.
static std::optional<int> getFinalCode(const Ending &ending) {
  if (ending.exited() && !ending.wasForced)
    switch (ending.getCode()) {
    case runtime::ExitDone:
    case runtime::ExitUsage:
    case runtime::ExitStopped:
    case runtime::ExitBadSteps:
      return ending.getCode();
    }
  if (!ending.wasAsked)
    return std::nullopt;
  return tool::fail("the command was asked to stop, and ended by " +
                    ending.describe());
}

static int supervise(const RunFlags &flags) {
  auto refuse = [](const llvm::Twine &message) {
    tool::fail(message);
    return int(runtime::ExitUsage);
  };
  bool hasCheckpoints = !flags.checkpoints.empty();
  if (llvm::Error error =
          checkResumes(flags.command, "the command", hasCheckpoints))
    return refuse(llvm::toString(std::move(error)));
  std::vector<std::string> fewer;
  if (!flags.fewerRanks.empty()) {
    llvm::BumpPtrAllocator allocator;
    llvm::StringSaver saver(allocator);
    llvm::SmallVector<const char *> words;
    llvm::cl::TokenizeGNUCommandLine(flags.fewerRanks, saver, words);
    fewer.assign(words.begin(), words.end());
    if (llvm::Error error =
            checkResumes(fewer, "--fewer-ranks", hasCheckpoints))
      return refuse(llvm::toString(std::move(error)));
  }
  std::string folder =
      hasCheckpoints ? flags.checkpoints : *findValue(flags.command, "--save");
  if (std::optional<std::string> other = findValue(fewer, "--save");
      other && !hasCheckpoints && *other != folder)
    return refuse("--fewer-ranks saves to \"" + *other +
                  "\", the command to \"" + folder +
                  "\"; the one has to go on where the other stopped");

  // Processes that lose their parent become this one's children.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t watched;
  ::sigemptyset(&watched);
  for (int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGCHLD})
    ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  int signals = ::signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  HeartbeatPipe heartbeat;
  if (llvm::Error error = heartbeat.create())
    return tool::fail(std::move(error));

  llvm::ArrayRef<std::string> command = flags.command;
  int futile = 0;
  for (int64_t restart = 0;; ++restart) {
    int64_t before = findNewestStep(folder);
    Supervised run(heartbeat, signals, flags.startTimeout);
    // What cannot be started now cannot be started later.
    if (llvm::Error error = run.start(command))
      return refuse(llvm::toString(std::move(error)));
    Ending ending = run.wait();
    if (std::optional<int> code = getFinalCode(ending))
      return *code;
    int64_t newest = findNewestStep(folder);
    if (newest > before)
      futile = 0;
    else if (restart > 0)
      ++futile;
    auto giveUp = [&](const llvm::Twine &why) {
      tool::fail("gave up after " + why + "; last: " + ending.describe());
      return int(runtime::ExitGaveUp);
    };
    if (futile == maxFutileRestarts)
      return giveUp(llvm::Twine(futile) +
                    " restarts without a new checkpoint in " + folder);
    if (restart == flags.restarts)
      return giveUp(llvm::Twine(restart) +
                    (restart == 1 ? " restart" : " restarts"));
    if (!fewer.empty() && ending.isRankLost())
      command = fewer;
    say("restart " + llvm::Twine(restart + 1) + " " +
        (newest < 0 ? "from the start"
                    : "from step " + std::to_string(newest)) +
        (command.data() == fewer.data() && !fewer.empty() ? " with fewer ranks"
                                                          : "") +
        ", after " + ending.describe());
    if (isAskedToStop(signals, firstBackoff * double(1 << futile)))
      return runtime::ExitStopped;
  }
}

void tool::addRunCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App *command = app.add_subcommand(
      "run", "Run a command that trains, and start it again when it fails: "
             "cleave run -- ./train ... --save DIR --resume");
  command
      ->add_option("--restarts", flags->restarts,
                   "most restarts; it also gives up after " +
                       std::to_string(maxFutileRestarts) +
                       " in a row that leave no new checkpoint")
      ->check(makeCountCheck())
      ->capture_default_str();
  command
      ->add_option("--start-timeout", flags->startTimeout,
                   "seconds until the command's first heartbeat, after which "
                   "it is killed and started again; 0: no limit, for a command "
                   "none of whose ranks is on this host")
      ->check(makeCountCheck())
      ->capture_default_str();
  command->add_option("--fewer-ranks", flags->fewerRanks,
                      "command to go on with once a rank or host is lost: "
                      "that of an executable compiled for fewer ranks, in one "
                      "argument");
  command->add_option("--checkpoints", flags->checkpoints,
                      "folder of checkpoints; default: what the command says "
                      "for --save");
  command
      ->add_option("command", flags->command,
                   "after --: ./train ... or mpirun ... ./train ..., with "
                   "--save DIR --resume")
      ->required();
  command->footer(
      "Exit code: 0 done, 2 wrong usage, 3 stopped by a signal, 5 not-a-number,"
      "\nall as the command's; 6 gave up; 1 another failure.");
  command->callback(
      [flags, &run] { run = [flags] { return supervise(*flags); }; });
}
