//===- MessageChecks.h - Messages between ranks ---------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_COMM_MESSAGECHECKS_H
#define CLEAVE_TEST_RUNTIME_COMM_MESSAGECHECKS_H

#include "runtime/comm/Communicator.h"

namespace cleave::test {

/// Every rank sends to every other on several channels, many messages of many
/// sizes before any is received, and receives the channels in another order
/// than they were sent in. What arrives must be what was sent, in the order of
/// its channel.
runtime::Status checkMessages(runtime::Communicator &communicator);

/// Passes a value around all ranks, `rounds` times.
runtime::Status checkRing(runtime::Communicator &communicator, int rounds);

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_COMM_MESSAGECHECKS_H
