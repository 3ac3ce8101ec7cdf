//===- CollectiveChecks.h - Collectives against their definition ----------===//
//
// Every collective on every group of a mesh, with inputs that each rank can
// compute for all others, so that the reference needs no communication. Small
// integers: sums are exact in every type, and results are compared exactly.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_RUNTIME_COMM_COLLECTIVECHECKS_H
#define CLEAVE_TEST_RUNTIME_COMM_COLLECTIVECHECKS_H

#include "runtime/comm/Communicator.h"

namespace cleave::test {

/// Runs all checks on the ranks of `communicator`'s mesh; the error says which
/// collective, group and element was wrong. `checks` counts the collectives.
runtime::Status checkAllCollectives(runtime::Communicator &communicator,
                                    int64_t &checks);

/// Broadcast, gather and agree.
runtime::Status checkHostCalls(runtime::Communicator &communicator);

/// Sums of `elements` values that do round, on all ranks; `digest` is of the
/// result's bits and of a ReduceScatter's and an AllToAll's of the same.
runtime::Status computeDigest(runtime::Communicator &communicator,
                              uint64_t elements, runtime::ElementType type,
                              uint64_t &digest);

/// Every mesh with at most `ranks` ranks and no axis of size 1, and some meshes
/// with one.
std::vector<std::vector<int>> getAllMeshes(int ranks);

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_COMM_COLLECTIVECHECKS_H
