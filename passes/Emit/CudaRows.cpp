//===- CudaRows.cpp - Kernels along rows on CUDA --------------------------===//
//
// A thread folds the vectors that it has of its row; then the warp is folded by
// butterfly shuffles, then the warps of a block through shared memory.
//
// A row that is kept is read once, all trips of a thread before any is used.
// What has no rows of its own, such as the weight of a norm, is read where it
// is used: it lies in the first cache, and waits there instead of in registers.
// A long row is read anew by each phase, but for sums that follow a maximum.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Emit/CudaEmitter.h"
#include "passes/Emit/ExpandMath.h"
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::emit;

namespace {

/// A vector of a row, and what is known of its lanes.
struct Trip {
  IRMapping lanes;
  Value index; // of its first column
  Value valid; // null: it is in the row
};

/// A phase, and the next one where its sums follow a maximum of this one.
struct Pass {
  Phase &phase;
  Phase *follower;

  bool isFollowed(exec::RowReduceOp reduce) const {
    return follower && follower->followed == reduce;
  }
};

class Rows : public CudaEmitter {
public:
  using CudaEmitter::CudaEmitter;

private:
  void emitSpace() override;
  void locateRow();
  SmallVector<Trip> locateTrips(Value first, int64_t count, bool areWhole);

  SmallVector<Value> beginFolds(const Pass &pass);
  SmallVector<Value> foldLongRow(const Pass &pass, ValueRange folds);
  SmallVector<Value> foldGroup(const Pass &pass, MutableArrayRef<Trip> group,
                               ValueRange folds);
  void foldTrip(Phase &phase, Trip &trip, MutableArrayRef<Value> folds);
  void storeTrip(Trip &trip);
  void endFolds(const Pass &pass, ValueRange folds);

  Value areAsUsual(ArrayRef<Trip> group, ArrayRef<ColumnTest> tests);
  Value rescale(Value sum, double rate, Value from, Value to);
  Value foldTeam(exec::Reduction kind, Value partial);
  Value both(Value x, Value y) {
    return !x ? y : !y ? x : Value(arith::AndIOp::create(b, e.loc, x, y));
  }

  Value member; // the thread's number in its team
  Value row;
  Value rowIsValid; // null: always
  IRMapping map;    // what is known of the row
  SmallVector<Value> bases, outBases;
  int64_t folded = 0; // folds so far that went through shared memory
};

} // namespace

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void Rows::locateRow() {
  int64_t rowsPerBlock = layout.getRowsPerBlock();
  row = block;
  member = thread;
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
  bases = getRowBases(info.inputs, inputs, row);
  outBases = getRowBases(info.outputs, outputs, row);
}

/// `count` trips from the one of number `first` on, of which the last may be
/// past the row's end unless they `areWhole`: it is then at its last vector.
SmallVector<Trip> Rows::locateTrips(Value first, int64_t count, bool areWhole) {
  int64_t vectors = info.columns / layout.vector;
  SmallVector<Trip> trips;
  for (int64_t i = 0; i < count; ++i) {
    Value number =
        e.addIndex(e.mulIndex(e.addIndex(first, i), layout.team), member);
    Value valid;
    if (i + 1 == count && !areWhole) {
      valid = e.isBelow(number, e.constant(vectors));
      number = e.select(valid, number, e.constant(vectors - 1));
    }
    trips.push_back({map, e.mulIndex(number, layout.vector), valid});
  }
  return trips;
}

//===----------------------------------------------------------------------===//
// A thread's folds
//===----------------------------------------------------------------------===//

/// What the folds of a pass begin with, those of the phase, then those of its
/// follower. A maximum that is followed is one number and begins with the
/// lowest, so that differences of two are numbers; all others are vectors.
SmallVector<Value> Rows::beginFolds(const Pass &pass) {
  SmallVector<Value> folds;
  for (exec::RowReduceOp reduce : pass.phase.reduces)
    folds.push_back(
        pass.isFollowed(reduce)
            ? e.constantFloat(std::numeric_limits<float>::lowest())
            : e.splat(e.constantFloat(e.getNeutral(reduce.getKind())), width));
  if (pass.follower)
    folds.append(pass.follower->reduces.size(),
                 e.splat(e.constantFloat(0), width));
  return folds;
}

/// `sum` as it is with `to` in place of the maximum `from`.
Value Rows::rescale(Value sum, double rate, Value from, Value to) {
  Value difference = arith::SubFOp::create(b, e.loc, from, to);
  Value exponent =
      arith::MulFOp::create(b, e.loc, difference, e.constantFloat(rate));
  Value factor = call(powerOfTwoIntrinsic, b.getF32Type(), exponent);
  bool isVector = isa<VectorType>(sum.getType());
  return arith::MulFOp::create(b, e.loc, sum,
                               e.splat(factor, isVector ? width : 0));
}

void Rows::storeTrip(Trip &trip) {
  auto store = [&] {
    for (auto [i, access] : llvm::enumerate(info.outputs))
      if (access.column)
        storeLane(unsigned(i),
                  trip.lanes.lookup(info.getYield().getValues()[i]),
                  outBases[i], trip.index, Value());
  };
  if (Value valid = both(trip.valid, rowIsValid))
    emitIf(valid, store);
  else
    store();
}

/// Evaluates `phase` at one vector, and folds what it feeds.
void Rows::foldTrip(Phase &phase, Trip &trip, MutableArrayRef<Value> folds) {
  loadLanes(phase.loads, trip.lanes, bases, trip.index, Value());
  evaluateLanes(phase, trip.lanes, trip.index);
  for (auto [reduce, fold] : llvm::zip(phase.reduces, folds)) {
    Value next = e.fold(reduce, fold, trip.lanes, width);
    fold = trip.valid ? e.select(trip.valid, next, fold) : next;
  }
}

/// The folds of a pass with some vectors more, which it stores if it does.
/// Where a maximum is followed, the vectors first raise it, then what was
/// summed up so far is rescaled, then their terms are added.
SmallVector<Value> Rows::foldGroup(const Pass &pass,
                                   MutableArrayRef<Trip> group,
                                   ValueRange folds) {
  SmallVector<Value> next(folds);
  auto own = MutableArrayRef(next).take_front(pass.phase.reduces.size());
  auto following = MutableArrayRef(next).drop_front(own.size());
  Value *max = nullptr, before;
  for (auto [reduce, fold] : llvm::zip(pass.phase.reduces, own))
    if (pass.isFollowed(reduce)) {
      max = &fold;
      before = fold;
      fold = e.splat(fold, width);
    }
  for (Trip &trip : group)
    foldTrip(pass.phase, trip, own);
  // Behind all reads, none of which may pass a store.
  if (pass.phase.stores)
    for (Trip &trip : group)
      storeTrip(trip);
  if (!max)
    return next;
  if (width)
    *max = e.combineLanes(exec::Reduction::Max, *max);
  for (auto [sum, rate] : llvm::zip(following, pass.follower->rates))
    sum = rescale(sum, rate, before, *max);
  for (Trip &trip : group) {
    trip.lanes.map(pass.follower->followed.getResult(), *max);
    foldTrip(*pass.follower, trip, following);
  }
  return next;
}

/// Whether all tests have the result in all lanes of the group that they have
/// nearly everywhere: columns are below their bound, and none is equal to it.
Value Rows::areAsUsual(ArrayRef<Trip> group, ArrayRef<ColumnTest> tests) {
  int64_t lanes = std::max<int64_t>(width, 1);
  Value usual;
  for (const ColumnTest &test : tests) {
    Value bound = map.lookup(test.bound);
    // Columns do not descend from trip to trip.
    for (const Trip &trip : test.isLess ? group.take_back() : group) {
      Value column =
          arith::TruncIOp::create(b, e.loc, b.getI32Type(), trip.index);
      if (test.shift)
        column = e.addIndex(column, map.lookup(test.shift));
      Value isUsual;
      if (test.isLess)
        isUsual =
            e.isBelow(e.addIndex(column, e.constantInt(lanes - 1)), bound);
      else
        isUsual = arith::CmpIOp::create(
            b, e.loc, arith::CmpIPredicate::uge,
            arith::SubIOp::create(b, e.loc, bound, column),
            e.constantInt(lanes));
      usual = both(usual, isUsual);
    }
  }
  return usual;
}

/// The folds of a pass over all of the row, a group of vectors at a time. All
/// of a group is read before any of it is used. A group where comparisons of
/// columns all come out as they nearly always do has code without them.
SmallVector<Value> Rows::foldLongRow(const Pass &pass, ValueRange folds) {
  constexpr int64_t most = 4;
  SmallVector<ColumnTest> tests;
  for (const ColumnTest &test : info.columnTests)
    if (Operation *op = test.result.getDefiningOp();
        llvm::is_contained(pass.phase.lanes, op) ||
        (pass.follower && llvm::is_contained(pass.follower->lanes, op)))
      tests.push_back(test);
  Value yes = arith::ConstantOp::create(b, e.loc, b.getBoolAttr(true));
  Value no = arith::ConstantOp::create(b, e.loc, b.getBoolAttr(false));

  auto foldSome = [&](Value first, int64_t count, bool areWhole,
                      ValueRange carried) {
    SmallVector<Trip> group = locateTrips(first, count, areWhole);
    for (Trip &trip : group)
      loadLanes(pass.phase.loads, trip.lanes, bases, trip.index, Value());
    Value usual = areAsUsual(group, tests);
    if (!usual)
      return foldGroup(pass, group, carried);
    auto foldUsual = [&] {
      SmallVector<Trip> simple(group);
      for (Trip &trip : simple)
        for (const ColumnTest &test : tests)
          trip.lanes.map(test.result, test.isLess ? yes : no);
      return foldGroup(pass, simple, carried);
    };
    return emitIf(usual, foldUsual,
                  [&] { return foldGroup(pass, group, carried); });
  };
  int64_t whole = info.columns / layout.vector / layout.team;
  int64_t grouped = whole / most * most;
  scf::ForOp loop =
      emitFor(e.constant(0), e.constant(grouped), most, folds,
              [&](Value first, ValueRange carried) {
                return foldSome(first, most, /*areWhole=*/true, carried);
              });
  SmallVector<Value> folded(loop.result_begin(), loop.result_end());
  if (int64_t rest = layout.trips - grouped)
    folded = foldSome(e.constant(grouped), rest, whole == layout.trips, folded);
  return folded;
}

//===----------------------------------------------------------------------===//
// The folds of a row
//===----------------------------------------------------------------------===//

/// The fold of `partial` over the threads of a team, in each of them.
Value Rows::foldTeam(exec::Reduction kind, Value partial) {
  for (int64_t step = std::min(layout.team, warp) / 2; step; step /= 2) {
    Value other = call("llvm.nvvm.shfl.sync.bfly.f32", b.getF32Type(),
                       {e.constantInt(-1), partial, e.constantInt(step),
                        e.constantInt(warp - 1)});
    partial = e.combine(kind, partial, other);
  }
  int64_t warps = layout.team / warp;
  if (warps <= 1)
    return partial;
  // Each fold has its own place, so no barrier is needed after it.
  Value first = e.constant(folded++ * warp);
  Value isLeader =
      isZero(arith::AndIOp::create(b, e.loc, thread, e.constant(warp - 1)));
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

/// The threads' folds of a pass become those of the row.
void Rows::endFolds(const Pass &pass, ValueRange folds) {
  auto combine = [&](exec::RowReduceOp reduce, Value fold) {
    return isa<VectorType>(fold.getType())
               ? e.combineLanes(reduce.getKind(), fold)
               : fold;
  };
  auto own = folds.take_front(pass.phase.reduces.size());
  Value threadMax;
  for (auto [reduce, fold] : llvm::zip(pass.phase.reduces, own)) {
    if (pass.isFollowed(reduce))
      threadMax = fold;
    map.map(reduce.getResult(),
            foldTeam(reduce.getKind(), combine(reduce, fold)));
  }
  if (!pass.follower)
    return;
  evaluateScalars(*pass.follower, map);
  Value max = map.lookup(pass.follower->followed.getResult());
  for (auto [reduce, fold, rate] :
       llvm::zip(pass.follower->reduces, folds.drop_front(own.size()),
                 pass.follower->rates)) {
    Value sum = rescale(combine(reduce, fold), rate, threadMax, max);
    map.map(reduce.getResult(), foldTeam(reduce.getKind(), sum));
  }
}

void Rows::emitSpace() {
  locateRow();
  map = uniforms;
  loadScalars(map, /*uniform=*/false, row);
  int64_t folds = 0;
  for (Phase &phase : info.phases)
    folds += int64_t(phase.reduces.size());
  if (layout.team > warp && folds)
    allocateShared(folds * warp);

  SmallVector<Trip> kept;
  if (layout.keepsRow) {
    bool areWhole = layout.team * layout.trips * layout.vector == info.columns;
    kept = locateTrips(e.constant(0), layout.trips, areWhole);
    SmallVector<unsigned> ofRow;
    for (auto [i, access] : llvm::enumerate(info.inputs))
      if (access.isOfRow())
        ofRow.push_back(unsigned(i));
    for (Trip &trip : kept)
      loadLanes(ofRow, trip.lanes, bases, trip.index, Value());
  }
  for (size_t i = 0; i < info.phases.size(); ++i) {
    Phase &phase = info.phases[i];
    evaluateScalars(phase, map);
    if (!phase.hasLoop())
      continue;
    Pass pass{phase, nullptr};
    SmallVector<Value> folds;
    if (layout.keepsRow) {
      for (Trip &trip : kept)
        for (auto [from, to] : map.getValueMap())
          trip.lanes.map(from, to);
      folds = foldGroup(pass, kept, beginFolds(pass));
    } else {
      if (i + 1 < info.phases.size() && info.phases[i + 1].followed)
        pass.follower = &info.phases[++i];
      folds = foldLongRow(pass, beginFolds(pass));
    }
    endFolds(pass, folds);
  }

  bool hasScalars = llvm::any_of(
      info.outputs, [](const Access &access) { return !access.column; });
  if (hasScalars)
    emitIf(both(isZero(member), rowIsValid),
           [&] { storeScalars(map, outBases); });
}

void emit::emitCudaRows(KernelInfo &info, OpBuilder &b, LLVM::LLVMFuncOp func,
                        const CudaLayout &layout) {
  Rows(info, b, func, layout).emit();
}
