//===- Watchdog.cpp -------------------------------------------------------===//
#include "runtime/watch/Watchdog.h"
#include "runtime/base/ExitCodes.h"
#include "runtime/base/Log.h"
#include "runtime/base/Threads.h"
#include "runtime/watch/Heartbeat.h"
#include "runtime/watch/Link.h"
#include "runtime/watch/Report.h"
#include "runtime/watch/SharedPositions.h"
#include "runtime/watch/Tracker.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace cleave::runtime;

/// Share of the limit after which a rank is accused; in the rest it is noticed,
/// said, and all have ended.
static constexpr double accusedAfter = 0.8;
/// Shares of the limit: between two looks, and what counts as a pause.
static constexpr double lookShare = 1.0 / 20, pauseShare = 1.0 / 5;
static constexpr double longestLook = 0.5;
/// Of the time of a step.
static constexpr double stepsOfPatience = 3;
/// Between two heartbeats; and some of them may be late.
static constexpr double beatSeconds = 1, leastSilence = 4 * beatSeconds;
/// Who has nothing to say ends a moment later than who does.
static constexpr double secondsToEndFirst = 1, secondsPerTurn = 2;
static constexpr int longestTurn = 4;

static double getNow() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

static void sleepFor(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// What is the same for processes that reach each other by the loopback and by
/// their numbers: the machine's boot, and the networks and processes they see.
static std::string getHostId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  struct stat info;
  for (const char *path : {"/proc/self/ns/net", "/proc/self/ns/pid"})
    if (::stat(path, &info) == 0)
      id += " " + std::to_string(info.st_ino);
  return id;
}

/// CPU time of a thread, by its clock.
static uint64_t getBusyNs(clockid_t clock) {
  timespec time;
  if (::clock_gettime(clock, &time) != 0)
    return 0;
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

class Watchdog::Process final : public AbortListener {
public:
  Process(const Program &program, const WatchdogOptions &options)
      : program(program), options(options),
        period(options.seconds > 0
                   ? std::min(longestLook, options.seconds * lookShare)
                   : longestLook),
        pause(options.seconds * pauseShare) {}
  ~Process();

  Status enter(Communicator &communicator);
  void leave(Communicator &communicator);
  /// That this process ends, and others do, is no surprise from now on.
  void onAbort() override;
  std::chrono::duration<double> getTurn() const override;

private:
  /// A rank of this process.
  struct Member {
    RankPosition own;
    /// `own`, or what is shared with other processes.
    std::atomic<RankPosition *> position{&own};
    clockid_t clock = 0;
    std::atomic<bool> isIn{false};
  };

  Status start(int firstRank, int count);
  Status openLink(Communicator &communicator);
  void takeLink(std::unique_ptr<Link> made);
  void run();
  void wake() {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(wakeFd, &one, sizeof(one));
  }
  void look(double now);
  void hear(const std::vector<LinkEvent> &events);
  void judgeAll(double now);
  [[noreturn]] void end(const std::string &message);
  [[noreturn]] void endQuietly();

  bool isHub() const;
  double getLimit() const {
    return std::max(options.seconds,
                    stepsOfPatience * tracker->getStepSeconds());
  }

  const Program &program;
  const WatchdogOptions options;
  const double period, pause;
  Heartbeat heartbeat;

  /// Guards what follows while ranks enter and leave.
  std::mutex mutex;
  std::vector<std::unique_ptr<Member>> members;
  int firstRank = 0;
  std::unique_ptr<Link> link; ///< where ranks are processes
  SharedPositions shared;     ///< where all are on one machine
  std::unique_ptr<Tracker> tracker;
  bool isEnding = false; ///< some rank has said that it ends

  std::thread thread;
  int wakeFd = -1;
  std::atomic<bool> stopping{false};
  double nextBeat = 0;
};

Watchdog::Process::~Process() {
  stopping = true;
  wake();
  if (thread.joinable())
    thread.join();
  if (wakeFd >= 0)
    ::close(wakeFd);
}

/// Starts the thread, once for a process. Under the lock.
Status Watchdog::Process::start(int first, int count) {
  if (tracker)
    return {};
  firstRank = first;
  for (int i = 0; i < count; ++i)
    members.push_back(std::make_unique<Member>());
  tracker = std::make_unique<Tracker>(program.getWorldSize(), pause, getNow());
  wakeFd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wakeFd < 0)
    return Status::error("watchdog: cannot make a descriptor: " +
                         std::string(std::strerror(errno)));
  return startWithoutSignals("watchdog:", [this] { run(); }, thread);
}

Status Watchdog::Process::enter(Communicator &communicator) {
  RankRange ranks = communicator.getProcessRanks();
  Member *member;
  {
    std::lock_guard<std::mutex> lock(mutex);
    CLEAVE_RETURN_IF_ERROR(start(ranks.first, ranks.count));
    member = members[size_t(communicator.getRank() - firstRank)].get();
    if (::pthread_getcpuclockid(::pthread_self(), &member->clock) != 0)
      member->clock = CLOCK_PROCESS_CPUTIME_ID;
    member->isIn = true;
  }
  communicator.setPosition(member->position);
  communicator.setAbortListener(this);
  if (ranks.count < communicator.getWorldSize() && options.seconds > 0)
    return openLink(communicator);
  return {};
}

/// Makes every process known to rank 0's. Collective.
Status Watchdog::Process::openLink(Communicator &communicator) {
  std::string host = getHostId();
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(host));
  double isElsewhere = host == getHostId() ? 0 : 1;
  std::vector<double> all;
  CLEAVE_RETURN_IF_ERROR(communicator.gatherDoubles({&isElsewhere, 1}, all));
  bool onlyThisHost = std::count(all.begin(), all.end(), 0) == int(all.size());

  auto made = std::make_unique<Link>();
  LinkToken token = {};
  std::string address, path;
  int rank = communicator.getRank(), size = communicator.getWorldSize();
  Status status;
  if (rank == 0) {
    status = makeToken(token);
    if (status.ok())
      status = made->listen(onlyThisHost, size, token, address);
    if (status.ok() && onlyThisHost)
      status = shared.create(size, path);
    if (status.ok())
      takeLink(std::move(made)); // from now on it answers
  }
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(token.data(), token.size()));
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(address));
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(path));
  if (rank != 0) {
    // NOLINTNEXTLINE(bugprone-use-after-move): rank 0's is what was moved
    status = made->connect(address, rank, token);
    if (status.ok() && onlyThisHost)
      status = shared.open(path, size);
    if (status.ok())
      takeLink(std::move(made));
  }
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  if (onlyThisHost) {
    auto *position = new (&shared[rank]) RankPosition(members[0]->own);
    members[0]->position = position;
    communicator.setPosition(position);
  }
  return {};
}

void Watchdog::Process::takeLink(std::unique_ptr<Link> made) {
  std::lock_guard<std::mutex> lock(mutex);
  link = std::move(made);
  // It has just answered; after that it may be silent at once.
  if (!isHub())
    tracker->hear(0, {}, 0, getNow());
  wake();
}

void Watchdog::Process::leave(Communicator &communicator) {
  RankPosition *position = communicator.getPosition();
  if (!position)
    return;
  communicator.setPosition(nullptr);
  communicator.setAbortListener(nullptr);
  position->leaveCollective();
  position->setPhase(Phase::Left);
  std::lock_guard<std::mutex> lock(mutex);
  members[size_t(communicator.getRank() - firstRank)]->isIn = false;
  if (link)
    link->send(LinkFrame::Goodbye, position->read(), 0);
}

/// The rank is watched on: it may hang before its process has ended.
void Watchdog::Process::onAbort() {
  std::lock_guard<std::mutex> lock(mutex);
  isEnding = true;
  if (link)
    link->send(LinkFrame::Goodbye, members.front()->position.load()->read(), 0);
}

std::chrono::duration<double> Watchdog::Process::getTurn() const {
  constexpr double share = 0.5; // of the limit: the rank has stood before
  return options.seconds > 0
             ? std::min(watchdogsTurn,
                        std::chrono::duration<double>(share * options.seconds))
             : watchdogsTurn;
}

void Watchdog::Process::run() {
  // At once: a run that is stopped soon has then had a heartbeat.
  double next = getNow();
  while (!stopping) {
    std::unique_lock<std::mutex> lock(mutex);
    Link *current = link.get();
    lock.unlock();
    // A link stays once it is there, and only this thread changes whom it
    // reaches.
    int wait = std::max(0, int((next - getNow()) * 1000) + 1);
    if (current) {
      current->wait(wait, wakeFd);
    } else {
      pollfd poll = {wakeFd, POLLIN, 0};
      ::poll(&poll, 1, wait);
    }
    uint64_t wakes;
    [[maybe_unused]] ssize_t size = ::read(wakeFd, &wakes, sizeof(wakes));
    lock.lock();
    // What was said is heard before anyone is judged.
    if (current)
      hear(current->receive());
    double now = getNow();
    if (now < next)
      continue;
    if (now - next >= pause)
      tracker->forgive(now);
    look(now);
    next = now + period;
  }
}

void Watchdog::Process::hear(const std::vector<LinkEvent> &events) {
  for (const LinkEvent &event : events) {
    const LinkFrame &frame = event.frame;
    isEnding |= frame.kind == LinkFrame::Goodbye;
    if (event.isLost)
      tracker->lose(frame.rank, getNow());
    else if (frame.kind == LinkFrame::End)
      endQuietly();
    else
      tracker->hear(frame.rank,
                    shared.isOpen() ? shared[frame.rank].read()
                                    : frame.position,
                    frame.busyNs, getNow());
  }
}

/// Under the lock, once in a period.
void Watchdog::Process::look(double now) {
  int64_t lowestStep = INT64_MAX;
  for (size_t i = 0; i < members.size(); ++i) {
    const Member &member = *members[i];
    PositionRecord position = member.position.load()->read();
    uint64_t busyNs = member.isIn ? getBusyNs(member.clock) : 0;
    tracker->hear(firstRank + int(i), position, busyNs, now);
    lowestStep = std::min(lowestStep, position.step);
    if (link && member.isIn)
      link->send(LinkFrame::Report, position, busyNs);
  }
  // Where there is a link, there is what is shared.
  if (link && shared.isOpen())
    for (int rank = 0; rank < program.getWorldSize(); ++rank)
      tracker->see(rank, shared[rank].read(), now);
  if (now >= nextBeat) {
    heartbeat.beat(lowestStep,
                   options.seconds > 0
                       ? std::max(accusedAfter * getLimit(), leastSilence)
                       : 0);
    nextBeat = now + beatSeconds;
  }
  if (options.seconds > 0)
    judgeAll(now);
}

/// Whether this process judges all ranks; another one hears of rank 0 only.
bool Watchdog::Process::isHub() const { return firstRank == 0; }

void Watchdog::Process::judgeAll(double now) {
  std::vector<RankView> views = tracker->getViews(now);
  double limit = accusedAfter * getLimit();
  auto getAtLeast = [&](double seconds) {
    return std::max(limit, accusedAfter * seconds);
  };
  WatchLimits limits{limit, getAtLeast(options.joinSeconds),
                     getAtLeast(options.patientSeconds)};
  // Who fails stops the others, whose processes may end before its own.
  if (isEnding)
    limits.settled = limits.hung;
  std::optional<Verdict> verdict =
      judge(views, program.getMesh(), limits, program->stage_axis());
  if (!verdict)
    return;
  // All else is for rank 0 to say, which hears of all.
  bool isRankZeroGone =
      verdict->fault == Fault::Lost || verdict->fault == Fault::Silent;
  if (isHub() || isRankZeroGone)
    end(describeVerdict(program, views, *verdict));
}

/// Ends this process, unless a launcher is faster.
void Watchdog::Process::endQuietly() {
  std::signal(SIGTERM, SIG_DFL);
  sleepFor(secondsToEndFirst);
  ::_exit(ExitHung);
}

void Watchdog::Process::end(const std::string &message) {
  // What a launcher sends to the others once one has ended; now is no time to
  // finish a step.
  std::signal(SIGTERM, SIG_DFL);
  // To rank 0, too: a launcher wakes it up before it ends it.
  if (link)
    link->send(LinkFrame::End, {}, 0);
  // On one machine the first speaks. Without rank 0 nobody knows who is there
  // on others: the lowest speaks first, and is then the end of the rest.
  if (link && shared.isOpen()) {
    if (!shared.claimVoice())
      endQuietly();
  } else if (!isHub()) {
    sleepFor(std::min(firstRank - 1, longestTurn) * secondsPerTurn);
  }
  // A reader that does not read may be why a rank hangs.
  pollfd poll = {STDERR_FILENO, POLLOUT, 0};
  if (::poll(&poll, 1, 1000) > 0)
    logError(message);
  ::_exit(ExitHung);
}

Watchdog::Watchdog(const Program &program, const WatchdogOptions &options)
    : process(std::make_unique<Process>(program, options)) {}

Watchdog::~Watchdog() = default;

Status Watchdog::enter(Communicator &communicator) {
  return process->enter(communicator);
}

void Watchdog::leave(Communicator &communicator) {
  process->leave(communicator);
}
