//===- DriverApi.h - What is called of the CUDA driver --------------------===//
//
// libcuda.so.1 is opened when a program runs, so nothing here needs CUDA's
// headers. Each line is one entry point: our name, the driver's symbol, and its
// parameters as cuda.h of CUDA 12 and 13 declares them. CUresult and CUdevice
// are int; contexts, modules, functions, streams, events and graphs are
// pointers to what only the driver knows; CUdeviceptr is 64 bits. It is held to
// cuda.h where that is installed (test/runtime/cuda/prototypes).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_DRIVERAPI_H
#define CLEAVE_RUNTIME_CUDA_DRIVERAPI_H

#include <cstddef>
#include <cstdint>

namespace cleave::runtime::cuda {

/// A byte in device memory.
using Address = uint64_t;

// CUresult
constexpr int success = 0, errorInvalidValue = 1, errorOutOfMemory = 2,
              errorNoDevice = 100, errorInvalidImage = 200,
              errorNoBinaryForGpu = 209, errorEccUncorrectable = 214,
              errorInvalidPtx = 218, errorUnsupportedPtx = 222,
              errorNotFound = 500, errorNotReady = 600,
              errorIllegalAddress = 700, errorLaunchTimeout = 702,
              errorLaunchFailed = 719, errorUnknown = 999;
// CUdevice_attribute
constexpr int attributeMajor = 75, attributeMinor = 76;
// Bytes of shared memory that a block may have, if its kernel asks for them.
constexpr int attributeMostShared = 97;
// CUfunction_attribute: bytes of dynamic shared memory that a launch may have.
constexpr int attributeMaxDynamicShared = 8;
// CUjit_option: the log of errors, and its size in bytes.
constexpr int jitErrorLog = 5, jitErrorLogBytes = 6;
// CUstream_flags, CUevent_flags
constexpr unsigned streamNonBlocking = 1, eventDefault = 0,
                   eventDisableTiming = 2;
// CUevent_record_flags: external is a node of the graph that is captured, by
// which each launch of it records the event.
constexpr unsigned eventRecordDefault = 0, eventRecordExternal = 1;
// CUstreamCaptureMode
constexpr int captureThreadLocal = 1;

#define CLEAVE_DRIVER_CALLS(X)                                                 \
  X(init, cuInit, unsigned)                                                    \
  X(driverGetVersion, cuDriverGetVersion, int *)                               \
  X(getErrorName, cuGetErrorName, int, const char **)                          \
  X(getErrorString, cuGetErrorString, int, const char **)                      \
  X(deviceGetCount, cuDeviceGetCount, int *)                                   \
  X(deviceGet, cuDeviceGet, int *, int)                                        \
  X(deviceGetName, cuDeviceGetName, char *, int, int)                          \
  X(deviceGetAttribute, cuDeviceGetAttribute, int *, int, int)                 \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain, void **, int)              \
  X(primaryContextRelease, cuDevicePrimaryCtxRelease_v2, int)                  \
  X(contextSetCurrent, cuCtxSetCurrent, void *)                                \
  X(contextSynchronize, cuCtxSynchronize)                                      \
  X(memGetInfo, cuMemGetInfo_v2, size_t *, size_t *)                           \
  X(memAlloc, cuMemAlloc_v2, Address *, size_t)                                \
  X(memFree, cuMemFree_v2, Address)                                            \
  X(memHostAlloc, cuMemHostAlloc, void **, size_t, unsigned)                   \
  X(memFreeHost, cuMemFreeHost, void *)                                        \
  X(copyHostToDevice, cuMemcpyHtoD_v2, Address, const void *, size_t)          \
  X(copyDeviceToHost, cuMemcpyDtoH_v2, void *, Address, size_t)                \
  X(copyHostToDeviceAsync, cuMemcpyHtoDAsync_v2, Address, const void *,        \
    size_t, void *)                                                            \
  X(copyDeviceToHostAsync, cuMemcpyDtoHAsync_v2, void *, Address, size_t,      \
    void *)                                                                    \
  X(copyDeviceToDeviceAsync, cuMemcpyDtoDAsync_v2, Address, Address, size_t,   \
    void *)                                                                    \
  X(memsetAsync, cuMemsetD8Async, Address, unsigned char, size_t, void *)      \
  X(moduleLoadDataEx, cuModuleLoadDataEx, void **, const void *, unsigned,     \
    int *, void **)                                                            \
  X(moduleUnload, cuModuleUnload, void *)                                      \
  X(moduleGetFunction, cuModuleGetFunction, void **, void *, const char *)     \
  X(funcSetAttribute, cuFuncSetAttribute, void *, int, int)                    \
  X(launchKernel, cuLaunchKernel, void *, unsigned, unsigned, unsigned,        \
    unsigned, unsigned, unsigned, unsigned, void *, void **, void **)          \
  X(streamCreate, cuStreamCreate, void **, unsigned)                           \
  X(streamDestroy, cuStreamDestroy_v2, void *)                                 \
  X(streamSynchronize, cuStreamSynchronize, void *)                            \
  X(streamWaitEvent, cuStreamWaitEvent, void *, void *, unsigned)              \
  X(eventCreate, cuEventCreate, void **, unsigned)                             \
  X(eventDestroy, cuEventDestroy_v2, void *)                                   \
  X(eventRecord, cuEventRecord, void *, void *)                                \
  X(eventRecordWithFlags, cuEventRecordWithFlags, void *, void *, unsigned)    \
  X(eventSynchronize, cuEventSynchronize, void *)                              \
  X(eventQuery, cuEventQuery, void *)                                          \
  X(eventElapsedTime, cuEventElapsedTime, float *, void *, void *)             \
  X(streamBeginCapture, cuStreamBeginCapture_v2, void *, int)                  \
  X(streamEndCapture, cuStreamEndCapture, void *, void **)                     \
  X(graphInstantiate, cuGraphInstantiateWithFlags, void **, void *,            \
    unsigned long long)                                                        \
  X(graphLaunch, cuGraphLaunch, void *, void *)                                \
  X(graphExecDestroy, cuGraphExecDestroy, void *)                              \
  X(graphDestroy, cuGraphDestroy, void *)

/// The entry points of an opened driver, by our names.
struct DriverApi {
#define CLEAVE_DECLARE(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  CLEAVE_DRIVER_CALLS(CLEAVE_DECLARE)
#undef CLEAVE_DECLARE
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_DRIVERAPI_H
