//===- Cluster.h - What a program runs on, and is planned for -------------===//
#ifndef CLEAVE_HARDWARE_CLUSTER_H
#define CLEAVE_HARDWARE_CLUSTER_H

#include "cleave/Hardware/Hardware.h"

namespace cleave {

/// Nodes of equal devices. A rank is one device; on CPUs a rank is a share of
/// its node's cores.
struct NodeGroup {
  std::optional<Device> device; ///< nothing: CPUs, not described for planning
  int64_t nodes = 1;
  int64_t devicesPerNode = 0; ///< 0: as many as the layout needs

  int64_t getDevices() const { return nodes * devicesPerNode; }
};

/// What `--cluster` says, whichever command is told.
struct Cluster {
  std::string name;  ///< as it was given, for messages
  std::string where; ///< the file and what is missing there, without a device
  std::vector<NodeGroup> groups;
  /// Innermost first; the last joins all. Its links carry what is left of them
  /// once a switch is oversubscribed.
  std::vector<Level> levels;
  /// Between ranks of a CPU node that share cores; nothing: not measured.
  std::optional<Link> sharedLink;
  double storageBandwidth =
      0; ///< byte/s of checkpoints, all devices; 0: unknown
  int64_t threadsPerDevice = 0; ///< CPU threads of a rank; 0: cores / ranks
  /// As LLVM names it ("znver5", "x86-64-v3"), or "native": this machine's.
  std::string cpu = "native";

  /// Ranks; 0: as many as the layout needs.
  int64_t getNumRanks() const;
  /// Compute threads of each of `ranks` ranks on a CPU node's cores, or on this
  /// machine's where nothing is said of them.
  int64_t getThreads(int64_t ranks) const;
  /// Whether a group of nodes is said to have them.
  bool hasGPUs() const;
  /// What code for its GPUs is compiled for, such as "sm_90"; empty without
  /// GPUs, or where some are older than that.
  std::string getCudaChip() const;
  /// FLOP/s of a device in products of `dtype`; 0 where it is not known, or is
  /// not the same of all.
  double getPeak(DType dtype) const;
  /// Fails, with the name, on what programs are not compiled for.
  llvm::Error checkCompiles() const;
};

/// Reads what `--cluster` takes: a preset with a number of devices
/// (`h100-sxm:512`), `local` and `local:N` (this machine's CPU), or the path of
/// a cluster.json (docs/formats.md). Errors name the file, the key, its value
/// and what is legal.
llvm::Expected<Cluster> parseCluster(llvm::StringRef text);

/// What the cost model needs of it. `local` is what `cleave calibrate` wrote.
/// The ranks of a CPU node have equal shares of its constants. Groups of
/// different devices are planned as if all were the one that multiplies slowest
/// in bf16, with the least memory and memory bandwidth of all and only those
/// types and attention kernels that all have; power and price are the mean, and
/// so is the rate of failures. `note` says so then.
llvm::Expected<Machine> getMachine(const Cluster &cluster, std::string &note);

/// What a rank computes on: its share of the device that getMachine has; none
/// where the cluster says nothing of that, as `local`.
llvm::Expected<std::optional<Device>> findDevice(const Cluster &cluster);

/// What is between `ranks` ranks of a cluster, as its text says; less is needed
/// for this than to plan. Of CPUs of which nothing is said, and of `local`
/// until `cleave calibrate` wrote what it measured, it is a link like
/// `shared-memory` inside a node, and like `ethernet-100x4` between nodes. No
/// text: the former between all ranks, whatever was measured. Fails if the
/// cluster has fewer ranks.
llvm::Expected<Network> getNetwork(llvm::StringRef cluster, int64_t ranks);

/// Where `cleave calibrate` writes: local.json in $CLEAVE_CACHE, or else in
/// $XDG_CACHE_HOME/cleave or ~/.cache/cleave. Fails where CLEAVE_CACHE is
/// empty: then nothing is kept.
llvm::Expected<std::string> getLocalPath();

} // namespace cleave

#endif // CLEAVE_HARDWARE_CLUSTER_H
