//===- LowerToExec.cpp - From local tensors to instructions ---------------===//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "dialects/dist/Stages.h"
#include "passes/Kernels/Lowering.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Tensors.h"

namespace cleave {
#define GEN_PASS_DEF_LOWERTOEXECPASS
#include "passes/Kernels/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

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
  if (fuse)
    step.walk([](Block *block) { moveTogether(*block); });
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
    case xf::StateRole::Copy:
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
/// the operand that the result is the new value of, and no other. Any other op
/// must not read it.
static bool canUpdateInPlace(OpResult value, FlatSymbolRefAttr state) {
  auto reads = [&](Value operand) {
    auto get = operand.getDefiningOp<xf::GetOp>();
    return get && get.getStateAttr() == state;
  };
  if (isa<dist::CollectiveOpInterface, CastOpInterface>(value.getOwner()))
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
  auto getAccumulate = [&](Value value) { return this->getAccumulate(value); };
  for (KernelGroup &group :
       groupKernels(block, fuse, isKernel, getAccumulate)) {
    for (KernelGroup::Member &member : group.members)
      grouped.insert(member.op);
    Operation *last = group.getLast();
    groups[last] = std::move(group);
  }
  for (Operation &op : block) {
    if (!isIncluded(&op))
      continue;
    auto it = groups.find(&op);
    bool isSum = it != groups.end() && it->second.getSpace().foldRows;
    if (!isSum)
      launchFolds();
    if (it != groups.end()) {
      lowerGroup(it->second);
      for (KernelGroup::Member &member : it->second.members)
        addToSums(*member.op);
    } else if (!grouped.contains(&op) && !added.contains(&op)) {
      if (failed(lower(op)))
        return failure();
      addToSums(op);
    }
  }
  launchFolds();
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

void Lowering::launchFolds() {
  for (const Fold &fold : folds)
    launch(fold.kernel, fold.rows, fold.sum, fold.from);
  folds.clear();
}

void Lowering::lowerGroup(const KernelGroup &group) {
  Operation *last = group.getLast();
  const KernelSpace &space = group.getSpace();
  numOps += group.members.size();
  exec::Accumulate accumulate = getAccumulate(last->getResult(0));
  BuiltKernel kernel = kernels.build(group, accumulate);
  SmallVector<Value> inputs = getBuffers(kernel.inputs);

  if (space.foldRows) {
    if (llvm::any_of(folds, [&](const Fold &fold) {
          return llvm::is_contained(inputs, fold.sum);
        }))
      launchFolds();
    Value sum = getBuffer(last->getResult(0));
    if (kernel.rows == 1 && accumulate == exec::Accumulate::Never)
      return launch(kernel.symbol, inputs, sum, last);
    Value rows = addBuffer("workspace", kernel.rows * 4);
    launch(kernel.symbol, inputs, rows, last);
    folds.push_back(
        {rows, sum, kernels.buildFold(kernel.rows, accumulate), last});
    return;
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

static exec::Reduction convert(dist::ReductionKind kind) {
  return kind == dist::ReductionKind::Sum ? exec::Reduction::Sum
                                          : exec::Reduction::Max;
}

/// Of a shard: how many pieces of it are apart in the whole, and the elements
/// of each.
static std::pair<int64_t, int64_t> getPieces(dist::ShardOpInterface op) {
  dist::Shard shard = op.getShards().front();
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(shard.value.getType()).getShape();
  return {product(shape.take_front(shard.dim)) * shard.blocks,
          product(shape.drop_front(shard.dim)) / shard.blocks};
}

LogicalResult Lowering::lowerCollective(Operation &op) {
  Value from = op.getOperand(0), to = op.getResult(0);
  Value in = getBuffer(from);
  ArrayRef<int64_t> source = cast<RankedTensorType>(from.getType()).getShape();
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
    auto [outer, inner] = getPieces(gather);
    built =
        exec::AllGatherOp::create(b, loc, in, out, ValueRange(), outer, inner,
                                  type, gather.getAxes(), gather.getBlocks());
  } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    auto [outer, inner] = getPieces(scatter);
    built = exec::ReduceScatterOp::create(
        b, loc, in, out, ValueRange(), outer, inner, type,
        convert(scatter.getReduction()), scatter.getAxes(),
        scatter.getBlocks());
  } else if (auto slice = dyn_cast<dist::SliceOp>(op)) {
    auto [outer, inner] = getPieces(slice);
    built = exec::SliceOp::create(b, loc, in, out, ValueRange(), outer, inner,
                                  type, slice.getAxes(), slice.getBlocks());
  } else if (auto move = dyn_cast<dist::AllToAllOp>(op)) {
    auto [low, high] = std::pair(move.getShards()[0], move.getShards()[1]);
    bool first = low.dim < high.dim;
    if (!first)
      std::swap(low, high);
    // Blocks of a dim are like a dim before it.
    auto getPiece = [](const dist::Shard &shard) {
      return cast<RankedTensorType>(shard.value.getType())
                 .getDimSize(shard.dim) /
             shard.blocks;
    };
    built = exec::AllToAllOp::create(
        b, loc, in, out, ValueRange(),
        product(source.take_front(low.dim)) * low.blocks, getPiece(low),
        product(source.slice(low.dim + 1, high.dim - low.dim - 1)) *
            high.blocks,
        getPiece(high), product(source.drop_front(high.dim + 1)), type, first,
        move.getAxes(), low.blocks, high.blocks);
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
