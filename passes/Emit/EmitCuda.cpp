//===- EmitCuda.cpp - Kernels as NVPTX functions --------------------------===//
//
// row:     `team` threads share a row: a part of a warp, a warp or a block,
//          whatever covers the row in one access of 16 bytes a thread. Longer
//          rows are walked in several trips; few trips are unrolled, so that
//          what is read or computed in one phase is still in registers in the
//          next. Folds go over a thread's values, then over the warp by
//          butterfly shuffles, then over warps through shared memory.
// flat:    one access of 16 bytes a thread.
// column:  a warp spans 32 neighbouring vectors of columns. Blocks are columns
//          by parts of the rows; the warps of a block share its rows and are
//          joined in shared memory, in order. Where the rows are in parts, each
//          block leaves its sums in scratch memory, and the last one to come
//          there joins them all as warps join rows, in order.
//
// All orders are fixed, so results do not vary from run to run.
//
//===----------------------------------------------------------------------===//
#include "passes/Emit/EmitCuda.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Emit/KernelEmitter.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {

constexpr int64_t warp = 32, accessBytes = 16;

/// How threads are laid over a kernel's space.
struct Layout {
  int64_t vector;  // elements that a thread takes at once
  int64_t threads; // of a block
  int64_t blocks;
  int64_t team = 1;  // row: threads of one row
  int64_t trips = 1; // row: vectors per thread
  bool unrolled = true;
  int64_t parts = 1;        // column: of the rows
  int64_t rowsPerPart = 0;  // column
  int64_t scratchBytes = 0; // column: counters, then sums of the parts

  int64_t getRowsPerBlock() const { return threads / team; }
  int64_t getWarps() const { return threads / warp; }
  int64_t getSpan() const { return warp * vector; } // column: of a block
  int64_t getColumnBlocks() const { return blocks / parts; }
};

class CudaEmitter : KernelEmitter {
public:
  CudaEmitter(KernelInfo &info, OpBuilder &b, LLVM::LLVMFuncOp func,
              Layout layout)
      : KernelEmitter(info, b, func.getLoc(),
                      layout.vector == 1 ? 0 : layout.vector),
        layout(layout), func(func) {
    vectorAlignment = accessBytes;
  }

  void emit();

private:
  void emitPrologue();
  void emitRows();
  void emitFlat();
  void emitColumns();
  SmallVector<Value>
  sumRows(Value begin, Value end, int64_t unroll,
          function_ref<SmallVector<SmallVector<Value>>(ArrayRef<Value>)> load);
  SmallVector<Value> joinWarps(ValueRange sums);
  Value isLastPart(Value columnBlock, int64_t flag);

  Value getRegister(StringRef name);
  Value call(StringRef intrinsic, Type result, ValueRange operands);
  Value foldTeam(exec::Reduction kind, Value partial, unsigned slot);
  void barrier();
  Value sharedAddress(Value index);
  void allocateShared(int64_t elements);
  SmallVector<Value> foldTrip(Phase &phase, IRMapping &map, Value valid,
                              ValueRange partial);
  void storeTrip(IRMapping &map, ArrayRef<Value> bases, Value index,
                 Value valid);

  Layout layout;
  LLVM::LLVMFuncOp func;
  LLVM::GlobalOp shared;
  Value thread, block;    // i64
  Value member;           // row: the thread's number in its team
  Value scratch;          // column: where parts meet
  Value lane, warpNumber; // column
};

} // namespace

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

static int64_t divideUp(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// The most elements, a power of two, that every access along the lanes can
/// take at once at an aligned address; `wanted` at most.
static int64_t findVector(const KernelInfo &info, int64_t wanted) {
  bool flat = info.mode == exec::KernelMode::Flat;
  auto fits = [&](const Access &access, int64_t vector) {
    bool isAlongLanes = flat ? access.isContiguousAlongRows() : access.column;
    if (!isAlongLanes || vector == 1)
      return true;
    // Token ids of a micro-batch begin at any multiple of 4 bytes.
    return !access.type.isInteger(32) && access.offset % vector == 0 &&
           (flat || access.rowStride % vector == 0);
  };
  int64_t vector = wanted;
  while (vector > 1) {
    auto fitsVector = [&](const Access &access) {
      return fits(access, vector);
    };
    if ((flat || info.columns % vector == 0) &&
        llvm::all_of(info.inputs, fitsVector) &&
        llvm::all_of(info.outputs, fitsVector))
      break;
    vector /= 2;
  }
  return vector;
}

/// Elements of 16 bytes of the narrowest type.
static int64_t getWantedVector(const KernelInfo &info) {
  int64_t vector = 4;
  for (const SmallVector<Access> *accesses : {&info.inputs, &info.outputs})
    for (const Access &access : *accesses)
      if (access.type.isBF16())
        vector = 8;
  return vector;
}

static Layout getRowLayout(const KernelInfo &info) {
  Layout layout;
  layout.vector = findVector(info, getWantedVector(info));
  int64_t vectors = info.columns / layout.vector;
  if (vectors <= warp) {
    layout.team = int64_t(llvm::PowerOf2Ceil(uint64_t(vectors)));
    layout.threads = 128;
  } else {
    // Up to 8 trips of 256 threads; then more threads, of 128 registers.
    int64_t threads = divideUp(vectors, 256) <= 8 ? 256 : 512;
    layout.trips = divideUp(vectors, std::min(threads, vectors));
    layout.team =
        int64_t(llvm::alignTo(uint64_t(divideUp(vectors, layout.trips)), warp));
    layout.threads = layout.team;
  }
  // What a thread keeps must fit its registers, 128 or more.
  int64_t kept = 0;
  for (const Access &access : info.inputs)
    kept += access.column ? layout.trips * layout.vector : 0;
  layout.unrolled = layout.trips == 1 || kept <= 64;
  layout.blocks = divideUp(info.rows, layout.getRowsPerBlock());
  return layout;
}

static Layout getFlatLayout(const KernelInfo &info) {
  Layout layout;
  layout.vector = findVector(info, getWantedVector(info));
  layout.threads = 256;
  layout.blocks = divideUp(info.rows, layout.vector * layout.threads);
  return layout;
}

/// Rows that a warp of a column kernel reads before it adds them.
static int64_t getColumnUnroll(const KernelInfo &info, int64_t vector) {
  int64_t perRow = 0;
  for (const Access &access : info.inputs)
    perRow += access.column ? vector : 1;
  return perRow <= 16 ? 4 : 2;
}

static Layout getColumnLayout(const KernelInfo &info) {
  // Blocks that fill the multiprocessors of the largest GPUs twice.
  constexpr int64_t wantedBlocks = 264, mostSharedBytes = 40 << 10;
  Layout layout;
  layout.threads = info.rows >= 64 ? 256 : 128;
  layout.vector = findVector(info, getWantedVector(info));
  int64_t outputs = int64_t(info.outputs.size());
  while (layout.vector > 1 &&
         (info.columns < layout.getSpan() ||
          4 * outputs * layout.getWarps() * layout.getSpan() > mostSharedBytes))
    layout.vector /= 2;
  int64_t columnBlocks = divideUp(info.columns, layout.getSpan());
  // Whole groups of the rows that warps read at once; two at least.
  int64_t group = layout.getWarps() * getColumnUnroll(info, layout.vector);
  int64_t parts =
      std::clamp<int64_t>(wantedBlocks / columnBlocks, 1,
                          std::max<int64_t>(info.rows / (2 * group), 1));
  layout.rowsPerPart =
      int64_t(llvm::alignTo(uint64_t(divideUp(info.rows, parts)), group));
  layout.parts = divideUp(info.rows, layout.rowsPerPart);
  layout.blocks = columnBlocks * layout.parts;
  if (layout.parts > 1)
    layout.scratchBytes =
        CLEAVE_CUDA_COUNTER_BYTES +
        4 * layout.parts * outputs * columnBlocks * layout.getSpan();
  return layout;
}

static Layout getLayout(const KernelInfo &info) {
  switch (info.mode) {
  case exec::KernelMode::Row:
    return getRowLayout(info);
  case exec::KernelMode::Flat:
    return getFlatLayout(info);
  case exec::KernelMode::Column:
    return getColumnLayout(info);
  }
  llvm_unreachable("unknown kernel mode");
}

//===----------------------------------------------------------------------===//
// Hardware
//===----------------------------------------------------------------------===//

Value CudaEmitter::call(StringRef intrinsic, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(
             b, e.loc, result, b.getStringAttr("llvm.nvvm." + intrinsic),
             operands)
      .getResult(0);
}

/// A special register, as i64.
Value CudaEmitter::getRegister(StringRef name) {
  Value narrow =
      call("read.ptx.sreg." + name.str(), b.getI32Type(), ValueRange());
  return arith::ExtUIOp::create(b, e.loc, b.getI64Type(), narrow);
}

void CudaEmitter::barrier() {
  LLVM::CallIntrinsicOp::create(
      b, e.loc, b.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"),
      ValueRange{e.constantInt(0)});
}

void CudaEmitter::allocateShared(int64_t elements) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(func);
  auto type = LLVM::LLVMArrayType::get(b.getF32Type(), unsigned(elements));
  shared = LLVM::GlobalOp::create(
      b, e.loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
      (func.getName() + "_shared").str(), Attribute(), /*alignment=*/16,
      /*addrSpace=*/3);
}

Value CudaEmitter::sharedAddress(Value index) {
  Value base = LLVM::AddressOfOp::create(b, e.loc, shared);
  return e.address(base, index, b.getF32Type());
}

/// The fold of `partial` over the threads of a team, in each of them. `slot`
/// is a place in shared memory for this fold alone, so no barrier is needed
/// after it.
Value CudaEmitter::foldTeam(exec::Reduction kind, Value partial,
                            unsigned slot) {
  for (int64_t step = std::min(layout.team, warp) / 2; step; step /= 2) {
    Value other = call("shfl.sync.bfly.f32", b.getF32Type(),
                       {e.constantInt(-1), partial, e.constantInt(step),
                        e.constantInt(warp - 1)});
    partial = e.combine(kind, partial, other);
  }
  int64_t warps = layout.team / warp;
  if (warps <= 1)
    return partial;
  Value first = e.constant(slot * warp);
  Value isLeader = arith::CmpIOp::create(
      b, e.loc, arith::CmpIPredicate::eq,
      arith::AndIOp::create(b, e.loc, thread, e.constant(warp - 1)),
      e.constant(0));
  emitIf(isLeader, [&] {
    Value number = arith::ShRUIOp::create(b, e.loc, thread,
                                          e.constant(llvm::Log2_64(warp)));
    e.store(partial, sharedAddress(e.addIndex(first, number)), b.getF32Type(),
            0, Value());
  });
  barrier();
  // The warps' folds, four at a time, then one by one.
  auto read = [&](int64_t i, int64_t lanes) {
    return e.load(sharedAddress(e.addIndex(first, i)), b.getF32Type(), lanes,
                  Value(), lanes ? accessBytes : 0);
  };
  Value whole;
  int64_t done = 0;
  for (; done + 4 <= warps; done += 4) {
    Value four = read(done, 4);
    whole = whole ? e.combine(kind, whole, four) : four;
  }
  if (whole)
    whole = e.combineLanes(kind, whole);
  for (; done < warps; ++done) {
    Value one = read(done, 0);
    whole = whole ? e.combine(kind, whole, one) : one;
  }
  return whole;
}

//===----------------------------------------------------------------------===//
// Row mode
//===----------------------------------------------------------------------===//

/// The folds of `phase` with one more vector; unchanged where not `valid`.
SmallVector<Value> CudaEmitter::foldTrip(Phase &phase, IRMapping &map,
                                         Value valid, ValueRange partial) {
  SmallVector<Value> next;
  for (auto [reduce, sum] : llvm::zip(phase.reduces, partial)) {
    Value step = e.fold(reduce, sum, map, width);
    next.push_back(valid ? e.select(valid, step, sum) : step);
  }
  return next;
}

void CudaEmitter::storeTrip(IRMapping &map, ArrayRef<Value> bases, Value index,
                            Value valid) {
  auto store = [&] {
    for (auto [i, access] : llvm::enumerate(info.outputs))
      if (access.column)
        storeLane(i, map.lookup(info.getYield().getValues()[i]), bases[i],
                  index, Value());
  };
  if (valid)
    emitIf(valid, store);
  else
    store();
}

void CudaEmitter::emitRows() {
  int64_t vectors = info.columns / layout.vector;
  int64_t rowsPerBlock = layout.getRowsPerBlock();
  Value row = block;
  member = thread;
  Value rowIsValid; // null: always
  if (rowsPerBlock > 1) {
    int shift = int(llvm::Log2_64(uint64_t(layout.team)));
    member =
        arith::AndIOp::create(b, e.loc, thread, e.constant(layout.team - 1));
    row =
        e.addIndex(e.mulIndex(block, rowsPerBlock),
                   arith::ShRUIOp::create(b, e.loc, thread, e.constant(shift)));
    // All threads of a warp take part in its shuffles: those past the last row
    // compute it once more and store nothing.
    if (info.rows % rowsPerBlock) {
      rowIsValid = e.isBelow(row, e.constant(info.rows));
      row = e.select(rowIsValid, row, e.constant(info.rows - 1));
    }
  }

  IRMapping map = uniforms;
  loadScalars(map, /*uniform=*/false, row);
  SmallVector<Value> bases = getRowBases(info.inputs, inputs, row);
  SmallVector<Value> outBases = getRowBases(info.outputs, outputs, row);

  // The first element of trip `trip`, and whether it is in the row.
  auto locate = [&](Value trip, bool isLast) -> std::pair<Value, Value> {
    Value number = e.addIndex(e.mulIndex(trip, layout.team), member);
    Value valid;
    if (isLast && vectors % layout.team) {
      valid = e.isBelow(number, e.constant(vectors));
      number = e.select(valid, number, e.constant(0));
    }
    return {e.mulIndex(number, layout.vector), valid};
  };
  auto both = [&](Value x, Value y) {
    return !x ? y : !y ? x : Value(arith::AndIOp::create(b, e.loc, x, y));
  };

  // Unrolled: what each trip knows, from phase to phase. All is read at once,
  // so that no read waits for a fold.
  SmallVector<IRMapping> trips(size_t(layout.unrolled ? layout.trips : 0), map);
  for (auto [i, lanes] : llvm::enumerate(trips))
    for (Phase &phase : info.phases)
      loadLanes(phase, lanes, bases,
                locate(e.constant(int64_t(i)), i + 1 == trips.size()).first,
                Value());
  unsigned slot = 0;
  size_t folds = 0;
  for (Phase &phase : info.phases)
    folds += phase.reduces.size();
  if (layout.team > warp && folds)
    allocateShared(int64_t(folds) * warp);

  for (Phase &phase : info.phases) {
    evaluateScalars(phase, map);
    if (!phase.hasLoop())
      continue;
    SmallVector<Value> partial;
    for (exec::RowReduceOp reduce : phase.reduces)
      partial.push_back(
          e.splat(e.constantFloat(e.getNeutral(reduce.getKind())), width));
    auto emitTrip = [&](IRMapping &lanes, Value index, Value valid,
                        ValueRange sums) {
      loadLanes(phase, lanes, bases, index, Value());
      evaluateLanes(phase, lanes, index);
      SmallVector<Value> next = foldTrip(phase, lanes, valid, sums);
      if (phase.stores)
        storeTrip(lanes, outBases, index, both(valid, rowIsValid));
      return next;
    };
    if (layout.unrolled) {
      for (int64_t i = 0; i < layout.trips; ++i) {
        auto [index, valid] = locate(e.constant(i), i + 1 == layout.trips);
        IRMapping &lanes = trips[size_t(i)];
        for (auto [from, to] : map.getValueMap())
          lanes.map(from, to);
        partial = emitTrip(lanes, index, valid, partial);
      }
    } else {
      // Whole trips, `group` at once; then those that are left.
      int64_t whole = vectors / layout.team;
      int64_t group = 4;
      int64_t grouped = whole / group * group;
      auto emitSome = [&](Value trip, int64_t count, bool areWhole,
                          ValueRange carried) {
        // All is read before anything is computed.
        SmallVector<IRMapping> maps(size_t(count), map);
        SmallVector<std::pair<Value, Value>> places;
        for (auto [i, lanes] : llvm::enumerate(maps)) {
          places.push_back(locate(e.addIndex(trip, int64_t(i)),
                                  /*isLast=*/!areWhole));
          loadLanes(phase, lanes, bases, places.back().first, Value());
        }
        SmallVector<Value> sums(carried);
        for (auto [lanes, place] : llvm::zip(maps, places))
          sums = emitTrip(lanes, place.first, place.second, sums);
        return sums;
      };
      scf::ForOp loop =
          emitFor(e.constant(0), e.constant(grouped), group, partial,
                  [&](Value trip, ValueRange carried) {
                    return emitSome(trip, group, /*areWhole=*/true, carried);
                  });
      partial.assign(loop.result_begin(), loop.result_end());
      for (int64_t trip = grouped; trip < layout.trips; ++trip)
        partial = emitSome(e.constant(trip), 1, trip < whole, partial);
    }
    for (auto [reduce, sum] : llvm::zip(phase.reduces, partial)) {
      Value one = width ? e.combineLanes(reduce.getKind(), sum) : sum;
      map.map(reduce.getResult(), foldTeam(reduce.getKind(), one, slot++));
    }
  }

  bool hasScalars = llvm::any_of(
      info.outputs, [](const Access &access) { return !access.column; });
  if (!hasScalars)
    return;
  Value isFirst = arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::eq,
                                        member, e.constant(0));
  emitIf(both(isFirst, rowIsValid), [&] { storeScalars(map, outBases); });
}

//===----------------------------------------------------------------------===//
// Flat mode
//===----------------------------------------------------------------------===//

void CudaEmitter::emitFlat() {
  Phase &phase = info.phases.front();
  evaluateScalars(phase, uniforms);
  auto emitAt = [&](Value index) {
    IRMapping lanes = uniforms;
    loadLanes(phase, lanes, inputs, index, Value());
    evaluateLanes(phase, lanes, index);
    for (auto [i, value] : llvm::enumerate(info.getYield().getValues()))
      storeLane(i, lanes.lookup(value), outputs[i], index, Value());
  };
  Value number = e.addIndex(e.mulIndex(block, layout.threads), thread);
  int64_t whole = info.rows / layout.vector;
  emitIf(e.isBelow(number, e.constant(whole)),
         [&] { emitAt(e.mulIndex(number, layout.vector)); });
  int64_t rest = info.rows % layout.vector;
  if (!rest)
    return;
  // The next threads take the last elements one by one.
  width = 0;
  Value past = arith::SubIOp::create(b, e.loc, number, e.constant(whole));
  Value isNext = arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::ult,
                                       past, e.constant(rest));
  emitIf(isNext, [&] { emitAt(e.addIndex(past, whole * layout.vector)); });
}

//===----------------------------------------------------------------------===//
// Column mode
//===----------------------------------------------------------------------===//

/// The sums over rows [begin, end) that fall to this warp, of each output:
/// every so many-th from its number on. `load` gives the values of several
/// rows, [row][output].
SmallVector<Value> CudaEmitter::sumRows(
    Value begin, Value end, int64_t unroll,
    function_ref<SmallVector<SmallVector<Value>>(ArrayRef<Value>)> load) {
  int64_t warps = layout.getWarps(), group = warps * unroll;
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
  Value middle = begin;
  if (unroll > 1) {
    Value count = arith::SubIOp::create(b, e.loc, end, begin);
    Value whole = arith::AndIOp::create(b, e.loc, count, e.constant(-group));
    middle = e.addIndex(begin, whole);
    scf::ForOp loop = emitFor(e.addIndex(begin, warpNumber), middle, group,
                              sums, [&](Value row, ValueRange carried) {
                                return addRows(row, unroll, carried);
                              });
    sums.assign(loop.result_begin(), loop.result_end());
  }
  scf::ForOp loop = emitFor(
      e.addIndex(middle, warpNumber), end, warps, sums,
      [&](Value row, ValueRange carried) { return addRows(row, 1, carried); });
  return SmallVector<Value>(loop.result_begin(), loop.result_end());
}

/// The sums of all warps, in the first one; all threads take part.
SmallVector<Value> CudaEmitter::joinWarps(ValueRange sums) {
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
Value CudaEmitter::isLastPart(Value columnBlock, int64_t flag) {
  constexpr StringRef scope = "device";
  auto fence = [&] {
    LLVM::FenceOp::create(b, e.loc, LLVM::AtomicOrdering::acq_rel, scope);
  };
  fence();
  barrier();
  Value isFirst = arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::eq,
                                        thread, e.constant(0));
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

void CudaEmitter::emitColumns() {
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

  SmallVector<Value> sums =
      sumRows(begin, end, getColumnUnroll(info, layout.vector),
              [&](ArrayRef<Value> rows) {
                // All is read before anything is computed.
                SmallVector<IRMapping> maps(rows.size(), uniforms);
                for (auto [row, map] : llvm::zip(rows, maps)) {
                  loadScalars(map, /*uniform=*/false, row);
                  loadLanes(phase, map, getRowBases(info.inputs, inputs, row),
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
  Value isFirst = arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::eq,
                                        warpNumber, e.constant(0));
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
    SmallVector<Value> all = sumRows(
        e.constant(0), e.constant(layout.parts), 2, [&](ArrayRef<Value> parts) {
          SmallVector<SmallVector<Value>> values;
          for (Value part : parts) {
            SmallVector<Value> &ofPart = values.emplace_back();
            for (size_t i = 0; i < outputs.size(); ++i)
              ofPart.push_back(e.load(sumOf(part, i), b.getF32Type(), width,
                                      Value(), bytes));
          }
          return values;
        });
    store(joinWarps(all));
  });
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

void CudaEmitter::emitPrologue() {
  Block *entry = func.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  size_t inputCount = info.inputs.size();
  size_t count = inputCount + info.outputs.size();
  for (size_t i = 0; i < count; ++i)
    (i < inputCount ? inputs : outputs)
        .push_back(entry->getArgument(unsigned(i)));
  setParameters([&] { return entry->getArgument(unsigned(count)); },
                [&] { return entry->getArgument(unsigned(count) + 1); });
  scratch = entry->getArgument(unsigned(count) + 2);
  thread = getRegister("tid.x");
  block = getRegister("ctaid.x");
}

void CudaEmitter::emit() {
  emitPrologue();
  loadScalars(uniforms, /*uniform=*/true, Value());
  switch (info.mode) {
  case exec::KernelMode::Row:
    emitRows();
    break;
  case exec::KernelMode::Flat:
    emitFlat();
    break;
  case exec::KernelMode::Column:
    emitColumns();
    break;
  }
  LLVM::ReturnOp::create(b, e.loc, ValueRange());
}

FailureOr<CudaLaunch> emit::emitCudaKernel(exec::KernelOp kernel) {
  // Nothing is saved in memory: unrolled trips have it in registers, and a loop
  // computes it again.
  FailureOr<KernelInfo> info =
      KernelInfo::prepare(kernel, /*forCuda=*/true, /*maxSavedBytes=*/0);
  if (failed(info))
    return failure();
  Layout layout = getLayout(*info);
  OpBuilder b(kernel);
  MLIRContext *context = b.getContext();
  size_t operands = info->inputs.size() + info->outputs.size();
  SmallVector<Type> types(operands, LLVM::LLVMPointerType::get(context, 1));
  types.append(2, b.getI64Type());
  types.push_back(LLVM::LLVMPointerType::get(context, 1));
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
  auto func =
      LLVM::LLVMFuncOp::create(b, kernel.getLoc(), kernel.getSymName(), type);
  func.setCConv(LLVM::CConv::PTX_Kernel);
  func.setPassthroughAttr(b.getArrayAttr(
      {b.getStrArrayAttr({"nvvm.maxntid", std::to_string(layout.threads)})}));
  CudaEmitter(*info, b, func, layout).emit();
  CudaLaunch launch{kernel.getSymName().str(), unsigned(operands),
                    unsigned(layout.blocks), unsigned(layout.threads),
                    uint64_t(layout.scratchBytes)};
  kernel.erase();
  return launch;
}
