//===- Simulated.h - The simulated machine, as a test opens it ------------===//
#ifndef CLEAVE_TEST_CUDA_SIMULATED_H
#define CLEAVE_TEST_CUDA_SIMULATED_H

#include "runtime/cuda/CublasLtApi.h"
#include "runtime/cuda/DriverApi.h"
#include "test/cuda/driver/Work.h"
#include "gtest/gtest.h"
#include <dlfcn.h>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace cleave::simulated {

using namespace runtime::cuda;

/// The libraries, opened as the product opens them.
struct Libraries {
  DriverApi driver;
  CublasLtApi cublasLt;
  int (*enqueue)(void *, Work *);
  void (*reset)();

  static const Libraries &get() {
    static const Libraries libraries;
    return libraries;
  }

private:
  Libraries() {
    std::string folder = CLEAVE_SIMULATED_FOLDER;
    void *library = open(folder + "/libcuda.so.1");
#define CLEAVE_FIND(name, symbol, ...) find(library, #symbol, driver.name);
    CLEAVE_DRIVER_CALLS(CLEAVE_FIND)
    find(library, "cleaveSimulatedEnqueue", enqueue);
    find(library, "cleaveSimulatedReset", reset);
    library = open(folder + "/libcublasLt.so.13");
#undef CLEAVE_FIND
#define CLEAVE_FIND(name, symbol, ...) find(library, #symbol, cublasLt.name);
    CLEAVE_CUBLASLT_CALLS(CLEAVE_FIND)
#undef CLEAVE_FIND
    find(library, "cublasLtGetVersion", cublasLt.getVersion);
  }
  static void *open(const std::string &path) {
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      ADD_FAILURE() << dlerror();
    return library;
  }
  template <typename T>
  static void find(void *library, const char *name, T &entry) {
    entry = reinterpret_cast<T>(dlsym(library, name));
    if (!entry)
      ADD_FAILURE() << "no " << name;
  }
};

/// A new machine with one context, current on this thread. Calls that are
/// expected to succeed are its functions.
class Simulation {
public:
  using Settings = std::map<std::string, std::string>;

  /// Of `CLEAVE_SIMULATED_` variables, by the rest of their names.
  static void reset(const Settings &settings) {
    for (const char *name :
         {"GPUS", "MEMORY", "SEED", "ENGINE", "THREADS", "PATIENCE", "FAULT"}) {
      auto found = settings.find(name);
      std::string variable = std::string("CLEAVE_SIMULATED_") + name;
      if (found == settings.end())
        unsetenv(variable.c_str());
      else
        setenv(variable.c_str(), found->second.c_str(), 1);
    }
    Libraries::get().reset();
  }

  Simulation() : Simulation(std::initializer_list<Settings::value_type>{}) {}
  explicit Simulation(uint64_t seed)
      : Simulation{{"SEED", std::to_string(seed)}} {}
  Simulation(std::initializer_list<Settings::value_type> list) {
    Settings settings(list);
    settings.emplace("MEMORY", std::to_string(64 << 20));
    settings.emplace("THREADS", "1");
    reset(settings);
    EXPECT_EQ(cuda.init(0), success);
    void *context = nullptr;
    EXPECT_EQ(cuda.primaryContextRetain(&context, 0), success);
    EXPECT_EQ(cuda.contextSetCurrent(context), success);
  }

  Address allocate(size_t bytes) const {
    Address address = 0;
    EXPECT_EQ(cuda.memAlloc(&address, bytes), success);
    return address;
  }
  template <typename T>
  T *allocatePinned(size_t count) const {
    void *pointer = nullptr;
    EXPECT_EQ(cuda.memHostAlloc(&pointer, count * sizeof(T), 0), success);
    return static_cast<T *>(pointer);
  }
  /// That does not wait for the legacy stream.
  void *makeStream(unsigned flags = streamNonBlocking) const {
    void *stream = nullptr;
    EXPECT_EQ(cuda.streamCreate(&stream, flags), success);
    return stream;
  }
  void *makeEvent(unsigned flags = eventDisableTiming) const {
    void *event = nullptr;
    EXPECT_EQ(cuda.eventCreate(&event, flags), success);
    return event;
  }
  /// `second` goes on behind all that `first` has.
  void order(void *first, void *second) const {
    void *event = makeEvent();
    EXPECT_EQ(cuda.eventRecord(event, first), success);
    EXPECT_EQ(cuda.streamWaitEvent(second, event, 0), success);
    EXPECT_EQ(cuda.eventDestroy(event), success);
  }
  template <typename T>
  Address upload(const std::vector<T> &values) const {
    Address address = allocate(values.size() * sizeof(T));
    EXPECT_EQ(cuda.copyHostToDevice(address, values.data(),
                                    values.size() * sizeof(T)),
              success);
    EXPECT_EQ(cuda.contextSynchronize(), success);
    return address;
  }
  template <typename T>
  std::vector<T> download(Address address, size_t count) const {
    std::vector<T> values(count);
    EXPECT_EQ(cuda.contextSynchronize(), success);
    EXPECT_EQ(cuda.copyDeviceToHost(values.data(), address, count * sizeof(T)),
              success);
    return values;
  }
  /// The function `name` of a module that has nothing else.
  void *getFunction(const std::string &name) const {
    std::string ptx = ".version 8.0\n.target sm_90\n.address_size 64\n"
                      ".visible .entry " +
                      name + "()\n{\n  ret;\n}\n";
    void *module = nullptr, *function = nullptr;
    EXPECT_EQ(cuda.moduleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr),
              success);
    EXPECT_EQ(cuda.moduleGetFunction(&function, module, name.c_str()), success);
    return function;
  }
  int launch(void *function, void **parameters, void *stream) const {
    return cuda.launchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters,
                             nullptr);
  }

  const DriverApi &cuda = Libraries::get().driver;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_SIMULATED_H
