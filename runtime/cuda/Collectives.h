//===- Collectives.h - GPUs that work together ----------------------------===//
//
// What runtime/comm is for memory of the host, on streams: a call enqueues, and
// returns before anything has moved. Ranks of a group make the same calls in
// the same order.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CUDA_COLLECTIVES_H
#define CLEAVE_RUNTIME_CUDA_COLLECTIVES_H

#include "runtime/comm/Communicator.h"
#include "runtime/cuda/Driver.h"
#include <memory>
#include <span>
#include <vector>

namespace cleave::runtime::cuda {

/// A collective of one rank, whose addresses are of its GPU.
struct GpuCollective {
  CollectiveWork work;
  Address in = 0, out = 0;
};

/// The collectives and messages of one stream of a rank.
class GpuCommunicator {
public:
  virtual ~GpuCommunicator() = default;

  /// Several collectives of a group that begin together.
  virtual Status run(const Group &group,
                     std::span<const GpuCollective> collectives,
                     void *stream) = 0;
  /// As Communicator's: what is sent may be overwritten once the stream has
  /// gone on.
  virtual Status send(int to, int channel, Address data, uint64_t bytes,
                      void *stream) = 0;
  virtual Status receive(int from, int channel, Address data, uint64_t bytes,
                         void *stream) = 0;

  /// Makes the stream wait for what this has enqueued elsewhere. Where all
  /// streams are joined.
  virtual Status join(void *stream) = 0;
  /// Whether what was enqueued has failed so far, for who waits for it.
  virtual Status check() = 0;
  /// Ends what is under way, on this rank.
  virtual void abort() = 0;
  /// Whether what it enqueues can be captured into a graph.
  virtual bool canBeCaptured() const = 0;
  /// As abort(), where the GPU cannot be used any more: calls nothing of it.
  virtual void abandon() = 0;
  /// Frees memory that this rank's collectives have worked on, once no other
  /// rank reads it any more.
  virtual void keep(DeviceMemory memory) = 0;
};

} // namespace cleave::runtime::cuda

#endif // CLEAVE_RUNTIME_CUDA_COLLECTIVES_H
