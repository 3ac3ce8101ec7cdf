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
#include "passes/Emit/KernelEmitter.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {

/// Columns of a block in column mode: accumulators of one output fill 4 KiB.
constexpr int64_t blockColumns = 1024;
/// Bytes on the stack for values that are kept from one phase to the next.
constexpr int64_t maxScratchBytes = int64_t(256) * 1024;

class CpuEmitter : KernelEmitter {
public:
  CpuEmitter(KernelInfo &info, OpBuilder &b, LLVM::LLVMFuncOp func,
             int64_t lanes)
      : KernelEmitter(info, b, func.getLoc(), lanes, /*hasBf16=*/false),
        func(func) {}

  void emit();

private:
  /// Called once per vector: index of the first lane, a mask or null, and the
  /// loop-carried values; returns their next ones.
  using LaneBody =
      llvm::function_ref<SmallVector<Value>(Value, Value, ValueRange)>;

  void emitPrologue();
  void emitRow(Value row);
  void emitFlat();
  void emitColumnBlock(Value begin, Value end);
  void addRows(Value firstRow, int64_t count, Value begin, Value end);

  SmallVector<Value> emitStaticLoop(int64_t count, int64_t unroll,
                                    ValueRange init, LaneBody body);
  void emitDynamicLoop(Value begin, Value end,
                       llvm::function_ref<void(Value, Value)> body);

  LLVM::LLVMFuncOp func;
  Value begin, end;        // the range, in rows or columns
  SmallVector<Value> sums; // column mode: accumulators
};

} // namespace

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

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
void CpuEmitter::emitDynamicLoop(Value begin, Value end,
                                 llvm::function_ref<void(Value, Value)> body) {
  Value count = arith::SubIOp::create(b, e.loc, end, begin);
  Value whole = arith::AndIOp::create(b, e.loc, count, e.constant(-width));
  Value middle = e.addIndex(begin, whole);
  emitFor(begin, middle, width, [&](Value index) { body(index, Value()); });
  Value rest = arith::SubIOp::create(b, e.loc, end, middle);
  emitIf(e.isBelow(middle, end),
         [&] { body(middle, e.maskBelow(rest, width)); });
}

//===----------------------------------------------------------------------===//
// Prologue
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
    return Value(LLVM::LoadOp::create(b, e.loc, b.getI64Type(), slot));
  };
  for (size_t i = 0; i < info.inputs.size(); ++i)
    inputs.push_back(loadBase(int64_t(i)));
  for (size_t i = 0; i < info.outputs.size(); ++i)
    outputs.push_back(loadBase(int64_t(info.inputs.size() + i)));

  setParameters([&] { return loadParam(0); }, [&] { return loadParam(1); });

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
    // Few enough ops that copies fit, and enough copies to hide latencies.
    size_t cost = phase.lanes.size();
    int64_t unroll = cost <= 12 ? 4 : cost <= 40 ? 2 : 1;
    size_t folds = phase.reduces.size();
    SmallVector<Value> init;
    for (int64_t u = 0; u < unroll; ++u)
      for (exec::RowReduceOp reduce : phase.reduces)
        init.push_back(
            e.splat(e.constantFloat(e.getNeutral(reduce.getKind())), width));

    auto body = [&](Value index, Value mask, ValueRange partial) {
      IRMapping lanes = map;
      loadLanes(phase.loads, lanes, bases, index, mask);
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
      exec::Reduction kind = reduce.getKind();
      for (int64_t step = 1; step < unroll; step *= 2)
        for (int64_t u = 0; u + step < unroll; u += 2 * step)
          partial[u * folds + i] = e.combine(kind, partial[u * folds + i],
                                             partial[(u + step) * folds + i]);
      map.map(reduce.getResult(), e.combineLanes(kind, partial[i]));
    }
  }

  storeScalars(map, outBases);
}

//===----------------------------------------------------------------------===//
// Flat mode
//===----------------------------------------------------------------------===//

void CpuEmitter::emitFlat() {
  Phase &phase = info.phases.front();
  evaluateScalars(phase, uniforms);
  emitDynamicLoop(begin, end, [&](Value index, Value mask) {
    IRMapping lanes = uniforms;
    loadLanes(phase.loads, lanes, inputs, index, mask);
    evaluateLanes(phase, lanes, index);
    for (auto [i, value] : llvm::enumerate(info.getYield().getValues()))
      storeLane(i, lanes.lookup(value), outputs[i], index, mask);
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
  emitDynamicLoop(begin, end, [&](Value index, Value mask) {
    // values[output][row]
    SmallVector<SmallVector<Value>> values(outputs.size());
    for (int64_t i = 0; i < count; ++i) {
      IRMapping lanes = maps[i];
      loadLanes(phase.loads, lanes, bases[i], index, mask);
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
  });
}

void CpuEmitter::emitColumnBlock(Value begin, Value end) {
  auto localAddress = [&](Value sum, Value index) {
    Value local = arith::SubIOp::create(b, e.loc, index, begin);
    return e.address(sum, local, b.getF32Type());
  };
  Value zero = e.splat(e.constantFloat(0), width);
  emitDynamicLoop(begin, end, [&](Value index, Value) {
    for (Value sum : sums)
      e.store(zero, localAddress(sum, index), b.getF32Type(), width, Value());
  });

  // Bodies are copied once per row.
  int64_t group = info.getLaneCost() <= 40 ? 4 : 2;
  int64_t whole = info.rows / group * group;
  if (whole)
    emitFor(e.constant(0), e.constant(whole), group,
            [&](Value row) { addRows(row, group, begin, end); });
  if (info.rows > whole)
    addRows(e.constant(whole), info.rows - whole, begin, end);

  emitDynamicLoop(begin, end, [&](Value index, Value mask) {
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value value =
          e.load(localAddress(sum, index), b.getF32Type(), width, Value(), 4);
      Value base = e.address(outputs[i], e.constant(info.outputs[i].offset),
                             info.outputs[i].type);
      storeLane(i, value, base, index, mask);
    }
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
  switch (info.mode) {
  case exec::KernelMode::Row:
    emitFor(begin, end, 1, [&](Value row) { emitRow(row); });
    break;
  case exec::KernelMode::Flat:
    emitFlat();
    break;
  case exec::KernelMode::Column:
    emitFor(begin, end, blockColumns, [&](Value first) {
      Value last = arith::MinSIOp::create(b, e.loc, end,
                                          e.addIndex(first, blockColumns));
      emitColumnBlock(first, last);
    });
    break;
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
