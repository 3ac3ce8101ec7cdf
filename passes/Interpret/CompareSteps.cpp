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
#include "llvm/ADT/DenseSet.h"
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
  /// The step, and its micro-batch.
  std::pair<int64_t, int64_t> when;
  /// What ran it: the ranks of a pipeline stage, or all.
  const SimulatedRanks *ranks;
  /// By result, then by rank of `ranks`.
  std::vector<std::vector<Array>> results;
  /// Of an instruction: what its outputs held before.
  std::vector<std::vector<Array>> old;
};

class Recorder {
public:
  explicit Recorder(StepRunner &runner) {
    for (SimulatedRanks &ranks : runner.getStages()) {
      // Of each stage, as others run while an op waits for them.
      auto old = std::make_shared<std::vector<std::vector<Array>>>();
      ranks.observeBefore = [&ranks, old](Operation &op) {
        if (auto instruction = dyn_cast<exec::InstructionOpInterface>(op))
          *old = dump(ranks, instruction);
      };
      ranks.observeAfter = [this, &ranks, old](Operation &op) {
        record(ranks, op, *old);
      };
    }
  }

  std::vector<Record> records;

private:
  static std::vector<std::vector<Array>> dump(SimulatedRanks &ranks,
                                              exec::InstructionOpInterface op) {
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

  void record(SimulatedRanks &ranks, Operation &op,
              std::vector<std::vector<Array>> &old) {
    Record record{&op, {ranks.step, ranks.microBatch}, &ranks, {}, {}};
    if (auto instruction = dyn_cast<exec::InstructionOpInterface>(op)) {
      record.results = dump(ranks, instruction);
      record.old = std::move(old);
    }
    for (Value result : op.getResults()) {
      std::vector<Array> &parts = record.results.emplace_back();
      for (int64_t rank = 0; rank < ranks.size(); ++rank)
        parts.push_back(ranks.get(result, rank));
    }
    records.push_back(std::move(record));
  }
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
  }

  LogicalResult run();

private:
  bool areSame(const std::map<std::string, Array> &a,
               const std::map<std::string, Array> &b, StringRef kind);
  bool findPart();
  bool report(const Record &record);
  Verdict compare(const std::vector<Array> &got, const Record &record,
                  const Record &source, size_t index) const;
  Verdict compareWhole(const std::vector<Array> &got, const Record &record,
                       const Array &want, RankedTensorType type) const;
  Verdict compareParts(const std::vector<Array> &got, const Record &record,
                       const std::vector<Array> &want,
                       const Record &source) const;
  std::optional<Verdict> compareArrays(const Array &got,
                                       const Array &want) const;

  const StepInputs &inputs;
  ModuleOp after;
  StepRunner first, second;
  double tolerance;
  std::string difference; ///< a state or output that is not the same
  /// By the number of an op: what it gave, by step and micro-batch.
  llvm::StringMap<std::map<std::pair<int64_t, int64_t>, const Record *>>
      sources;
};
} // namespace

LogicalResult Comparison::run() {
  FailureOr<StepResults> want = first.run(inputs),
                         got = second.run(inputs, &difference);
  if (failed(want) || failed(got))
    return failure();
  if (difference.empty() && areSame(want->states, got->states, "state") &&
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
  std::string known;
  if (failed(first.run(inputs)) || failed(second.run(inputs, &known)))
    return false;
  for (const Record &record : earlier.records) {
    SmallVector<StringRef> numbers;
    collectNumbers(record.op->getLoc(), numbers);
    if (!numbers.empty())
      sources[numbers.front()].try_emplace(record.when, &record);
  }
  // Of the ops that one op became in a pipeline stage, the last has its
  // results.
  llvm::DenseSet<Operation *> isLast;
  for (Operation *step : second.getSteps()) {
    llvm::StringMap<Operation *> last;
    step->walk([&](Operation *op) {
      SmallVector<StringRef> numbers;
      collectNumbers(op->getLoc(), numbers);
      auto instruction = dyn_cast<exec::InstructionOpInterface>(op);
      if (!numbers.empty() &&
          (op->getNumResults() > 0 ||
           (instruction && !instruction.getOutputs().empty())))
        last[numbers.front()] = op;
    });
    for (const auto &entry : last)
      isLast.insert(entry.second);
  }
  for (const Record &record : later.records)
    if (isLast.contains(record.op) && report(record))
      return true;
  return false;
}

bool Comparison::report(const Record &record) {
  SmallVector<StringRef> numbers;
  collectNumbers(record.op->getLoc(), numbers);
  for (size_t i = 0; i < record.results.size(); ++i) {
    Verdict worst;
    for (StringRef number : numbers) {
      auto it = sources.find(number);
      if (it == sources.end() || !it->second.contains(record.when))
        continue;
      const Record &source = *it->second.at(record.when);
      bool isSameOp = source.op->getName() == record.op->getName() &&
                      source.results.size() == record.results.size();
      for (size_t j = 0; j < source.results.size(); ++j) {
        if (isSameOp && i != j)
          continue;
        Verdict verdict = compare(record.results[i], record, source, j);
        // A sum that the instruction adds to.
        if (verdict.isComparable && !verdict.isSame && !record.old.empty()) {
          std::vector<Array> added = record.results[i];
          for (size_t rank = 0; rank < added.size(); ++rank)
            if (record.old[i][rank].size() == added[rank].size())
              for (size_t e = 0; e < added[rank].data.size(); ++e)
                added[rank].data[e] -= record.old[i][rank].data[e];
          verdict.isSame = compare(added, record, source, j).isSame;
        }
        if (verdict.isComparable && !worst.isSame)
          worst = verdict;
      }
    }
    if (!worst.isComparable || worst.isSame)
      continue;
    record.op->emitError() << difference << "; '" << record.op->getName()
                           << "' is the first that parts: result " << i
                           << ", micro-batch " << record.when.second
                           << ", rank " << worst.rank << ", element "
                           << worst.element << " is " << print(worst.got)
                           << ", expects " << print(worst.want);
    return true;
  }
  return false;
}

Verdict Comparison::compare(const std::vector<Array> &got, const Record &record,
                            const Record &source, size_t index) const {
  Type type = source.op->getResult(unsigned(index)).getType();
  if (second.isLocal() && !first.isLocal() && dist::getPlacementAttr(type))
    return compareWhole(got, record, source.results[index].front(),
                        cast<RankedTensorType>(type));
  return compareParts(got, record, source.results[index], source);
}

/// None if they have other sizes.
std::optional<Verdict> Comparison::compareArrays(const Array &got,
                                                 const Array &want) const {
  if (got.size() != want.size())
    return std::nullopt;
  Verdict verdict{true, true};
  if (auto i = findDifference(got, want, tolerance)) {
    verdict.isSame = false;
    verdict.element = *i;
    verdict.got = got.data[size_t(*i)];
    verdict.want = want.data[size_t(*i)];
  }
  return verdict;
}

/// Each rank's value against what the same rank had.
Verdict Comparison::compareParts(const std::vector<Array> &got,
                                 const Record &record,
                                 const std::vector<Array> &want,
                                 const Record &source) const {
  llvm::DenseMap<int64_t, const Array *> known;
  for (size_t rank = 0; rank < want.size(); ++rank)
    known[source.ranks->getWorldRank(int64_t(rank))] = &want[rank];
  for (size_t rank = 0; rank < got.size(); ++rank) {
    int64_t worldRank = record.ranks->getWorldRank(int64_t(rank));
    const Array *same = known.lookup(worldRank);
    auto verdict = same ? compareArrays(got[rank], *same) : std::nullopt;
    if (!verdict)
      return Verdict();
    verdict->rank = worldRank;
    if (!verdict->isSame)
      return *verdict;
  }
  return {true, true};
}

/// Ranks' parts against what all hold together, under the placement of `type`.
Verdict Comparison::compareWhole(const std::vector<Array> &got,
                                 const Record &record, const Array &want,
                                 RankedTensorType type) const {
  const Mesh &mesh = record.ranks->getMesh();
  Placement placement = dist::getPlacement(dist::getPlacementAttr(type), mesh);
  std::optional<int64_t> size =
      countElements(placement.getLocalShape(mesh, type.getShape()));
  if (size != got.front().size())
    return Verdict();
  SmallVector<const Array *> parts;
  for (const Array &part : got)
    parts.push_back(&part);
  return compareArrays(join(parts, type.getShape(), placement, mesh), want)
      .value_or(Verdict());
}

LogicalResult cleave::compareSteps(ModuleOp before, ModuleOp after,
                                   const StepInputs &inputs) {
  return Comparison(before, after, inputs).run();
}
