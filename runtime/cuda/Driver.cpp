//===- Driver.cpp - The CUDA driver, opened when the program runs ---------===//
#include "runtime/cuda/Driver.h"
#include <dlfcn.h>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

/// The driver's entry points, as cuda.h of CUDA 12 and 13 declares them.
/// CUresult and CUdevice are int; contexts, modules, functions and streams are
/// pointers; CUdeviceptr is 64 bits.
struct Driver::Api {
  void *library = nullptr;
  int (*init)(unsigned);
  int (*getErrorName)(int, const char **);
  int (*deviceGetCount)(int *);
  int (*deviceGet)(int *, int);
  int (*deviceGetName)(char *, int, int);
  int (*primaryContextRetain)(void **, int);
  int (*primaryContextRelease)(int);
  int (*contextSetCurrent)(void *);
  int (*contextSynchronize)();
  int (*moduleLoadData)(void **, const void *);
  int (*moduleUnload)(void *);
  int (*moduleGetFunction)(void **, void *, const char *);
  int (*memAlloc)(Address *, size_t);
  int (*memFree)(Address);
  int (*copyHostToDevice)(Address, const void *, size_t);
  int (*copyDeviceToHost)(void *, Address, size_t);
  int (*launchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, void *, void **, void **);

  ~Api() {
    if (library)
      dlclose(library);
  }
  Status load();
  Status check(int result, const char *call, const char *file, int line) const;
};

/// Returns an error that names the call, where `call` fails.
#define CLEAVE_CUDA(api, call)                                                 \
  CLEAVE_RETURN_IF_ERROR((api).check((api).call, #call, __FILE__, __LINE__))

Status Driver::Api::check(int result, const char *call, const char *file,
                          int line) const {
  if (result == 0)
    return Status();
  const char *name = nullptr;
  if (getErrorName(result, &name) != 0 || !name)
    name = "unknown error";
  return Status::error("CUDA call " + std::string(call) + " failed: " + name +
                       " (" + std::to_string(result) + ") at " + file + ":" +
                       std::to_string(line));
}

Status Driver::Api::load() {
  Status status;
  auto find = [&](auto &entry, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol && status.ok())
      status = Status::error("libcuda.so.1 has no " + std::string(name));
    entry = reinterpret_cast<std::decay_t<decltype(entry)>>(symbol);
  };
  find(init, "cuInit");
  find(getErrorName, "cuGetErrorName");
  find(deviceGetCount, "cuDeviceGetCount");
  find(deviceGet, "cuDeviceGet");
  find(deviceGetName, "cuDeviceGetName");
  find(primaryContextRetain, "cuDevicePrimaryCtxRetain");
  find(primaryContextRelease, "cuDevicePrimaryCtxRelease_v2");
  find(contextSetCurrent, "cuCtxSetCurrent");
  find(contextSynchronize, "cuCtxSynchronize");
  find(moduleLoadData, "cuModuleLoadData");
  find(moduleUnload, "cuModuleUnload");
  find(moduleGetFunction, "cuModuleGetFunction");
  find(memAlloc, "cuMemAlloc_v2");
  find(memFree, "cuMemFree_v2");
  find(copyHostToDevice, "cuMemcpyHtoD_v2");
  find(copyDeviceToHost, "cuMemcpyDtoH_v2");
  find(launchKernel, "cuLaunchKernel");
  return status;
}

Status Driver::open(std::unique_ptr<Driver> &driver, std::string &absence) {
  auto api = std::make_unique<Api>();
  api->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!api->library) {
    absence = "no CUDA driver";
    return Status();
  }
  CLEAVE_RETURN_IF_ERROR(api->load());
  constexpr int noDevice = 100; // CUDA_ERROR_NO_DEVICE
  int result = api->init(0);
  int count = 0;
  if (result == 0)
    CLEAVE_CUDA(*api, deviceGetCount(&count));
  if (result == noDevice || (result == 0 && count == 0)) {
    absence = "no CUDA device";
    return Status();
  }
  CLEAVE_RETURN_IF_ERROR(api->check(result, "init(0)", __FILE__, __LINE__));

  std::unique_ptr<Driver> opened(new Driver);
  CLEAVE_CUDA(*api, deviceGet(&opened->device, 0));
  char name[256] = {};
  CLEAVE_CUDA(*api, deviceGetName(name, sizeof name - 1, opened->device));
  opened->deviceName = name;
  void *context = nullptr;
  CLEAVE_CUDA(*api, primaryContextRetain(&context, opened->device));
  opened->api = std::move(api);
  CLEAVE_CUDA(*opened->api, contextSetCurrent(context));
  driver = std::move(opened);
  return Status();
}

Driver::~Driver() {
  if (api)
    api->primaryContextRelease(device);
}

Status Driver::loadModule(const void *image, Module &module) {
  CLEAVE_CUDA(*api, moduleLoadData(&module.handle, image));
  return Status();
}

Status Driver::unloadModule(Module module) {
  CLEAVE_CUDA(*api, moduleUnload(module.handle));
  return Status();
}

Status Driver::getFunction(Module module, const char *name,
                           Function &function) {
  CLEAVE_CUDA(*api, moduleGetFunction(&function.handle, module.handle, name));
  return Status();
}

Status Driver::allocate(size_t bytes, Address &address) {
  CLEAVE_CUDA(*api, memAlloc(&address, bytes));
  return Status();
}

Status Driver::free(Address address) {
  CLEAVE_CUDA(*api, memFree(address));
  return Status();
}

Status Driver::copyToDevice(Address to, const void *from, size_t bytes) {
  CLEAVE_CUDA(*api, copyHostToDevice(to, from, bytes));
  return Status();
}

Status Driver::copyToHost(void *to, Address from, size_t bytes) {
  CLEAVE_CUDA(*api, copyDeviceToHost(to, from, bytes));
  return Status();
}

Status Driver::launch(Function function, unsigned blocks, unsigned threads,
                      void **parameters) {
  CLEAVE_CUDA(*api, launchKernel(function.handle, blocks, 1, 1, threads, 1, 1,
                                 0, nullptr, parameters, nullptr));
  return Status();
}

Status Driver::synchronize() {
  CLEAVE_CUDA(*api, contextSynchronize());
  return Status();
}
