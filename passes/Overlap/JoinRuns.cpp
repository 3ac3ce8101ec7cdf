//===- JoinRuns.cpp - Two successive runs as one --------------------------===//
#include "passes/Overlap/JoinRuns.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Overlap/StreamModel.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave;

/// Of the time of both runs, that joining them has to save: it makes the
/// program longer.
static constexpr double leastSaved = 0.01;

/// Whether a segment does the same in a run of any micro-batch, first or not.
/// Messages are matched by their micro-batch, which the other stage has too.
static bool isOfNoMicroBatch(exec::SegmentOp segment) {
  return llvm::all_of(
      getInstructions(segment), [](exec::InstructionOpInterface op) {
        if (isa<exec::SendOp, exec::RecvOp>(op))
          return false;
        bool hasPlaces = llvm::any_of(op->getOperands(), [](Value value) {
          auto view = value.getDefiningOp<exec::ViewOp>();
          return view && view.getPlaces() > 0;
        });
        return !hasPlaces &&
               op.getAccumulation() != exec::Accumulate::AfterFirst;
      });
}

static auto getSegments(exec::ProgramOp program) {
  return program.getBody().front().getOps<exec::SegmentOp>();
}

namespace {
class Joiner {
public:
  Joiner(exec::ProgramOp program, InstructionTimer getSeconds)
      : program(program), getSeconds(getSeconds) {
    Block &body = program.getBody().front();
    for (exec::SegmentOp segment : getSegments(program))
      segments[segment.getSymName()] = segment;
    runs.assign(body.getOps<exec::RunOp>().begin(),
                body.getOps<exec::RunOp>().end());
    for (exec::RunOp run : runs)
      ++counts[run.getSegment()];
  }

  int64_t run() {
    int64_t joined = joinAll();
    if (joined > 0)
      sortSegments();
    return joined;
  }

private:
  int64_t joinAll() {
    int64_t joined = 0;
    for (size_t i = 0; i + 1 < runs.size();) {
      if (!tryJoin(i)) {
        ++i;
        continue;
      }
      runs.erase(runs.begin() + int64_t(i) + 1);
      ++joined;
    }
    return joined;
  }

  /// Segments stand in the order of their first runs.
  void sortSegments() {
    for (exec::RunOp run : llvm::reverse(runs))
      getSegment(run)->moveBefore(*getSegments(program).begin());
  }

  /// Joins run i with the next one; the run that is left is i.
  bool tryJoin(size_t i) {
    exec::SegmentOp first = getSegment(runs[i]),
                    second = getSegment(runs[i + 1]);
    if (first.getUpdates() || second.getUpdates())
      return false;
    bool isSecondSingle = isSingle(second);
    if (!isSecondSingle && !isSingle(first))
      return false;
    Instructions all = getInstructions(first), rest = getInstructions(second);
    double apart = getSeconds(all) + getSeconds(rest);
    all.append(rest);
    if (apart - getSeconds(all) < leastSaved * apart)
      return false;
    join(i, /*intoSecond=*/isSecondSingle);
    return true;
  }

  /// Whether it is done once a step, whatever the micro-batch.
  bool isSingle(exec::SegmentOp segment) {
    return counts[segment.getSymName()] == 1 && isOfNoMicroBatch(segment);
  }

  exec::SegmentOp getSegment(exec::RunOp run) {
    return segments.lookup(run.getSegment());
  }

  /// Segments may use any buffer: all of them come before the first segment.
  void hoistBuffers() {
    Block &body = program.getBody().front();
    exec::SegmentOp first = *getSegments(program).begin();
    for (Operation &op : llvm::make_early_inc_range(body))
      if (isa<exec::BufferOp, exec::ViewOp>(op) && first->isBeforeInBlock(&op))
        op.moveBefore(first);
  }

  void join(size_t i, bool intoSecond) {
    hoistBuffers();
    exec::RunOp kept = runs[i], gone = runs[i + 1];
    exec::SegmentOp first = getSegment(kept), second = getSegment(gone);
    exec::SegmentOp into = intoSecond ? second : first,
                    from = intoSecond ? first : second;
    exec::RunOp micro = intoSecond ? kept : gone;
    std::string name = (first.getSymName() + "_" + second.getSymName()).str();
    Block &body = into.getBody().front();
    Block::iterator place = intoSecond ? body.begin() : body.end();
    if (--counts[from.getSymName()] == 0) {
      Block &source = from.getBody().front();
      body.getOperations().splice(place, source.getOperations());
      segments.erase(from.getSymName());
      from.erase();
    } else {
      clone(from, body, place);
    }
    counts.erase(into.getSymName());
    segments.erase(into.getSymName());
    into.setSymName(name);
    segments[name] = into;
    counts[name] = 1;
    // The run of the single one says nothing of micro-batches.
    OpBuilder b(kept);
    exec::RunOp run = exec::RunOp::create(
        b, kept.getLoc(), name, micro.getMicroBatch(), micro.getFirst());
    kept.erase();
    gone.erase();
    runs[i] = run;
  }

  /// Copies a segment's instructions, with buffers that only it uses.
  void clone(exec::SegmentOp from, Block &to, Block::iterator place) {
    IRMapping map;
    from.walk([&](exec::InstructionOpInterface op) {
      for (Value value : op->getOperands())
        cloneBuffer(from, value, map);
    });
    OpBuilder b(&to, place);
    for (Operation &op : from.getBody().front())
      b.clone(op, map);
  }

  void cloneBuffer(exec::SegmentOp segment, Value value, IRMapping &map) {
    exec::BufferOp buffer = exec::getBuffer(value);
    if (map.contains(buffer) || buffer.getPinned() ||
        !isOnlyUsedIn(buffer, segment))
      return;
    OpBuilder b(buffer);
    b.setInsertionPointAfter(buffer);
    b.clone(*buffer, map);
    for (Operation *user : buffer->getUsers())
      if (isa<exec::ViewOp>(user) && !segment->isProperAncestor(user))
        b.clone(*user, map);
  }

  static bool isOnlyUsedIn(Operation *value, exec::SegmentOp segment) {
    return llvm::all_of(value->getUsers(), [&](Operation *user) {
      if (isa<exec::ViewOp>(user))
        return isOnlyUsedIn(user, segment);
      return segment->isProperAncestor(user);
    });
  }

  exec::ProgramOp program;
  InstructionTimer getSeconds;
  std::vector<exec::RunOp> runs;
  llvm::StringMap<exec::SegmentOp> segments;
  llvm::StringMap<int64_t> counts; ///< of runs
};
} // namespace

int64_t cleave::joinRuns(exec::ProgramOp program, InstructionTimer getSeconds) {
  return Joiner(program, getSeconds).run();
}
