//===- Place.h - What torchrun's variables say of this process ------------===//
#ifndef CLEAVE_RUNTIME_COMM_TCP_PLACE_H
#define CLEAVE_RUNTIME_COMM_TCP_PLACE_H

#include "runtime/base/Status.h"
#include <string>

namespace cleave::runtime::tcp {

/// This process among all, and where they meet.
struct Place {
  int rank = 0, size = 1; ///< RANK, WORLD_SIZE
  std::string host;       ///< MASTER_ADDR: where rank 0 is
  int port = 0;           ///< MASTER_PORT, or the one behind it
  int seconds = 0;        ///< readJoinSeconds()

  /// For a person: `node7 port 29500`.
  std::string describe() const {
    return host + " port " + std::to_string(port);
  }
};

/// From the environment. The error names the variable, what it is, and what it
/// may be.
Status readPlace(Place &place);

/// How long ranks wait for each other at the start, over TCP and where GPUs
/// meet: CLEAVE_JOIN_SECONDS, or 300.
Status readJoinSeconds(int &seconds);

} // namespace cleave::runtime::tcp

#endif // CLEAVE_RUNTIME_COMM_TCP_PLACE_H
