//===- Cluster.h - What a program runs on ---------------------------------===//
#ifndef CLEAVE_CLUSTER_CLUSTER_H
#define CLEAVE_CLUSTER_CLUSTER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>

namespace cleave {

/// Nodes of equal devices. A rank is one device.
struct Cluster {
  int64_t nodes = 1;
  int64_t devicesPerNode = 0;   ///< 0: as many as the layout needs
  int64_t threadsPerDevice = 0; ///< CPU threads of a rank; 0: cores / ranks
  /// As LLVM names it ("znver5", "x86-64-v3"), or "native": this machine's.
  std::string cpu = "native";

  /// Ranks; 0: as many as the layout needs.
  int64_t getNumRanks() const { return nodes * devicesPerNode; }
  /// Compute threads of each of `ranks` ranks.
  int64_t getThreads(int64_t ranks) const;
};

/// Reads what `--cluster` takes: `local` (this machine's CPU, as many ranks as
/// the layout needs), `local:N`, or the path of a cluster.json:
///
///   { "version": 1, "nodes": 2, "devices_per_node": 4,
///     "threads_per_device": 8, "cpu": "znver5" }
///
/// Errors name the file, the key, its value and what is legal.
llvm::Expected<Cluster> parseCluster(llvm::StringRef text);

} // namespace cleave

#endif // CLEAVE_CLUSTER_CLUSTER_H
