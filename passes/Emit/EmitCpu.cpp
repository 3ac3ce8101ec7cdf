//===- EmitCpu.cpp - Kernels as x86-64 functions --------------------------===//
//
// row:     for each row, each phase is a loop over the columns in vectors. Row
//          sums have one accumulator per unrolled copy and lane, joined in a
//          fixed order, so they depend on the number of columns only.
// flat:    one loop over the rows in vectors.
// column:  for each block of columns, rows are taken four at a time; their
//          values are added as a tree, and the sum is added to accumulators
//          that lie in the first cache level. The order for a column depends
//          on the number of rows only.
//
// The last, partial vector of a loop is masked.
//
//===----------------------------------------------------------------------===//
#include "passes/Emit/EmitCpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Emit/LaneEmitter.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {

/// Columns of a block in column mode: accumulators of one output fill 4 KiB.
constexpr int64_t blockColumns = 1024;
/// Bytes on the stack for values that are kept from one phase to the next.
constexpr int64_t maxScratchBytes = 256 * 1024;

class CpuEmitter {
public:
  CpuEmitter(KernelInfo &info, OpBuilder &b, LLVM::LLVMFuncOp func,
             int64_t lanes)
      : info(info), b(b), e(b, func.getLoc()), func(func), width(lanes) {}

  void emit();

private:
  /// Called once per vector: index of the first lane, a mask or null, and the
  /// loop-carried values; returns their next ones.
  using LaneBody =
      llvm::function_ref<SmallVector<Value>(Value, Value, ValueRange)>;

  void emitPrologue();
  void emitRows();
  void emitRow(Value row);
  void emitFlat();
  void emitColumns();
  void emitColumnBlock(Value begin, Value end);
  void addRows(Value firstRow, int64_t count, Value begin, Value end);

  SmallVector<Value> emitStaticLoop(int64_t count, int64_t unroll,
                                    ValueRange init, LaneBody body);
  void emitDynamicLoop(Value begin, Value end, LaneBody body);
  scf::ForOp
  emitFor(Value begin, Value end, int64_t step, ValueRange init,
          llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);

  void evaluateScalars(Phase &phase, IRMapping &map);
  void loadScalars(IRMapping &map, bool uniform, Value row);
  void loadLanes(Phase &phase, IRMapping &map, ArrayRef<Value> rowBases,
                 Value index, Value mask);
  void evaluateLanes(Phase &phase, IRMapping &map, Value index);
  void storeLane(unsigned output, Value value, Value rowBase, Value index,
                 Value mask);
  Value accumulateOnto(Value value, Value old);
  Value getPointers(const Access &access, Value base, Value index);
  SmallVector<Value> getRowBases(ArrayRef<Access> accesses, ValueRange bases,
                                 Value row);
  int64_t getUnroll(unsigned bodyCost) {
    return bodyCost <= 12 ? 4 : bodyCost <= 40 ? 2 : 1;
  }
  Value saveSlot(Value saved, Value index);

  KernelInfo &info;
  OpBuilder &b;
  LaneEmitter e;
  LLVM::LLVMFuncOp func;
  int64_t width;

  SmallVector<Value> inputs, outputs; // base pointers
  IRMapping uniforms;                 // what holds for the whole call
  Value begin, end;  // the range, in rows or columns of the prepared kernel
  Value accumulates; // i1, null where outputs are overwritten
  llvm::DenseMap<Value, Value> scratch; // saved values' arrays
  SmallVector<Value> sums;              // column mode: accumulators
};

} // namespace

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

scf::ForOp CpuEmitter::emitFor(
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

/// Lanes [0, count) of a loop whose length is known. `init` holds one set of
/// carried values per unrolled copy.
SmallVector<Value> CpuEmitter::emitStaticLoop(int64_t count, int64_t unroll,
                                              ValueRange init, LaneBody body) {
  int64_t vectors = count / width, tail = count % width;
  SmallVector<Value> carried(init);
  size_t set = carried.size() / size_t(unroll);
  auto emitCopy = [&](Value index, int64_t copy, Value mask,
                      SmallVectorImpl<Value> &values) {
    size_t first = size_t(copy) * set;
    SmallVector<Value> next =
        body(index, mask, ValueRange(values).slice(first, set));
    llvm::copy(next, values.begin() + first);
  };
  int64_t trips = vectors / unroll, done = trips * unroll;
  if (trips > 1) {
    scf::ForOp loop =
        emitFor(e.constant(0), e.constant(done * width), unroll * width,
                carried, [&](Value index, ValueRange args) {
                  SmallVector<Value> values(args);
                  for (int64_t u = 0; u < unroll; ++u)
                    emitCopy(e.addIndex(index, u * width), u, Value(), values);
                  return values;
                });
    carried.assign(loop.result_begin(), loop.result_end());
  } else {
    done = 0;
  }
  for (int64_t i = done; i < vectors; ++i)
    emitCopy(e.constant(i * width), (i - done) % unroll, Value(), carried);
  if (tail)
    emitCopy(e.constant(vectors * width), (vectors - done) % unroll,
             e.constantMask(tail, width), carried);
  return carried;
}

/// Lanes [begin, end), nothing carried.
void CpuEmitter::emitDynamicLoop(Value begin, Value end, LaneBody body) {
  Value count = arith::SubIOp::create(b, e.loc, end, begin);
  Value whole = arith::AndIOp::create(b, e.loc, count, e.constant(-width));
  Value middle = e.addIndex(begin, whole);
  emitFor(begin, middle, width, {},
          [&](Value index, ValueRange) { return body(index, Value(), {}); });
  Value rest = arith::SubIOp::create(b, e.loc, end, middle);
  Value hasRest = e.isBelow(middle, end);
  scf::IfOp::create(b, e.loc, hasRest, [&](OpBuilder &, Location) {
    body(middle, e.maskBelow(rest, width), {});
    scf::YieldOp::create(b, e.loc);
  });
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

void CpuEmitter::emitPrologue() {
  Block *entry = func.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value buffers = entry->getArgument(0), params = entry->getArgument(1);
  begin = e.mulIndex(entry->getArgument(2), info.rangeScale);
  end = e.mulIndex(entry->getArgument(3), info.rangeScale);

  auto loadBase = [&](int64_t i) {
    Value slot = LLVM::GEPOp::create(b, e.loc, pointer, pointer, buffers,
                                     ArrayRef<LLVM::GEPArg>{int32_t(i)});
    return LLVM::LoadOp::create(b, e.loc, pointer, slot);
  };
  auto loadParam = [&](int32_t i) {
    Value slot = LLVM::GEPOp::create(b, e.loc, pointer, b.getI64Type(), params,
                                     ArrayRef<LLVM::GEPArg>{i});
    return LLVM::LoadOp::create(b, e.loc, b.getI64Type(), slot);
  };
  for (size_t i = 0; i < info.inputs.size(); ++i)
    inputs.push_back(loadBase(int64_t(i)));
  for (size_t i = 0; i < info.outputs.size(); ++i)
    outputs.push_back(loadBase(int64_t(info.inputs.size() + i)));

  StringRef accumulate = info.kernel.getAccumulate();
  if (accumulate == "always")
    accumulates = arith::ConstantOp::create(b, e.loc, b.getBoolAttr(true));
  else if (accumulate == "after_first")
    accumulates = e.isBelow(e.constant(0), loadParam(1));

  for (auto op : info.getBody().getOps<exec::ShardIndexOp>())
    uniforms.map(op.getResult(), Value(arith::TruncIOp::create(
                                     b, e.loc, b.getI32Type(), loadParam(0))));

  auto allocate = [&](int64_t elements) -> Value {
    return LLVM::AllocaOp::create(b, e.loc, pointer, b.getF32Type(),
                                  e.constant(llvm::alignTo(elements, 16)),
                                  /*alignment=*/64);
  };
  for (Phase &phase : info.phases)
    for (Value saved : phase.saves)
      scratch[saved] = allocate(info.columns);
  if (info.mode == exec::KernelMode::Column)
    for (size_t i = 0; i < outputs.size(); ++i)
      sums.push_back(allocate(std::min(blockColumns, info.columns)));
}

/// Reads the lane-invariant inputs that depend on the row, or those that don't.
void CpuEmitter::loadScalars(IRMapping &map, bool uniform, Value row) {
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

/// Evaluates those scalars of `phase` that `map` does not know yet.
void CpuEmitter::evaluateScalars(Phase &phase, IRMapping &map) {
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
    if (reduce.getKind() == exec::ReduceKind::Sum)
      value = arith::MulFOp::create(b, e.loc, value,
                                    e.constantFloat(double(info.columns)));
    map.map(reduce.getResult(), value);
  }
}

/// Base pointers moved to `row`; left alone where there is no row.
SmallVector<Value> CpuEmitter::getRowBases(ArrayRef<Access> accesses,
                                           ValueRange bases, Value row) {
  SmallVector<Value> moved;
  for (auto [access, base] : llvm::zip(accesses, bases))
    moved.push_back(e.address(base, e.rowOffset(access, row), access.type));
  return moved;
}

/// One address per lane of a flat kernel's general access.
Value CpuEmitter::getPointers(const Access &access, Value base, Value index) {
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

void CpuEmitter::loadLanes(Phase &phase, IRMapping &map,
                           ArrayRef<Value> rowBases, Value index, Value mask) {
  for (unsigned i : phase.loads) {
    const Access &access = info.inputs[i];
    Value value;
    if (info.mode != exec::KernelMode::Flat) {
      Value pointer = e.address(rowBases[i], index, access.type);
      value = e.load(pointer, access.type, width, mask);
    } else if (access.isContiguousAlongRows()) {
      Value pointer =
          e.address(inputs[i], e.addIndex(index, access.offset), access.type);
      value = e.load(pointer, access.type, width, mask);
    } else {
      value = e.gather(getPointers(access, inputs[i], index), access.type,
                       width, mask);
    }
    map.map(info.getBody().getArgument(i), value);
  }
}

Value CpuEmitter::saveSlot(Value saved, Value index) {
  return e.address(scratch.lookup(saved), index, b.getF32Type());
}

void CpuEmitter::evaluateLanes(Phase &phase, IRMapping &map, Value index) {
  for (Value value : phase.restores)
    map.map(value, e.load(saveSlot(value, index), b.getF32Type(), width,
                          Value(), /*alignment=*/4));
  for (Operation *op : phase.lanes) {
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

/// value, or value + old where this launch accumulates.
Value CpuEmitter::accumulateOnto(Value value, Value old) {
  Value sum = isa<FloatType>(getElementTypeOrSelf(value.getType()))
                  ? e.addFloat(old, value)
                  : Value(arith::AddIOp::create(b, e.loc, old, value));
  return e.select(accumulates, sum, value);
}

void CpuEmitter::storeLane(unsigned output, Value value, Value rowBase,
                           Value index, Value mask) {
  const Access &access = info.outputs[output];
  value = e.splat(value, width);
  if (info.mode == exec::KernelMode::Flat && !access.isContiguousAlongRows()) {
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
  if (accumulates)
    value = accumulateOnto(value, e.load(pointer, access.type, width, mask));
  e.store(value, pointer, access.type, width, mask);
}

//===----------------------------------------------------------------------===//
// Row mode
//===----------------------------------------------------------------------===//

void CpuEmitter::emitRow(Value row) {
  IRMapping map = uniforms;
  loadScalars(map, /*uniform=*/false, row);
  SmallVector<Value> bases = getRowBases(info.inputs, inputs, row);
  SmallVector<Value> outBases = getRowBases(info.outputs, outputs, row);
  auto yielded = info.getYield().getValues();

  for (Phase &phase : info.phases) {
    evaluateScalars(phase, map);
    if (!phase.hasLoop())
      continue;
    int64_t unroll = getUnroll(phase.lanes.size());
    size_t folds = phase.reduces.size();
    SmallVector<Value> init;
    for (int64_t u = 0; u < unroll; ++u)
      for (exec::RowReduceOp reduce : phase.reduces)
        init.push_back(
            e.splat(e.constantFloat(e.getNeutral(reduce.getKind())), width));

    auto body = [&](Value index, Value mask, ValueRange partial) {
      IRMapping lanes = map;
      loadLanes(phase, lanes, bases, index, mask);
      evaluateLanes(phase, lanes, index);
      SmallVector<Value> next;
      for (auto [reduce, sum] : llvm::zip(phase.reduces, partial)) {
        Value step = e.fold(reduce, sum, lanes, width);
        next.push_back(mask ? e.select(mask, step, sum) : step);
      }
      if (phase.stores)
        for (auto [i, access] : llvm::enumerate(info.outputs))
          if (access.column)
            storeLane(i, lanes.lookup(yielded[i]), outBases[i], index, mask);
      return next;
    };
    SmallVector<Value> partial =
        emitStaticLoop(info.columns, unroll, init, body);

    for (auto [i, reduce] : llvm::enumerate(phase.reduces)) {
      exec::ReduceKind kind = reduce.getKind();
      for (int64_t step = 1; step < unroll; step *= 2)
        for (int64_t u = 0; u + step < unroll; u += 2 * step)
          partial[u * folds + i] = e.combine(kind, partial[u * folds + i],
                                             partial[(u + step) * folds + i]);
      map.map(reduce.getResult(), e.combineLanes(kind, partial[i]));
    }
  }

  for (auto [i, access] : llvm::enumerate(info.outputs)) {
    if (access.column)
      continue;
    Value value = map.lookup(yielded[i]);
    if (accumulates)
      value =
          accumulateOnto(value, e.load(outBases[i], access.type, 0, Value()));
    e.store(value, outBases[i], access.type, 0, Value());
  }
}

void CpuEmitter::emitRows() {
  emitFor(begin, end, 1, {}, [&](Value row, ValueRange) {
    emitRow(row);
    return SmallVector<Value>();
  });
}

//===----------------------------------------------------------------------===//
// Flat mode
//===----------------------------------------------------------------------===//

void CpuEmitter::emitFlat() {
  Phase &phase = info.phases.front();
  emitDynamicLoop(begin, end, [&](Value index, Value mask, ValueRange) {
    IRMapping lanes = uniforms;
    loadLanes(phase, lanes, inputs, index, mask);
    evaluateLanes(phase, lanes, index);
    for (auto [i, value] : llvm::enumerate(info.getYield().getValues()))
      storeLane(i, lanes.lookup(value), outputs[i], index, mask);
    return SmallVector<Value>();
  });
}

//===----------------------------------------------------------------------===//
// Column mode
//===----------------------------------------------------------------------===//

/// Adds `count` rows from `firstRow` to the sums of columns [begin, end).
void CpuEmitter::addRows(Value firstRow, int64_t count, Value begin,
                         Value end) {
  Phase &phase = info.phases.front();
  SmallVector<IRMapping> maps;
  SmallVector<SmallVector<Value>> bases;
  for (int64_t i = 0; i < count; ++i) {
    Value row = e.addIndex(firstRow, i);
    IRMapping &map = maps.emplace_back(uniforms);
    loadScalars(map, /*uniform=*/false, row);
    evaluateScalars(phase, map);
    bases.push_back(getRowBases(info.inputs, inputs, row));
  }
  emitDynamicLoop(begin, end, [&](Value index, Value mask, ValueRange) {
    // values[output][row]
    SmallVector<SmallVector<Value>> values(outputs.size());
    for (int64_t i = 0; i < count; ++i) {
      IRMapping lanes = maps[i];
      loadLanes(phase, lanes, bases[i], index, mask);
      evaluateLanes(phase, lanes, index);
      for (auto [o, value] : llvm::enumerate(info.getYield().getValues()))
        values[o].push_back(e.splat(lanes.lookup(value), width));
    }
    Value local = arith::SubIOp::create(b, e.loc, index, begin);
    for (auto [tree, sum] : llvm::zip(values, sums)) {
      for (int64_t step = 1; step < count; step *= 2)
        for (int64_t i = 0; i + step < count; i += 2 * step)
          tree[i] = e.addFloat(tree[i], tree[i + step]);
      Value pointer = e.address(sum, local, b.getF32Type());
      Value old = e.load(pointer, b.getF32Type(), width, Value(), 4);
      e.store(e.addFloat(old, tree[0]), pointer, b.getF32Type(), width, Value(),
              4);
    }
    return SmallVector<Value>();
  });
}

void CpuEmitter::emitColumnBlock(Value begin, Value end) {
  auto localAddress = [&](Value sum, Value index) {
    Value local = arith::SubIOp::create(b, e.loc, index, begin);
    return e.address(sum, local, b.getF32Type());
  };
  Value zero = e.splat(e.constantFloat(0), width);
  emitDynamicLoop(begin, end, [&](Value index, Value, ValueRange) {
    for (Value sum : sums)
      e.store(zero, localAddress(sum, index), b.getF32Type(), width, Value());
    return SmallVector<Value>();
  });

  // Bodies are copied once per row.
  int64_t group = info.getLaneCost() <= 40 ? 4 : 2;
  int64_t whole = info.rows / group * group;
  if (whole)
    emitFor(e.constant(0), e.constant(whole), group, {},
            [&](Value row, ValueRange) {
              addRows(row, group, begin, end);
              return SmallVector<Value>();
            });
  if (info.rows > whole)
    addRows(e.constant(whole), info.rows - whole, begin, end);

  emitDynamicLoop(begin, end, [&](Value index, Value mask, ValueRange) {
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value value =
          e.load(localAddress(sum, index), b.getF32Type(), width, Value(), 4);
      Value base = e.address(outputs[i], e.constant(info.outputs[i].offset),
                             info.outputs[i].type);
      storeLane(i, value, base, index, mask);
    }
    return SmallVector<Value>();
  });
}

void CpuEmitter::emitColumns() {
  emitFor(begin, end, blockColumns, {}, [&](Value first, ValueRange) {
    Value last =
        arith::MinSIOp::create(b, e.loc, end, e.addIndex(first, blockColumns));
    emitColumnBlock(first, last);
    return SmallVector<Value>();
  });
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

void CpuEmitter::emit() {
  if (info.mode == exec::KernelMode::Row)
    while (width > 4 && width / 2 >= info.columns)
      width /= 2;
  emitPrologue();
  loadScalars(uniforms, /*uniform=*/true, Value());
  if (info.mode == exec::KernelMode::Flat) {
    evaluateScalars(info.phases.front(), uniforms);
    emitFlat();
  } else if (info.mode == exec::KernelMode::Column) {
    emitColumns();
  } else {
    emitRows();
  }
  LLVM::ReturnOp::create(b, e.loc, ValueRange());
}

FailureOr<LLVM::LLVMFuncOp> emit::emitCpuKernel(exec::KernelOp kernel,
                                                int64_t lanes) {
  FailureOr<KernelInfo> info =
      KernelInfo::prepare(kernel, /*forCuda=*/false, maxScratchBytes);
  if (failed(info))
    return failure();
  OpBuilder b(kernel);
  MLIRContext *context = b.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(context),
      {pointer, pointer, b.getI64Type(), b.getI64Type()});
  auto func =
      LLVM::LLVMFuncOp::create(b, kernel.getLoc(), kernel.getSymName(), type);
  for (unsigned i : {0u, 1u})
    func.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(),
                    b.getUnitAttr());
  CpuEmitter(*info, b, func, lanes).emit();
  kernel.erase();
  return func;
}
