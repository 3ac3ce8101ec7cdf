//===- Options.h - What the environment says of the simulated machine -----===//
#ifndef CLEAVE_TEST_CUDA_DRIVER_OPTIONS_H
#define CLEAVE_TEST_CUDA_DRIVER_OPTIONS_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace cleave::simulated {

/// A failure that is wished for: the operation of that number, counted from 1
/// in the order of their execution, ends as `code`, or never where that is
/// success, and then none behind it begins.
struct WishedFault {
  uint64_t operation = 0; ///< 0: none
  int code = 0;
};

struct Options {
  int devices = 1;             ///< CLEAVE_SIMULATED_GPUS
  uint64_t memoryBytes = 0;    ///< CLEAVE_SIMULATED_MEMORY, of each device
  uint64_t seed = 0;           ///< CLEAVE_SIMULATED_SEED, of the scheduler
  std::string engine = "twin"; ///< CLEAVE_SIMULATED_ENGINE
  int threads = 0;             ///< CLEAVE_SIMULATED_THREADS; 0: the cores
  /// CLEAVE_SIMULATED_PATIENCE: seconds for which a thread that can execute
  /// nothing waits for the others.
  double patience = 30;
  std::string log; ///< CLEAVE_SIMULATED_LOG, a file that is added to
  // CLEAVE_SIMULATED_FAULT, a list with commas between:
  bool hasDevice = true;     ///< "no-device"
  int driverVersion = 13000; ///< "old-driver"
  int arch = 90;             ///< "arch=80"; of engine "ptx" 100
  /// "ecc@N", "illegal@N", "timeout@N", "gone@N", "hang@N"
  WishedFault fault;

  /// Returns what is wrong with the environment, or nothing.
  static std::string read(Options &options);
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_DRIVER_OPTIONS_H
