//===- Work.h - What a stream of the simulated machine executes -----------===//
//
// The joint between the simulated driver and the simulated libraries beside it
// (cuBLASLt, collectives): a library makes a Work and hands it to the driver's
// cleaveSimulatedEnqueue. Both are built from this file by one compiler, so the
// classes are passed as they are.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_WORK_H
#define CLEAVE_TEST_CUDA_DRIVER_WORK_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace cleave::cpu {
class ThreadPool;
struct GemmArgs;
} // namespace cleave::cpu

namespace cleave::simulated {

/// A byte in device memory. No host code can read or write there: a Work asks
/// its Execution where the byte really is.
using Address = uint64_t;

/// One execution of a Work: where it runs, and what it may touch.
class Execution {
public:
  /// Host address of the device bytes [address, address + bytes), which one
  /// live allocation must hold; else a fault that names the Work and `operand`,
  /// and null. Valid until execute() returns.
  virtual std::byte *translate(Address address, uint64_t bytes,
                               const char *operand) = 0;
  /// The last live allocation that begins at or before `address`; null where
  /// there is none.
  virtual std::byte *findAllocation(Address address, Address &begin,
                                    uint64_t &bytes) = 0;
  /// The operation ends as a CUresult, and so does all that follows. `message`
  /// is for a person.
  virtual void fail(int code, const std::string &message) = 0;
  /// Whether fail() was called, by translate() or by the Work.
  virtual bool hasFailed() const = 0;
  /// The machine's compute threads. No other Work runs meanwhile. For the
  /// driver's own code alone: threads that wait for an atomic are known to the
  /// C++ library that they wait by, and each library here has one.
  virtual cpu::ThreadPool &getPool() = 0;
  /// The CPU's product, on these threads.
  virtual void multiply(const cpu::GemmArgs &args) = 0;
  virtual int getDevice() const = 0;
  /// A number that no other operation of this process has. Each replay of a
  /// captured Work is an operation of its own.
  virtual uint64_t getOperation() const = 0;

protected:
  ~Execution() = default;
};

enum class Progress : uint8_t {
  Done,
  /// It waits for something but the order of its stream, as a collective does
  /// for its peers, and will be asked again. Nothing behind it begins.
  Blocked
};

/// An operation, as it was enqueued or captured. execute() is called under the
/// machine's lock, by whichever thread synchronizes, and calls no entry point.
class Work {
public:
  virtual ~Work() = default;
  /// For messages: "cuMemcpyHtoDAsync of 256 bytes".
  virtual std::string getName() const = 0;
  virtual Progress execute(Execution &execution) const = 0;
  /// Whether it is but a place in a stream, which executes nothing.
  virtual bool isMarker() const { return false; }
  /// Whether another process may end the wait of a Blocked one.
  virtual bool meetsOtherProcesses() const { return false; }
};

} // namespace cleave::simulated

extern "C" {

/// Appends to a stream (null: the legacy default stream of the current
/// context) as cuLaunchKernel does, captures included. Takes `work` over in any
/// case. Returns a CUresult.
int cleaveSimulatedEnqueue(void *stream, cleave::simulated::Work *work);

/// Forgets every device, allocation, stream and error, and reads the
/// environment anew: a test's next machine. Only while no other thread calls.
void cleaveSimulatedReset();
}

#endif // CLEAVE_TEST_CUDA_DRIVER_WORK_H
