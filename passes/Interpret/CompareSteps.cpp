//===- CompareSteps.cpp - Whether a stage kept what a step means ----------===//
//
//  1. Run both modules, compare states and outputs. Most often that is all.
//  2. If some differ: run both again, keeping what every op gave in every
//     micro-batch, and look for the first op of the later module whose results
//     are none of those that the ops it was made of gave in the earlier one.
//
//===----------------------------------------------------------------------===//
#include "passes/Interpret/CompareSteps.h"
#include "dialects/dist/Placements.h"
#include "dialects/exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace cleave;

static constexpr StringLiteral numberPrefix = "#";

void cleave::numberOps(ModuleOp module) {
  int64_t number = 0;
  module.walk([&](Operation *op) {
    if (op != module)
      op->setLoc(
          NameLoc::get(StringAttr::get(op->getContext(),
                                       numberPrefix + llvm::Twine(number++)),
                       op->getLoc()));
  });
}

Location cleave::withoutNumbers(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    SmallVector<Location> parts;
    for (Location each : fused.getLocations())
      parts.push_back(withoutNumbers(each));
    return FusedLoc::get(loc.getContext(), parts, fused.getMetadata());
  }
  auto name = dyn_cast<NameLoc>(loc);
  return name && name.getName().getValue().starts_with(numberPrefix)
             ? withoutNumbers(name.getChildLoc())
             : loc;
}

void cleave::removeNumbers(ModuleOp module) {
  module.walk([&](Operation *op) { op->setLoc(withoutNumbers(op->getLoc())); });
}

/// The numbers that a location carries, that of the op it is named after first.
static void collectNumbers(Location loc, SmallVectorImpl<StringRef> &numbers) {
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location each : fused.getLocations())
      collectNumbers(each, numbers);
  if (auto name = dyn_cast<NameLoc>(loc))
    if (name.getName().getValue().starts_with(numberPrefix))
      numbers.push_back(name.getName().getValue());
}

static std::string print(double x) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.9g", x);
  return text;
}

//===----------------------------------------------------------------------===//
// What ops gave
//===----------------------------------------------------------------------===//

namespace {
/// What an op left in its results, or an instruction in its outputs, once.
struct Record {
  Operation *op;
  int64_t microBatch;
  /// By result, then by rank.
  std::vector<std::vector<Array>> results;
  /// Of an instruction: what its outputs held before.
  std::vector<std::vector<Array>> old;
};

class Recorder {
public:
  explicit Recorder(StepRunner &runner) : ranks(runner.ranks) {
    ranks.observeBefore = [this](Operation &op) {
      if (auto instruction = dyn_cast<exec::InstructionOpInterface>(op))
        old = dump(instruction);
    };
    ranks.observeAfter = [this](Operation &op) { record(op); };
  }

  std::vector<Record> records;

private:
  std::vector<std::vector<Array>> dump(exec::InstructionOpInterface op) {
    std::vector<std::vector<Array>> results;
    for (Value output : op.getOutputs()) {
      SimulatedRanks::Range range = ranks.getRange(output);
      std::vector<Array> &parts = results.emplace_back();
      for (int64_t rank = 0; rank < ranks.size(); ++rank) {
        Array &array = parts.emplace_back();
        array.data = ranks[rank].memory.getElements(range.offset, range.bytes);
        array.shape = {array.size()};
      }
    }
    return results;
  }

  void record(Operation &op) {
    Record record{&op, ranks.microBatch, {}, {}};
    if (auto instruction = dyn_cast<exec::InstructionOpInterface>(op)) {
      record.results = dump(instruction);
      record.old = std::move(old);
    }
    for (Value result : op.getResults()) {
      std::vector<Array> &parts = record.results.emplace_back();
      for (int64_t rank = 0; rank < ranks.size(); ++rank)
        parts.push_back(ranks.get(result, rank));
    }
    records.push_back(std::move(record));
  }

  SimulatedRanks &ranks;
  std::vector<std::vector<Array>> old;
};

//===----------------------------------------------------------------------===//
// Where they part
//===----------------------------------------------------------------------===//

/// How a result of the later module compares with one of the earlier.
struct Verdict {
  bool isComparable = false, isSame = false;
  int64_t rank = 0, element = 0;
  double got = 0, want = 0;
};

class Comparison {
public:
  Comparison(ModuleOp before, ModuleOp after, const StepInputs &inputs)
      : inputs(inputs), after(after), first(before), second(after) {
    auto hasProgram = [](ModuleOp module) {
      return !module.getOps<exec::ProgramOp>().empty();
    };
    tolerance = hasProgram(before) || hasProgram(after) ? 1e-6 : 1e-9;
    if (dist::MeshOp op = dist::lookupMesh(after))
      mesh = op.getMesh();
  }

  LogicalResult run();

private:
  bool areSame(const std::map<std::string, Array> &a,
               const std::map<std::string, Array> &b, StringRef kind);
  bool findPart();
  bool report(const Record &record);
  Verdict compare(const std::vector<Array> &got, const Record &source,
                  size_t index) const;
  Verdict compareWhole(const std::vector<Array> &got, const Array &want,
                       RankedTensorType type) const;
  Verdict compareParts(const std::vector<Array> &got,
                       const std::vector<Array> &want) const;

  const StepInputs &inputs;
  ModuleOp after;
  StepRunner first, second;
  Mesh mesh;
  double tolerance;
  std::string difference; ///< a state or output that is not the same
  /// By the number of an op: what it gave, run after run.
  llvm::StringMap<std::vector<const Record *>> sources;
  llvm::DenseMap<Operation *, size_t> runs;
};
} // namespace

LogicalResult Comparison::run() {
  FailureOr<StepResults> want = first.run(inputs), got = second.run(inputs);
  if (failed(want) || failed(got))
    return failure();
  if (areSame(want->states, got->states, "state") &&
      areSame(want->outputs, got->outputs, "output"))
    return success();
  if (findPart())
    return failure();
  return after.emitError(difference);
}

bool Comparison::areSame(const std::map<std::string, Array> &a,
                         const std::map<std::string, Array> &b,
                         StringRef kind) {
  for (const auto &[name, want] : a) {
    auto it = b.find(name);
    std::string what = (kind + " \"" + name + "\"").str();
    if (it == b.end()) {
      difference = what + " is gone";
      return false;
    }
    if (it->second.shape != want.shape) {
      difference = what + " has another shape";
      return false;
    }
    if (auto i = findDifference(it->second, want, tolerance)) {
      size_t steps = inputs.data.size();
      difference = what + ": element " + std::to_string(*i) + " is " +
                   print(it->second.data[size_t(*i)]) + " after " +
                   std::to_string(steps) + (steps == 1 ? " step" : " steps") +
                   ", expects " + print(want.data[size_t(*i)]);
      return false;
    }
  }
  return true;
}

/// Emits an error at the first op that parts; false if there is none.
bool Comparison::findPart() {
  Recorder earlier(first), later(second);
  if (failed(first.run(inputs)) || failed(second.run(inputs)))
    return false;
  for (const Record &record : earlier.records) {
    SmallVector<StringRef> numbers;
    collectNumbers(record.op->getLoc(), numbers);
    if (!numbers.empty())
      sources[numbers.front()].push_back(&record);
  }
  // Of the ops that one op became, the last has its results.
  llvm::StringMap<Operation *> last;
  after.walk([&](Operation *op) {
    SmallVector<StringRef> numbers;
    collectNumbers(op->getLoc(), numbers);
    if (!numbers.empty() &&
        (isa<exec::InstructionOpInterface>(op) || op->getNumResults() > 0))
      last[numbers.front()] = op;
  });
  for (const Record &record : later.records) {
    SmallVector<StringRef> numbers;
    collectNumbers(record.op->getLoc(), numbers);
    if (!numbers.empty() && last.lookup(numbers.front()) == record.op &&
        report(record))
      return true;
  }
  return false;
}

bool Comparison::report(const Record &record) {
  size_t run = runs[record.op]++;
  SmallVector<StringRef> numbers;
  collectNumbers(record.op->getLoc(), numbers);
  for (size_t i = 0; i < record.results.size(); ++i) {
    Verdict worst;
    for (StringRef number : numbers) {
      auto it = sources.find(number);
      if (it == sources.end() || run >= it->second.size())
        continue;
      const Record &source = *it->second[run];
      bool isSameOp = source.op->getName() == record.op->getName() &&
                      source.results.size() == record.results.size();
      for (size_t j = 0; j < source.results.size(); ++j) {
        if (isSameOp && i != j)
          continue;
        Verdict verdict = compare(record.results[i], source, j);
        // A sum that the instruction adds to.
        if (verdict.isComparable && !verdict.isSame && !record.old.empty()) {
          std::vector<Array> added = record.results[i];
          for (size_t rank = 0; rank < added.size(); ++rank)
            if (record.old[i][rank].size() == added[rank].size())
              for (size_t e = 0; e < added[rank].data.size(); ++e)
                added[rank].data[e] -= record.old[i][rank].data[e];
          verdict.isSame = compare(added, source, j).isSame;
        }
        if (verdict.isComparable && !worst.isSame)
          worst = verdict;
      }
    }
    if (!worst.isComparable || worst.isSame)
      continue;
    record.op->emitError() << difference << "; '" << record.op->getName()
                           << "' is the first that parts: result " << i
                           << ", micro-batch " << record.microBatch << ", rank "
                           << worst.rank << ", element " << worst.element
                           << " is " << print(worst.got) << ", expects "
                           << print(worst.want);
    return true;
  }
  return false;
}

Verdict Comparison::compare(const std::vector<Array> &got, const Record &source,
                            size_t index) const {
  const std::vector<Array> &want = source.results[index];
  if (want.size() == got.size())
    return compareParts(got, want);
  return compareWhole(
      got, want.front(),
      cast<RankedTensorType>(source.op->getResult(unsigned(index)).getType()));
}

Verdict Comparison::compareParts(const std::vector<Array> &got,
                                 const std::vector<Array> &want) const {
  Verdict verdict;
  for (size_t rank = 0; rank < got.size(); ++rank) {
    if (got[rank].size() != want[rank].size())
      return Verdict();
    verdict.isComparable = true;
    if (auto i = findDifference(got[rank], want[rank], tolerance)) {
      verdict.rank = int64_t(rank);
      verdict.element = *i;
      verdict.got = got[rank].data[size_t(*i)];
      verdict.want = want[rank].data[size_t(*i)];
      return verdict;
    }
  }
  verdict.isSame = true;
  return verdict;
}

/// Ranks' parts against what all hold together, under the placement of `type`.
Verdict Comparison::compareWhole(const std::vector<Array> &got,
                                 const Array &want,
                                 RankedTensorType type) const {
  dist::OnAttr attr = dist::getPlacementAttr(type);
  if (!attr)
    return Verdict();
  Placement placement = dist::getPlacement(attr, mesh);
  if (placement.getLocalShape(mesh, type.getShape()) !=
      ArrayRef<int64_t>(got.front().shape))
    return Verdict();
  SmallVector<const Array *> parts;
  for (const Array &part : got)
    parts.push_back(&part);
  return compareParts({join(parts, type.getShape(), placement, mesh)}, {want});
}

LogicalResult cleave::compareSteps(ModuleOp before, ModuleOp after,
                                   const StepInputs &inputs) {
  return Comparison(before, after, inputs).run();
}
