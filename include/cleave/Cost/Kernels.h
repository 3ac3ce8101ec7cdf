//===- Kernels.h - Times of kernels and collectives on given hardware -----===//
#ifndef CLEAVE_COST_KERNELS_H
#define CLEAVE_COST_KERNELS_H

#include "cleave/Cost/Layout.h"
#include "cleave/Cost/Work.h"
#include "cleave/Hardware/Hardware.h"

namespace cleave {

/// Seconds of an m x k by k x n product: the cheapest of several tile shapes,
/// each in whole waves of one tile a multiprocessor, or the operands' bytes if
/// that takes longer. Within 5 % (median) of measured bf16 products of more
/// than 1,000 rows on A100, H100 and B200.
double getMatmulTime(const Device &device, DType dtype, double m, double n,
                     double k);

/// How much longer a product takes whose operands have rows of `elements` bf16
/// elements that are no multiple of 16 bytes, since these cannot be loaded as
/// vectors: 0.6 for each halving of what they are a multiple of. From vTrain's
/// runs (data/ground_truth_single.csv), whose 50,257 words are not padded: the
/// head takes 2.9 times as long on 1 rank as on 2, 2.3 on 8, 1.6 on 4.
double getMisalignment(double elements);

/// What a rank's compute loses for each second of communication beside it: all
/// of it where cores move the data, as in CPUs, else the share of a GPU that
/// the profile's software gives up (Profile::overlapSlowdown).
inline double getCommunicationShare(const Device *device,
                                    double overlapSlowdown) {
  return device && device->cores > 0 ? 1 : overlapSlowdown;
}

/// Seconds of a kernel that streams `bytes` through memory.
double getStreamTime(const Device &device, double bytes);

/// Seconds of a product of `seconds` that adds to sums, of which it reads and
/// writes `bytes`: those take time where they exceed its arithmetic.
double addSums(const Device &device, double bytes, double seconds);

/// Seconds of causal attention of `batch` x `heads` heads with dims q and v,
/// `rows` queries and, for the mask, `pairs` query-key pairs a head.
/// `kernel` names a generation that the device has; its rate is measured in
/// bf16, and in f32 no more than that type's peak.
double getAttentionTime(const Device &device, llvm::StringRef kernel,
                        DType dtype, Direction direction, double headsTotal,
                        double rows, double pairs, double headDim,
                        double valueDim);

/// Ranks of a group among as many neighbouring devices.
int64_t getRanksInside(Group group, int64_t devices);

/// Seconds of a collective whose full (gathered, unreduced) buffer is `bytes`
/// on each rank. A group that spans nodes runs at the slower of the inner link
/// and the network cards that it owns: each of its ranks in a node brings one.
double getCollectiveTime(const Network &network, CollectiveKind kind,
                         Group group, double bytes);

/// Seconds to send `bytes` from each rank of a group to the next, over the
/// slowest link between two of them.
double getSendTime(const Network &network, Group group, double bytes);

} // namespace cleave

#endif // CLEAVE_COST_KERNELS_H
