//===- Operation.h - Collectives and messages in a stream -----------------===//
//
// What a rank launched together of one communicator: a call, or a group's. Its
// collectives are one step, which all ranks make alike; its messages go on each
// by itself.
//
// When it begins, it keeps its inputs and fills its outputs with ones, NaNs of
// every float type; when it ends it looks whether its inputs are still the
// same, and its outputs untouched. So what reads or writes them meanwhile in
// another stream is found whatever the order.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_NCCL_OPERATION_H
#define CLEAVE_TEST_CUDA_NCCL_OPERATION_H

#include "test/cuda/nccl/Comm.h"

namespace cleave::simulated {

struct Part {
  Wish wish;
  Address in = 0, out = 0;
  int peer = 0; ///< of a message

  /// Where the input lies in the output, or the output in the input: as NCCL
  /// allows it. Elsewhere they are disjoint.
  bool isInPlace(int rank) const;
  bool hasOverlap(int ranks) const;
};

class Operation final : public Work {
public:
  Operation(std::shared_ptr<Comm> comm, std::vector<Part> parts);
  ~Operation() override;

  std::string getName() const override;
  Progress execute(Execution &execution) const override;
  bool meetsOtherProcesses() const override;

  /// Whether it has executed, and so is only kept by a graph.
  bool wasExecuted() const { return executed.load() > 0; }

private:
  class Step;
  std::string describeWait() const;

  std::shared_ptr<Comm> comm;
  std::vector<Part> parts;
  mutable std::atomic<uint64_t> executed{0};
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_NCCL_OPERATION_H
