//===- Process.cpp --------------------------------------------------------===//
#include "test/cuda/driver/Process.h"
#include <cstdlib>

using namespace cleave::simulated;

namespace {

/// Lives as long as the process: threads may end after main.
struct Process {
  std::mutex mutex;
  std::unique_ptr<Machine> machine;
  uint64_t number = 0; ///< of the machine, counted from 1
  std::string error;   ///< what is wrong with the environment: cuInit fails

  static Process &get() {
    static Process &process = *new Process;
    return process;
  }
  /// Reads the environment when it is first called.
  Machine &getMachine() {
    if (!machine) {
      ++number;
      machine = std::make_unique<Machine>(error);
      if (number == 1)
        std::atexit([] { get().machine->reportUnreachedFault(); });
    }
    return *machine;
  }
};

/// What the machine knows of a thread.
struct Thread {
  int device = -1;
  uint64_t machine = 0; ///< that counts it

  ~Thread() {
    Process &process = Process::get();
    std::lock_guard<std::mutex> lock(process.mutex);
    if (process.machine && machine == process.number)
      process.machine->scheduler.removeThread();
  }
};

thread_local Thread thisThread;

} // namespace

Call::Call(const char *name)
    : name(name), lock(Process::get().mutex),
      current(&Process::get().getMachine()) {
  current->scheduler.letOthersGo(lock);
}

int Call::check() const {
  if (!current->isInitialized)
    return report(errorNotInitialized, "cuInit was not called");
  return current->getFailure();
}

int Call::check(int &device) const {
  if (int code = check())
    return code;
  device = thisThread.machine == Process::get().number ? thisThread.device : -1;
  if (device < 0)
    return report(errorInvalidContext, "this thread has no current context");
  return success;
}

void Call::setDevice(int device) {
  thisThread.device = device;
  if (thisThread.machine == Process::get().number)
    return;
  thisThread.machine = Process::get().number;
  current->scheduler.addThread();
}

CLEAVE_ENTRY int cuInit(unsigned) {
  Call call("cuInit");
  if (!Process::get().error.empty())
    return call.report(errorInvalidValue, Process::get().error);
  if (call->devices.empty())
    return errorNoDevice;
  call->isInitialized = true;
  return success;
}

CLEAVE_ENTRY void cleaveSimulatedReset() {
  Process &process = Process::get();
  std::lock_guard<std::mutex> lock(process.mutex);
  process.machine.reset();
}
