//===- Driver.cpp ---------------------------------------------------------===//
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Library.h"
#include <algorithm>
#include <mutex>

using namespace cleave::runtime;
using namespace cleave::runtime::cuda;

//===----------------------------------------------------------------------===//
// Driver
//===----------------------------------------------------------------------===//

/// What a person can do about a result.
static const char *getAdvice(int result) {
  switch (result) {
  case errorEccUncorrectable:
    return "; the GPU found memory errors that it cannot correct: `nvidia-smi "
           "-q -d ECC` and the kernel's Xid messages say more, and the run "
           "must go on elsewhere from its last checkpoint";
  case errorUnknown:
    return "; the GPU may have fallen off the bus (Xid 79 in the kernel's "
           "messages, dmesg), or is in a state that only a reset ends: "
           "`nvidia-smi` shows whether it is there, and the run must go on "
           "elsewhere from its last checkpoint";
  case errorLaunchTimeout:
    return "; a kernel ran longer than this machine lets one run, as is usual "
           "where the GPU draws a screen, too: take another GPU";
  case errorIllegalAddress:
  case errorLaunchFailed:
    return "; a kernel failed on the GPU, which cannot be used any more by "
           "this process: go on from the last checkpoint (--resume), and where "
           "it fails again, `compute-sanitizer` names the kernel";
  case errorOutOfMemory:
    return "; `nvidia-smi` shows who else uses the GPU's memory, and a smaller "
           "micro-batch takes less";
  case errorUnsupportedPtx:
    return "; the executable's code does not run on this GPU with this driver; "
           "a newer driver may take it";
  case errorNoBinaryForGpu:
  case errorInvalidPtx:
    return "; the executable's code does not run on this GPU with this driver: "
           "a later GPU may run it, and --device cpu runs the program without "
           "one";
  default:
    return "; `nvidia-smi` shows the state of the GPU, and the kernel's Xid "
           "messages its errors";
  }
}

static constexpr EntryName entryNames[] = {
#define CLEAVE_NAME(name, symbol, ...) {#name, #symbol},
    CLEAVE_DRIVER_CALLS(CLEAVE_NAME)
#undef CLEAVE_NAME
};

Status Driver::check(int result, const char *call, const char *file,
                     int line) const {
  if (result == success)
    return Status();
  const char *name = nullptr, *meaning = nullptr;
  if (api.getErrorName(result, &name) != success || !name)
    name = "unknown error";
  if (api.getErrorString(result, &meaning) != success || !meaning)
    meaning = "";
  return Status::error(describeFailure(call, entryNames, file, line) + name +
                       " (" + std::to_string(result) + ")" +
                       (*meaning ? ", " : "") + meaning + getAdvice(result));
}

std::string Driver::getVersionText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

Status Driver::load() {
  const char *update = ": install a newer NVIDIA driver; --device cpu runs the "
                       "program without a GPU";
  // Never closed: contexts live as long as the process.
  void *library = dlopen(fileName, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status();
  EntryFinder find(library);
#define CLEAVE_FIND(name, symbol, ...) find(api.name, #symbol);
  CLEAVE_DRIVER_CALLS(CLEAVE_FIND)
#undef CLEAVE_FIND
  if (find.getMissing())
    return Status::error(
        "the CUDA driver is too old: " + std::string(fileName) + " has no " +
        find.getMissing() + "; expects one of CUDA " + getVersionText(oldest) +
        " or later" + update);
  // Streams are mapped to so many queues of the GPU; two in one queue wait for
  // each other, and where one of them waits for another rank, both do. By
  // default there are 8, and ranks have more streams than that: of the program,
  // their lanes, and one a channel. 32 is the most.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  int result = api.init(0);
  if (result == errorNoDevice)
    return Status();
  CLEAVE_RETURN_IF_ERROR(check(result, "init(0)", __FILE__, __LINE__));
  CLEAVE_CUDA(*this, driverGetVersion(&version));
  if (version < oldest)
    return Status::error("the CUDA driver is too old: it is of CUDA " +
                         getVersionText(version) + ", expects " +
                         getVersionText(oldest) + " or later" + update);
  CLEAVE_CUDA(*this, deviceGetCount(&deviceCount));
  return Status();
}

Status Driver::open(const Driver *&driver, std::string &absence) {
  static std::once_flag once;
  static Driver opened;
  static Status status;
  std::call_once(once, [] { status = opened.load(); });
  CLEAVE_RETURN_IF_ERROR(status);
  driver = opened.deviceCount > 0 ? &opened : nullptr;
  if (!driver)
    absence =
        opened.api.init
            ? "this machine has no CUDA device that its driver "
              "knows (`nvidia-smi` lists them)"
            : "this machine has no CUDA driver (" + std::string(fileName) + ")";
  return Status();
}

//===----------------------------------------------------------------------===//
// Context
//===----------------------------------------------------------------------===//

Status Context::create(const Driver &driver, int ordinal,
                       std::unique_ptr<Context> &context) {
  std::unique_ptr<Context> result(new Context(driver));
  CLEAVE_CUDA(driver, deviceGet(&result->device, ordinal));
  char name[256] = {};
  CLEAVE_CUDA(driver, deviceGetName(name, sizeof name - 1, result->device));
  result->name = name;
  auto get = [&](int attribute, int &value) -> Status {
    CLEAVE_CUDA(driver, deviceGetAttribute(&value, attribute, result->device));
    return Status();
  };
  CLEAVE_RETURN_IF_ERROR(get(attributeMajor, result->major));
  CLEAVE_RETURN_IF_ERROR(get(attributeMinor, result->minor));
  CLEAVE_RETURN_IF_ERROR(get(attributeMostShared, result->mostShared));
  CLEAVE_CUDA(driver, primaryContextRetain(&result->handle, result->device));
  context = std::move(result);
  return context->bind();
}

Context::~Context() {
  if (handle)
    driver.api.primaryContextRelease(device);
}

std::string Context::getChip() const {
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

Status Context::bind() const {
  CLEAVE_CUDA(driver, contextSetCurrent(handle));
  return Status();
}

Status Context::loadModule(const void *image, Handle &module) const {
  char log[4096] = {};
  int options[] = {jitErrorLog, jitErrorLogBytes};
  void *values[] = {log, toPointer(sizeof log - 1)};
  void *loaded = nullptr;
  int result = driver.api.moduleLoadDataEx(&loaded, image, 2, options, values);
  Status status = driver.check(result, "moduleLoadDataEx", __FILE__, __LINE__);
  if (!status.ok())
    return Status::error(status.message() + (log[0] ? ": " : "") + log);
  module = Handle(loaded, driver.api.moduleUnload);
  return Status();
}

Status Context::getFunction(const Handle &module, const char *name,
                            void *&function) const {
  int result = driver.api.moduleGetFunction(&function, module.get(), name);
  if (result == errorNotFound)
    return Status::error("the executable has no CUDA kernel \"" +
                         std::string(name) + "\", which the program launches");
  return driver.check(result, "moduleGetFunction", __FILE__, __LINE__);
}

Status Context::createStream(Handle &stream) const {
  void *created = nullptr;
  CLEAVE_CUDA(driver, streamCreate(&created, streamNonBlocking));
  stream = Handle(created, driver.api.streamDestroy);
  return Status();
}

Status Context::createEvent(bool isTimed, Handle &event) const {
  void *created = nullptr;
  CLEAVE_CUDA(driver, eventCreate(&created,
                                  isTimed ? eventDefault : eventDisableTiming));
  event = Handle(created, driver.api.eventDestroy);
  return Status();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Status DeviceMemory::allocate(const Context &context, uint64_t bytes,
                              const std::string &what, DeviceMemory &memory) {
  memory = DeviceMemory();
  if (bytes == 0)
    return Status();
  const Driver &driver = context.getDriver();
  DeviceMemory result;
  int status = driver.api.memAlloc(&result.address, bytes);
  if (status == errorOutOfMemory) {
    size_t free = 0, total = 0;
    CLEAVE_CUDA(driver, memGetInfo(&free, &total));
    return Status::error(
        what + " takes " + std::to_string(bytes) + " bytes, and of the " +
        std::to_string(total) + " bytes of " + context.getName() + " " +
        std::to_string(free) + " are free, " +
        std::to_string(bytes > free ? bytes - free : 0) +
        " too few: a smaller micro-batch, --recompute, --zero or more ranks "
        "take less, and `cleave plan --memory GB` finds a layout that fits "
        "in so much");
  }
  CLEAVE_RETURN_IF_ERROR(driver.check(status, "memAlloc", __FILE__, __LINE__));
  result.driver = &driver;
  result.bytes = bytes;
  memory = std::move(result);
  return Status();
}

DeviceMemory::~DeviceMemory() {
  if (address)
    driver->api.memFree(address);
}

Status PinnedMemory::allocate(const Context &context, uint64_t bytes,
                              PinnedMemory &memory) {
  const Driver &driver = context.getDriver();
  void *data = nullptr;
  int status = driver.api.memHostAlloc(&data, std::max<uint64_t>(bytes, 1), 0);
  if (status == errorOutOfMemory)
    return Status::error("the host has no " + std::to_string(bytes) +
                         " bytes that can be pinned for the GPU: `free` and "
                         "`ulimit -l` say what there is");
  CLEAVE_RETURN_IF_ERROR(
      driver.check(status, "memHostAlloc", __FILE__, __LINE__));
  PinnedMemory result;
  result.driver = &driver;
  result.data = static_cast<std::byte *>(data);
  result.bytes = bytes;
  memory = std::move(result);
  return Status();
}

PinnedMemory::~PinnedMemory() {
  if (data)
    driver->api.memFreeHost(data);
}
