//===- LowerMicroBatches.cpp - Segments, runs and sums --------------------===//
//
// What runs once for each micro-batch has segments of its own. Values of one
// that others need later are kept for as many as are in flight; values that all
// of them add up are added where the sum lies, as they are computed if they can
// be, else as soon as they are.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "passes/Kernels/Lowering.h"
#include "passes/Kernels/MicroBatches.h"
#include "passes/Kernels/Tensors.h"
#include "runtime/program/Limits.h"

using namespace mlir;
using namespace cleave;

/// What is lowered from now on is in a new segment, the program's last.
void Lowering::startSegment(StringRef name) {
  b.setInsertionPointToEnd(&program.getBody().front());
  segment = exec::SegmentOp::create(b, step.getLoc(), name, /*updates=*/false);
  b.setInsertionPointToStart(&segment.getBody().emplaceBlock());
}

void Lowering::addRuns() {
  b.setInsertionPointToEnd(&program.getBody().front());
  llvm::DenseSet<Operation *> known;
  for (auto &[each, microBatch] : runs)
    if (!each.getBody().front().empty())
      exec::RunOp::create(b, step.getLoc(), each.getSymName(), microBatch,
                          /*first=*/known.insert(each).second);
  for (auto each :
       llvm::make_early_inc_range(program.getOps<exec::SegmentOp>()))
    if (each.getBody().front().empty())
      each.erase();
}

/// How values of that many micro-batches meet their sum.
static exec::Accumulate getSumOver(int64_t microBatches) {
  return microBatches > 1 ? exec::Accumulate::AfterFirst
                          : exec::Accumulate::Never;
}

/// True if an instruction can add `value` to what its buffer holds.
static bool canAdd(Value value) {
  auto op = value.getDefiningOp<xf::AccumulatingOpInterface>();
  return op && op.getSum() == value && value.hasOneUse();
}

static bool canAddParts(xf::AdditionOpInterface sum) {
  return sum->hasOneUse() && llvm::all_of(sum->getOperands(), canAdd);
}

/// Whether the parts of a sum are computed in the same run as the sum.
static bool areOfOneSegment(Operation *sum) {
  return llvm::all_of(sum->getOperands(), [&](Value part) {
    return xf::AccumulateOp::getSegment(part.getDefiningOp()) ==
           xf::AccumulateOp::getSegment(sum);
  });
}

/// Decides that `value` is computed where its sum lies, if it can be: a value
/// that is only added, the parts of such a value one by one, or any value if
/// there is nothing to add it to.
void Lowering::placeSum(Value value, Value buffer,
                        exec::Accumulate accumulate) {
  auto sum = value.getDefiningOp<xf::AdditionOpInterface>();
  if (sum && canAddParts(sum)) {
    SmallVector<Value> parts(sum->getOperands());
    llvm::sort(parts, [](Value a, Value b) {
      return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
    });
    for (Value part : parts) {
      buffers[part] = buffer;
      sums[part] = accumulate;
      accumulate = exec::Accumulate::Always;
    }
    buffers[value] = buffer;
    added.insert(sum);
  } else if (canAdd(value) || accumulate == exec::Accumulate::Never) {
    buffers[value] = buffer;
    sums[value] = accumulate;
  }
}

LogicalResult Lowering::lowerAccumulate(xf::AccumulateOp op) {
  Block &body = op.getBody().front();
  int64_t times = op.getCount();
  for (Value result : op.getResults())
    buffers[result] = addBuffer("gradients", getBytes(result.getType()));

  auto yield = cast<xf::YieldOp>(body.getTerminator());
  for (auto [value, result] : llvm::zip(yield.getValues(), op.getResults()))
    if (value.getParentBlock() == &body) {
      placeSum(value, buffers[result], getSumOver(times));
      if (value.getDefiningOp())
        sumsOf[value].push_back(buffers[result]);
    }

  // So are the parts of a sum that something else reads, a collective say,
  // unless other micro-batches come between them.
  for (auto sum : body.getOps<xf::AdditionOpInterface>())
    if (canAddParts(sum) && areOfOneSegment(sum) && !added.contains(sum))
      placeSum(sum->getResult(0), getBuffer(sum->getResult(0)),
               exec::Accumulate::Never);

  count = times;
  placeInFlight(op);
  if (failed(lowerSegments(op)))
    return failure();
  count = 0;
  if (!isRepeated(op))
    return success();
  startSegment("after");
  runs.push_back({segment, 0});
  return success();
}

/// The micro-batch, in one segment or in its own.
LogicalResult Lowering::lowerSegments(xf::AccumulateOp op) {
  Block &body = op.getBody().front();
  SmallVector<exec::SegmentOp> segments;
  auto start = [&](StringRef name) {
    if (isRepeated(op))
      startSegment(name);
    else
      segment.setSymName(name);
    segments.push_back(segment);
    for (auto [argument, input] :
         llvm::zip(body.getArguments(), op.getInputs()))
      buffers[argument] =
          exec::ViewOp::create(b, op.getLoc(), getBuffer(input),
                               getBytes(argument.getType()), count);
  };
  if (!op.getSegments()) {
    start(isRepeated(op) ? "micro_batch" : "step");
    if (failed(lowerBlock(body)))
      return failure();
    addOthersToSums(op);
    for (int64_t i = 0; isRepeated(op) && i < count; ++i)
      runs.push_back({segment, i});
    return success();
  }
  for (auto [i, name] :
       llvm::enumerate(op.getSegments()->getAsValueRange<StringAttr>())) {
    int64_t number = int64_t(i);
    start(name);
    if (failed(lowerOps(body, [&](Operation *each) {
          return xf::AccumulateOp::getSegment(each) == number;
        })))
      return failure();
    if (number == 0)
      addOthersToSums(op);
  }
  ArrayRef<int64_t> order = *op.getOrder();
  for (size_t i = 0; i < order.size(); i += 2)
    runs.push_back({segments[size_t(order[i])], order[i + 1]});
  return success();
}

/// What one segment computes and another one uses is kept for as many
/// micro-batches as are between the two.
void Lowering::placeInFlight(xf::AccumulateOp op) {
  if (!op.getSegments())
    return;
  for (Operation &each : op.getBody().front().without_terminator())
    for (Value value : each.getResults()) {
      int64_t own = xf::AccumulateOp::getSegment(&each).value_or(0);
      llvm::SmallDenseSet<int64_t> others;
      for (Operation *user : value.getUsers())
        if (!isa<xf::YieldOp>(user))
          others.insert(xf::AccumulateOp::getSegment(user).value_or(0));
      others.erase(own);
      if (others.empty() || buffers.contains(value))
        continue;
      int64_t bytes = getBytes(value.getType());
      int64_t places = countInFlight(*op.getOrder(), own, others, count);
      // As apart as operands have to lie, for vectors and tensor cores.
      int64_t stride = llvm::alignTo(bytes, runtime::limits::alignment);
      Value all = addBuffer(getCategory(value), stride * (places - 1) + bytes);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(segment);
      buffers[value] =
          exec::ViewOp::create(b, op.getLoc(), all, bytes, places, /*from=*/0,
                               stride != bytes && places > 1 ? stride : 0);
    }
}

/// Adds what could not be computed where its sum lies as soon as it is there,
/// so that nothing keeps it until the micro-batch ends.
void Lowering::addToSums(Operation &op) {
  for (Value value : op.getResults())
    for (Value sum : sumsOf.lookup(value))
      addToSum(value, sum, op.getBlock()->getTerminator());
}

void Lowering::addToSum(Value value, Value sum, Operation *yield) {
  Value source = getBuffer(value);
  if (source == sum)
    return;
  launchFolds(); // the value may be one
  int64_t size = cast<RankedTensorType>(value.getType()).getNumElements();
  launch(kernels.buildSum(size, getSumOver(count)), source, sum, yield);
  xf::setPhase(&b.getInsertionBlock()->back(), xf::Phase::Backward);
}

/// The same of what no op of the micro-batch computes.
void Lowering::addOthersToSums(xf::AccumulateOp op) {
  auto yield = cast<xf::YieldOp>(op.getBody().front().getTerminator());
  for (auto [value, result] : llvm::zip(yield.getValues(), op.getResults())) {
    Operation *from = value.getDefiningOp();
    if (!from || from->getBlock() != yield->getBlock())
      addToSum(value, buffers[result], yield);
  }
}
