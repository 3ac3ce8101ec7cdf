//===- CutStages.cpp - Cut the step into those of pipeline stages ---------===//
//
// State: where each value of the step is needed or found.
//
//  - An op of the micro-batch is on one virtual stage, and so on one stage.
//  - A sum over micro-batches has a part on each stage that adds to it. That is
//    one stage, but for a parameter that stages share.
//  - What stands outside of the micro-batch is `located` on the stages with all
//    that it reads. What reads nothing of the micro-batches can be had on all
//    of them; what a stage then does not use is left out.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "dialects/dist/PlanAttr.h"
#include "dialects/dist/Stages.h"
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/CastInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Pipeline/AssignStages.h"
#include "passes/Pipeline/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

namespace cleave {
#define GEN_PASS_DEF_CUTSTAGESPASS
#include "passes/Pipeline/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
/// Stages, ascending; `all`: every one of them.
struct Located {
  bool all = true;
  SmallVector<int64_t> stages;

  bool contains(int64_t stage) const {
    return all || llvm::is_contained(stages, stage);
  }
  static Located on(SmallVector<int64_t> stages) {
    llvm::sort(stages);
    stages.erase(llvm::unique(stages), stages.end());
    return {false, std::move(stages)};
  }
};

/// A part of a sum over micro-batches: what one stage adds up.
struct Part {
  int64_t stage;
  Value value; ///< of a micro-batch
};

/// What a stage runs of a virtual stage at a time.
struct SegmentKey {
  PipelineOpKind kind;
  int64_t chunk;
  bool operator==(const SegmentKey &) const = default;
};

class Cutter {
public:
  Cutter(func::FuncOp step, xf::AccumulateOp loop, StringRef stageAxis,
         PipelineShape shape, ArrayRef<int64_t> layers)
      : step(step), loop(loop), stageAxis(stageAxis), shape(shape),
        body(loop.getBody().front()), b(step),
        virtualStages(assignStages(body, layers)) {}

  LogicalResult run();
  int64_t getNumChannels() const { return int64_t(channels.size()); }

private:
  int64_t getStage(Operation *op) const {
    return shape.getStage(virtualStages.at(op));
  }
  /// Of a value that the micro-batch computes.
  std::optional<int64_t> getStage(Value value) const {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != &body)
      return std::nullopt;
    return getStage(op);
  }

  void findParts();
  SmallVector<Part> splitByStage(Value value);
  Operation *copyFor(Operation *op, ArrayRef<Value> operands,
                     int64_t virtualStage);
  LogicalResult locate();
  FailureOr<Located> locate(Operation &op);

  void buildStage(int64_t number);
  void buildLoop();
  void buildSums(xf::AccumulateOp built, ArrayRef<unsigned> mine);
  void exchange(unsigned result, Value own);
  void buildTotal(Operation &op);
  Value buildTotal(Value part, Operation *like);
  Value buildZeros(Operation *like);
  void removeUnused(Block &entry);

  SegmentKey getSegment(Operation *op);
  void cloneIntoSegment(Operation *op, int64_t segment);
  void receive(Value value, int64_t segment, Operation *user);
  bool isAnywhere(Operation *op);
  int64_t getChannel(Value value, int64_t from, int64_t to);

  func::FuncOp step;
  xf::AccumulateOp loop;
  StringRef stageAxis;
  PipelineShape shape;
  Block &body;
  OpBuilder b;
  VirtualStages virtualStages;
  std::vector<SmallVector<Part>> parts; ///< of the loop's results
  llvm::DenseMap<Value, Located> located;
  /// Sums of numbers of different stages.
  llvm::DenseSet<Operation *> totals;
  /// By value, sender and receiver.
  llvm::MapVector<std::tuple<Value, int64_t, int64_t>, int64_t> channels;

  // Of the stage that is built.
  int64_t stage = 0;
  IRMapping map;
};
} // namespace

//===----------------------------------------------------------------------===//
// What is where
//===----------------------------------------------------------------------===//

/// A copy of an op of the micro-batch with other operands, for one stage.
Operation *Cutter::copyFor(Operation *op, ArrayRef<Value> operands,
                           int64_t virtualStage) {
  OperationState state(op->getLoc(), op->getName(), operands,
                       op->getResultTypes(), op->getAttrs());
  b.setInsertionPoint(op);
  Operation *copy = b.create(state);
  virtualStages[copy] = virtualStage;
  return copy;
}

/// The addends of a value that different stages compute; itself if it is of
/// one. Collectives and casts are taken of each addend.
SmallVector<Part> Cutter::splitByStage(Value value) {
  Operation *op = value.getDefiningOp();
  SmallVector<Part> whole{{*getStage(value), value}};
  if (isa<xf::AdditionOpInterface>(op)) {
    llvm::MapVector<int64_t, SmallVector<Value>> addends;
    for (Value operand : op->getOperands()) {
      if (!getStage(operand))
        return whole;
      for (const Part &part : splitByStage(operand))
        addends[part.stage].push_back(part.value);
    }
    if (addends.size() < 2)
      return whole;
    SmallVector<Part> split;
    for (auto &[stage, values] : addends) {
      Value sum = values.front();
      if (values.size() > 1)
        sum = copyFor(op, values, virtualStages.at(sum.getDefiningOp()))
                  ->getResult(0);
      split.push_back({stage, sum});
    }
    llvm::sort(split,
               [](const Part &a, const Part &b) { return a.stage < b.stage; });
    return split;
  }
  auto reduce = dyn_cast<dist::AllReduceOp>(op);
  bool isLinear =
      isa<dist::CollectiveOpInterface, CastOpInterface>(op) &&
      op->getNumOperands() == 1 &&
      !(reduce && reduce.getReduction() == dist::ReductionKind::Max);
  if (!isLinear || !getStage(op->getOperand(0)))
    return whole;
  SmallVector<Part> split = splitByStage(op->getOperand(0));
  if (split.size() < 2)
    return whole;
  for (Part &part : split)
    part.value =
        copyFor(op, part.value, virtualStages.at(part.value.getDefiningOp()))
            ->getResult(0);
  return split;
}

void Cutter::findParts() {
  for (OpOperand &yielded : body.getTerminator()->getOpOperands()) {
    // What is not of the micro-batch any stage may add up.
    if (getStage(yielded.get()))
      parts.push_back(splitByStage(yielded.get()));
    else
      parts.push_back({{0, yielded.get()}});
    yielded.set(parts.back().front().value);
  }
  // What was split is no longer needed as a whole.
  auto isPart = [&](Operation *op) {
    return llvm::any_of(parts, [&](ArrayRef<Part> of) {
      return llvm::any_of(of, [&](const Part &part) {
        return part.value.getDefiningOp() == op;
      });
    });
  };
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op) && !isPart(&op)) {
      virtualStages.erase(&op);
      op.erase();
    }
}

static bool isNumber(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank() == 0;
}

/// Where an op after the micro-batches can be: on the stages that have all that
/// it reads.
FailureOr<Located> Cutter::locate(Operation &op) {
  Located found;
  for (Value operand : op.getOperands()) {
    Located where = located.lookup(operand);
    if (where.all)
      continue;
    if (found.all) {
      found = where;
      continue;
    }
    llvm::erase_if(found.stages,
                   [&](int64_t stage) { return !where.contains(stage); });
  }
  if (found.all)
    return found;
  // Every stage knows what is added up of several, as the gradients' norm.
  if (isa<xf::AdditionOpInterface>(op) && isNumber(op.getResult(0))) {
    totals.insert(&op);
    return Located();
  }
  if (!found.stages.empty())
    return found;
  return op.emitOpError("reads values of different stages, and no stage has "
                        "them all");
}

LogicalResult Cutter::locate() {
  for (auto [result, of] : llvm::zip(loop.getResults(), parts)) {
    SmallVector<int64_t> stages;
    for (const Part &part : of)
      stages.push_back(part.stage);
    // Every stage knows the loss.
    located[result] = isNumber(result) ? Located() : Located::on(stages);
  }
  bool isAfter = false;
  for (Operation &op : *loop->getBlock()) {
    if (&op == loop) {
      isAfter = true;
      continue;
    }
    FailureOr<Located> where = isAfter ? locate(op) : Located();
    if (failed(where))
      return failure();
    for (Value result : op.getResults())
      located[result] = *where;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// Whether what an op computes is only added up over the micro-batches: it, and
/// what is done to it on the way, may wait until the stage has nothing else to
/// do.
static bool isOnlyAdded(Operation *op) {
  return llvm::all_of(op->getUsers(), [](Operation *user) {
    return isa<xf::YieldOp>(user) ||
           (isa<xf::AdditionOpInterface, dist::CollectiveOpInterface,
                CastOpInterface>(user) &&
            isOnlyAdded(user));
  });
}

SegmentKey Cutter::getSegment(Operation *op) {
  int64_t chunk = virtualStages.at(op) / shape.stages;
  if (xf::getPhase(op) != xf::Phase::Backward)
    return {PipelineOpKind::Forward, chunk};
  if (!shape.splitsBackward())
    return {PipelineOpKind::Backward, chunk};
  return {isOnlyAdded(op) ? PipelineOpKind::BackwardWeight
                          : PipelineOpKind::BackwardInput,
          chunk};
}

static std::string getName(const SegmentKey &key, int64_t chunks) {
  static constexpr StringRef names[] = {"forward", "backward", "backward_input",
                                        "backward_weight"};
  std::string name = names[size_t(key.kind)].str();
  return chunks > 1 ? name + "_" + std::to_string(key.chunk) : name;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

int64_t Cutter::getChannel(Value value, int64_t from, int64_t to) {
  return channels.insert({{value, from, to}, int64_t(channels.size())})
      .first->second;
}

/// What this stage has of a value that another one computes.
void Cutter::receive(Value value, int64_t segment, Operation *user) {
  int64_t from = *getStage(value);
  auto op = dist::RecvOp::create(b, value.getLoc(), value.getType(), from,
                                 getChannel(value, from, stage));
  xf::copyProvenance(user, op);
  op->setAttr(xf::AccumulateOp::segmentName, b.getI64IntegerAttr(segment));
  map.map(value, op.getResult());
}

/// Whether an op reads nothing that the micro-batch computes: each stage that
/// uses its results computes them itself, as the gathering of a weight. Not if
/// it reads samples and a weight, as an embedding: the weight is on its own
/// stage only.
bool Cutter::isAnywhere(Operation *op) {
  bool readsSamples = false, readsOthers = false;
  for (Value operand : op->getOperands()) {
    if (getStage(operand))
      return false;
    bool isSample = operand.getParentBlock() == &body;
    readsSamples |= isSample;
    readsOthers |= !isSample;
  }
  return isPure(op) && !(readsSamples && readsOthers);
}

void Cutter::cloneIntoSegment(Operation *op, int64_t segment) {
  IntegerAttr attr = b.getI64IntegerAttr(segment);
  for (Value operand : op->getOperands()) {
    std::optional<int64_t> from = getStage(operand);
    if (!from || *from == stage || map.contains(operand))
      continue;
    if (isAnywhere(operand.getDefiningOp()))
      cloneIntoSegment(operand.getDefiningOp(), segment);
    else
      receive(operand, segment, op);
  }
  Operation *copy = b.clone(*op, map);
  copy->setAttr(xf::AccumulateOp::segmentName, attr);
  if (isAnywhere(op))
    return;
  for (Value result : op->getResults()) {
    llvm::SetVector<int64_t> users;
    for (Operation *user : result.getUsers())
      if (user->getBlock() == &body && !isa<xf::YieldOp>(user) &&
          getStage(user) != stage)
        users.insert(getStage(user));
    for (int64_t to : users) {
      auto send = dist::SendOp::create(b, op->getLoc(), map.lookup(result), to,
                                       getChannel(result, stage, to));
      xf::copyProvenance(op, send);
      send->setAttr(xf::AccumulateOp::segmentName, attr);
    }
  }
}

/// The micro-batch as this stage runs it.
void Cutter::buildLoop() {
  // Its ops, by segment.
  SmallVector<SegmentKey> keys;
  std::vector<SmallVector<Operation *>> ops;
  for (Operation &op : body.without_terminator()) {
    if (getStage(&op) != stage)
      continue;
    SegmentKey key = getSegment(&op);
    size_t at = size_t(llvm::find(keys, key) - keys.begin());
    if (at == keys.size()) {
      keys.push_back(key);
      ops.emplace_back();
    }
    ops[at].push_back(&op);
  }
  // Segments are numbered as they first run.
  SmallVector<size_t> numbers;
  SmallVector<int64_t> order;
  for (const PipelineOp &run : getOrder(shape, stage)) {
    size_t at = size_t(llvm::find(keys, SegmentKey{run.kind, run.chunk}) -
                       keys.begin());
    if (at == keys.size())
      continue;
    size_t number = size_t(llvm::find(numbers, at) - numbers.begin());
    if (number == numbers.size())
      numbers.push_back(at);
    order.append({int64_t(number), int64_t(run.microBatch)});
  }

  SmallVector<unsigned> mine;
  SmallVector<Type> types;
  for (auto [i, of] : llvm::enumerate(parts))
    for (const Part &part : of)
      if (part.stage == stage) {
        mine.push_back(unsigned(i));
        types.push_back(part.value.getType());
      }
  SmallVector<Attribute> names;
  for (size_t at : numbers)
    names.push_back(b.getStringAttr(getName(keys[at], shape.chunks)));
  SmallVector<Value> inputs;
  for (Value input : loop.getInputs())
    inputs.push_back(map.lookup(input));
  auto built = xf::AccumulateOp::create(
      b, loop.getLoc(), types, loop.getCount(), inputs, b.getArrayAttr(names),
      b.getDenseI64ArrayAttr(order));
  built->setDiscardableAttrs(llvm::to_vector(loop->getDiscardableAttrs()));
  Block &entry = built.getBody().emplaceBlock();
  for (BlockArgument argument : body.getArguments())
    map.map(argument, entry.addArgument(argument.getType(), argument.getLoc()));

  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&entry);
  for (auto [number, at] : llvm::enumerate(numbers))
    for (Operation *op : ops[at])
      cloneIntoSegment(op, int64_t(number));
  SmallVector<Value> yields;
  for (ArrayRef<Part> of : parts)
    for (const Part &part : of)
      if (part.stage == stage)
        yields.push_back(map.lookupOrDefault(part.value));
  xf::YieldOp::create(b, loop.getLoc(), yields);
  b.setInsertionPointAfter(built);
  buildSums(built, mine);
}

/// The whole of each sum over micro-batches that this stage has a part of, and
/// of those that all stages know.
void Cutter::buildSums(xf::AccumulateOp built, ArrayRef<unsigned> mine) {
  for (auto [i, own] : llvm::zip(mine, built.getResults())) {
    map.map(loop.getResult(i), own);
    if (parts[i].size() > 1 && !isNumber(loop.getResult(i)))
      exchange(i, own);
  }
  for (Value result : loop.getResults())
    if (isNumber(result)) {
      Value part = map.lookupOrNull(result);
      if (!part)
        part = buildZeros(loop);
      map.map(result, buildTotal(part, loop));
    }
}

/// The sum over the stages of a number that each of them has.
Value Cutter::buildTotal(Value part, Operation *like) {
  auto total = dist::AllReduceOp::create(b, like->getLoc(), part.getType(),
                                         part, b.getStrArrayAttr(stageAxis));
  xf::copyProvenance(like, total);
  return total;
}

/// The stages that share a sum tell each other their parts and add them in one
/// order, so that all have the same.
void Cutter::exchange(unsigned result, Value own) {
  Location loc = own.getLoc();
  auto mark = [&](Operation *op) { xf::setPhase(op, xf::Phase::Optimizer); };
  for (const Part &part : parts[result])
    if (part.stage != stage) {
      Value sent = loop.getResult(result);
      mark(dist::SendOp::create(b, loc, own, part.stage,
                                getChannel(sent, stage, part.stage)));
    }
  SmallVector<Value> values;
  for (const Part &part : parts[result]) {
    if (part.stage == stage) {
      values.push_back(own);
      continue;
    }
    auto received = dist::RecvOp::create(
        b, loc, own.getType(), part.stage,
        getChannel(loop.getResult(result), part.stage, stage));
    mark(received);
    values.push_back(received);
  }
  auto sum = xf::AddOp::create(b, loc, own.getType(), values);
  mark(sum);
  map.map(loop.getResult(result), sum.getResult());
}

/// The sum over the stages of the addends that some of them have, and those
/// that all have. An addend that several stages have is the first one's to add.
void Cutter::buildTotal(Operation &op) {
  SmallVector<Value> mine, common;
  for (Value operand : op.getOperands()) {
    Located where = located.lookup(operand);
    if (where.all)
      common.push_back(map.lookup(operand));
    else if (where.stages.front() == stage)
      mine.push_back(map.lookup(operand));
  }
  auto add = [&](ArrayRef<Value> values) -> Value {
    OperationState state(op.getLoc(), op.getName(), values, op.getResultTypes(),
                         op.getAttrs());
    return b.create(state)->getResult(0);
  };
  common.push_back(buildTotal(mine.empty() ? buildZeros(&op) : add(mine), &op));
  map.map(op.getResult(0), common.size() == 1 ? common.back() : add(common));
}

/// What a stage without a part of a number adds.
Value Cutter::buildZeros(Operation *like) {
  auto zeros = xf::ZerosOp::create(b, like->getLoc(),
                                   RankedTensorType::get({}, b.getF32Type()));
  xf::copyProvenance(like, zeros);
  return zeros;
}

void Cutter::buildStage(int64_t number) {
  stage = number;
  map.clear();
  b.setInsertionPoint(step);
  auto function = cast<func::FuncOp>(b.cloneWithoutRegions(*step));
  function.setSymName(dist::getStageName(stage));
  Block *entry = function.addEntryBlock();
  map.map(step.getArguments(), entry->getArguments());
  b.setInsertionPointToEnd(entry);
  for (Operation &op : step.getBody().front()) {
    if (&op == loop) {
      buildLoop();
    } else if (totals.contains(&op)) {
      buildTotal(op);
    } else if (llvm::all_of(op.getOperands(), [&](Value operand) {
                 return located.lookup(operand).contains(stage);
               })) {
      b.clone(op, map);
    }
  }
  removeUnused(*entry);
}

/// What this stage does not use of what every stage could have.
void Cutter::removeUnused(Block &entry) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(entry)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

LogicalResult Cutter::run() {
  findParts();
  if (failed(locate()))
    return failure();
  for (int64_t number = 0; number < shape.stages; ++number)
    buildStage(number);
  step.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
class CutStages : public cleave::impl::CutStagesPassBase<CutStages> {
  using CutStagesPassBase::CutStagesPassBase;

  void runOnOperation() override {
    dist::MeshOp mesh = dist::lookupMesh(getOperation());
    if (!mesh || !mesh.getStageAxis())
      return;
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step) {
      getOperation().emitError("expects a function named \"step\"");
      return signalPassFailure();
    }
    auto loops = step.getOps<xf::AccumulateOp>();
    if (!llvm::hasSingleElement(loops)) {
      step.emitOpError("expects one xf.accumulate");
      return signalPassFailure();
    }
    xf::AccumulateOp loop = *loops.begin();
    auto plan = dist::getPlan(getOperation());
    if (!plan) {
      getOperation().emitError(llvm::toString(plan.takeError()));
      return signalPassFailure();
    }
    const PipelinePlan *planned =
        *plan && (*plan)->pipeline ? &*(*plan)->pipeline : nullptr;
    PipelineShape shape;
    shape.stages = mesh.getNumStages();
    shape.chunks = planned ? planned->virtualStages : virtualStages;
    shape.microBatches = int64_t(loop.getCount());
    std::optional<Schedule> found =
        planned ? planned->schedule : findSchedule(schedule);
    if (!found) {
      step.emitOpError("has no schedule \"")
          << schedule << "\"; legal are " << listSchedules();
      return signalPassFailure();
    }
    shape.schedule = *found;
    if (std::string problem = findProblem(shape); !problem.empty()) {
      step.emitOpError(problem);
      return signalPassFailure();
    }
    int64_t numLayers = xf::countLayers(loop);
    FailureOr<SmallVector<int64_t>> cut =
        getLayers(step, shape, numLayers,
                  planned ? (*plan)->getStageLayers(numLayers)
                          : std::vector<int64_t>(layers.begin(), layers.end()));
    if (failed(cut))
      return signalPassFailure();
    std::string axis = mesh.getStageAxis()->str();
    Cutter cutter(step, loop, axis, shape, *cut);
    if (failed(cutter.run()))
      return signalPassFailure();
    numMessages += cutter.getNumChannels();
  }

  /// Of each virtual stage: those that are given, or as even as can be.
  FailureOr<SmallVector<int64_t>> getLayers(func::FuncOp step,
                                            const PipelineShape &shape,
                                            int64_t count,
                                            ArrayRef<int64_t> given) {
    int64_t stages = shape.getVirtualStages();
    SmallVector<int64_t> cut(given);
    if (cut.empty()) {
      TrainLayout even;
      even.pp = stages;
      for (int64_t i = 0; i < stages; ++i)
        cut.push_back(even.getNumBlocks(i, count));
    }
    if (int64_t(cut.size()) != stages)
      return step.emitOpError("expects layers of each of the ")
             << stages << " virtual stages, got " << cut.size();
    // The ends have the embedding and the head; one stage is both.
    ArrayRef<int64_t> inner = ArrayRef(cut).drop_back();
    if (llvm::any_of(inner.drop_front(inner.empty() ? 0 : 1),
                     [](int64_t each) { return each < 1; }))
      return step.emitOpError("has ")
             << count << " layers for " << stages
             << " virtual stages: each but the first and the last has at least "
                "one";
    if (std::accumulate(cut.begin(), cut.end(), int64_t(0)) != count)
      return step.emitOpError("expects layers of stages that add up to ")
             << count;
    return cut;
  }
};
} // namespace
