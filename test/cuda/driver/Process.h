//===- Process.h - How an entry point gets at the machine -----------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_PROCESS_H
#define CLEAVE_TEST_CUDA_DRIVER_PROCESS_H

#include "test/cuda/driver/Codes.h"
#include "test/cuda/driver/Machine.h"

/// Before the definition of an entry point: the libraries export these and
/// nothing else.
#define CLEAVE_ENTRY extern "C" __attribute__((visibility("default")))

// As the product calls them: a definition with other parameters is an error.
using cleave::runtime::cuda::Address;
extern "C" {
#define CLEAVE_DECLARE(name, symbol, ...) int symbol(__VA_ARGS__);
CLEAVE_DRIVER_CALLS(CLEAVE_DECLARE)
#undef CLEAVE_DECLARE
}

namespace cleave::simulated {

/// One call of an entry point: it has the lock, and the machine.
class Call {
public:
  explicit Call(const char *name);

  /// 0 where the machine can be called: initialized, and nothing failed.
  int check() const;
  /// Likewise, and this thread has a device, which `device` becomes.
  int check(int &device) const;

  Machine &machine() const { return *current; }
  Machine *operator->() const { return current; }
  std::unique_lock<std::mutex> &getLock() { return lock; }
  Device &getDevice(int device) const {
    return *current->devices[size_t(device)];
  }
  int report(int code, const std::string &message) const {
    return current->report(code, std::string(name) + ": " + message);
  }

  /// Makes a device this thread's; none with -1.
  void setDevice(int device);

private:
  const char *name;
  std::unique_lock<std::mutex> lock;
  Machine *current;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_PROCESS_H
