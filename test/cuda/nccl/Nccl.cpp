//===- Nccl.cpp - The entry points of the simulated NCCL ------------------===//
#include "runtime/cuda/DriverApi.h"
#include "test/cuda/nccl/Operation.h"
#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>
#include <unistd.h>

using namespace cleave::simulated;

#define CLEAVE_ENTRY extern "C" __attribute__((visibility("default")))

// As the product calls them: a definition with other parameters is an error,
// and so is the library's link without one.
extern "C" {
#define CLEAVE_DECLARE(name, symbol, ...) int symbol(__VA_ARGS__);
CLEAVE_NCCL_CALLS(CLEAVE_DECLARE)
CLEAVE_DRIVER_CALLS(CLEAVE_DECLARE)
#undef CLEAVE_DECLARE
}
namespace cleave::simulated {
extern const void *const ncclEntryPoints[];
#define CLEAVE_TAKE(name, symbol, ...) reinterpret_cast<const void *>(&symbol),
const void *const ncclEntryPoints[] = {CLEAVE_NCCL_CALLS(CLEAVE_TAKE)};
#undef CLEAVE_TAKE
} // namespace cleave::simulated

namespace {

//===----------------------------------------------------------------------===//
// Communicators of this process
//===----------------------------------------------------------------------===//

/// What callers hold is no address of anything, and is never given twice.
class Registry {
public:
  static Registry &get() {
    static Registry &registry = *new Registry;
    return registry;
  }
  void *add(std::shared_ptr<Comm> comm) {
    std::lock_guard<std::mutex> lock(mutex);
    void *handle = reinterpret_cast<void *>(uintptr_t(next += 0x10));
    comms.emplace(handle, std::move(comm));
    return handle;
  }
  std::shared_ptr<Comm> find(void *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = comms.find(handle);
    return found == comms.end() ? nullptr : found->second;
  }
  void remove(void *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    comms.erase(handle);
  }
  bool isOld(void *handle) const {
    return uintptr_t(handle) > first && uintptr_t(handle) <= next &&
           uintptr_t(handle) % 0x10 == 0;
  }

private:
  static constexpr uintptr_t first = uintptr_t(0xCC) << 48;
  std::mutex mutex;
  std::atomic<uintptr_t> next{first};
  std::map<void *, std::shared_ptr<Comm>> comms;
};

/// Files of ids that nobody came to are removed as the process ends.
class Ids {
public:
  static Ids &get() {
    static Ids ids;
    return ids;
  }
  void add(const std::string &path) {
    std::lock_guard<std::mutex> lock(mutex);
    paths.emplace_back(path, process);
  }
  ~Ids() {
    // Not those of the process that this one was forked from.
    for (const auto &[path, owner] : paths)
      if (owner == ::getpid())
        Board::remove(path);
  }

private:
  std::mutex mutex;
  pid_t process = ::getpid();
  std::vector<std::pair<std::string, pid_t>> paths;
};

/// A null communicator: `result` is what the call returns.
std::shared_ptr<Comm> findComm(void *handle, const char *call, int &result) {
  std::shared_ptr<Comm> comm = Registry::get().find(handle);
  result = ncclSuccess;
  if (!comm)
    result = reportNccl(ncclInvalidArgument,
                        std::string(call) +
                            (Registry::get().isOld(handle)
                                 ? ": the communicator was destroyed or "
                                   "aborted before"
                                 : ": there is no such communicator"));
  return comm;
}

//===----------------------------------------------------------------------===//
// The end of a communicator
//===----------------------------------------------------------------------===//

/// Lets the machine execute something, without a wait for anything of it.
class Time {
public:
  Time() {
    isGood = cuStreamCreate(&stream, streamNonBlocking) == success &&
             cuEventCreate(&event, eventDisableTiming) == success;
  }
  ~Time() {
    if (event)
      cuEventDestroy_v2(event);
    if (stream)
      cuStreamDestroy_v2(stream);
  }
  /// False where the machine has failed.
  bool goBy() {
    if (!isGood || cuEventRecord(event, stream) != success)
      return false;
    int code = cuEventQuery(event);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return code == success || code == errorNotReady;
  }

private:
  void *stream = nullptr, *event = nullptr;
  bool isGood = false;
};

/// What is left of the communicator's operations.
struct Rest {
  size_t count = 0;
  /// Whether some have not executed yet. The others wait for their next launch,
  /// or are held by a graph that may be launched.
  bool isNew = false;
  bool operator==(const Rest &) const = default;
};

Rest findRest(Comm &comm) {
  std::lock_guard<std::mutex> lock(comm.mutex);
  Rest rest;
  for (const Operation *operation : comm.operations) {
    ++rest.count;
    rest.isNew |= comm.executing == operation || !operation->wasExecuted();
  }
  return rest;
}

/// NCCL waits for what is in flight, and until no graph has an operation of the
/// communicator. What a graph holds is seen by nothing but that it stays.
int waitForRest(Comm &comm, const std::string &call) {
  constexpr double graphSeconds = 2;
  double begin = getSeconds();
  std::unique_ptr<Time> time;
  Rest last;
  for (;;) {
    Rest rest = findRest(comm);
    if (rest.count == 0)
      return ncclSuccess;
    if (rest != last)
      begin = getSeconds();
    last = rest;
    double waited = getSeconds() - begin;
    if (!rest.isNew && waited > std::min(graphSeconds, comm.settings.patience))
      return reportNccl(ncclInternalError,
                        call + " of " + comm.describe() +
                            " would wait for ever: a graph that was captured "
                            "with its operations was not destroyed before");
    if (waited > comm.settings.patience)
      return reportNccl(ncclInternalError,
                        call + " of " + comm.describe() +
                            " waits in vain for its operations in flight, or "
                            "captured");
    if (!time)
      time = std::make_unique<Time>();
    // Nothing is in flight where the machine has failed.
    if (!time->goBy())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Both are to be called by all ranks of a machine; an abort does not wait for
/// the others, which may be what failed.
struct Ending {
  void *handle;
  std::shared_ptr<Comm> comm;
  bool isAbort;

  int finish() const {
    const char *call = isAbort ? "ncclCommAbort" : "ncclCommDestroy";
    int result = waitForRest(*comm, call);
    comm->isDestroyed.store(true);
    if (!isAbort)
      comm->board->getMine().presence.store(Presence::Left);
    return result;
  }

  /// Until the other ranks have come to it too.
  int meet() const {
    if (isAbort)
      return ncclSuccess;
    double begin = getSeconds();
    for (int other = 0; other < comm->getSize(); ++other)
      while (comm->board->isAlive(other)) {
        if (getSeconds() - begin > comm->settings.patience)
          return reportNccl(
              ncclInternalError,
              "ncclCommDestroy of " + comm->describe() +
                  " waits in vain for rank " + std::to_string(other) +
                  ": ranks destroy their communicators in the same order");
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    return ncclSuccess;
  }
};

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

struct Launch {
  std::shared_ptr<Comm> comm;
  void *stream;
  Part part;
};

struct Arrival {
  void **handle;
  std::unique_ptr<Board> board;
};

/// What a thread's group has so far.
struct Group {
  int depth = 0;
  int result = ncclSuccess; ///< the first error
  std::vector<Launch> launches;
  std::vector<Arrival> arrivals;
  std::vector<Ending> endings;
};

thread_local Group group;

/// A send to this rank itself is met by a receive of the same group.
int checkSelf(const Comm &comm, const std::vector<Part> &parts) {
  std::vector<Wish> sent, received;
  for (const Part &part : parts)
    if (part.wish.isMessage() && part.peer == comm.getRank())
      (part.wish.call == NcclCall::Send ? sent : received).push_back(part.wish);
  if (sent.size() == received.size())
    return ncclSuccess;
  return reportNccl(ncclInvalidUsage, comm.describe() + ": " +
                                          std::to_string(sent.size()) +
                                          " sends to the rank itself, and " +
                                          std::to_string(received.size()) +
                                          " receives from it, in one group");
}

int launchAll(std::vector<Launch> launches) {
  while (!launches.empty()) {
    std::shared_ptr<Comm> comm = launches.front().comm;
    void *stream = launches.front().stream;
    std::vector<Part> parts;
    for (const Launch &each : launches) {
      if (each.comm != comm)
        continue;
      if (each.stream != stream)
        return reportNccl(ncclInvalidUsage,
                          comm->describe() +
                              ": a group has operations of it in several "
                              "streams, which is not simulated");
      parts.push_back(each.part);
    }
    std::erase_if(launches,
                  [&](const Launch &each) { return each.comm == comm; });
    if (int result = checkSelf(*comm, parts))
      return result;
    if (cleaveSimulatedEnqueue(
            stream, new Operation(std::move(comm), std::move(parts))) !=
        success)
      return reportNccl(ncclUnhandledCudaError,
                        "the operation could not be enqueued");
  }
  return ncclSuccess;
}

int arriveAll(std::vector<Arrival> arrivals) {
  Settings settings = Settings::read();
  for (Arrival &each : arrivals) {
    std::string why;
    if (int result = each.board->waitForAll(settings.patience, why)) {
      for (Arrival &other : arrivals)
        if (other.board)
          other.board->getMine().presence.store(Presence::Aborted);
      return reportNccl(result, "ncclCommInitRank: " + why);
    }
    *each.handle = Registry::get().add(
        std::make_shared<Comm>(std::move(each.board), settings));
  }
  return ncclSuccess;
}

int endAll(std::vector<Ending> endings) {
  int result = ncclSuccess;
  auto note = [&](int next) { result = result ? result : next; };
  for (const Ending &each : endings)
    note(each.finish());
  for (const Ending &each : endings) {
    note(each.meet());
    Registry::get().remove(each.handle);
  }
  return result;
}

/// Ends a group, or a call that is in none.
int endGroup() {
  if (--group.depth > 0)
    return ncclSuccess;
  Group ended = std::move(group);
  group = {};
  if (ended.result != ncclSuccess) {
    for (Arrival &each : ended.arrivals)
      each.board->getMine().presence.store(Presence::Aborted);
    return ended.result;
  }
  if (int result = arriveAll(std::move(ended.arrivals)))
    return result;
  if (int result = launchAll(std::move(ended.launches)))
    return result;
  return endAll(std::move(ended.endings));
}

/// As of a group of this call alone, if there is no other.
int addToGroup(int result) {
  if (group.result == ncclSuccess)
    group.result = result;
  ++group.depth;
  int ended = endGroup();
  return result ? result : ended;
}

Address toAddress(const void *pointer) { return Address(uintptr_t(pointer)); }

int launch(void *handle, void *stream, const Part &part) {
  std::string call = part.wish.describe();
  int result;
  std::shared_ptr<Comm> comm = findComm(handle, call.c_str(), result);
  if (!comm)
    return addToGroup(result);
  auto refuse = [&](const std::string &why) {
    return addToGroup(reportNccl(
        ncclInvalidArgument, call + " by " + comm->describe() + ": " + why));
  };
  if (!isKnownType(part.wish.type) ||
      (part.wish.reduces() && !canReduce(part.wish.type, part.wish.reduction)))
    return refuse("type " + std::to_string(part.wish.type) + ", reduction " +
                  std::to_string(part.wish.reduction) +
                  ", which is not simulated");
  if (part.peer < 0 || part.peer >= comm->getSize())
    return refuse("there is no rank " + std::to_string(part.peer));
  if (!part.wish.isMessage()) {
    if (part.wish.count == 0)
      return addToGroup(ncclSuccess);
    if (!part.isInPlace(comm->getRank()) && part.hasOverlap(comm->getSize()))
      return refuse("input and output overlap, and it is not in place");
  }
  group.launches.push_back({std::move(comm), stream, part});
  return addToGroup(ncclSuccess);
}

int end(void *handle, const char *call, bool isAbort) {
  if (!handle)
    return ncclSuccess;
  int result;
  std::shared_ptr<Comm> comm = findComm(handle, call, result);
  if (!comm)
    return addToGroup(result);
  // At once, so that the operations of a whole group can end.
  if (isAbort)
    comm->abort();
  group.endings.push_back({handle, std::move(comm), isAbort});
  return addToGroup(ncclSuccess);
}

} // namespace

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

CLEAVE_ENTRY const char *ncclGetErrorString(int result) {
  return getResultText(result);
}

CLEAVE_ENTRY const char *ncclGetLastError(void *) { return getLastErrorText(); }

CLEAVE_ENTRY int ncclGetVersion(int *version) {
  *version = Settings::read().isOld ? 21003 : 22803;
  return ncclSuccess;
}

CLEAVE_ENTRY int ncclGetUniqueId(NcclId *id) {
  Settings settings = Settings::read();
  while (settings.idHangs)
    ::pause();
  if (settings.idDies)
    ::raise(SIGKILL);
  if (settings.hasNoId)
    return reportNccl(ncclSystemError,
                      "ncclGetUniqueId: no socket interface found, as it was "
                      "wished");
  std::string path, why;
  if (!Board::create(path, why))
    return reportNccl(ncclSystemError, "ncclGetUniqueId: " + why);
  Ids::get().add(path);
  *id = {};
  std::memcpy(id->bytes, path.c_str(), path.size());
  return ncclSuccess;
}

CLEAVE_ENTRY int ncclCommInitRank(void **handle, int ranks, NcclId id,
                                  int rank) {
  // It allocates memory of the device, and so does this: by a thread with a
  // context, which captures nothing.
  Address probe = 0;
  if (cuMemAlloc_v2(&probe, 1) != success || cuMemFree_v2(probe) != success)
    return addToGroup(reportNccl(ncclUnhandledCudaError,
                                 "ncclCommInitRank: cannot allocate memory of "
                                 "the device"));
  std::string path(id.bytes, ::strnlen(id.bytes, sizeof id.bytes)), why;
  int result;
  std::unique_ptr<Board> board = Board::open(path, ranks, rank, result, why);
  if (!board)
    return addToGroup(reportNccl(result, "ncclCommInitRank: " + why));
  group.arrivals.push_back({handle, std::move(board)});
  return addToGroup(ncclSuccess);
}

CLEAVE_ENTRY int ncclCommDestroy(void *handle) {
  return end(handle, "ncclCommDestroy", false);
}

CLEAVE_ENTRY int ncclCommAbort(void *handle) {
  return end(handle, "ncclCommAbort", true);
}

CLEAVE_ENTRY int ncclCommGetAsyncError(void *handle, int *error) {
  int result;
  std::shared_ptr<Comm> comm =
      findComm(handle, "ncclCommGetAsyncError", result);
  if (!comm)
    return result;
  std::string text;
  *error = comm->getAsyncError(text);
  if (*error != ncclSuccess)
    setLastErrorText(text);
  return ncclSuccess;
}

CLEAVE_ENTRY int ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

CLEAVE_ENTRY int ncclGroupEnd() {
  if (group.depth == 0)
    return reportNccl(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return endGroup();
}

CLEAVE_ENTRY int ncclAllReduce(const void *in, void *out, size_t count,
                               int type, int reduction, void *comm,
                               void *stream) {
  return launch(comm, stream,
                {{NcclCall::AllReduce, type, reduction, count},
                 toAddress(in),
                 toAddress(out)});
}

CLEAVE_ENTRY int ncclAllGather(const void *in, void *out, size_t count,
                               int type, void *comm, void *stream) {
  return launch(
      comm, stream,
      {{NcclCall::AllGather, type, 0, count}, toAddress(in), toAddress(out)});
}

CLEAVE_ENTRY int ncclReduceScatter(const void *in, void *out, size_t count,
                                   int type, int reduction, void *comm,
                                   void *stream) {
  return launch(comm, stream,
                {{NcclCall::ReduceScatter, type, reduction, count},
                 toAddress(in),
                 toAddress(out)});
}

CLEAVE_ENTRY int ncclSend(const void *in, size_t count, int type, int peer,
                          void *comm, void *stream) {
  return launch(comm, stream,
                {{NcclCall::Send, type, 0, count}, toAddress(in), 0, peer});
}

CLEAVE_ENTRY int ncclRecv(void *out, size_t count, int type, int peer,
                          void *comm, void *stream) {
  return launch(comm, stream,
                {{NcclCall::Recv, type, 0, count}, 0, toAddress(out), peer});
}
