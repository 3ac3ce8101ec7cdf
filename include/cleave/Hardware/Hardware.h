//===- Hardware.h - Devices and links, as measured ------------------------===//
#ifndef CLEAVE_HARDWARE_HARDWARE_H
#define CLEAVE_HARDWARE_HARDWARE_H

#include "cleave/Json/Reader.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cleave {

/// What matrix products compute in.
enum class DType { F32, BF16, FP8, FP4 };
constexpr size_t numDTypes = 4;
llvm::StringRef getName(DType dtype);
/// Bytes of an element; 0.5 for FP4.
double getBytes(DType dtype);

/// The matrix unit of a device for one dtype. The time of a product is that of
/// whole waves of output tiles, one tile a multiprocessor (see Cost/Kernels.h).
struct MatrixUnit {
  double peak = 0;        ///< FLOP/s, dense; 0: the device has no such unit
  double efficiency = 1;  ///< of the peak, inside a tile's loop over k
  double tileStartup = 0; ///< s to fill and drain a tile
  double tileSlope = 0;   ///< cost of tiles smaller than 128 x 256
  double throttle = 0;    ///< share of the clock that long products lose
  double launch = 0;      ///< s from the end of one kernel to the next's work
  double memoryEfficiency = 1; ///< of the memory bandwidth, when that binds
};

/// A generation of fused attention kernels on a device, head_dim 128, causal.
/// eff(s) = share * s / (s + ramp): short rows fill the unit badly.
struct AttentionUnit {
  double forward = 0;  ///< share of the bf16 peak, forward, long sequences
  double backward = 0; ///< the same, backward
  double ramp = 0;     ///< sequence length at which half of it is reached
  double narrow = 1;   ///< factor for each halving of head_dim below 128
  double kept = 0;     ///< bytes of a query-key pair kept for backward
};

struct Device {
  std::string name;
  double memory = 0; ///< bytes
  /// Bytes of it that no tensor can have: the driver's context, collectives'
  /// buffers, libraries' workspaces.
  double reserve = 0;
  double memoryBandwidth = 0;  ///< byte/s, peak
  double memoryEfficiency = 1; ///< of it, by a large streaming kernel
  int64_t multiprocessors = 1;
  /// Of an NVIDIA GPU, which says what code it runs: 9 for sm_90. 0: none.
  double computeCapability = 0;
  /// Of a CPU: its constants are those of all cores together, which the ranks
  /// of a node share (see Cluster.h). 0: what a rank has for itself, a GPU.
  int64_t cores = 0;
  std::array<MatrixUnit, numDTypes> matrix;
  std::map<std::string, AttentionUnit> attention; ///< by kernel generation
  double watts = 0, pricePerHour = 0, mtbfHours = 0;

  const MatrixUnit &getMatrix(DType dtype) const {
    return matrix[size_t(dtype)];
  }

  /// Bytes of it that tensors can have.
  double getUsableMemory() const { return memory - reserve; }
  /// Bytes that the buffers of a program may have in use at a time: packed into
  /// one arena they need a little more.
  double getRoom() const {
    constexpr double packedShare = 0.95;
    return packedShare * getUsableMemory();
  }
};

/// How one kind of collective runs on a level of the network among n ranks:
///   t = startup + startupPerRank (n - 1) + (sqrt(pipeline) + sqrt(x / B))^2
/// with x the bytes that a rank sends: the time of a message that is cut into
/// the number of chunks that is best for its size. That is a ring, or what
/// inside of a switch was measured. Where there is a tree as well, it takes
/// treeStartup for each doubling of n instead of startupPerRank, and x / B over
/// treeShare; the faster runs, as NCCL chooses.
struct CollectiveCurve {
  double startup = 0, startupPerRank = 0, pipeline = 0; ///< s
  double treeStartup = 0;                               ///< s
  double treeShare = 0; ///< of the bandwidth; 0: there is no tree
  bool hasTree() const { return treeShare > 0; }
  /// byte/s by number of ranks, ascending; between them linear in 1/n.
  std::vector<std::pair<int64_t, double>> bandwidth;

  /// byte/s among `ranks`; beyond the table that of its end.
  double getBandwidth(int64_t ranks) const;
};

enum class CollectiveKind { AllGather, ReduceScatter, AllReduce, AllToAll };
constexpr size_t numCollectiveKinds = 4;
llvm::StringRef getName(CollectiveKind kind);

/// The links that join devices inside one level: an NVLink domain, a rail.
struct Link {
  std::string name;
  double bandwidth = 0; ///< byte/s of one device, one way, peak
  double latency = 0;   ///< s, one message
  std::array<CollectiveCurve, numCollectiveKinds> collectives;

  const CollectiveCurve &getCurve(CollectiveKind kind) const {
    return collectives[size_t(kind)];
  }
  /// Scales the curves with it.
  void setBandwidth(double to);
  void scaleBandwidth(double factor);
};

/// Reads a device or link description (docs/formats.md). Errors name the file,
/// the key, its value and what is legal.
llvm::Expected<Device> parseDevice(llvm::StringRef text, llvm::StringRef file);
llvm::Expected<Link> parseLink(llvm::StringRef text, llvm::StringRef file);

/// The same inside of another file, at `path`: the name of a built-in one, or
/// an object, whose `base` may be one that it changes. A link's other bandwidth
/// scales its base's curves.
Device readDevice(JsonReader &reader, const llvm::json::Object &in,
                  llvm::StringRef key, const std::string &path);
Link readLink(JsonReader &reader, const llvm::json::Object &in,
              llvm::StringRef key, const std::string &path);

/// Built-in descriptions; the error of an unknown name lists the known ones.
llvm::Expected<Device> getDevice(llvm::StringRef name);
llvm::Expected<Link> getLink(llvm::StringRef name);
std::vector<std::string> getDeviceNames();

/// The text of a built-in file of a folder of data/, and the names there; the
/// error of an unknown name, which says what it is of, lists the known ones.
llvm::Expected<llvm::StringRef> getBuiltinText(llvm::StringRef folder,
                                               llvm::StringRef name,
                                               llvm::StringRef what);
std::vector<std::string> getBuiltinNames(llvm::StringRef folder);

/// Of nested levels, innermost first: joins `size` devices, all that the level
/// inside joins included.
struct Level {
  int64_t size = 1;
  Link link;
};
/// What is between devices, whatever they are.
struct Network {
  int64_t devices = 1;
  std::vector<Level> levels;

  /// Levels of `size` devices and more, cut or grown to `devices`.
  int64_t getDevicesPerNode() const { return levels.front().size; }
};
/// With what is at its ends: devices of one type.
struct Machine : Network {
  Device device;
};

/// What `--cluster` says, as the cost model needs it (see Cluster.h).
llvm::Expected<Machine> getMachine(llvm::StringRef cluster);

} // namespace cleave

#endif // CLEAVE_HARDWARE_HARDWARE_H
