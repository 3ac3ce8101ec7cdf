//===- Kernels.cpp - Times of kernels and collectives ---------------------===//
#include "cleave/Cost/Kernels.h"
#include <algorithm>
#include <cassert>
#include <cmath>

using namespace cleave;

double cleave::getMatmulTime(const Device &device, DType dtype, double m,
                             double n, double k) {
  const MatrixUnit &unit = device.getMatrix(dtype);
  assert(unit.peak > 0 && "the device computes in this type");
  if (m <= 0 || n <= 0 || k <= 0)
    return 0;
  static constexpr double tiles[][2] = {{256, 128}, {128, 256}, {128, 128},
                                        {128, 64},  {64, 128},  {256, 64},
                                        {64, 256},  {64, 64}};
  double rate = unit.peak * unit.efficiency / double(device.multiprocessors);
  double best = std::numeric_limits<double>::infinity();
  for (auto [rows, columns] : tiles) {
    double count = std::ceil(m / rows) * std::ceil(n / columns);
    double waves = std::ceil(count / double(device.multiprocessors));
    double slow = 1 + unit.tileSlope * (128 / rows + 128 / columns - 1.5);
    double tile = 2 * k * rows * columns / rate * slow + unit.tileStartup;
    best = std::min(best, waves * tile);
  }
  // Long products heat the device until its clock falls.
  best *= 1 + unit.throttle * best / (best + 1e-3);
  double bytes =
      getMatmulBytes(m, n, k, getBytes(dtype), std::max(getBytes(dtype), 2.));
  double memory = bytes / (device.memoryBandwidth * unit.memoryEfficiency);
  double ratio = std::min(best, memory) / std::max(best, memory);
  double both = std::max(best, memory) *
                std::sqrt(std::sqrt(1 + ratio * ratio * ratio * ratio));
  return unit.launch + both;
}

double cleave::getMisalignment(double elements) {
  double slow = 1;
  for (int64_t bytes = 16; bytes > 2; bytes /= 2)
    if (std::fmod(2 * elements, double(bytes)) != 0)
      slow += 0.6;
  return slow;
}

double cleave::getStreamTime(const Device &device, double bytes) {
  return bytes / (device.memoryBandwidth * device.memoryEfficiency);
}

double cleave::addSums(const Device &device, double bytes, double seconds) {
  double sums = getStreamTime(device, bytes);
  return std::pow(std::pow(seconds, 4) + std::pow(sums, 4), 0.25);
}

double cleave::getAttentionTime(const Device &device, llvm::StringRef kernel,
                                DType dtype, Direction direction,
                                double headsTotal, double rows, double pairs,
                                double headDim, double valueDim) {
  auto found = device.attention.find(kernel.str());
  assert(found != device.attention.end() && "the device has the kernel");
  const AttentionUnit &unit = found->second;
  bool forward = direction == Direction::Forward;
  double flops =
      getAttentionFlops(direction, headsTotal * pairs, headDim, valueDim)
          .executed;
  // Narrow heads fill less of the matrix unit.
  double narrow = std::pow(unit.narrow, std::max(0., std::log2(128 / headDim)));
  double share = (forward ? unit.forward : unit.backward) * narrow * rows /
                 (rows + unit.ramp);
  const MatrixUnit &matrix = device.getMatrix(DType::BF16);
  double rate = matrix.peak * share;
  if (dtype == DType::F32)
    rate = std::min(rate, device.getMatrix(DType::F32).peak);
  return matrix.launch + flops / rate;
}

int64_t cleave::getRanksInside(Group group, int64_t devices) {
  int64_t row = std::clamp<int64_t>(devices / group.stride, 1, group.ranks);
  if (row < group.ranks || group.outerRanks == 1)
    return row;
  return row *
         std::clamp<int64_t>(devices / group.outerStride, 1, group.outerRanks);
}

/// Seconds of a collective of which each rank sends `sent` bytes, as a ring or,
/// where a level has one, as a tree.
static double getTimeOf(const Network &network, CollectiveKind kind,
                        Group group, double sent, bool asTree) {
  int64_t size = group.getSize();
  double n = double(size);
  // Ranks of the group inside one unit of each level, inner to outer; the
  // slowest link on the way sets the rate.
  double startup = 0, pipeline = 0, rate = std::numeric_limits<double>::max();
  int64_t inside = 1; // ranks of the group in one unit of the level below
  for (const Level &level : network.levels) {
    int64_t here = std::max(inside, getRanksInside(group, level.size));
    if (&level == &network.levels.back())
      here = size;
    if (here == inside)
      continue;
    const CollectiveCurve &curve = level.link.getCurve(kind);
    int64_t units = (here + inside - 1) / inside;
    bool isTree = asTree && curve.hasTree();
    startup = std::max(startup, curve.startup) +
              (isTree ? curve.treeStartup * std::ceil(std::log2(double(units)))
                      : curve.startupPerRank * double(units - 1));
    pipeline = std::max(pipeline, curve.pipeline);
    // All-to-all sends only what leaves the unit over this level's link.
    double share = kind == CollectiveKind::AllToAll
                       ? (n - double(inside)) / (n - 1)
                       : 1. / double(inside);
    rate = std::min(rate, curve.getBandwidth(units) *
                              (isTree ? curve.treeShare : 1) / share);
    inside = here;
    if (inside == size)
      break;
  }
  double root = std::sqrt(pipeline) + std::sqrt(sent / rate);
  return startup + root * root;
}

double cleave::getCollectiveTime(const Network &network, CollectiveKind kind,
                                 Group group, double bytes) {
  int64_t size = group.getSize();
  if (size <= 1 || bytes <= 0)
    return 0;
  double sent = bytes * double(size - 1) / double(size);
  if (kind == CollectiveKind::AllReduce)
    sent *= 2;
  double time = getTimeOf(network, kind, group, sent, /*asTree=*/false);
  bool hasTree = false;
  for (const Level &level : network.levels)
    hasTree |= level.link.getCurve(kind).hasTree();
  return hasTree ? std::min(time, getTimeOf(network, kind, group, sent,
                                            /*asTree=*/true))
                 : time;
}

double cleave::getSendTime(const Network &network, Group group, double bytes) {
  int64_t size = group.getSize();
  for (const Level &level : network.levels)
    if (getRanksInside(group, level.size) == size ||
        &level == &network.levels.back())
      return level.link.latency +
             bytes /
                 level.link.getCurve(CollectiveKind::AllToAll).getBandwidth(2);
  return 0;
}
