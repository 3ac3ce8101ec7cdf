//===- StreamModel.cpp ----------------------------------------------------===//
#include "passes/Overlap/StreamModel.h"
#include "cleave/Streams/Overlap.h"
#include "dialects/dist/Placements.h"
#include "dialects/exec/Work.h"
#include "runtime/program/Limits.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;

static_assert(maxStreams == runtime::limits::streams,
              "programs have as many streams as their order is found for");
static_assert(mostInBucket == runtime::limits::bucket,
              "a bucket that is made may be loaded");

TaskShape cleave::getTaskShape(exec::InstructionOpInterface op,
                               const Mesh &mesh) {
  exec::EncodedWork work(op);
  SmallVector<Value> operands(op->getOperands());
  SmallVector<int64_t> bytes = llvm::map_to_vector(operands, exec::getBytes);
  if (work.getOpcode() == program::Opcode::Launch)
    countOnce(ArrayRef(operands), op.getInputs().size(), bytes);
  AxisList group;
  if (ArrayAttr axes = op.getGroup())
    group = dist::getAxes(axes, mesh);
  return cleave::getTaskShape(work.getOpcode(), work.get(), bytes,
                              std::move(group));
}

bool cleave::hasStreams(exec::ProgramOp program) {
  return program
      .walk([](exec::InstructionOpInterface op) {
        exec::OrderAttr order = exec::getOrder(op);
        return order.getStream() != 0 || order.getWithNext()
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

StreamModel cleave::getStreamModel(exec::ProgramOp program) {
  StreamModel model;
  llvm::DenseMap<Operation *, int64_t> offsets;
  bool arePlaced = true;
  int64_t end = 0;
  program.walk([&](exec::BufferOp buffer) {
    offsets[buffer] = end;
    end += int64_t(buffer.getBytes());
    arePlaced &= buffer.getOffset().has_value();
  });
  if (arePlaced)
    program.walk([&](exec::BufferOp buffer) {
      offsets[buffer] = int64_t(*buffer.getOffset());
    });

  auto getAccess = [&](Value value, bool writes) {
    ByteAccess access;
    exec::BufferOp buffer = exec::getBuffer(value);
    access.begin = offsets.lookup(buffer);
    access.bytes = exec::getBytes(value);
    access.writes = writes;
    if (auto view = value.getDefiningOp<exec::ViewOp>()) {
      access.begin += int64_t(view.getFrom());
      access.places = int64_t(view.getPlaces());
      access.stride = view.getDistance();
    }
    return access;
  };
  llvm::StringMap<StreamRun> segments;
  llvm::StringSet<> updating;
  bool updates = false;
  for (auto segment : program.getBody().front().getOps<exec::SegmentOp>()) {
    StreamRun &bounds = segments[segment.getSymName()];
    if (segment.getUpdates())
      updating.insert(segment.getSymName());
    bounds.begin = int64_t(model.instructions.size());
    for (auto instruction :
         segment.getBody().front().getOps<exec::InstructionOpInterface>()) {
      StreamOp op;
      exec::OrderAttr order = exec::getOrder(instruction);
      op.stream = order.getStream();
      op.event = order.getEvent();
      op.withNext = order.getWithNext();
      op.waits.assign(order.getWaits().begin(), order.getWaits().end());
      for (Value input : instruction.getInputs())
        op.accesses.push_back(getAccess(input, /*writes=*/false));
      for (OperandRange written :
           {instruction.getOutputs(), instruction.getWorkspace()})
        for (Value output : written)
          op.accesses.push_back(getAccess(output, /*writes=*/true));
      model.program.ops.push_back(std::move(op));
      model.instructions.push_back(instruction);
    }
    bounds.end = int64_t(model.instructions.size());
  }
  for (auto run : program.getBody().front().getOps<exec::RunOp>()) {
    StreamRun each = segments.lookup(run.getSegment());
    each.microBatch = int64_t(run.getMicroBatch());
    if (!updates && updating.contains(run.getSegment())) {
      updates = true;
      model.program.updateRun = int64_t(model.program.runs.size());
    }
    model.program.runs.push_back(each);
  }
  if (!updates)
    model.program.updateRun = int64_t(model.program.runs.size());
  return model;
}
