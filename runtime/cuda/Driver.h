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
#include "runtime/cuda/DriverApi.h"
#include <memory>
#include <string>
#include <utility>

namespace cleave::runtime::cuda {

/// The driver of the process.
class Driver {
public:
  static constexpr const char *fileName = "libcuda.so.1";
  static constexpr int oldest = 12000; ///< as getVersion()

  /// Opens and initializes it at the first call. Where there is no driver or no
  /// device, `driver` becomes null, `absence` says which, and that is no error.
  static Status open(const Driver *&driver, std::string &absence);

  int getDeviceCount() const { return deviceCount; }
  /// 1000 * the major number of CUDA + 10 * the minor one.
  int getVersion() const { return version; }
  /// "12.0" of 12000
  static std::string getVersionText(int version);

  /// What a call's result means: success, or an error that names the call and,
  /// where that is known, what to do.
  Status check(int result, const char *call, const char *file, int line) const;

  DriverApi api;

private:
  Status load();

  int deviceCount = 0, version = 0;
};

/// Returns an error that names the call, where a call of the driver fails.
#define CLEAVE_CUDA(driver, call)                                              \
  CLEAVE_RETURN_IF_ERROR(                                                      \
      (driver).check((driver).api.call, #call, __FILE__, __LINE__))

/// The address as CUDA's libraries and the parameters of kernels have it. The
/// host never follows it.
template <typename T = void>
T *toPointer(Address address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): no object of the host's
  return reinterpret_cast<T *>(address);
}

/// A handle of the driver's that is given back when its owner ends.
class Handle {
public:
  using Release = int (*)(void *);

  Handle() = default;
  Handle(void *handle, Release release) : handle(handle), release(release) {}
  Handle(Handle &&other) noexcept { swap(other); }
  Handle &operator=(Handle &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Handle() {
    if (handle)
      release(handle);
  }

  void *get() const { return handle; }
  explicit operator bool() const { return handle; }

private:
  void swap(Handle &other) noexcept {
    std::swap(handle, other.handle);
    std::swap(release, other.release);
  }

  void *handle = nullptr;
  Release release = nullptr;
};

/// One GPU's primary context.
class Context {
public:
  /// Of the GPU of that number; current on the thread that calls.
  static Status create(const Driver &driver, int ordinal,
                       std::unique_ptr<Context> &context);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  const Driver &getDriver() const { return driver; }
  const std::string &getName() const { return name; }
  /// "sm_90"
  std::string getChip() const;
  /// Bytes of shared memory that a block may have.
  unsigned getMostShared() const { return unsigned(mostShared); }

  /// Makes it the calling thread's.
  Status bind() const;

  /// cuModuleLoadDataEx: a cubin, or PTX that ends in a zero. An error has what
  /// the driver's compiler says.
  Status loadModule(const void *image, Handle &module) const;
  /// cuModuleGetFunction
  Status getFunction(const Handle &module, const char *name,
                     void *&function) const;
  /// cuStreamCreate, cuEventCreate; a stream does not wait for the default one.
  Status createStream(Handle &stream) const;
  Status createEvent(bool isTimed, Handle &event) const;

private:
  explicit Context(const Driver &driver) : driver(driver) {}

  const Driver &driver;
  int device = 0, major = 0, minor = 0, mostShared = 0;
  void *handle = nullptr;
  std::string name;
};

/// Device memory, aligned to 256 bytes.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  /// cuMemAlloc. `what` it is for is named where it does not fit, with what is
  /// missing. 0 bytes: none.
  static Status allocate(const Context &context, uint64_t bytes,
                         const std::string &what, DeviceMemory &memory);

  Address getAddress() const { return address; }
  uint64_t getSize() const { return bytes; }

private:
  void swap(DeviceMemory &other) noexcept {
    std::swap(driver, other.driver);
    std::swap(address, other.address);
    std::swap(bytes, other.bytes);
  }

  const Driver *driver = nullptr;
  Address address = 0;
  uint64_t bytes = 0;
};

/// Memory of the host that a GPU reads and writes by itself, while the host
/// goes on.
class PinnedMemory {
public:
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory &&other) noexcept { swap(other); }
  PinnedMemory &operator=(PinnedMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedMemory();

  /// cuMemHostAlloc
  static Status allocate(const Context &context, uint64_t bytes,
                         PinnedMemory &memory);

  std::byte *getData() const { return data; }
  uint64_t getSize() const { return bytes; }

private:
  void swap(PinnedMemory &other) noexcept {
    std::swap(driver, other.driver);
    std::swap(data, other.data);
    std::swap(bytes, other.bytes);
  }

  const Driver *driver = nullptr;
  std::byte *data = nullptr;
  uint64_t bytes = 0;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_DRIVER_H
