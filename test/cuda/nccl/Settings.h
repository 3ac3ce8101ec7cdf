//===- Settings.h - What the environment says of the simulated NCCL -------===//
#ifndef CLEAVE_TEST_CUDA_NCCL_SETTINGS_H
#define CLEAVE_TEST_CUDA_NCCL_SETTINGS_H

#include <cstdint>
#include <string>

namespace cleave::simulated {

struct Settings {
  uint64_t seed = 0;    ///< CLEAVE_SIMULATED_SEED
  double patience = 30; ///< CLEAVE_SIMULATED_PATIENCE, seconds
  // CLEAVE_SIMULATED_FAULT, a list with commas between, of which these are the
  // library's:
  bool isOld = false;   ///< "nccl-old"
  bool hasNoId = false; ///< "nccl-id"
  bool idHangs = false; ///< "nccl-id-hangs": the call never returns
  bool idDies = false;  ///< "nccl-id-dies": nor does its process live
  /// "nccl-error@N": the operation of that number of each communicator, counted
  /// from 1, fails in flight. 0: none.
  uint64_t failing = 0;

  static Settings read();
};

/// Seconds of a clock that only goes on.
double getSeconds();

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_NCCL_SETTINGS_H
