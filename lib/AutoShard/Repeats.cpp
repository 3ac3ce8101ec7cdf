//===- Repeats.cpp - A problem with fewer of its equal parts --------------===//
#include "Repeats.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include <map>

using namespace cleave;
using namespace cleave::autoshard;

static bool areAlike(const PlacedTensor &a, const PlacedTensor &b) {
  return a.shape == b.shape && a.elementBytes == b.elementBytes &&
         a.allowed == b.allowed && a.moves == b.moves && a.copies == b.copies &&
         a.movedTo == b.movedTo && a.isForOptimizer == b.isForOptimizer;
}

static bool areAlike(const ShardingProblem &problem, const PlacedOp &a,
                     const PlacedOp &b) {
  auto areTensors = [&](llvm::ArrayRef<size_t> left,
                        llvm::ArrayRef<size_t> right) {
    return left.size() == right.size() &&
           llvm::all_of(llvm::zip_equal(left, right), [&](auto pair) {
             return areAlike(problem.tensors[std::get<0>(pair)],
                             problem.tensors[std::get<1>(pair)]);
           });
  };
  return a.seconds == b.seconds && areTensors(a.operands, b.operands) &&
         areTensors(a.results, b.results) &&
         a.strategies.size() == b.strategies.size() &&
         (a.strategies.isSameAs(b.strategies) ||
          llvm::all_of(
              llvm::zip_equal(a.strategies, b.strategies), [](auto pair) {
                const RulePlacements &left = std::get<0>(pair).placements;
                const RulePlacements &right = std::get<1>(pair).placements;
                return left.operands == right.operands &&
                       left.results == right.results;
              }));
}

/// What all parts of a problem have; memory is for the whole.
static ShardingProblem withoutOps(const ShardingProblem &problem) {
  ShardingProblem rest;
  rest.mesh = problem.mesh;
  rest.tensors = problem.tensors;
  rest.dims = problem.dims;
  rest.sampleDims = problem.sampleDims;
  rest.moveSeconds = problem.moveSeconds;
  return rest;
}

namespace {
/// Steps [begin, end), each like the one a period later.
struct Run {
  size_t begin = 0, end = 0, period = 0;

  size_t getParts() const { return (end - begin) / period + 1; }
};

class Reducer {
public:
  Reducer(const ShardingProblem &problem, llvm::ArrayRef<size_t> steps)
      : problem(problem), steps(steps), kinds(steps.size()) {}

  std::optional<Reduced> reduce(size_t mostParts) {
    findKinds();
    Run run = findRun();
    if (run.period == 0 || run.getParts() <= mostParts)
      return std::nullopt;
    return leaveOut(run, mostParts);
  }

private:
  /// By tensor what stands in its place a period later.
  using Shift = llvm::DenseMap<size_t, size_t>;

  void findKinds();
  Run findRun() const;
  Run findRun(size_t period) const;
  std::optional<Reduced> leaveOut(const Run &run, size_t mostParts) const;
  /// Adds what a step says to `shift`; false if it says something else.
  bool addTo(Shift &shift, size_t step, size_t later) const;

  llvm::SmallVector<size_t, 8> getTensors(size_t step) const {
    const PlacedOp &op = problem.ops[steps[step]];
    llvm::SmallVector<size_t, 8> all(op.operands.begin(), op.operands.end());
    all.append(op.results.begin(), op.results.end());
    return all;
  }

  const ShardingProblem &problem;
  llvm::ArrayRef<size_t> steps;
  std::vector<size_t> kinds; ///< by step; equal ones of ops that are alike
};
} // namespace

void Reducer::findKinds() {
  std::multimap<std::pair<size_t, double>, size_t> firsts;
  size_t kindsSoFar = 0;
  std::vector<size_t> kindOf(problem.ops.size());
  for (auto [step, op] : llvm::enumerate(steps)) {
    const PlacedOp &own = problem.ops[op];
    double sum = 0;
    for (double seconds : own.seconds)
      sum += seconds;
    std::pair<size_t, double> key{own.strategies.size(), sum};
    auto [begin, end] = firsts.equal_range(key);
    auto known = std::find_if(begin, end, [&](const auto &entry) {
      return areAlike(problem, problem.ops[entry.second], own);
    });
    if (known == end) {
      firsts.emplace(key, op);
      kindOf[op] = kindsSoFar++;
    } else {
      kindOf[op] = kindOf[known->second];
    }
    kinds[step] = kindOf[op];
  }
}

bool Reducer::addTo(Shift &shift, size_t step, size_t later) const {
  for (auto [from, to] : llvm::zip_equal(getTensors(step), getTensors(later)))
    if (shift.try_emplace(from, to).first->second != to)
      return false;
  return true;
}

Run Reducer::findRun(size_t period) const {
  Run best, run{0, 0, period};
  Shift shift;
  for (size_t step = 0; step + period < steps.size(); ++step) {
    if (kinds[step] != kinds[step + period] ||
        !addTo(shift, step, step + period)) {
      run.begin = run.end = step + 1;
      shift.clear();
      continue;
    }
    run.end = step + 1;
    if (run.end - run.begin > best.end - best.begin)
      best = run;
  }
  return best;
}

Run Reducer::findRun() const {
  // The period is the distance of two ops that are alike.
  std::map<size_t, size_t> distances, last;
  for (auto [step, kind] : llvm::enumerate(kinds)) {
    if (auto at = last.find(kind); at != last.end())
      ++distances[step - at->second];
    last[kind] = step;
  }
  Run best;
  for (auto [distance, count] : distances) {
    Run run = findRun(distance);
    // Of a run of parts a run of pairs of them is no better.
    if (run.end - run.begin > 2 * distance &&
        run.end - run.begin + run.period > best.end - best.begin + best.period)
      best = run;
  }
  return best;
}

namespace {
/// Puts a tied problem together.
class Tier {
public:
  Tier(const ShardingProblem &problem, llvm::ArrayRef<size_t> steps,
       const Run &run)
      : problem(problem), steps(steps), run(run), parts(run.getParts()) {}

  Tied tie(ShardingProblem tied);

private:
  /// The part that stands for all: neither the first nor the last.
  static constexpr size_t standing = 1;

  const PlacedOp &getOp(size_t part, size_t offset) const {
    return problem.ops[steps[run.begin + part * run.period + offset]];
  }
  bool isInside(size_t step) const {
    return step >= run.begin && step < run.begin + parts * run.period;
  }
  PlacedOp makePart(size_t offset);

  const ShardingProblem &problem;
  llvm::ArrayRef<size_t> steps;
  const Run &run;
  size_t parts;
  /// By tensor that a part makes: what the standing one makes in its place.
  llvm::DenseMap<size_t, size_t> stands;
  /// Tensors that parts make and others than parts read.
  llvm::SmallSet<size_t, 4> ends;
};
} // namespace

/// Of all parts' ops at that offset.
PlacedOp Tier::makePart(size_t offset) {
  PlacedOp op = getOp(standing, offset);
  // Operands that are read, too, and results that are made besides, with those
  // whose placements they have.
  llvm::SmallVector<std::pair<size_t, size_t>, 2> begins, besides;
  for (auto [number, tensor] : llvm::enumerate(op.operands)) {
    auto at = stands.find(tensor);
    if (at == stands.end())
      continue;
    tensor = at->second;
    for (size_t part = 0; part != parts; ++part) {
      size_t own = getOp(part, offset).operands[number];
      if (!stands.contains(own) &&
          !llvm::is_contained(llvm::make_first_range(begins), own))
        begins.push_back({own, number});
    }
  }
  for (size_t number = 0; number != op.results.size(); ++number)
    for (size_t part = 0; part != parts; ++part)
      if (size_t own = getOp(part, offset).results[number];
          part != standing && ends.contains(own))
        besides.push_back({own, number});
  if (!begins.empty() || !besides.empty()) {
    std::vector<Strategy> strategies(op.strategies.begin(),
                                     op.strategies.end());
    for (auto [tensor, number] : begins)
      op.operands.push_back(tensor);
    for (auto [tensor, number] : besides)
      op.results.push_back(tensor);
    for (Strategy &strategy : strategies) {
      RulePlacements &placements = strategy.placements;
      for (auto [tensor, number] : begins)
        placements.operands.push_back(Placement(placements.operands[number]));
      for (auto [tensor, number] : besides)
        placements.results.push_back(Placement(placements.results[number]));
    }
    op.strategies = std::move(strategies);
  }
  for (double &seconds : op.seconds)
    seconds *= double(parts);
  return op;
}

Tied Tier::tie(ShardingProblem tied) {
  /// By tensor: how many it stands for.
  llvm::DenseMap<size_t, double> times;
  for (size_t offset = 0; offset != run.period; ++offset) {
    const PlacedOp &op = getOp(standing, offset);
    for (size_t part = 0; part != parts; ++part)
      for (auto [own, tensor] :
           llvm::zip_equal(getOp(part, offset).results, op.results))
        stands[own] = tensor;
    for (size_t tensor : op.results)
      times[tensor] = double(parts);
  }
  for (size_t step = 0; step != steps.size(); ++step)
    if (!isInside(step))
      for (size_t tensor : problem.ops[steps[step]].operands)
        if (auto at = stands.find(tensor); at != stands.end() &&
                                           at->second != tensor &&
                                           ends.insert(tensor).second)
          times[at->second] -= 1;
  // What each part has one of its own of.
  for (size_t offset = 0; offset != run.period; ++offset)
    for (auto [tensor, next] :
         llvm::zip_equal(getOp(standing, offset).operands,
                         getOp(standing + 1, offset).operands))
      if (tensor != next && !stands.contains(tensor))
        times[tensor] = double(parts);
  Tied result;
  result.problem = std::move(tied);
  result.ops.resize(problem.ops.size());
  std::vector<size_t> numbers; // by offset
  for (auto [step, number] : llvm::enumerate(steps)) {
    size_t offset = (step - run.begin) % run.period;
    bool isFirst = step < run.begin + run.period;
    if (isInside(step) && !isFirst) {
      result.ops[number] = numbers[offset];
      continue;
    }
    if (isInside(step))
      numbers.push_back(result.problem.ops.size());
    result.ops[number] = result.problem.ops.size();
    PlacedOp op = isInside(step) ? makePart(offset) : problem.ops[number];
    op.at = double(steps.size() - step);
    result.problem.ops.push_back(std::move(op));
  }
  for (auto [tensor, count] : times) {
    PlacedTensor &own = result.problem.tensors[tensor];
    own.moves *= count;
    own.copies *= count;
    own.movedTo *= count;
  }
  return result;
}

std::optional<Reduced> Reducer::leaveOut(const Run &run,
                                         size_t mostParts) const {
  size_t before = (mostParts + 1) / 2; // parts, of those that remain
  size_t first = run.begin + before * run.period;
  size_t left = (run.getParts() - mostParts) * run.period;
  size_t behind = first + left; // steps [first, behind) are left out
  // What stands behind them in the place of each tensor before them.
  Shift shift;
  for (size_t step = run.begin; step + left < run.end + run.period; ++step)
    if (!addTo(shift, step, step + left))
      return std::nullopt;
  std::vector<size_t> touchedFirst(problem.tensors.size(), ~size_t(0)),
      touchedLast(problem.tensors.size(), 0);
  llvm::SmallSet<size_t, 16> inside;
  for (size_t step = 0; step != steps.size(); ++step)
    for (size_t tensor : getTensors(step)) {
      touchedFirst[tensor] = std::min(touchedFirst[tensor], step);
      touchedLast[tensor] = step;
      if (step >= first && step < behind)
        inside.insert(tensor);
    }
  Shift back;
  for (auto [from, to] : shift)
    if (from != to && touchedFirst[from] < first && touchedLast[from] >= first)
      back[to] = from;

  Reduced reduced;
  reduced.problem = withoutOps(problem);
  std::vector<size_t> numbers(problem.ops.size());
  for (auto [step, op] : llvm::enumerate(steps)) {
    if (step >= first && step < behind)
      continue;
    numbers[op] = reduced.problem.ops.size();
    PlacedOp own = problem.ops[op];
    if (step >= behind)
      for (auto *list : {&own.operands, &own.results})
        for (size_t &tensor : *list) {
          if (auto at = back.find(tensor); at != back.end())
            tensor = at->second;
          else if (inside.contains(tensor) && touchedFirst[tensor] >= first)
            return std::nullopt; // It is of a part that is left out.
        }
    // In the same order.
    own.at = double(steps.size() - step);
    reduced.problem.ops.push_back(std::move(own));
  }
  for (size_t part = 0; part != mostParts; ++part) {
    size_t begin = run.begin + part * run.period;
    if (part >= before)
      begin += left;
    std::vector<size_t> &standing = reduced.standing.emplace_back(numbers);
    for (size_t step = first; step != behind; ++step)
      standing[steps[step]] =
          numbers[steps[begin + (step - run.begin) % run.period]];
  }
  reduced.numParts = run.getParts();
  reduced.parts.resize(problem.ops.size());
  for (size_t step = 0; step != reduced.numParts * run.period; ++step)
    reduced.parts[steps[run.begin + step]] = step / run.period;
  reduced.tied = Tier(problem, steps, run).tie(withoutOps(problem));
  return reduced;
}

std::optional<Reduced> cleave::autoshard::reduce(const ShardingProblem &problem,
                                                 llvm::ArrayRef<size_t> steps,
                                                 size_t mostParts) {
  return Reducer(problem, steps).reduce(mostParts);
}
