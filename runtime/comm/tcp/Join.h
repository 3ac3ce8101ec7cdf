//===- Join.h - How the processes of a run find each other ----------------===//
//
// 1. Rank 0 listens at the address that all were given. Each other rank
//    connects to it, and says its number and at which port it listens itself.
// 2. Once all have come, rank 0 sends each of them the addresses of all, and a
//    random token, which only the run's own processes then know.
// 3. Rank b connects to each rank a with 0 < a < b, and shows it the token.
//
// A rank on rank 0's own host may be known there by an address that means
// another host elsewhere (127.0.0.1): its address is where the others have
// reached rank 0.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_TCP_JOIN_H
#define CLEAVE_RUNTIME_COMM_TCP_JOIN_H

#include "runtime/comm/tcp/Connections.h"
#include "runtime/comm/tcp/Place.h"

namespace cleave::runtime::tcp {

/// Returns when this rank has its connections to all others, or fails and says
/// which ranks are missing. The connections have started.
Status join(const Place &place, Connections &connections);

} // namespace cleave::runtime::tcp

#endif // CLEAVE_RUNTIME_COMM_TCP_JOIN_H
