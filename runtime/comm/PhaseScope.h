//===- PhaseScope.h - What a rank does, for a while -----------------------===//
#ifndef CLEAVE_RUNTIME_COMM_PHASESCOPE_H
#define CLEAVE_RUNTIME_COMM_PHASESCOPE_H

#include "runtime/comm/Communicator.h"

namespace cleave::runtime {

/// Says what a rank does until the end of the scope, then what it did before.
class PhaseScope {
public:
  PhaseScope(Communicator &communicator, Phase phase)
      : position(communicator.getPosition()) {
    if (!position)
      return;
    before = position->getPhase();
    position->setPhase(phase);
  }
  ~PhaseScope() {
    if (position)
      position->setPhase(before);
  }
  PhaseScope(const PhaseScope &) = delete;
  PhaseScope &operator=(const PhaseScope &) = delete;

private:
  RankPosition *position;
  Phase before = Phase::Training;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PHASESCOPE_H
