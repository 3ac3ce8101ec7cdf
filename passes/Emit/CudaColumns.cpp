//===- CudaColumns.cpp - Sums over rows on CUDA ---------------------------===//
//
// The warps of a block are joined in shared memory, in order. Where the rows
// are in parts, each block leaves its sums in scratch memory, and the last one
// to come there joins them all as warps join rows, in order.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Emit/CudaEmitter.h"
#include "runtime/abi/Kernel.h"
#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {
class Columns : public CudaEmitter {
public:
  using CudaEmitter::CudaEmitter;

private:
  void emitSpace() override;
  SmallVector<Value>
  sumRows(Value begin, Value end, int64_t divisor,
          function_ref<SmallVector<SmallVector<Value>>(ArrayRef<Value>)> load);
  SmallVector<Value> joinWarps(ValueRange sums);
  Value isLastPart(Value columnBlock, int64_t flag);

  Value lane, warpNumber;
};
} // namespace

/// The sums over rows [begin, end), a multiple of `divisor`, that fall to this
/// warp, of each output: every so many-th from its number on. `load` gives the
/// values of several rows, [row][output]: of layout.unroll as long as there are
/// so many for each warp, then of half as many.
SmallVector<Value> Columns::sumRows(
    Value begin, Value end, int64_t divisor,
    function_ref<SmallVector<SmallVector<Value>>(ArrayRef<Value>)> load) {
  int64_t warps = layout.getWarps();
  SmallVector<Value> sums(outputs.size(), e.splat(e.constantFloat(0), width));
  auto addRows = [&](Value row, int64_t count, ValueRange carried) {
    SmallVector<Value> rows;
    for (int64_t i = 0; i < count; ++i)
      rows.push_back(e.addIndex(row, i * warps));
    SmallVector<SmallVector<Value>> values = load(rows);
    SmallVector<Value> next(carried);
    for (auto [output, sum] : llvm::enumerate(next)) {
      for (int64_t step = 1; step < count; step *= 2)
        for (int64_t i = 0; i + step < count; i += 2 * step)
          values[size_t(i)][output] = e.addFloat(
              values[size_t(i)][output], values[size_t(i + step)][output]);
      sum = e.addFloat(sum, values[0][output]);
    }
    return next;
  };
  for (int64_t count = layout.unroll; count; count /= 2) {
    int64_t group = warps * count;
    // The last rows are less than one of each warp.
    Value past = end;
    if (count > 1) {
      Value all = arith::SubIOp::create(b, e.loc, end, begin);
      past = e.addIndex(
          begin, arith::AndIOp::create(b, e.loc, all, e.constant(-group)));
    }
    scf::ForOp loop = emitFor(e.addIndex(begin, warpNumber), past, group, sums,
                              [&](Value row, ValueRange carried) {
                                return addRows(row, count, carried);
                              });
    sums.assign(loop.result_begin(), loop.result_end());
    if (divisor % group == 0)
      break;
    begin = past;
  }
  return sums;
}

/// The sums of all warps, in the first one; all threads take part.
SmallVector<Value> Columns::joinWarps(ValueRange sums) {
  // shared[output][warp][column of the block]
  int64_t warps = layout.getWarps(), span = layout.getSpan();
  int64_t bytes = std::min<int64_t>(4 * layout.vector, accessBytes);
  Value local = e.mulIndex(lane, layout.vector);
  auto slot = [&](size_t output, Value number) {
    Value index = e.addIndex(e.mulIndex(number, span), local);
    return sharedAddress(e.addIndex(index, int64_t(output) * warps * span));
  };
  for (auto [i, sum] : llvm::enumerate(sums))
    e.store(sum, slot(i, warpNumber), b.getF32Type(), width, Value(), bytes);
  barrier();
  SmallVector<Value> joined;
  for (size_t i = 0; i < sums.size(); ++i) {
    Value sum =
        e.load(slot(i, e.constant(0)), b.getF32Type(), width, Value(), bytes);
    for (int64_t other = 1; other < warps; ++other)
      sum = e.addFloat(sum, e.load(slot(i, e.constant(other)), b.getF32Type(),
                                   width, Value(), bytes));
    joined.push_back(sum);
  }
  return joined;
}

/// Whether this block is the last of its columns' parts to come here, so that
/// what all of them wrote before may be read. Its counter is zero again.
/// `flag`: an element of shared memory of its own.
Value Columns::isLastPart(Value columnBlock, int64_t flag) {
  constexpr StringRef scope = "device";
  auto fence = [&] {
    LLVM::FenceOp::create(b, e.loc, LLVM::AtomicOrdering::acq_rel, scope);
  };
  fence();
  barrier();
  Value isFirst = isZero(thread);
  Value last = e.constantInt(layout.parts - 1);
  emitIf(isFirst, [&] {
    Value counter = e.address(scratch, columnBlock, b.getI32Type());
    Value before = LLVM::AtomicRMWOp::create(
        b, e.loc, LLVM::AtomicBinOp::add, counter, e.constantInt(1),
        LLVM::AtomicOrdering::monotonic, scope);
    LLVM::StoreOp::create(b, e.loc, before, sharedAddress(e.constant(flag)));
    Value isLast =
        arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::eq, before, last);
    emitIf(isLast,
           [&] { LLVM::StoreOp::create(b, e.loc, e.constantInt(0), counter); });
  });
  barrier();
  fence();
  Value before = LLVM::LoadOp::create(b, e.loc, b.getI32Type(),
                                      sharedAddress(e.constant(flag)));
  return arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::eq, before,
                               last);
}

void Columns::emitSpace() {
  Phase &phase = info.phases.front();
  int64_t vectors = info.columns / layout.vector;
  int64_t columnBlocks = layout.getColumnBlocks();
  lane = arith::AndIOp::create(b, e.loc, thread, e.constant(warp - 1));
  warpNumber =
      arith::ShRUIOp::create(b, e.loc, thread, e.constant(llvm::Log2_64(warp)));
  Value columnBlock = block, begin = e.constant(0), end = e.constant(info.rows);
  Value part;
  if (layout.parts > 1) {
    columnBlock =
        arith::RemUIOp::create(b, e.loc, block, e.constant(columnBlocks));
    part = arith::DivUIOp::create(b, e.loc, block, e.constant(columnBlocks));
    begin = e.mulIndex(part, layout.rowsPerPart);
    end = arith::MinSIOp::create(b, e.loc, end,
                                 e.addIndex(begin, layout.rowsPerPart));
  }
  Value number = e.addIndex(e.mulIndex(columnBlock, warp), lane);
  Value valid = e.isBelow(number, e.constant(vectors));
  Value column =
      e.mulIndex(e.select(valid, number, e.constant(0)), layout.vector);

  SmallVector<Value> sums = sumRows(
      begin, end, std::gcd(info.rows, layout.rowsPerPart),
      [&](ArrayRef<Value> rows) {
        // All is read before anything is computed.
        SmallVector<IRMapping> maps(rows.size(), uniforms);
        for (auto [row, map] : llvm::zip(rows, maps)) {
          loadScalars(map, /*uniform=*/false, row);
          loadLanes(phase.loads, map, getRowBases(info.inputs, inputs, row),
                    column, Value());
        }
        SmallVector<SmallVector<Value>> values;
        for (IRMapping &map : maps) {
          evaluateScalars(phase, map);
          evaluateLanes(phase, map, column);
          SmallVector<Value> &ofRow = values.emplace_back();
          for (Value value : info.getYield().getValues())
            ofRow.push_back(e.splat(map.lookup(value), width));
        }
        return values;
      });

  int64_t sharedElements =
      int64_t(outputs.size()) * layout.getWarps() * layout.getSpan();
  allocateShared(sharedElements + (layout.parts > 1 ? 1 : 0));
  Value isFirst = isZero(warpNumber);
  auto store = [&](ValueRange joined) {
    Value stores = arith::AndIOp::create(b, e.loc, isFirst, valid);
    emitIf(stores, [&] {
      for (auto [i, access] : llvm::enumerate(info.outputs)) {
        Value base =
            e.address(outputs[i], e.constant(access.offset), access.type);
        storeLane(unsigned(i), joined[i], base, column, Value());
      }
    });
  };
  SmallVector<Value> joined = joinWarps(sums);
  if (layout.parts == 1)
    return store(joined);

  // scratch[counter], then scratch[part][output][column, of whole blocks]
  int64_t stride = columnBlocks * layout.getSpan();
  int64_t bytes = std::min<int64_t>(4 * layout.vector, accessBytes);
  Value own = e.addIndex(e.mulIndex(number, layout.vector),
                         CLEAVE_CUDA_COUNTER_BYTES / 4);
  auto sumOf = [&](Value part, size_t output) {
    Value row = e.mulIndex(part, int64_t(outputs.size()) * stride);
    Value index = e.addIndex(own, e.addIndex(row, int64_t(output) * stride));
    return e.address(scratch, index, b.getF32Type());
  };
  emitIf(isFirst, [&] {
    for (auto [i, sum] : llvm::enumerate(joined))
      e.store(sum, sumOf(part, i), b.getF32Type(), width, Value(), bytes);
  });
  emitIf(isLastPart(columnBlock, sharedElements), [&] {
    SmallVector<Value> all =
        sumRows(e.constant(0), e.constant(layout.parts), layout.parts,
                [&](ArrayRef<Value> parts) {
                  SmallVector<SmallVector<Value>> values;
                  for (Value part : parts) {
                    SmallVector<Value> &ofPart = values.emplace_back();
                    for (size_t i = 0; i < outputs.size(); ++i)
                      ofPart.push_back(e.load(sumOf(part, i), b.getF32Type(),
                                              width, Value(), bytes));
                  }
                  return values;
                });
    store(joinWarps(all));
  });
}

void emit::emitCudaColumns(KernelInfo &info, OpBuilder &b,
                           LLVM::LLVMFuncOp func, const CudaLayout &layout) {
  Columns(info, b, func, layout).emit();
}
