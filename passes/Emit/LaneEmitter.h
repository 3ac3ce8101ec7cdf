//===- LaneEmitter.h - Scalar bodies into lanes ---------------------------===//
//
// What the emitters of all targets share: cloning the ops of a scalar body
// into a number of lanes, and reading and writing operands as f32 or i32.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PASSES_EMIT_LANEEMITTER_H
#define CLEAVE_PASSES_EMIT_LANEEMITTER_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Emit/KernelInfo.h"

namespace cleave::emit {

/// Builds arithmetic on i64 and vectors, and memory accesses of kernel
/// operands. `lanes` 0 means scalars.
class LaneEmitter {
public:
  /// `hasBf16`: the target has an instruction that rounds to bf16.
  LaneEmitter(mlir::OpBuilder &b, mlir::Location loc, bool hasBf16)
      : b(b), loc(loc), hasBf16(hasBf16) {}

  mlir::Value constant(int64_t value);     // i64
  mlir::Value constantInt(int64_t value);  // i32
  mlir::Value constantFloat(double value); // f32
  mlir::Value addIndex(mlir::Value x, mlir::Value y);
  mlir::Value addIndex(mlir::Value x, int64_t y);
  mlir::Value mulIndex(mlir::Value x, int64_t y);
  mlir::Value isBelow(mlir::Value x, mlir::Value y); // signed
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  /// x + y of floats; contiguous vectors or scalars.
  mlir::Value addFloat(mlir::Value x, mlir::Value y);
  /// A fold step.
  mlir::Value combine(exec::Reduction kind, mlir::Value x, mlir::Value y);
  /// The partial fold `sum` of `reduce` with one more value, which `map` knows;
  /// `sum` itself where that is the constant 0 to be added.
  mlir::Value fold(exec::RowReduceOp reduce, mlir::Value sum,
                   mlir::IRMapping &map, int64_t lanes);
  /// Folds the lanes of a vector, in an order that depends on their number.
  mlir::Value combineLanes(exec::Reduction kind, mlir::Value x);
  /// What leaves a fold unchanged.
  double getNeutral(exec::Reduction kind);

  /// `value` in every lane; a vector stays.
  mlir::Value splat(mlir::Value value, int64_t lanes);
  /// <0, 1, ...> + start as vector of i64 or i32.
  mlir::Value iota(mlir::Value start, int64_t lanes);
  /// Lanes below `count` (i64): vector<lanes x i1>.
  mlir::Value maskBelow(mlir::Value count, int64_t lanes);
  /// The first `count` lanes.
  mlir::Value constantMask(int64_t count, int64_t lanes);

  /// The type in which LLVM moves an element: bf16 as i16.
  mlir::Type getMemoryType(mlir::Type stored);
  /// The address of an element.
  mlir::Value address(mlir::Value base, mlir::Value index, mlir::Type stored);
  /// Offset in elements of row `row` (i64): offset + quotient * rowStride.
  mlir::Value rowOffset(const Access &access, mlir::Value row);

  /// Reads one element (lanes 0) or consecutive ones, widened. `mask` may be
  /// null; lanes it leaves out are 0. `alignment` in bytes, 0: the element's.
  mlir::Value load(mlir::Value pointer, mlir::Type stored, int64_t lanes,
                   mlir::Value mask, int64_t alignment = 0);
  void store(mlir::Value value, mlir::Value pointer, mlir::Type stored,
             int64_t lanes, mlir::Value mask, int64_t alignment = 0);
  /// The same at one address per lane.
  mlir::Value gather(mlir::Value pointers, mlir::Type stored, int64_t lanes,
                     mlir::Value mask);
  void scatter(mlir::Value value, mlir::Value pointers, mlir::Type stored,
               mlir::Value mask);

  /// Evaluates `op`, whose operands `map` knows, in so many lanes. A select
  /// whose condition is a constant is one of its operands.
  void evaluate(mlir::Operation *op, mlir::IRMapping &map, int64_t lanes);

  mlir::OpBuilder &b;
  mlir::Location loc;
  bool hasBf16;

private:
  void evaluatePerLane(mlir::Operation *op, mlir::IRMapping &map,
                       int64_t lanes);
  mlir::Value widen(mlir::Value value, mlir::Type stored);
  mlir::Value widenPairs(mlir::Value value, int64_t lanes);
  mlir::Value narrow(mlir::Value value, mlir::Type stored);
  mlir::Value integers(mlir::Value like, unsigned bits, int64_t value);
};

} // namespace cleave::emit

#endif // CLEAVE_PASSES_EMIT_LANEEMITTER_H
