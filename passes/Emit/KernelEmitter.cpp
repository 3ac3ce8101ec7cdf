//===- KernelEmitter.cpp - What emitters of all targets do ----------------===//
#include "passes/Emit/KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void KernelEmitter::setParameters(llvm::function_ref<Value()> loadShardIndex,
                                  llvm::function_ref<Value()> loadMicroBatch) {
  exec::Accumulate accumulate = info.kernel.getAccumulate();
  if (accumulate == exec::Accumulate::Always)
    accumulates = arith::ConstantOp::create(b, e.loc, b.getBoolAttr(true));
  else if (accumulate == exec::Accumulate::AfterFirst)
    accumulates = e.isBelow(e.constant(0), loadMicroBatch());

  for (auto op : info.getBody().getOps<exec::ShardIndexOp>()) {
    Value index =
        arith::TruncIOp::create(b, e.loc, b.getI32Type(), loadShardIndex());
    uniforms.map(op.getResult(), index);
  }
}

scf::ForOp KernelEmitter::emitFor(
    Value begin, Value end, int64_t step, ValueRange init,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  return scf::ForOp::create(
      b, e.loc, begin, end, e.constant(step), init,
      [&](OpBuilder &, Location, Value index, ValueRange carried) {
        // The builder already stands in the loop.
        SmallVector<Value> next = body(index, carried);
        scf::YieldOp::create(b, e.loc, next);
      });
}

void KernelEmitter::emitFor(Value begin, Value end, int64_t step,
                            llvm::function_ref<void(Value)> body) {
  emitFor(begin, end, step, {}, [&](Value index, ValueRange) {
    body(index);
    return SmallVector<Value>();
  });
}

void KernelEmitter::emitIf(Value condition, llvm::function_ref<void()> body) {
  scf::IfOp::create(b, e.loc, condition, [&](OpBuilder &, Location) {
    body();
    scf::YieldOp::create(b, e.loc);
  });
}

SmallVector<Value>
KernelEmitter::emitIf(Value condition,
                      llvm::function_ref<SmallVector<Value>()> ifTrue,
                      llvm::function_ref<SmallVector<Value>()> ifFalse) {
  auto choice = scf::IfOp::create(
      b, e.loc, condition,
      [&](OpBuilder &, Location) { scf::YieldOp::create(b, e.loc, ifTrue()); },
      [&](OpBuilder &, Location) {
        scf::YieldOp::create(b, e.loc, ifFalse());
      });
  return SmallVector<Value>(choice->result_begin(), choice->result_end());
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

void KernelEmitter::loadScalars(IRMapping &map, bool uniform, Value row) {
  for (auto [i, access] : llvm::enumerate(info.inputs)) {
    Value arg = info.getBody().getArgument(i);
    if (info.isVarying(arg) || access.isUniform() != uniform)
      continue;
    Value offset =
        uniform ? e.constant(access.offset) : e.rowOffset(access, row);
    Value pointer = e.address(inputs[i], offset, access.type);
    map.map(arg, e.load(pointer, access.type, 0, Value()));
  }
}

void KernelEmitter::evaluateScalars(Phase &phase, IRMapping &map) {
  for (Operation *op : phase.scalars) {
    if (map.contains(op->getResult(0)))
      continue;
    auto reduce = dyn_cast<exec::RowReduceOp>(op);
    if (!reduce) {
      e.evaluate(op, map, 0);
      continue;
    }
    // The fold of a value that is the same in all columns.
    Value value = map.lookup(reduce.getValue());
    if (reduce.getKind() == exec::Reduction::Sum)
      value = arith::MulFOp::create(b, e.loc, value,
                                    e.constantFloat(double(info.columns)));
    map.map(reduce.getResult(), value);
  }
}

SmallVector<Value> KernelEmitter::getRowBases(ArrayRef<Access> accesses,
                                              ValueRange bases, Value row) {
  SmallVector<Value> moved;
  for (auto [access, base] : llvm::zip(accesses, bases))
    moved.push_back(e.address(base, e.rowOffset(access, row), access.type));
  return moved;
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

int64_t KernelEmitter::getAlignment(const Access &access) {
  int64_t bytes = access.type.getIntOrFloatBitWidth() / 8;
  return std::max(bytes, std::min(vectorAlignment, bytes * width));
}

/// One address per lane of a flat kernel's general access.
Value KernelEmitter::getPointers(const Access &access, Value base,
                                 Value index) {
  if (!width)
    return e.address(base, e.rowOffset(access, index), access.type);
  Value rows = e.iota(index, width);
  auto splat = [&](int64_t value) { return e.splat(e.constant(value), width); };
  if (access.rowDiv > 1)
    rows = arith::DivUIOp::create(b, e.loc, rows, splat(access.rowDiv));
  if (access.rowMod > 0)
    rows = arith::RemUIOp::create(b, e.loc, rows, splat(access.rowMod));
  rows = arith::MulIOp::create(b, e.loc, rows, splat(access.rowStride));
  rows = arith::AddIOp::create(b, e.loc, rows, splat(access.offset));
  auto type = VectorType::get({width}, base.getType());
  return LLVM::GEPOp::create(b, e.loc, type, e.getMemoryType(access.type), base,
                             ArrayRef<LLVM::GEPArg>{rows});
}

void KernelEmitter::loadLanes(ArrayRef<unsigned> numbers, IRMapping &map,
                              ArrayRef<Value> rowBases, Value index,
                              Value mask) {
  for (unsigned i : numbers) {
    const Access &access = info.inputs[i];
    Value arg = info.getBody().getArgument(i);
    if (map.contains(arg))
      continue;
    if (isGeneral(access)) {
      map.map(arg, e.gather(getPointers(access, inputs[i], index), access.type,
                            width, mask));
      continue;
    }
    bool isFlat = info.mode == exec::KernelMode::Flat;
    Value at = isFlat ? e.addIndex(index, access.offset) : index;
    map.map(arg, e.load(e.address(rowBases[i], at, access.type), access.type,
                        width, mask, getAlignment(access)));
  }
}

Value KernelEmitter::saveSlot(Value saved, Value index) {
  return e.address(scratch.lookup(saved), index, b.getF32Type());
}

void KernelEmitter::evaluateLanes(Phase &phase, IRMapping &map, Value index) {
  for (Value value : phase.restores)
    map.map(value, e.load(saveSlot(value, index), b.getF32Type(), width,
                          Value(), /*alignment=*/4));
  for (Operation *op : phase.lanes) {
    if (map.contains(op->getResult(0)))
      continue;
    if (!isa<exec::ColumnOp>(op)) {
      e.evaluate(op, map, width);
      continue;
    }
    Value column = arith::TruncIOp::create(b, e.loc, b.getI32Type(), index);
    map.map(op->getResult(0), e.iota(column, width));
  }
  for (Value value : phase.saves)
    e.store(map.lookup(value), saveSlot(value, index), b.getF32Type(), width,
            Value());
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

Value KernelEmitter::accumulateOnto(Value value, Value old) {
  Value sum = isa<FloatType>(getElementTypeOrSelf(value.getType()))
                  ? e.addFloat(old, value)
                  : Value(arith::AddIOp::create(b, e.loc, old, value));
  return e.select(accumulates, sum, value);
}

void KernelEmitter::storeLane(unsigned output, Value value, Value rowBase,
                              Value index, Value mask) {
  const Access &access = info.outputs[output];
  value = e.splat(value, width);
  if (isGeneral(access)) {
    Value pointers = getPointers(access, outputs[output], index);
    if (accumulates)
      value =
          accumulateOnto(value, e.gather(pointers, access.type, width, mask));
    e.scatter(value, pointers, access.type, mask);
    return;
  }
  if (info.mode == exec::KernelMode::Flat)
    index = e.addIndex(index, access.offset);
  Value pointer = e.address(rowBase, index, access.type);
  int64_t alignment = getAlignment(access);
  if (accumulates)
    value = accumulateOnto(
        value, e.load(pointer, access.type, width, mask, alignment));
  e.store(value, pointer, access.type, width, mask, alignment);
}

void KernelEmitter::storeScalars(IRMapping &map, ArrayRef<Value> rowBases) {
  for (auto [i, access] : llvm::enumerate(info.outputs)) {
    if (access.column)
      continue;
    Value value = map.lookup(info.getYield().getValues()[i]);
    if (accumulates)
      value =
          accumulateOnto(value, e.load(rowBases[i], access.type, 0, Value()));
    e.store(value, rowBases[i], access.type, 0, Value());
  }
}
