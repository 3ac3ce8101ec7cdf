//===- Options.cpp --------------------------------------------------------===//
#include "test/cuda/driver/Options.h"
#include "runtime/cuda/DriverApi.h"
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

using namespace cleave::simulated;
using namespace cleave::runtime::cuda;

template <typename T>
static bool parse(std::string_view text, T &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Leaves `value` as it is where the variable is not set, or empty.
template <typename T>
static std::string readNumber(const char *variable, T least, T &value) {
  const char *text = std::getenv(variable);
  if (!text || !*text)
    return {};
  T read;
  if (!parse(std::string_view(text), read) || read < least)
    return std::string(variable) + " is \"" + text + "\", expects a number";
  value = read;
  return {};
}

static bool readFault(std::string_view fault, Options &options) {
  auto take = [&](std::string_view prefix) {
    if (!fault.starts_with(prefix))
      return false;
    fault.remove_prefix(prefix.size());
    return true;
  };
  if (fault == "no-device") {
    options.hasDevice = false;
    return true;
  }
  if (fault == "old-driver") {
    options.driverVersion = 11000;
    return true;
  }
  // That library reads them.
  if (fault.starts_with("nccl-"))
    return true;
  if (take("arch="))
    return parse(fault, options.arch) && options.arch >= 10;
  if (take("memory="))
    return parse(fault, options.memoryBytes);
  if (take("ecc@"))
    options.fault.code = errorEccUncorrectable;
  else if (take("illegal@"))
    options.fault.code = errorIllegalAddress;
  else if (take("timeout@"))
    options.fault.code = errorLaunchTimeout;
  else if (take("gone@"))
    options.fault.code = errorUnknown;
  else if (take("hang@"))
    options.fault.code = success;
  else
    return false;
  return parse(fault, options.fault.operation) && options.fault.operation > 0;
}

std::string Options::read(Options &options) {
  options = {};
  options.memoryBytes = uint64_t(2) << 30;
  std::vector<std::string> errors = {
      readNumber("CLEAVE_SIMULATED_GPUS", 0, options.devices),
      readNumber<uint64_t>("CLEAVE_SIMULATED_MEMORY", 1, options.memoryBytes),
      readNumber<uint64_t>("CLEAVE_SIMULATED_SEED", 0, options.seed),
      readNumber("CLEAVE_SIMULATED_THREADS", 1, options.threads),
      readNumber("CLEAVE_SIMULATED_PATIENCE", 0.0, options.patience)};
  for (const std::string &error : errors)
    if (!error.empty())
      return error;
  if (const char *engine = std::getenv("CLEAVE_SIMULATED_ENGINE"))
    if (*engine)
      options.engine = engine;
  if (const char *log = std::getenv("CLEAVE_SIMULATED_LOG"))
    options.log = log;
  // Newer than any cubin, so that the driver is given PTX.
  if (options.engine == "ptx")
    options.arch = 100;
  const char *list = std::getenv("CLEAVE_SIMULATED_FAULT");
  std::string_view faults = list ? list : "";
  while (!faults.empty()) {
    std::string_view fault = faults.substr(0, faults.find(','));
    if (!readFault(fault, options))
      return "CLEAVE_SIMULATED_FAULT has \"" + std::string(fault) +
             "\", expects no-device, old-driver, arch=80, memory=BYTES, ecc@N, "
             "illegal@N, timeout@N, gone@N, hang@N, nccl-old, nccl-error@N, "
             "nccl-id, "
             "nccl-id-hangs or nccl-id-dies";
    faults.remove_prefix(std::min(fault.size() + 1, faults.size()));
  }
  return {};
}
