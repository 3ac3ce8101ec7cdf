//===- LowerToExec.cpp - From local tensors to instructions ---------------===//
//
// State: the buffer of each tensor value. Invariant: when an op is lowered, its
// operands have buffers; its results get theirs here, unless a user decided
// before: a new value of state is written where the old one lies, and a value
// that a micro-batch adds is added where the sum lies.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "dialects/dist/Stages.h"
#include "dialects/xf/Provenance.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Kernels/FuseKernels.h"
#include "passes/Kernels/KernelTable.h"
#include "passes/Kernels/MicroBatches.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Tensors.h"

namespace cleave {
#define GEN_PASS_DEF_LOWERTOEXECPASS
#include "passes/Kernels/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

static int64_t getBytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
}

namespace {
class Lowering {
public:
  Lowering(ModuleOp module, func::FuncOp step, KernelTable &kernels,
           int64_t threads, bool fuse)
      : module(module), step(step), threads(threads), fuse(fuse),
        kernels(kernels), b(step) {}

  LogicalResult run();
  int64_t numOps = 0, numLaunches = 0;

private:
  LogicalResult verifySizes();
  void declareStates();
  LogicalResult planWrites();
  LogicalResult verifyReads(Block &entry);
  LogicalResult lowerBlock(Block &block);
  LogicalResult lowerOps(Block &block,
                         llvm::function_ref<bool(Operation *)> isIncluded);
  LogicalResult lower(Operation &op);
  LogicalResult lowerAccumulate(xf::AccumulateOp op);
  LogicalResult lowerCollective(Operation &op);
  void startSegment(StringRef name);
  void eraseUnusedViews();
  void hoistBuffers();
  void splitUpdate();
  void addRuns();
  void lowerGroup(const KernelGroup &group);
  void lowerOutput(xf::OutputOp op);
  void addToSums(Operation &op);
  void addToSum(Value value, Value sum, Operation *yield);
  void addOthersToSums(xf::AccumulateOp op);
  LogicalResult lowerSegments(xf::AccumulateOp op);
  void placeInFlight(xf::AccumulateOp op);

  /// Before the segment at hand.
  Value addBuffer(StringRef category, int64_t bytes) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(segment);
    return exec::BufferOp::create(b, step.getLoc(), category, bytes);
  }
  /// The buffer of a value that is about to be computed.
  Value getBuffer(Value value) {
    Value &buffer = buffers[value];
    if (!buffer)
      buffer = addBuffer(getCategory(value), getBytes(value.getType()));
    return buffer;
  }
  SmallVector<Value> getBuffers(ValueRange values) {
    return llvm::map_to_vector(values,
                               [&](Value value) { return getBuffer(value); });
  }
  StringRef getCategory(Value value) {
    if (isa_and_nonnull<dist::CollectiveOpInterface>(value.getDefiningOp()))
      return "communication";
    bool isUpdate = xf::getPhase(value.getDefiningOp()) == xf::Phase::Optimizer;
    return isUpdate ? "optimizer temporaries" : "activations";
  }
  /// Keeps what an instruction is part of, and what it is called.
  template <typename Op>
  Op mark(Op built, Operation *from) {
    xf::copyProvenance(from, built);
    if (auto cost = dyn_cast<xf::CostOpInterface>(from))
      if (double flops = cost.getFlops().executed)
        built->setAttr("flops", b.getF64FloatAttr(flops));
    built->setLoc(from->getLoc());
    return built;
  }
  /// How a value meets what its buffer holds; see exec.kernel.
  exec::Accumulate getAccumulate(Value value) {
    auto it = sums.find(value);
    return it == sums.end() ? exec::Accumulate::Never : it->second;
  }
  void placeSum(Value value, Value buffer, exec::Accumulate accumulate);
  void launch(FlatSymbolRefAttr kernel, ValueRange inputs, ValueRange outputs,
              Operation *from);

  ModuleOp module;
  func::FuncOp step;
  int64_t threads;
  bool fuse;
  KernelTable &kernels;
  OpBuilder b;
  exec::ProgramOp program;
  exec::SegmentOp segment; ///< that instructions are added to
  /// Micro-batches, in what runs once for each; 0 elsewhere.
  int64_t count = 0;
  llvm::DenseMap<Value, Value> buffers;
  llvm::StringMap<Value> states;
  /// Where a state gets its new value, and what writes it.
  struct Write {
    xf::SetOp set;
    Operation *writer;
  };
  llvm::StringMap<Write> writes;
  /// What runs in a step, in order: a segment for a micro-batch.
  SmallVector<std::pair<exec::SegmentOp, int64_t>> runs;
  /// The buffers of the sums over micro-batches that a value of one is part of.
  llvm::DenseMap<Value, SmallVector<Value>> sumsOf;
  /// Values that are added to a sum, and adds whose parts are.
  llvm::DenseMap<Value, exec::Accumulate> sums;
  llvm::DenseSet<Operation *> added;
};
} // namespace

/// How values of that many micro-batches meet their sum.
static exec::Accumulate getSumOver(int64_t microBatches) {
  return microBatches > 1 ? exec::Accumulate::AfterFirst
                          : exec::Accumulate::Never;
}

/// Whether the bytes of a type can be counted.
static bool isCountable(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return true;
  if (!tensor.hasStaticShape())
    return false;
  int64_t bytes = (tensor.getElementTypeBitWidth() + 7) / 8;
  for (int64_t size : tensor.getShape())
    if (llvm::MulOverflow(bytes, size, bytes))
      return false;
  return true;
}

LogicalResult Lowering::verifySizes() {
  auto verify = [](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types)
      if (!isCountable(type))
        return op->emitOpError("expects less than 2^63 bytes, got ") << type;
    return success();
  };
  for (auto state : module.getOps<xf::StateOp>())
    if (failed(verify(state, state.getTensorType())))
      return failure();
  auto verifyLocal = [&](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types)
      if (dist::getPlacementAttr(type))
        return op->emitOpError("expects the types of one rank, got ") << type;
    return verify(op, types);
  };
  for (Type type : step.getArgumentTypes())
    if (!isa<RankedTensorType>(type))
      return step.emitOpError("expects tensors of ids and targets, got ")
             << type;
  if (failed(verifyLocal(step, step.getArgumentTypes())))
    return failure();
  WalkResult result = step.walk([&](Operation *op) {
    return failed(verifyLocal(op, op->getResultTypes()))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult Lowering::run() {
  if (failed(verifySizes()))
    return failure();
  // The function gives its name to the program that takes its place.
  std::string name =
      step.getSymName() == "step" ? "program" : step.getSymName().str();
  step.setSymName(name + ".lowered");
  program = exec::ProgramOp::create(b, step.getLoc(), name, threads,
                                    IntegerAttr(), IntegerAttr());
  b.setInsertionPointToStart(&program.getBody().emplaceBlock());
  declareStates();
  for (auto [argument, name] :
       llvm::zip(step.getArguments(), ArrayRef<StringRef>{"ids", "targets"})) {
    auto buffer = exec::BufferOp::create(b, step.getLoc(), "data",
                                         getBytes(argument.getType()));
    buffer.setPinned(true);
    buffer->setAttr("data", b.getStringAttr(name));
    auto global =
        step.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), "dist.global");
    buffer->setAttr("global",
                    global ? global : TypeAttr::get(argument.getType()));
    buffers[argument] = buffer;
  }
  startSegment("before");
  runs.push_back({segment, 0});
  if (failed(planWrites()) || failed(verifyReads(step.getBody().front())) ||
      failed(lowerBlock(step.getBody().front())))
    return failure();
  eraseUnusedViews();
  hoistBuffers();
  splitUpdate();
  addRuns();
  return success();
}

/// What is lowered from now on is in a new segment, the program's last.
void Lowering::startSegment(StringRef name) {
  b.setInsertionPointToEnd(&program.getBody().front());
  segment = exec::SegmentOp::create(b, step.getLoc(), name, /*updates=*/false);
  b.setInsertionPointToStart(&segment.getBody().emplaceBlock());
}

/// Whether an instruction writes a parameter or a moment.
static bool changesTrainedState(Operation &op) {
  auto instruction = dyn_cast<exec::InstructionOpInterface>(op);
  return instruction && llvm::any_of(instruction.getOutputs(), [&](Value to) {
           auto buffer = to.getDefiningOp<exec::BufferOp>();
           if (!buffer || !buffer.getState())
             return false;
           auto state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
               buffer, buffer.getStateAttr());
           return state.getRole() != xf::StateRole::Constant;
         });
}

/// A stage of a pipeline may use the data of its micro-batches or not.
void Lowering::eraseUnusedViews() {
  program.walk([](exec::ViewOp view) {
    if (view->use_empty())
      view.erase();
  });
}

/// Buffers stand before the segments, which may share them.
void Lowering::hoistBuffers() {
  for (auto each : program.getOps<exec::SegmentOp>())
    for (auto buffer :
         llvm::make_early_inc_range(each.getBody().getOps<exec::BufferOp>()))
      buffer->moveBefore(each);
}

/// From the first instruction on that changes a parameter or a moment, the last
/// segment becomes one of its own.
void Lowering::splitUpdate() {
  exec::SegmentOp last = segment;
  Block &block = last.getBody().front();
  auto first = llvm::find_if(block, changesTrainedState);
  if (first == block.end())
    return;
  startSegment("update");
  runs.push_back({segment, 0});
  segment.setUpdates(true);
  segment.getBody().front().getOperations().splice(
      segment.getBody().front().end(), block.getOperations(), first,
      block.end());
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

/// The shard of each state tensor that the step uses is a pinned buffer.
void Lowering::declareStates() {
  dist::MeshOp meshOp = dist::lookupMesh(module);
  Mesh mesh = meshOp ? meshOp.getMesh() : Mesh();
  llvm::DenseSet<StringRef> used;
  step.walk([&](xf::GetOp get) { used.insert(get.getState()); });
  step.walk([&](xf::SetOp set) { used.insert(set.getState()); });
  for (auto state : module.getOps<xf::StateOp>()) {
    if (!used.contains(state.getSymName()))
      continue;
    RankedTensorType type = state.getTensorType();
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    if (dist::OnAttr attr = dist::getPlacementAttr(type))
      bytes *= product(
          dist::getPlacement(attr, mesh).getLocalShape(mesh, type.getShape()));
    else
      bytes *= type.getNumElements();
    StringRef category;
    switch (state.getRole()) {
    case xf::StateRole::Parameter:
      category = "parameters";
      break;
    case xf::StateRole::Constant:
      category = "constants";
      break;
    case xf::StateRole::Moment1:
    case xf::StateRole::Moment2:
      category = "optimizer state";
      break;
    }
    auto buffer = exec::BufferOp::create(b, state.getLoc(), category, bytes);
    buffer.setPinned(true);
    buffer.setStateAttr(FlatSymbolRefAttr::get(state.getSymNameAttr()));
    states[state.getSymName()] = buffer;
  }
}

/// Whether a new value of the state can be written over the old one. An update
/// must read each element just before it writes the new one there: the state is
/// the operand that the result is the new value of, and no other. A collective
/// must not read it.
static bool canUpdateInPlace(OpResult value, FlatSymbolRefAttr state) {
  auto reads = [&](Value operand) {
    auto get = operand.getDefiningOp<xf::GetOp>();
    return get && get.getStateAttr() == state;
  };
  if (isa<dist::CollectiveOpInterface>(value.getOwner()))
    return value.hasOneUse() &&
           llvm::none_of(value.getOwner()->getOperands(), reads);
  auto update = dyn_cast<xf::OptimizerOpInterface>(value.getOwner());
  if (!update)
    return false;
  OpOperand &old = update.getOldValue(value);
  return llvm::all_of(update->getOpOperands(), [&](OpOperand &operand) {
    return reads(operand.get()) == (&operand == &old);
  });
}

/// A new value of state goes where the old one lies, as it is computed if it
/// can be, else at the `xf.set`. A state is set once, by every rank, after the
/// micro-batches.
LogicalResult Lowering::planWrites() {
  WalkResult walk = step.walk([&](xf::SetOp set) {
    if (set->getParentOp() != step) {
      set.emitOpError("expects to stand in the step itself: state is set once");
      return WalkResult::interrupt();
    }
    auto [it, isFirst] = writes.try_emplace(set.getState(), Write{set, set});
    if (!isFirst) {
      InFlightDiagnostic error = set.emitOpError("sets ")
                                 << set.getStateAttr() << " a second time";
      error.attachNote(it->second.set.getLoc()) << "set first here";
      return WalkResult::interrupt();
    }
    auto value = dyn_cast<OpResult>(set.getValue());
    if (value && value.getParentBlock() == set->getBlock() &&
        canUpdateInPlace(value, set.getStateAttr())) {
      buffers[value] = states[set.getState()];
      it->second.writer = value.getOwner();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// A state has one buffer, so its old value is gone once the new one is
/// written: nothing may read the old one from there on.
LogicalResult Lowering::verifyReads(Block &entry) {
  WalkResult walk = step.walk([&](xf::GetOp get) {
    auto it = writes.find(get.getState());
    if (it == writes.end())
      return WalkResult::advance();
    const Write &write = it->second;
    // What is got after the set is the new value.
    if (write.set->isBeforeInBlock(entry.findAncestorOpInBlock(*get)))
      return WalkResult::advance();
    for (Operation *user : get->getUsers())
      if (write.writer->isBeforeInBlock(entry.findAncestorOpInBlock(*user))) {
        InFlightDiagnostic error = user->emitOpError("reads ")
                                   << get.getStateAttr()
                                   << " as it was before its new value, which "
                                      "has taken its place";
        error.attachNote(write.writer->getLoc()) << "new value written here";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult Lowering::lowerBlock(Block &block) {
  return lowerOps(block, [](Operation *) { return true; });
}

/// Of a block, the ops that are included.
LogicalResult
Lowering::lowerOps(Block &block,
                   llvm::function_ref<bool(Operation *)> isIncluded) {
  llvm::DenseMap<Operation *, KernelGroup> groups;
  llvm::DenseSet<Operation *> grouped;
  auto isKernel = [&](Operation *op) {
    return isIncluded(op) && !added.contains(op);
  };
  for (KernelGroup &group : groupKernels(block, fuse, isKernel)) {
    for (KernelGroup::Member &member : group.members)
      grouped.insert(member.op);
    Operation *last = group.getLast();
    groups[last] = std::move(group);
  }
  for (Operation &op : block) {
    if (!isIncluded(&op))
      continue;
    if (auto it = groups.find(&op); it != groups.end()) {
      lowerGroup(it->second);
      for (KernelGroup::Member &member : it->second.members)
        addToSums(*member.op);
    } else if (!grouped.contains(&op) && !added.contains(&op)) {
      if (failed(lower(op)))
        return failure();
      addToSums(op);
    }
  }
  return success();
}

LogicalResult Lowering::lower(Operation &op) {
  if (auto get = dyn_cast<xf::GetOp>(op)) {
    buffers[get] = states[get.getState()];
    return success();
  }
  if (auto set = dyn_cast<xf::SetOp>(op)) {
    Value target = states[set.getState()], value = getBuffer(set.getValue());
    if (value != target)
      mark(exec::CopyOp::create(b, op.getLoc(), value, target, ValueRange()),
           &op);
    return success();
  }
  if (auto output = dyn_cast<xf::OutputOp>(op))
    return lowerOutput(output), success();
  if (auto accumulate = dyn_cast<xf::AccumulateOp>(op))
    return lowerAccumulate(accumulate);
  if (isa<xf::YieldOp, func::ReturnOp>(op))
    return success();
  if (auto send = dyn_cast<dist::SendOp>(op)) {
    mark(exec::SendOp::create(b, op.getLoc(), getBuffer(send.getInput()),
                              ValueRange(), ValueRange(), send.getStage(),
                              send.getChannel()),
         &op);
    return success();
  }
  if (auto recv = dyn_cast<dist::RecvOp>(op)) {
    mark(exec::RecvOp::create(b, op.getLoc(), ValueRange(),
                              getBuffer(recv.getResult()), ValueRange(),
                              recv.getStage(), recv.getChannel()),
         &op);
    return success();
  }
  if (isa<dist::CollectiveOpInterface>(op))
    return lowerCollective(op);
  if (auto library = dyn_cast<LibraryOpInterface>(op)) {
    SmallVector<Value> inputs = getBuffers(op.getOperands());
    SmallVector<Value> outputs = getBuffers(op.getResults());
    InstructionSite site;
    site.inputs = inputs;
    site.outputs = outputs;
    if (op.getNumResults() == 1)
      site.accumulate = getAccumulate(op.getResult(0));
    site.threads = threads;
    mark(library.buildInstruction(b, site), &op);
    return success();
  }
  return op.emitOpError("has no lowering to instructions");
}

void Lowering::launch(FlatSymbolRefAttr kernel, ValueRange inputs,
                      ValueRange outputs, Operation *from) {
  auto op = exec::LaunchOp::create(b, from->getLoc(), inputs, outputs,
                                   ValueRange(), kernel, ArrayAttr());
  mark(op, from);
  ++numLaunches;
}

void Lowering::lowerGroup(const KernelGroup &group) {
  Operation *last = group.getLast();
  const KernelSpace &space = group.getSpace();
  numOps += group.members.size();
  exec::Accumulate accumulate = getAccumulate(last->getResult(0));
  BuiltKernel kernel = kernels.build(group, accumulate);
  SmallVector<Value> inputs = getBuffers(kernel.inputs);

  if (space.foldRows) {
    Value sum = getBuffer(last->getResult(0));
    if (kernel.rows == 1 && accumulate == exec::Accumulate::Never)
      return launch(kernel.symbol, inputs, sum, last);
    Value rows = addBuffer("workspace", kernel.rows * 4);
    launch(kernel.symbol, inputs, rows, last);
    return launch(kernels.buildFold(kernel.rows, accumulate), rows, sum, last);
  }
  SmallVector<Value> outputs = getBuffers(kernel.outputs);
  if (space.zeroResults)
    mark(exec::FillOp::create(b, last->getLoc(), ValueRange(), outputs[0],
                              ValueRange()),
         last);
  if (space.copyFrom >= 0)
    mark(exec::CopyOp::create(b, last->getLoc(),
                              getBuffer(last->getOperand(space.copyFrom)),
                              outputs[0], ValueRange()),
         last);
  launch(kernel.symbol, inputs, outputs, last);
  auto op = cast<exec::LaunchOp>(&*std::prev(b.getInsertionPoint()));
  // Named after its last op, it is of all of them.
  SmallVector<Location> locations{last->getLoc()};
  for (const KernelGroup::Member &member : group.members) {
    locations.push_back(member.op->getLoc());
    if (auto axes = member.op->getAttrOfType<ArrayAttr>("shard_axes"))
      op.setShardAxesAttr(axes);
  }
  op->setLoc(FusedLoc::get(b.getContext(), locations));
}

void Lowering::lowerOutput(xf::OutputOp op) {
  Value value = op.getValue(), buffer = getBuffer(value);
  Type type = value.getType();
  DenseI64ArrayAttr logical = op.getLogicalAttr();
  if (auto global = op->getAttrOfType<TypeAttr>("global"))
    type = global.getValue();
  if (count > 0) {
    // One value for each micro-batch.
    Value all = addBuffer("outputs", getBytes(value.getType()) * count);
    Value view = exec::ViewOp::create(b, op.getLoc(), all,
                                      getBytes(value.getType()), count);
    mark(exec::CopyOp::create(b, op.getLoc(), buffer, view, ValueRange()), op);
    type = dist::withLeadingDim(cast<RankedTensorType>(type), count);
    if (logical) {
      SmallVector<int64_t> all{count};
      llvm::append_range(all, logical.asArrayRef());
      logical = b.getDenseI64ArrayAttr(all);
    }
    buffer = all;
  }
  // What a state held before the step is shown, not what it holds after.
  if (count == 0 && value.getDefiningOp<xf::GetOp>()) {
    Value copy = addBuffer("outputs", getBytes(value.getType()));
    mark(exec::CopyOp::create(b, op.getLoc(), buffer, copy, ValueRange()), op);
    buffer = copy;
  }
  buffer.getDefiningOp<exec::BufferOp>().setPinned(true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(segment);
  exec::OutputOp::create(b, op.getLoc(), op.getName(), buffer, type,
                         op.getStateAttr(), logical);
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
      Value all = addBuffer(getCategory(value), bytes * places);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(segment);
      buffers[value] = exec::ViewOp::create(b, op.getLoc(), all, bytes, places);
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

static exec::Reduction convert(dist::ReductionKind kind) {
  return kind == dist::ReductionKind::Sum ? exec::Reduction::Sum
                                          : exec::Reduction::Max;
}

LogicalResult Lowering::lowerCollective(Operation &op) {
  Value from = op.getOperand(0), to = op.getResult(0);
  Value in = getBuffer(from);
  ArrayRef<int64_t> source = cast<RankedTensorType>(from.getType()).getShape();
  ArrayRef<int64_t> target = cast<RankedTensorType>(to.getType()).getShape();
  Value &out = buffers[to];
  if (!out)
    out = addBuffer("communication", getBytes(to.getType()));
  Type type = elementOf(from);
  Location loc = op.getLoc();
  Operation *built = nullptr;
  if (auto reduce = dyn_cast<dist::AllReduceOp>(op)) {
    built = exec::AllReduceOp::create(
        b, loc, in, out, ValueRange(), product(source), type,
        convert(reduce.getReduction()), reduce.getAxes());
  } else if (auto gather = dyn_cast<dist::AllGatherOp>(op)) {
    built = exec::AllGatherOp::create(
        b, loc, in, out, ValueRange(),
        product(source.take_front(gather.getDim())),
        product(source.drop_front(gather.getDim())), type, gather.getAxes());
  } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    built = exec::ReduceScatterOp::create(
        b, loc, in, out, ValueRange(),
        product(target.take_front(scatter.getDim())),
        product(target.drop_front(scatter.getDim())), type,
        convert(scatter.getReduction()), scatter.getAxes());
  } else if (auto slice = dyn_cast<dist::SliceOp>(op)) {
    built = exec::SliceOp::create(b, loc, in, out, ValueRange(),
                                  product(target.take_front(slice.getDim())),
                                  product(target.drop_front(slice.getDim())),
                                  type, slice.getAxes());
  } else if (auto move = dyn_cast<dist::AllToAllOp>(op)) {
    int64_t joined = move.getDim(), cut = move.getSplitDim();
    bool first = joined < cut;
    int64_t low = std::min(joined, cut), high = std::max(joined, cut);
    built = exec::AllToAllOp::create(
        b, loc, in, out, ValueRange(), product(source.take_front(low)),
        first ? source[low] : target[low],
        product(source.slice(low + 1, high - low - 1)),
        first ? target[high] : source[high],
        product(source.drop_front(high + 1)), type, first, move.getAxes());
  } else {
    return op.emitOpError("has no lowering to instructions");
  }
  mark(built, &op);
  return success();
}

namespace {
class LowerToExec : public cleave::impl::LowerToExecPassBase<LowerToExec> {
  using LowerToExecPassBase::LowerToExecPassBase;

  void runOnOperation() override {
    SmallVector<func::FuncOp> steps = getSteps();
    if (steps.empty()) {
      getOperation().emitError("expects a function named \"step\"");
      return signalPassFailure();
    }
    // Stages have their kernels in common.
    KernelTable kernels(steps.front());
    for (func::FuncOp step : steps) {
      Lowering lowering(getOperation(), step, kernels, threads, fuse);
      if (failed(lowering.run()))
        return signalPassFailure();
      numOps += lowering.numOps;
      numLaunches += lowering.numLaunches;
    }
    for (func::FuncOp step : steps)
      step.erase();
    numKernels += kernels.size();
  }

  /// What the ranks do in a step: all of them the same, or those of each stage
  /// of a pipeline.
  SmallVector<func::FuncOp> getSteps() {
    if (auto step = getOperation().lookupSymbol<func::FuncOp>("step"))
      return {step};
    SmallVector<func::FuncOp> steps;
    dist::MeshOp mesh = dist::lookupMesh(getOperation());
    for (int64_t i = 0; mesh && i < mesh.getNumStages(); ++i)
      if (auto step =
              getOperation().lookupSymbol<func::FuncOp>(dist::getStageName(i)))
        steps.push_back(step);
    return steps;
  }
};
} // namespace
