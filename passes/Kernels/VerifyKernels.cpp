//===- VerifyKernels.cpp - The contract of instructions on buffers --------===//
//
// A buffer is one place, or as many as micro-batches take turns in. State: what
// each place holds: the type of its elements, and the micro-batch whose value
// it is. What a segment writes that runs for several micro-batches is the
// micro-batch's, unless it adds to a sum over them; what one writes that runs
// once is everyone's. At first state tensors, ids and targets are there.
//
//  1. Nothing is left of the tensors, and every kernel is launched.
//  2. Operands have the bytes that their instruction asks for.
//  3. Run by run, in list order: what an instruction reads was written, with
//     elements of the type that it reads and for its own micro-batch; and no
//     sum is overwritten before it is read.
//  4. A parameter or moment gets its new value once, in the update; a constant
//     never does. At the end outputs have been written.
//
// Buffers have no offsets yet, so the first instruction that breaks a rule is
// the one that was lowered wrongly.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Placements.h"
#include "dialects/dist/Stages.h"
#include "passes/Kernels/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace cleave {
#define GEN_PASS_DEF_VERIFYKERNELSPASS
#include "passes/Kernels/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
constexpr int64_t everyones = -1;

struct Place {
  bool isWritten = false;
  int64_t microBatch = everyones; ///< whose value it holds
  Type type;                      ///< of its elements; none: any
  Operation *sum = nullptr;       ///< that wrote a part of a sum, not yet read
};

/// A buffer's places, by number, and what it is of a state.
struct Buffer {
  exec::BufferOp op;
  size_t first = 0;
  int64_t count = 1;
  xf::StateOp state;
  Operation *update = nullptr;
};

/// An operand of an instruction.
struct Access {
  size_t buffer;
  bool isView;
  Type type;
  bool isPartial = false; ///< an output of which elements are left out
};

struct Instruction {
  exec::InstructionOpInterface op;
  SmallVector<Access, 4> inputs, outputs;
  exec::Accumulate accumulation;
};

class ProgramVerifier {
public:
  ProgramVerifier(exec::ProgramOp program, const Mesh &mesh)
      : program(program), mesh(mesh) {}

  LogicalResult verify() {
    return failure(failed(findBuffers()) || failed(findInstructions()) ||
                   failed(verifyRuns()) || failed(verifyEnd()));
  }

private:
  LogicalResult findBuffers();
  LogicalResult findInstructions();
  LogicalResult verifyShapes(Instruction &instruction);
  LogicalResult verifyRuns();
  LogicalResult verifyInstruction(const Instruction &instruction);
  LogicalResult read(const Instruction &instruction, const Access &access,
                     bool isSum);
  LogicalResult write(const Instruction &instruction, const Access &access,
                      Type type, bool adds);
  LogicalResult update(Operation *op, Buffer &buffer);
  LogicalResult verifyEnd();

  /// Of the micro-batch at hand, or all of them.
  MutableArrayRef<Place> getPlaces(const Access &access) {
    const Buffer &buffer = buffers[access.buffer];
    MutableArrayRef<Place> all(&places[buffer.first], size_t(buffer.count));
    return access.isView ? all.slice(size_t(microBatch % buffer.count), 1)
                         : all;
  }

  exec::ProgramOp program;
  const Mesh &mesh;
  std::vector<Buffer> buffers;
  std::vector<Place> places;
  llvm::DenseMap<Operation *, size_t> numbers; ///< of buffers
  llvm::StringMap<std::vector<Instruction>> segments;
  llvm::DenseMap<StringAttr, int64_t> counts; ///< of a segment's runs
  // Of the run at hand:
  bool isFirst = false, isRepeated = false, updates = false;
  int64_t microBatch = 0;
};
} // namespace

/// Buffers and their places, with what is there when a step begins.
LogicalResult ProgramVerifier::findBuffers() {
  llvm::DenseMap<StringAttr, exec::BufferOp> states;
  WalkResult walk = program.walk([&](exec::BufferOp op) {
    numbers[op] = buffers.size();
    Buffer &buffer = buffers.emplace_back();
    buffer.op = op;
    if (op.getState()) {
      buffer.state = SymbolTable::lookupNearestSymbolFrom<xf::StateOp>(
          op, op.getStateAttr());
      auto [it, isFirst] = states.try_emplace(op.getStateAttr().getAttr(), op);
      if (!buffer.state || !isFirst) {
        InFlightDiagnostic error = op.emitOpError(
            buffer.state ? "is a second buffer of " : "expects a state named ");
        error << op.getStateAttr();
        if (!isFirst)
          error.attachNote(it->second.getLoc()) << "the first buffer";
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  llvm::DenseMap<Operation *, exec::ViewOp> views;
  auto table = program.getBody().front().getOps<exec::RunOp>();
  const int64_t runs = std::distance(table.begin(), table.end());
  walk = program.walk([&](exec::ViewOp view) {
    if (!numbers.contains(exec::getBuffer(view))) {
      view.emitOpError("expects a buffer of the program");
      return WalkResult::interrupt();
    }
    if (view.getPlaces() == 0 || view.getFrom() > 0) {
      view.emitOpError("expects places from byte 0 on: nothing is cut into "
                       "parts yet");
      return WalkResult::interrupt();
    }
    if (int64_t(view.getPlaces()) > runs) {
      view.emitOpError(
          "expects at most as many places as the program has runs, ")
          << runs << ", got " << view.getPlaces();
      return WalkResult::interrupt();
    }
    auto [it, isFirst] = views.try_emplace(exec::getBuffer(view), view);
    exec::ViewOp other = it->second;
    if (isFirst)
      buffers[numbers[exec::getBuffer(view)]].count = int64_t(view.getPlaces());
    if (view.getPlaces() == other.getPlaces() &&
        view.getBytes() == other.getBytes() &&
        view.getDistance() == other.getDistance())
      return WalkResult::advance();
    InFlightDiagnostic error =
        view.emitOpError("cuts its buffer otherwise than another view");
    error.attachNote(other.getLoc()) << "the other view";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  for (Buffer &buffer : buffers) {
    buffer.first = places.size();
    Place place;
    if (buffer.state)
      place.type = buffer.state.getTensorType().getElementType();
    else if (buffer.op->hasAttr("data"))
      place.type = IntegerType::get(program.getContext(), 32);
    place.isWritten = bool(place.type);
    places.insert(places.end(), size_t(buffer.count), place);
  }
  return success();
}

LogicalResult ProgramVerifier::findInstructions() {
  for (auto segment : program.getBody().front().getOps<exec::SegmentOp>()) {
    std::vector<Instruction> &list = segments[segment.getSymName()];
    for (auto op :
         segment.getBody().front().getOps<exec::InstructionOpInterface>()) {
      Instruction &instruction = list.emplace_back();
      instruction.op = op;
      instruction.accumulation = op.getAccumulation();
      if (failed(verifyShapes(instruction)))
        return failure();
    }
  }
  return success();
}

/// Each operand has the bytes of its elements; those of which none are told
/// have as many as each other.
LogicalResult ProgramVerifier::verifyShapes(Instruction &instruction) {
  exec::InstructionOpInterface op = instruction.op;
  int64_t ranks = 1;
  if (ArrayAttr group = op.getGroup()) {
    for (auto axis : group.getAsValueRange<StringAttr>())
      if (!mesh.getAxisIndex(axis))
        return op->emitOpError("expects axes of the module's mesh, got \"")
               << axis << "\"";
    ranks = mesh.getSize(dist::getAxes(group, mesh));
  }
  SmallVector<exec::OperandShape> shapes = op.getOperandShapes(ranks);
  SmallVector<Value> operands(op.getInputs());
  llvm::append_range(operands, op.getOutputs());
  llvm::SmallMapVector<Value, int64_t, 4> written;
  std::optional<int64_t> moved;
  for (auto [i, value] : llvm::enumerate(operands)) {
    const exec::OperandShape &shape = shapes[i];
    if (!numbers.contains(exec::getBuffer(value)))
      return op->emitOpError("expects operand ")
             << i << " to be a buffer of the program, or a view of one";
    int64_t bytes = exec::getBytes(value);
    if (!shape.type) {
      if (bytes != moved.value_or(bytes))
        return op->emitOpError("expects as many bytes in operand ")
               << i << " as in operand 0, got " << bytes << " and " << *moved;
      moved = bytes;
    } else {
      int64_t size = int64_t(shape.type.getIntOrFloatBitWidth()) / 8;
      bool fits = shape.isAtLeast
                      ? bytes / size >= shape.elements
                      : bytes % size == 0 && bytes / size == shape.elements;
      if (!fits)
        return op->emitOpError("expects ")
               << (shape.isAtLeast ? "at least " : "") << shape.elements
               << " elements of " << shape.type << " in operand " << i
               << ", got " << bytes << " bytes";
    }
    Access access{numbers[exec::getBuffer(value)],
                  bool(value.getDefiningOp<exec::ViewOp>()), shape.type};
    if (i < op.getInputs().size()) {
      instruction.inputs.push_back(access);
      continue;
    }
    written[value] +=
        shape.type ? shape.written * shape.type.getIntOrFloatBitWidth() / 8
                   : bytes;
    instruction.outputs.push_back(access);
  }
  // A kernel may write one operand through several accesses.
  for (auto [access, value] : llvm::zip(instruction.outputs, op.getOutputs()))
    access.isPartial = written[value] < exec::getBytes(value);
  return success();
}

static std::string describe(int64_t microBatch) {
  return "micro-batch " + std::to_string(microBatch);
}

LogicalResult ProgramVerifier::read(const Instruction &instruction,
                                    const Access &access, bool isSum) {
  auto bad = [&](const llvm::Twine &how) {
    InFlightDiagnostic error = instruction.op->emitOpError("for ")
                               << describe(microBatch) << " " << how;
    error.attachNote(buffers[access.buffer].op.getLoc()) << "the buffer";
    return error;
  };
  for (Place &place : getPlaces(access)) {
    if (!place.isWritten)
      return bad("reads a buffer that nothing has written");
    bool isMine = place.microBatch == everyones ||
                  place.microBatch == microBatch ||
                  // What runs once finds what the last micro-batch left.
                  (!access.isView && !isRepeated);
    if (!isMine)
      return bad("reads what was written for " + describe(place.microBatch));
    if (place.type && access.type && place.type != access.type)
      return bad("reads elements of another type than were written: ")
             << access.type << " and " << place.type;
    if (!isSum)
      place.sum = nullptr;
  }
  return success();
}

/// A new value of state.
LogicalResult ProgramVerifier::update(Operation *op, Buffer &buffer) {
  if (buffer.state.getRole() == xf::StateRole::Constant)
    return op->emitOpError("writes ")
           << buffer.op.getStateAttr() << ", which is constant";
  if (!updates)
    return op->emitOpError("writes ")
           << buffer.op.getStateAttr() << " before the update begins";
  if (buffer.update) {
    InFlightDiagnostic error = op->emitOpError("updates ")
                               << buffer.op.getStateAttr() << " a second time";
    error.attachNote(buffer.update->getLoc()) << "updated here";
    return error;
  }
  buffer.update = op;
  return success();
}

/// `adds`: to what is there.
LogicalResult ProgramVerifier::write(const Instruction &instruction,
                                     const Access &access, Type type,
                                     bool adds) {
  bool isSum = instruction.accumulation != exec::Accumulate::Never;
  Buffer &buffer = buffers[access.buffer];
  if (buffer.state && failed(update(instruction.op, buffer)))
    return failure();
  for (Place &place : getPlaces(access)) {
    if (place.sum && !adds) {
      InFlightDiagnostic error = instruction.op->emitOpError("for ")
                                 << describe(microBatch)
                                 << " overwrites a sum that nothing has read";
      error.attachNote(place.sum->getLoc()) << "a part of it";
      return error;
    }
    place.isWritten = true;
    place.type = type;
    place.sum = nullptr;
    if (isSum)
      place.sum = instruction.op;
    if (access.isView)
      place.microBatch = microBatch;
    else if (!isRepeated ||
             instruction.accumulation == exec::Accumulate::AfterFirst)
      place.microBatch = everyones;
    else if (!adds)
      place.microBatch = microBatch;
  }
  return success();
}

LogicalResult
ProgramVerifier::verifyInstruction(const Instruction &instruction) {
  Type type; // of what is moved
  for (const Access &input : instruction.inputs) {
    if (failed(read(instruction, input, /*isSum=*/false)))
      return failure();
    type = getPlaces(input).front().type;
  }
  bool adds =
      instruction.accumulation == exec::Accumulate::Always ||
      (instruction.accumulation == exec::Accumulate::AfterFirst && !isFirst);
  for (const Access &output : instruction.outputs)
    if ((adds || output.isPartial) &&
        failed(read(instruction, output, /*isSum=*/adds)))
      return failure();
  for (const Access &output : instruction.outputs)
    if (failed(
            write(instruction, output, output.type ? output.type : type, adds)))
      return failure();
  return success();
}

LogicalResult ProgramVerifier::verifyRuns() {
  auto runs = program.getBody().front().getOps<exec::RunOp>();
  llvm::StringSet<> updating;
  for (auto segment : program.getBody().front().getOps<exec::SegmentOp>())
    if (segment.getUpdates())
      updating.insert(segment.getSymName());
  for (exec::RunOp run : runs)
    ++counts[run.getSegmentAttr().getAttr()];
  llvm::StringSet<> begun;
  for (exec::RunOp run : runs) {
    isFirst = begun.insert(run.getSegment()).second;
    if (isFirst != run.getFirst())
      return run.emitOpError("expects to be `first` where it is its segment's "
                             "first run, and nowhere else");
    isRepeated = counts[run.getSegmentAttr().getAttr()] > 1;
    updates = updating.contains(run.getSegment());
    microBatch = int64_t(run.getMicroBatch());
    for (const Instruction &instruction : segments[run.getSegment()])
      if (failed(verifyInstruction(instruction)))
        return failure();
  }
  return success();
}

LogicalResult ProgramVerifier::verifyEnd() {
  for (Buffer &buffer : buffers)
    if (buffer.state && buffer.state.getRole() != xf::StateRole::Constant &&
        !buffer.update)
      return buffer.op.emitOpError("holds ")
             << buffer.op.getStateAttr() << ", which nothing updates";
  for (auto output : program.getBody().front().getOps<exec::OutputOp>()) {
    if (!numbers.contains(exec::getBuffer(output.getBuffer())))
      return output.emitOpError("expects a buffer of the program");
    Access access{numbers[exec::getBuffer(output.getBuffer())],
                  /*isView=*/false, Type()};
    Type type = cast<RankedTensorType>(output.getType()).getElementType();
    for (const Place &place : getPlaces(access)) {
      if (!place.isWritten)
        return output.emitOpError("is a buffer that nothing has written");
      if (place.type && place.type != type)
        return output.emitOpError("expects elements of ")
               << type << ", got " << place.type;
    }
  }
  return success();
}

/// Whether the op may stand in that place of a lowered module.
static bool isLowered(Operation *op) {
  Operation *parent = op->getParentOp();
  if (isa<exec::KernelOp>(parent))
    return isa_and_nonnull<exec::ExecDialect, arith::ArithDialect,
                           math::MathDialect>(op->getDialect());
  if (isa<ModuleOp>(parent) && isa<dist::MeshOp, xf::StateOp>(op))
    return true;
  return isa_and_nonnull<exec::ExecDialect>(op->getDialect());
}

/// Only what a lowered module may have is there.
static LogicalResult verifyNothingLeft(ModuleOp module) {
  WalkResult walk = module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == module || isLowered(op))
      return WalkResult::advance();
    op->emitOpError("is left, where only instructions are expected");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// A program, or one for each stage of a pipeline in their order.
static LogicalResult verifyPrograms(ModuleOp module, dist::MeshOp mesh) {
  SmallVector<exec::ProgramOp> programs(module.getOps<exec::ProgramOp>());
  bool hasStages = mesh && mesh.getStageAxis();
  int64_t stages = hasStages ? mesh.getNumStages() : 1;
  if (int64_t(programs.size()) != stages)
    return module.emitError("expects ")
           << stages << " exec.program" << (hasStages ? ", by stage" : "")
           << ", got " << programs.size();
  for (auto [i, program] : llvm::enumerate(programs))
    if (hasStages && program.getSymName() != dist::getStageName(int64_t(i)))
      return program.emitOpError("expects to be named \"")
             << dist::getStageName(int64_t(i)) << "\"";
  return success();
}

/// Kernels are launched, with the axes that they ask for.
static LogicalResult verifyLaunches(ModuleOp module) {
  llvm::DenseSet<StringAttr> launched;
  llvm::StringSet<> sharded;
  for (auto kernel : module.getOps<exec::KernelOp>())
    if (!kernel.getBody().front().getOps<exec::ShardIndexOp>().empty())
      sharded.insert(kernel.getSymName());
  WalkResult walk = module.walk([&](exec::LaunchOp launch) {
    launched.insert(launch.getKernelAttr().getAttr());
    if (!sharded.contains(launch.getKernel()) || launch.getShardAxes())
      return WalkResult::advance();
    launch.emitOpError("expects the shard_axes along which ")
        << launch.getKernelAttr() << " asks for its shard";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  for (auto kernel : module.getOps<exec::KernelOp>())
    if (!launched.contains(kernel.getSymNameAttr()))
      return kernel.emitOpError("is launched by no instruction");
  return success();
}

namespace {
class VerifyKernels
    : public cleave::impl::VerifyKernelsPassBase<VerifyKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshOp op = dist::lookupMesh(module);
    if (failed(verifyNothingLeft(module)) ||
        failed(verifyPrograms(module, op)) || failed(verifyLaunches(module)))
      return signalPassFailure();
    Mesh mesh = op ? op.getMesh() : Mesh();
    for (auto program : module.getOps<exec::ProgramOp>())
      if (failed(ProgramVerifier(program, mesh).verify()))
        return signalPassFailure();
  }
};
} // namespace
