//===- Driver.h - The CUDA driver, opened when the program runs -----------===//
//
// Nothing here needs CUDA's headers or libraries to build: libcuda.so.1 is
// opened by name, so that a machine without a GPU builds and runs everything
// else.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_DRIVER_H
#define CLEAVE_RUNTIME_CUDA_DRIVER_H

#include "runtime/base/Status.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cleave::runtime::cuda {

/// A byte in device memory.
using Address = uint64_t;
struct Module {
  void *handle = nullptr;
};
struct Function {
  void *handle = nullptr;
};

/// One device and its primary context, current on the thread that opened it.
/// Each call is the driver's of the name given; an error names it.
class Driver {
public:
  /// Opens device 0. Where there is no driver or no device, `driver` stays
  /// null, `absence` says which, and that is no error.
  static Status open(std::unique_ptr<Driver> &driver, std::string &absence);
  ~Driver();
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

  const std::string &getDeviceName() const { return deviceName; }

  /// cuModuleLoadData: a cubin, or PTX that ends in a zero.
  Status loadModule(const void *image, Module &module);
  /// cuModuleUnload
  Status unloadModule(Module module);
  /// cuModuleGetFunction
  Status getFunction(Module module, const char *name, Function &function);
  /// cuMemAlloc: aligned to 256 bytes.
  Status allocate(size_t bytes, Address &address);
  /// cuMemFree
  Status free(Address address);
  /// cuMemcpyHtoD, cuMemcpyDtoH
  Status copyToDevice(Address to, const void *from, size_t bytes);
  Status copyToHost(void *to, Address from, size_t bytes);
  /// cuLaunchKernel on the default stream, in one dimension; `parameters` holds
  /// the address of each.
  Status launch(Function function, unsigned blocks, unsigned threads,
                void **parameters);
  /// cuCtxSynchronize
  Status synchronize();

private:
  Driver() = default;
  struct Api;
  std::unique_ptr<Api> api;
  std::string deviceName;
  int device = 0;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_DRIVER_H
