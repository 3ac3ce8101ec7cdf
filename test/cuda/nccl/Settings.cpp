//===- Settings.cpp -------------------------------------------------------===//
#include "test/cuda/nccl/Settings.h"
#include <chrono>
#include <cstdlib>
#include <string_view>

using namespace cleave::simulated;

/// The driver, which reads the same variables, tells what is wrong with them.
Settings Settings::read() {
  Settings settings;
  auto get = [](const char *variable) {
    const char *text = std::getenv(variable);
    return text && *text ? text : nullptr;
  };
  if (const char *text = get("CLEAVE_SIMULATED_SEED"))
    settings.seed = std::strtoull(text, nullptr, 10);
  if (const char *text = get("CLEAVE_SIMULATED_PATIENCE"))
    settings.patience = std::strtod(text, nullptr);
  const char *list = get("CLEAVE_SIMULATED_FAULT");
  std::string_view faults = list ? list : "";
  while (!faults.empty()) {
    std::string fault(faults.substr(0, faults.find(',')));
    faults.remove_prefix(std::min(fault.size() + 1, faults.size()));
    settings.isOld |= fault == "nccl-old";
    settings.hasNoId |= fault == "nccl-id";
    settings.idHangs |= fault == "nccl-id-hangs";
    settings.idDies |= fault == "nccl-id-dies";
    constexpr std::string_view error = "nccl-error@";
    if (fault.starts_with(error))
      settings.failing =
          std::strtoull(fault.c_str() + error.size(), nullptr, 10);
  }
  return settings;
}

double cleave::simulated::getSeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
