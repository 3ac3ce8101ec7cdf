//===- JoinRuns.cpp - Two successive runs as one --------------------------===//
#include "passes/Overlap/JoinRuns.h"
#include "dialects/dist/Placements.h"
#include "dialects/dist/Stages.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Overlap/StreamModel.h"
#include "llvm/ADT/StringMap.h"
#include <map>

using namespace mlir;
using namespace cleave;

/// Of the time of both runs, that joining them has to save: it makes the
/// program longer.
static constexpr double leastSaved = 0.01;

/// Whether an instruction does the same in a run of any micro-batch, first or
/// not. Messages are matched by their micro-batch, which the other stage has
/// too.
static bool isOfNoMicroBatch(exec::InstructionOpInterface op) {
  return !isa<exec::SendOp, exec::RecvOp>(*op) &&
         op.getAccumulation() != exec::Accumulate::AfterFirst &&
         llvm::none_of(op->getOperands(), [](Value value) {
           auto view = value.getDefiningOp<exec::ViewOp>();
           return view && view.getPlaces() > 0;
         });
}

static auto getSegments(exec::ProgramOp program) {
  return program.getBody().front().getOps<exec::SegmentOp>();
}

namespace {
class Joiner {
public:
  Joiner(exec::ProgramOp program, OverlapModel &model)
      : program(program), model(model) {
    Block &body = program.getBody().front();
    for (exec::SegmentOp segment : getSegments(program))
      segments[segment.getSymName()] = segment;
    runs.assign(body.getOps<exec::RunOp>().begin(),
                body.getOps<exec::RunOp>().end());
    for (exec::RunOp run : runs)
      ++counts[run.getSegment()];
  }

  int64_t run() {
    int64_t joined = 0;
    for (size_t i = 0; i < runs.size(); ++i)
      joined += spread(i);
    joined += joinAll();
    if (joined > 0)
      sortSegments();
    return joined;
  }

private:
  /// Instructions, by the run that they can stand behind.
  using ByRun = std::map<size_t, Instructions>;

  int64_t spread(size_t single);
  int64_t countStagesBehind(exec::SegmentOp segment);
  size_t align(size_t run, size_t single);
  ByRun findReady(size_t single);
  bool isWorthwhile(size_t single, const ByRun &ready);

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

  /// Seconds of what a segment computes.
  double getCompute(exec::SegmentOp segment) {
    auto [it, isNew] = computes.try_emplace(segment);
    if (isNew)
      it->second = getSum(getInstructions(segment), /*isAside=*/false);
    return it->second;
  }

  /// Of compute, or of communication that may run beside it.
  double getSum(ArrayRef<exec::InstructionOpInterface> instructions,
                bool isAside) {
    double seconds = 0;
    for (const OverlapOp &op : model.getOps(instructions))
      seconds += (op.stream > 0) == isAside ? op.seconds : 0;
    return seconds;
  }

  double getSeconds(ArrayRef<exec::InstructionOpInterface> instructions) {
    return model.schedule(instructions, model.getOps(instructions)).seconds;
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
    join(i, /*intoFirst=*/isSecondSingle);
    return true;
  }

  /// Whether it is done once a step, whatever the micro-batch.
  bool isSingle(exec::SegmentOp segment) {
    return counts[segment.getSymName()] == 1 &&
           llvm::all_of(getInstructions(segment), isOfNoMicroBatch);
  }

  exec::SegmentOp getSegment(exec::RunOp run) {
    return segments.lookup(run.getSegment());
  }

  /// Segments may use any buffer: all of them come before the first segment.
  void hoistBuffers() {
    exec::SegmentOp first = *getSegments(program).begin();
    for (Operation &op : llvm::make_early_inc_range(
             llvm::make_range(first->getIterator(), first->getBlock()->end())))
      if (isa<exec::BufferOp, exec::ViewOp>(op))
        op.moveBefore(first);
  }

  /// And so do views that an instruction, which is to leave its segment, has in
  /// common with others there.
  void hoistViews(exec::SegmentOp segment, Operation *op) {
    for (Value value : op->getOperands())
      if (auto view = value.getDefiningOp<exec::ViewOp>();
          view && segment->isProperAncestor(view))
        view->moveBefore(*getSegments(program).begin());
  }

  /// The run, of the micro-batch that it keeps, takes in all that a run next to
  /// it does, which says nothing of micro-batches.
  void join(size_t i, bool intoFirst) {
    exec::SegmentOp first = getSegment(runs[i]),
                    second = getSegment(runs[i + 1]);
    exec::SegmentOp single = intoFirst ? second : first;
    std::string name = (first.getSymName() + "_" + second.getSymName()).str();
    exec::RunOp &micro = runs[i + !intoFirst];
    Block &body = isolate(micro, name).getBody().front();
    body.getOperations().splice(intoFirst ? body.end() : body.begin(),
                                single.getBody().front().getOperations());
    forget(single);
    runs[i + intoFirst].erase();
    runs[i] = micro;
  }

  /// The segment of the run, of which it is the only one from now on.
  exec::SegmentOp isolate(exec::RunOp &run, StringRef wanted) {
    hoistBuffers();
    std::string name = wanted.str();
    for (int64_t i = 2; segments.contains(name); ++i)
      name = (wanted + "_" + Twine(i)).str();
    exec::SegmentOp segment = getSegment(run);
    if (--counts[segment.getSymName()] == 0) {
      counts.erase(segment.getSymName());
      segments.erase(segment.getSymName());
      segment.setSymName(name);
    } else {
      OpBuilder b(segment->getBlock(), ++segment->getIterator());
      auto copy = exec::SegmentOp::create(b, segment.getLoc(), name,
                                          /*updates=*/false);
      clone(segment, copy.getBody().emplaceBlock());
      segment = copy;
    }
    segments[name] = segment;
    counts[name] = 1;
    OpBuilder b(run);
    exec::RunOp renamed = exec::RunOp::create(
        b, run.getLoc(), name, run.getMicroBatch(), run.getFirst());
    run.erase();
    run = renamed;
    return segment;
  }

  void forget(exec::SegmentOp segment) {
    counts.erase(segment.getSymName());
    segments.erase(segment.getSymName());
    segment.erase();
  }

  /// Copies a segment's instructions, with buffers that only it uses.
  void clone(exec::SegmentOp from, Block &to) {
    IRMapping map;
    from.walk([&](exec::InstructionOpInterface op) {
      for (Value value : op->getOperands())
        cloneBuffer(from, value, map);
    });
    OpBuilder b(&to, to.end());
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
  OverlapModel &model;
  std::vector<exec::RunOp> runs;
  llvm::StringMap<exec::SegmentOp> segments;
  llvm::StringMap<int64_t> counts; ///< of runs
  llvm::DenseMap<Operation *, double> computes;
};
} // namespace

/// How many stages are still to do what a segment did last, by whom it sends
/// to; 0 where that is not the stage next to this one.
int64_t Joiner::countStagesBehind(exec::SegmentOp segment) {
  dist::MeshOp mesh = dist::lookupMesh(program->getParentOfType<ModuleOp>());
  int64_t stages = mesh.getNumStages(), stage = 0;
  while (stage < stages && dist::getStageName(stage) != program.getSymName())
    ++stage;
  int64_t count = 0;
  segment.walk([&](exec::SendOp send) {
    if (int64_t(send.getStage()) == stage - 1)
      count = stage;
    else if (int64_t(send.getStage()) == stage + 1)
      count = stages - 1 - stage;
  });
  return count;
}

/// The run from whose end on all stages are done with what a run did, if each
/// took as long as this one: stages that are slowed down by communication at
/// the same time wait for each other once, and not each for the one before
/// (Megatron-Core's align_grad_reduce).
size_t Joiner::align(size_t run, size_t single) {
  exec::SegmentOp segment = getSegment(runs[run]);
  double left = double(countStagesBehind(segment)) * getCompute(segment);
  while (left > 0 && run + 1 < single)
    left -= getCompute(getSegment(runs[++run]));
  return run;
}

/// Communication of a run that is done once, behind other runs: by the earliest
/// run from whose end on all that it needs is there and nobody needs what it
/// writes over. What can begin no earlier than in the run before is not in it.
Joiner::ByRun Joiner::findReady(size_t single) {
  llvm::StringMap<size_t> lastRuns; ///< by segment
  for (size_t i = 0; i < single; ++i)
    lastRuns[runs[i].getSegment()] = i;
  struct Use {
    size_t written = 0, any = 0; ///< the run that does so last
  };
  llvm::DenseMap<Operation *, Use> uses;
  auto note = [&](exec::InstructionOpInterface op, size_t run) {
    size_t inputs = op.getInputs().size();
    for (auto [i, value] : llvm::enumerate(op->getOperands())) {
      Use &use = uses[exec::getBuffer(value)];
      use.any = std::max(use.any, run);
      if (i >= inputs)
        use.written = std::max(use.written, run);
    }
  };
  for (auto &[name, run] : lastRuns)
    for (exec::InstructionOpInterface op :
         getInstructions(segments.lookup(name)))
      note(op, run);

  ByRun ready;
  std::map<size_t, size_t> aligned;
  Instructions instructions = getInstructions(getSegment(runs[single]));
  for (auto [op, model] : llvm::zip(instructions, model.getOps(instructions))) {
    size_t run = 0, inputs = op.getInputs().size();
    for (auto [i, value] : llvm::enumerate(op->getOperands())) {
      Use use = uses.lookup(exec::getBuffer(value));
      run = std::max(run, i < inputs ? use.written : use.any);
    }
    bool moves = model.stream > 0 && isOfNoMicroBatch(op);
    if (moves) {
      auto [it, isNew] = aligned.try_emplace(run);
      if (isNew)
        it->second = align(run, single);
      run = it->second;
      moves = run + 1 < single;
    }
    if (moves)
      ready[run].push_back(op);
    note(op, moves ? run : single);
  }
  return ready;
}

/// Whether communication that begins behind those runs is done so much earlier
/// than it would be behind the last one.
bool Joiner::isWorthwhile(size_t single, const ByRun &ready) {
  Instructions last = getInstructions(getSegment(runs[single - 1]));
  Instructions all = getInstructions(getSegment(runs[single])), rest = all;
  llvm::DenseSet<Operation *> moved;
  for (auto &[run, instructions] : ready)
    moved.insert_range(instructions);
  llvm::erase_if(rest, [&](exec::InstructionOpInterface op) {
    return moved.contains(op);
  });
  auto getBehind = [&](const Instructions &behind) {
    Instructions both = last;
    both.append(behind);
    return getSeconds(both);
  };
  // Streams go on through the runs between, whose compute takes its time, and
  // then do the rest.
  double now = 0, free = 0;
  for (size_t i = ready.begin()->first + 1; i < single; ++i) {
    if (auto begun = ready.find(i - 1); begun != ready.end())
      free = std::max(free, now) + getSum(begun->second, /*isAside=*/true);
    if (i + 1 < single)
      now += getCompute(getSegment(runs[i]));
  }
  double whole = getBehind(all);
  double parted =
      std::max(getBehind(rest), free - now + getSum(rest, /*isAside=*/true));
  return whole - parted >= leastSaved * whole;
}

/// Communication of a run that is done once, as the reduction of gradients is,
/// begins behind the earliest run that it can, as that of the micro-batch that
/// is the last in one part of a pipeline's stage.
int64_t Joiner::spread(size_t single) {
  exec::SegmentOp segment = getSegment(runs[single]);
  if (single < 2 || segment.getUpdates() || counts[segment.getSymName()] != 1)
    return 0;
  ByRun ready = findReady(single);
  if (ready.empty() || !isWorthwhile(single, ready))
    return 0;
  for (auto &[run, instructions] : ready) {
    std::string name =
        (runs[run].getSegment() + "_" + segment.getSymName()).str();
    Block &body = isolate(runs[run], name).getBody().front();
    for (exec::InstructionOpInterface op : instructions) {
      hoistViews(segment, op);
      op->moveBefore(&body, body.end());
    }
  }
  return int64_t(ready.size());
}

int64_t cleave::joinRuns(exec::ProgramOp program, OverlapModel &model) {
  return Joiner(program, model).run();
}
