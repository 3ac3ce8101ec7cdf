//===- OverlapModel.h - Instructions as lib/Streams orders them -----------===//
#ifndef CLEAVE_PASSES_OVERLAP_OVERLAPMODEL_H
#define CLEAVE_PASSES_OVERLAP_OVERLAPMODEL_H

#include "cleave/Streams/Parts.h"
#include "cleave/Tasks/Price.h"
#include "dialects/exec/Exec.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include <memory>

namespace cleave {

using Instructions = llvm::SmallVector<exec::InstructionOpInterface>;

/// The instructions of a segment, in their order.
Instructions getInstructions(exec::SegmentOp segment);

/// What each of them accesses.
std::vector<RowsOperands>
listOperands(llvm::ArrayRef<exec::InstructionOpInterface> instructions);

/// Bytes that may be in use in a rank's arena, by the memory of a device of the
/// cluster; infinite where nothing is said of that.
llvm::Expected<double> getRoom(llvm::StringRef cluster);

/// What the instructions of a module take on a cluster, and which of them may
/// run beside others.
class OverlapModel {
public:
  /// By the options `mode` and `cluster` of a pass. Null where nothing may run
  /// beside anything; says so and fails if an option is wrong.
  static mlir::FailureOr<std::shared_ptr<OverlapModel>>
  create(mlir::ModuleOp module, llvm::StringRef mode, llvm::StringRef cluster);

  TaskShape getShape(exec::InstructionOpInterface op) const;
  /// What the scheduler sees of instructions, in this order.
  std::vector<OverlapOp>
  getOps(llvm::ArrayRef<exec::InstructionOpInterface> instructions);
  /// In which order and streams they take the least time, those that may begin
  /// together in buckets. `ops`: what getOps makes of them.
  OverlapResult
  schedule(llvm::ArrayRef<exec::InstructionOpInterface> instructions,
           llvm::ArrayRef<OverlapOp> ops,
           const OverlapMemory &memory = {}) const;
  /// What `getRoom` says of the cluster.
  double getRoom() const { return room; }

private:
  OverlapModel(Mesh mesh, TaskPricer pricer, bool onlyBetweenNodes, double room)
      : mesh(std::move(mesh)), pricer(std::move(pricer)),
        onlyBetweenNodes(onlyBetweenNodes), room(room) {}

  bool mayRunAside(const TaskShape &shape) const;
  int64_t getStream(exec::InstructionOpInterface op);
  int64_t getKind(exec::InstructionOpInterface op);

  Mesh mesh;
  TaskPricer pricer;
  /// Whether what stays inside a node is moved by what computes there.
  bool onlyBetweenNodes;
  double room;
  llvm::MapVector<mlir::ArrayAttr, int64_t> streams;
  /// Of instructions that may begin together, by name and group.
  llvm::MapVector<std::pair<mlir::OperationName, mlir::ArrayAttr>, int64_t>
      kinds;
};

} // namespace cleave

#endif // CLEAVE_PASSES_OVERLAP_OVERLAPMODEL_H
