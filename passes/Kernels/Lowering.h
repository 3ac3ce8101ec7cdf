//===- Lowering.h - From local tensors to instructions ------------------===//
//
// State: the buffer of each tensor value. Invariant: when an op is lowered, its
// operands have buffers; its results get theirs here, unless a user decided
// before: a new value of state is written where the old one lies, and a value
// that a micro-batch adds is added where the sum lies.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_KERNELS_LOWERING_H
#define CLEAVE_PASSES_KERNELS_LOWERING_H

#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Kernels/FuseKernels.h"
#include "passes/Kernels/KernelTable.h"
#include "passes/Kernels/Tensors.h"

namespace cleave {

/// Lowers the step of a stage, or of all ranks alike, to a program.
class Lowering {
public:
  Lowering(mlir::ModuleOp module, mlir::func::FuncOp step, KernelTable &kernels,
           int64_t threads, bool fuse)
      : module(module), step(step), threads(threads), fuse(fuse),
        kernels(kernels), b(step) {}

  mlir::LogicalResult run();
  int64_t numOps = 0, numLaunches = 0;

private:
  mlir::LogicalResult verifySizes();
  void declareStates();
  mlir::LogicalResult planWrites();
  mlir::LogicalResult verifyReads(mlir::Block &entry);
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult
  lowerOps(mlir::Block &block,
           llvm::function_ref<bool(mlir::Operation *)> isIncluded);
  mlir::LogicalResult lower(mlir::Operation &op);
  mlir::LogicalResult lowerCollective(mlir::Operation &op);
  void eraseUnusedViews();
  void hoistBuffers();
  void splitUpdate();
  void lowerGroup(const KernelGroup &group);
  void launchFolds();
  void lowerOutput(xf::OutputOp op);

  // LowerMicroBatches.cpp.
  void startSegment(llvm::StringRef name);
  void addRuns();
  mlir::LogicalResult lowerAccumulate(xf::AccumulateOp op);
  mlir::LogicalResult lowerSegments(xf::AccumulateOp op);
  void placeSum(mlir::Value value, mlir::Value buffer,
                exec::Accumulate accumulate);
  void placeInFlight(xf::AccumulateOp op);
  void addToSums(mlir::Operation &op);
  void addToSum(mlir::Value value, mlir::Value sum, mlir::Operation *yield);
  void addOthersToSums(xf::AccumulateOp op);

  /// Before the segment at hand.
  mlir::Value addBuffer(llvm::StringRef category, int64_t bytes) {
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(segment);
    return exec::BufferOp::create(b, step.getLoc(), category, bytes);
  }
  /// The buffer of a value that is about to be computed.
  mlir::Value getBuffer(mlir::Value value) {
    mlir::Value &buffer = buffers[value];
    if (!buffer)
      buffer = addBuffer(getCategory(value), getBytes(value.getType()));
    return buffer;
  }
  llvm::SmallVector<mlir::Value> getBuffers(mlir::ValueRange values) {
    return llvm::map_to_vector(
        values, [&](mlir::Value value) { return getBuffer(value); });
  }
  llvm::StringRef getCategory(mlir::Value value) {
    if (mlir::isa_and_nonnull<dist::CollectiveOpInterface>(
            value.getDefiningOp()))
      return "communication";
    bool isUpdate = xf::getPhase(value.getDefiningOp()) == xf::Phase::Optimizer;
    return isUpdate ? "optimizer temporaries" : "activations";
  }
  /// Keeps what an instruction is part of, and what it is called.
  template <typename Op>
  Op mark(Op built, mlir::Operation *from) {
    xf::copyProvenance(from, built);
    if (auto cost = mlir::dyn_cast<xf::CostOpInterface>(from))
      if (double flops = cost.getFlops().executed)
        built->setAttr("flops", b.getF64FloatAttr(flops));
    built->setLoc(from->getLoc());
    return built;
  }
  /// How a value meets what its buffer holds; see exec.kernel.
  exec::Accumulate getAccumulate(mlir::Value value) {
    auto it = sums.find(value);
    return it == sums.end() ? exec::Accumulate::Never : it->second;
  }
  void launch(mlir::FlatSymbolRefAttr kernel, mlir::ValueRange inputs,
              mlir::ValueRange outputs, mlir::Operation *from);

  mlir::ModuleOp module;
  mlir::func::FuncOp step;
  int64_t threads;
  bool fuse;
  KernelTable &kernels;
  mlir::OpBuilder b;
  exec::ProgramOp program;
  exec::SegmentOp segment; ///< that instructions are added to
  /// Micro-batches, in what runs once for each; 0 elsewhere.
  int64_t count = 0;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  /// Sums over rows whose second launch, over the sums of each row, is still to
  /// come: behind the first ones of their neighbours, so that launches which
  /// have nothing to do with each other stand beside each other.
  struct Fold {
    mlir::Value rows, sum;
    mlir::FlatSymbolRefAttr kernel;
    mlir::Operation *from;
  };
  llvm::SmallVector<Fold> folds;
  llvm::StringMap<mlir::Value> states;
  /// Where a state gets its new value, and what writes it.
  struct Write {
    xf::SetOp set;
    mlir::Operation *writer;
  };
  llvm::StringMap<Write> writes;
  /// What runs in a step, in order: a segment for a micro-batch.
  llvm::SmallVector<std::pair<exec::SegmentOp, int64_t>> runs;
  /// The buffers of the sums over micro-batches that a value of one is part of.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> sumsOf;
  /// Values that are added to a sum, and adds whose parts are.
  llvm::DenseMap<mlir::Value, exec::Accumulate> sums;
  llvm::DenseSet<mlir::Operation *> added;
};

} // namespace cleave

#endif // CLEAVE_PASSES_KERNELS_LOWERING_H
