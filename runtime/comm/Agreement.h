//===- Agreement.h - Whether all ranks were started alike -----------------===//
#ifndef CLEAVE_RUNTIME_COMM_AGREEMENT_H
#define CLEAVE_RUNTIME_COMM_AGREEMENT_H

#include "runtime/comm/Communicator.h"
#include <string>
#include <vector>

namespace cleave::runtime {

/// One thing that all ranks must have alike, in words for a person: the option
/// "--seed" and its value "1".
struct AgreementItem {
  std::string what, value;

  bool operator==(const AgreementItem &) const = default;
};

/// Succeeds where all ranks have the same items. Else fails on all of them, as
/// Communicator::agree does: the message names what differs, on which ranks,
/// and both values. Collective over the world.
///
/// Ranks that agree exchange a hash of fixed size and nothing else. So it also
/// serves ranks of different programs, on a communicator of all processes.
Status agreeOnItems(Communicator &communicator,
                    const std::vector<AgreementItem> &items);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_AGREEMENT_H
