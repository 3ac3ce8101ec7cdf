//===- ProcessWorld.h - Ranks that are processes of a launcher ------------===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESSWORLD_H
#define CLEAVE_RUNTIME_COMM_PROCESSWORLD_H

#include "runtime/comm/Communicator.h"
#include <memory>

namespace cleave::runtime {

/// All processes that a launcher started, from when they know each other until
/// they part. To make one and to destroy it is collective.
class ProcessWorld {
public:
  virtual ~ProcessWorld() = default;

  int getRank() const { return rank; }
  int getSize() const { return size; }

  /// This process's rank. The mesh has getSize() ranks. Outlived by this.
  virtual std::unique_ptr<Communicator> makeCommunicator(const Mesh &mesh) = 0;

protected:
  int rank = 0, size = 1;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PROCESSWORLD_H
