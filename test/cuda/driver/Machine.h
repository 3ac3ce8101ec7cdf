//===- Machine.h - The simulated machine of this process ------------------===//
//
// One lock is held over every call, and over everything that executes.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_MACHINE_H
#define CLEAVE_TEST_CUDA_DRIVER_MACHINE_H

#include "runtime/cpu/ThreadPool.h"
#include "test/cuda/driver/Graph.h"
#include "test/cuda/driver/Memory.h"
#include "test/cuda/driver/Options.h"
#include "test/cuda/driver/Works.h"
#include <fstream>

namespace cleave::simulated {

struct Stream {
  std::shared_ptr<Lane> lane;
  int device = 0;
  bool isBlocking = true; ///< waits for the legacy stream, which waits for it
  Capture *capture = nullptr;
  size_t captureLane = 0;
  std::vector<size_t> frontier; ///< nodes that its next one waits for
};

/// Where an event was recorded last.
struct Record {
  Id operation = 0;
  uint64_t finished = 0; ///< operations that were done by then; 0: none yet
};

struct Event {
  int device = 0;
  bool isTimed = true;
  std::shared_ptr<Record> record; ///< null: never recorded
  /// Recorded into a capture last, of which only the number is kept.
  uint64_t capture = 0;
  std::vector<size_t> nodes;
};

struct Device {
  explicit Device(uint64_t bytes) : memory(bytes) {}
  DeviceMemory memory;
  Stream legacy;
  int retained = 0;
};

struct Module {
  Image image;
  int device = 0;
};

struct FunctionHandle {
  std::string name;
  std::shared_ptr<const Function> function;
  void *module = nullptr;
  int device = 0;
  unsigned maxDynamicShared = 48 << 10;
};

/// What callers hold of T is no address of anything, and is never given twice.
template <typename T>
class Handles {
public:
  explicit Handles(uint64_t kind) : next(kind << 48 | 0x10) {}
  void *add(std::unique_ptr<T> value) {
    void *handle = reinterpret_cast<void *>(uintptr_t(next));
    next += 0x10;
    values.emplace(handle, std::move(value));
    return handle;
  }
  T *find(void *handle) {
    auto found = values.find(handle);
    return found == values.end() ? nullptr : found->second.get();
  }
  bool remove(void *handle) { return values.erase(handle) > 0; }
  template <typename Visit>
  void forEach(Visit visit) {
    for (auto &entry : values)
      visit(*entry.second);
  }
  template <typename Test>
  void removeIf(Test test) {
    std::erase_if(values, [&](auto &entry) { return test(*entry.second); });
  }

private:
  uint64_t next;
  std::unordered_map<void *, std::unique_ptr<T>> values;
};

class Machine {
public:
  /// Reads the environment. `error` is what is wrong with it.
  explicit Machine(std::string &error);

  /// Says on stderr what a call did wrong, and returns `code`.
  int report(int code, const std::string &message);
  /// Says so where a fault was wished of an operation that did not come.
  void reportUnreachedFault() const;
  /// Ends everything: all later calls return the code. Returns it.
  int fail(int code, const std::string &message);
  int getFailure() const { return failure; }
  const std::string &getFailureText() const { return failureText; }

  /// Appends, or captures, behind the stream's order and `waits`.
  int enqueue(Stream &stream, std::unique_ptr<Work> work,
              const std::vector<Id> &waits = {}, Id *id = nullptr);
  /// Executes until all are done: a CUresult.
  int wait(std::unique_lock<std::mutex> &lock, const std::vector<Id> &targets);
  /// Whether it is done, after a while: success or errorNotReady.
  int query(Id target);
  int waitForStream(std::unique_lock<std::mutex> &lock, Stream &stream);
  int waitForDevice(std::unique_lock<std::mutex> &lock, int device);

  int record(Event &event, Stream &stream);
  /// A node that records it (CU_EVENT_RECORD_EXTERNAL).
  int captureRecord(void *event, Stream &stream);
  int waitForEvent(Stream &stream, Event &event);
  int launchGraph(GraphExec &exec, Stream &stream);

  int beginCapture(Stream &stream);
  int endCapture(Stream &stream, std::unique_ptr<Graph> &graph);
  /// An error where this thread captures: the call could not be captured, and
  /// its effect would be lost.
  int refuseWhileCapturing(const char *call);
  /// The capture that the stream is part of cannot end well.
  int invalidate(Capture &capture, int code, const std::string &message);

  void *addStream(int device, bool isBlocking);
  /// What it has goes on.
  int removeStream(void *handle);
  /// Which stream a handle means: null is the legacy stream of the device.
  Stream *findStream(void *handle, int device);
  /// Where a side of a copy lies; a CUresult.
  int findHost(const void *pointer, uint64_t bytes, const char *call,
               Side::Kind &kind);
  /// Where bytes of a device really are; null where no live allocation of its
  /// own has them, and `why` then says what is there.
  std::byte *find(int device, Address address, uint64_t bytes,
                  std::string &why) const;
  bool isDeviceAddress(Address address) const;
  cpu::ThreadPool &getPool();

  Options options;
  std::vector<std::unique_ptr<Device>> devices;
  PinnedMemory pinned;
  Scheduler scheduler;
  std::unique_ptr<Engine> engine;
  bool isInitialized = false;
  uint64_t executed = 0; ///< operations, markers not counted

  Handles<Stream> streams{0xC1};
  Handles<Event> events{0xC2};
  Handles<Module> modules{0xC3};
  Handles<FunctionHandle> functions{0xC4};
  Handles<Graph> graphs{0xC5};
  Handles<GraphExec> graphExecs{0xC6};

private:
  bool run(Id id, const Lane &lane, const Work &work, Progress &progress);
  int end(Scheduler::Waited waited);
  int capture(Stream &stream, std::shared_ptr<const Work> work);
  /// Of a record, which says what the operation's number is, and of the event
  /// that is to be shown then, if any.
  std::unique_ptr<Work> makeRecord(std::shared_ptr<Record> record,
                                   void *event = nullptr);
  /// The event is as it was recorded so, unless that was done again.
  void show(void *event, const std::shared_ptr<Record> &record);
  int checkRecord(const Event &event, const Stream &stream);
  void joinCapture(Stream &stream, Capture &capture);
  /// What a stream waits for because of the legacy stream.
  std::vector<Id> findLegacyWaits(const Stream &stream);

  std::map<uint64_t, std::unique_ptr<Capture>> captures;
  uint64_t lastCapture = 0;
  uint64_t graphLaunches = 0;
  std::unique_ptr<cpu::ThreadPool> pool;
  uint64_t reached = 0; ///< operations that are done, markers too
  std::ofstream log;    ///< Options::log
  int failure = 0;
  std::string failureText;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_MACHINE_H
