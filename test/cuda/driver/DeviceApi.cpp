//===- DeviceApi.cpp - Devices, contexts, memory, modules, errors ---------===//
#include "test/cuda/driver/Process.h"
#include <cstring>

using namespace cleave::simulated;

namespace {

constexpr int mostShared = 227 << 10; // of a block, of capability 9.0

/// The primary context of a device, as callers hold it.
void *getContext(int device) {
  return reinterpret_cast<void *>(uintptr_t(0xC0ull << 48) +
                                  uintptr_t(device + 1) * 0x10);
}

int findDevice(const Call &call, int device) {
  if (device < 0 || size_t(device) >= call->devices.size())
    return call.report(errorInvalidDevice,
                       "there is no device " + std::to_string(device));
  return success;
}

} // namespace

CLEAVE_ENTRY int cuDriverGetVersion(int *version) {
  *version = Call("cuDriverGetVersion")->options.driverVersion;
  return success;
}

CLEAVE_ENTRY int cuGetErrorName(int code, const char **name) {
  *name = getCodeName(code);
  return *name ? success : errorInvalidValue;
}

/// Of the failure that ended everything: what failed.
CLEAVE_ENTRY int cuGetErrorString(int code, const char **text) {
  static thread_local std::string kept;
  Call call("cuGetErrorString");
  *text = nullptr;
  const char *name = getCodeName(code);
  if (!name)
    return errorInvalidValue;
  kept = code != success && code == call->getFailure() ? call->getFailureText()
                                                       : name;
  *text = kept.c_str();
  return success;
}

CLEAVE_ENTRY int cuDeviceGetCount(int *count) {
  Call call("cuDeviceGetCount");
  if (int code = call.check())
    return code;
  *count = int(call->devices.size());
  return success;
}

CLEAVE_ENTRY int cuDeviceGet(int *device, int ordinal) {
  Call call("cuDeviceGet");
  if (int code = call.check())
    return code;
  *device = ordinal;
  return findDevice(call, ordinal);
}

CLEAVE_ENTRY int cuDeviceGetName(char *name, int size, int device) {
  Call call("cuDeviceGetName");
  if (int code = call.check())
    return code;
  if (int code = findDevice(call, device))
    return code;
  if (size < 1)
    return call.report(errorInvalidValue, "no room for the name");
  std::strncpy(name, "Cleave simulated GPU (no hardware)", size_t(size));
  name[size - 1] = 0;
  return success;
}

CLEAVE_ENTRY int cuDeviceGetAttribute(int *value, int attribute, int device) {
  Call call("cuDeviceGetAttribute");
  if (int code = call.check())
    return code;
  if (int code = findDevice(call, device))
    return code;
  switch (attribute) {
  case attributeMajor:
    *value = call->options.arch / 10;
    return success;
  case attributeMinor:
    *value = call->options.arch % 10;
    return success;
  case attributeMostShared:
    *value = mostShared;
    return success;
  default:
    return call.report(errorInvalidValue, "the simulated device has no "
                                          "attribute " +
                                              std::to_string(attribute));
  }
}

CLEAVE_ENTRY int cuDevicePrimaryCtxRetain(void **context, int device) {
  Call call("cuDevicePrimaryCtxRetain");
  if (int code = call.check())
    return code;
  if (int code = findDevice(call, device))
    return code;
  ++call.getDevice(device).retained;
  *context = getContext(device);
  return success;
}

/// The last one ends all that the context had.
CLEAVE_ENTRY int cuDevicePrimaryCtxRelease_v2(int device) {
  Call call("cuDevicePrimaryCtxRelease");
  if (int code = call.check())
    return code;
  if (int code = findDevice(call, device))
    return code;
  if (call.getDevice(device).retained == 0)
    return call.report(errorInvalidContext, "the context was not retained");
  if (--call.getDevice(device).retained > 0)
    return success;
  int code = call->waitForDevice(call.getLock(), device);
  auto isOfDevice = [&](auto &value) { return value.device == device; };
  call->streams.forEach([&](Stream &stream) {
    if (stream.device == device)
      call->scheduler.closeLane(*stream.lane);
  });
  call->streams.removeIf(isOfDevice);
  call->events.removeIf(isOfDevice);
  call->functions.removeIf(isOfDevice);
  call->modules.removeIf(isOfDevice);
  call.getDevice(device).memory.freeAll();
  return code;
}

CLEAVE_ENTRY int cuCtxSetCurrent(void *context) {
  Call call("cuCtxSetCurrent");
  if (int code = call.check())
    return code;
  if (!context) {
    call.setDevice(-1);
    return success;
  }
  for (size_t i = 0; i < call->devices.size(); ++i)
    if (context == getContext(int(i)) && call->devices[i]->retained > 0) {
      call.setDevice(int(i));
      return success;
    }
  return call.report(errorInvalidContext, "no such context");
}

CLEAVE_ENTRY int cuCtxSynchronize() {
  Call call("cuCtxSynchronize");
  int device;
  if (int code = call.check(device))
    return code;
  if (int code = call->refuseWhileCapturing("cuCtxSynchronize"))
    return code;
  return call->waitForDevice(call.getLock(), device);
}

CLEAVE_ENTRY int cuMemGetInfo_v2(size_t *free, size_t *total) {
  Call call("cuMemGetInfo");
  int device;
  if (int code = call.check(device))
    return code;
  *free = call.getDevice(device).memory.getFree();
  *total = call.getDevice(device).memory.getTotal();
  return success;
}

CLEAVE_ENTRY int cuMemAlloc_v2(Address *address, size_t bytes) {
  Call call("cuMemAlloc");
  int device;
  if (int code = call.check(device))
    return code;
  if (int code = call->refuseWhileCapturing("cuMemAlloc"))
    return code;
  if (bytes == 0)
    return call.report(errorInvalidValue, "0 bytes");
  return call.getDevice(device).memory.allocate(bytes, *address)
             ? success
             : errorOutOfMemory;
}

/// Waits for nothing: what is enqueued and needs the bytes fails.
CLEAVE_ENTRY int cuMemFree_v2(Address address) {
  Call call("cuMemFree");
  int device;
  if (int code = call.check(device))
    return code;
  if (int code = call->refuseWhileCapturing("cuMemFree"))
    return code;
  if (address == 0 || call.getDevice(device).memory.free(address))
    return success;
  return call.report(errorInvalidValue, "no allocation begins there");
}

CLEAVE_ENTRY int cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  Call call("cuMemHostAlloc");
  int device;
  if (int code = call.check(device))
    return code;
  if (int code = call->refuseWhileCapturing("cuMemHostAlloc"))
    return code;
  if (bytes == 0)
    return call.report(errorInvalidValue, "0 bytes");
  *pointer = call->pinned.allocate(bytes);
  return *pointer ? success : errorOutOfMemory;
}

CLEAVE_ENTRY int cuMemFreeHost(void *pointer) {
  Call call("cuMemFreeHost");
  int device;
  if (int code = call.check(device))
    return code;
  if (int code = call->refuseWhileCapturing("cuMemFreeHost"))
    return code;
  if (call->pinned.free(pointer))
    return success;
  return call.report(errorInvalidValue, "no pinned memory begins there");
}

/// Into the error log among the options, if any: CU_JIT_ERROR_LOG_BUFFER and
/// its size.
static void writeLog(const std::string &message, unsigned count, int *options,
                     void **values) {
  char *buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == 6)
      size = unsigned(uintptr_t(values[i]));
  }
  if (!buffer || size == 0)
    return;
  std::strncpy(buffer, message.c_str(), size);
  buffer[size - 1] = 0;
}

CLEAVE_ENTRY int cuModuleLoadDataEx(void **module, const void *data,
                                    unsigned count, int *options,
                                    void **values) {
  Call call("cuModuleLoadDataEx");
  int device;
  if (int code = call.check(device))
    return code;
  if (int code = call->refuseWhileCapturing("cuModuleLoadDataEx"))
    return code;
  if (!data)
    return call.report(errorInvalidValue, "no image");
  auto loaded = std::make_unique<Module>();
  loaded->device = device;
  std::string why;
  int code = Image::parse(data, loaded->image, why);
  if (code == success)
    code = loaded->image.checkArch(call->options.arch, why);
  if (code != success) {
    writeLog(why, count, options, values);
    return call.report(code, why);
  }
  *module = call->modules.add(std::move(loaded));
  return success;
}

CLEAVE_ENTRY int cuModuleUnload(void *module) {
  Call call("cuModuleUnload");
  int device;
  if (int code = call.check(device))
    return code;
  if (!call->modules.remove(module))
    return call.report(errorInvalidHandle, "no such module");
  call->functions.removeIf(
      [&](FunctionHandle &function) { return function.module == module; });
  return success;
}

CLEAVE_ENTRY int cuModuleGetFunction(void **function, void *module,
                                     const char *name) {
  Call call("cuModuleGetFunction");
  int device;
  if (int code = call.check(device))
    return code;
  Module *found = call->modules.find(module);
  if (!found)
    return call.report(errorInvalidHandle, "no such module");
  if (!found->image.functions.contains(name))
    return call.report(errorNotFound, std::string("the module has no ") + name);
  std::string why;
  auto handle = std::make_unique<FunctionHandle>();
  handle->function = call->engine->find(found->image, name, why);
  if (!handle->function)
    return call.report(errorNotFound, std::string(name) + ": " + why);
  handle->name = name;
  handle->module = module;
  handle->device = found->device;
  *function = call->functions.add(std::move(handle));
  return success;
}

CLEAVE_ENTRY int cuFuncSetAttribute(void *function, int attribute, int value) {
  Call call("cuFuncSetAttribute");
  int device;
  if (int code = call.check(device))
    return code;
  FunctionHandle *found = call->functions.find(function);
  if (!found)
    return call.report(errorInvalidHandle, "no such function");
  if (attribute != attributeMaxDynamicShared || value < 0 || value > mostShared)
    return call.report(errorInvalidValue,
                       "attribute " + std::to_string(attribute) + " = " +
                           std::to_string(value) + " of " + found->name);
  found->maxDynamicShared = unsigned(value);
  return success;
}
