//===- Repeats.cpp - A problem with fewer of its equal parts --------------===//
#include "Repeats.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include <map>
#include <set>

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

struct Less {
  bool operator()(llvm::ArrayRef<size_t> a, llvm::ArrayRef<size_t> b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

class Reducer {
public:
  Reducer(const ShardingProblem &problem, llvm::ArrayRef<size_t> steps)
      : problem(problem), steps(steps), kinds(steps.size()) {}

  std::optional<Reduced> reduce(size_t mostParts);

private:
  /// By tensor what stands in its place a period later.
  using Shift = llvm::DenseMap<size_t, size_t>;

  void findKinds();
  Run findRun() const;
  Run findRun(size_t period) const;
  std::vector<Part> cutAt(llvm::ArrayRef<size_t> begins) const;
  std::vector<std::vector<size_t>> listAnchors(const Run &run) const;
  std::vector<std::vector<Part>> listParts(const Run &run) const;
  bool use(llvm::ArrayRef<Part> parts, Reduced &reduced) const;
  std::optional<Few> leaveOut(const Run &run, size_t mostParts) const;
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

std::optional<Few> Reducer::leaveOut(const Run &run, size_t mostParts) const {
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

  Few few;
  few.problem = withoutOps(problem);
  std::vector<size_t> numbers(problem.ops.size());
  for (auto [step, op] : llvm::enumerate(steps)) {
    if (step >= first && step < behind)
      continue;
    numbers[op] = few.problem.ops.size();
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
    few.problem.ops.push_back(std::move(own));
  }
  for (size_t part = 0; part != mostParts; ++part) {
    size_t begin = run.begin + part * run.period;
    if (part >= before)
      begin += left;
    std::vector<size_t> &standing = few.standing.emplace_back(numbers);
    for (size_t step = first; step != behind; ++step)
      standing[steps[step]] =
          numbers[steps[begin + (step - run.begin) % run.period]];
  }
  return few;
}

/// Parts that begin at those steps. What stands before and behind all of them
/// is one, too, as far as it is like others.
std::vector<Part> Reducer::cutAt(llvm::ArrayRef<size_t> begins) const {
  std::vector<Part> parts;
  std::map<llvm::ArrayRef<size_t>, size_t, Less> known; // kinds of ops
  auto getKinds = [&](size_t begin, size_t size) {
    return llvm::ArrayRef(kinds).slice(begin, size);
  };
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    size_t size = begins[i + 1] - begins[i];
    auto kind = known.insert({getKinds(begins[i], size), known.size()});
    parts.push_back({begins[i], size, kind.first->second});
  }
  Part first, last;
  for (const auto &[own, kind] : known) {
    size_t size = own.size();
    if (size > first.size && size <= begins.front() &&
        own == getKinds(begins.front() - size, size))
      first = {begins.front() - size, size, kind};
    if (size > last.size && begins.back() + size <= steps.size() &&
        own == getKinds(begins.back(), size))
      last = {begins.back(), size, kind};
  }
  if (first.size > 0)
    parts.insert(parts.begin(), first);
  if (last.size > 0)
    parts.push_back(last);
  return parts;
}

/// Ops that need not be looked at where one part of a kind stands for all.
static size_t countSpared(llvm::ArrayRef<Part> parts) {
  std::set<size_t> kinds;
  size_t spared = 0;
  for (const Part &part : parts)
    if (!kinds.insert(part.kind).second)
      spared += part.size;
  return spared;
}

/// Where ops stand of which each part of a run has one: of each number of them
/// those of one kind, since others lie as far from each other.
std::vector<std::vector<size_t>> Reducer::listAnchors(const Run &run) const {
  llvm::DenseMap<size_t, std::vector<size_t>> places; // by kind of ops
  for (auto [step, kind] : llvm::enumerate(kinds))
    places[kind].push_back(step);
  std::map<size_t, std::vector<size_t>> anchors; // by their number
  for (size_t offset = 0; offset != run.period; ++offset) {
    const std::vector<size_t> &own = places[kinds[run.begin + offset]];
    auto inRun = llvm::count_if(own, [&](size_t step) {
      return step >= run.begin &&
             step < run.begin + run.getParts() * run.period;
    });
    if (size_t(inRun) == run.getParts())
      anchors.insert({own.size(), own});
  }
  std::vector<std::vector<size_t>> all;
  for (auto &[number, own] : anchors)
    all.push_back(std::move(own));
  return all;
}

/// Ways to cut all steps into parts that begin as those of a run do, of
/// whatever kinds; the one that spares most ops first.
std::vector<std::vector<Part>> Reducer::listParts(const Run &run) const {
  std::vector<std::vector<Part>> all;
  std::vector<std::pair<ptrdiff_t, size_t>> order;
  auto period = ptrdiff_t(run.period);
  for (const std::vector<size_t> &anchors : listAnchors(run))
    for (ptrdiff_t moved = 1 - period; moved < period; ++moved) {
      std::vector<size_t> begins;
      for (size_t anchor : anchors)
        if (ptrdiff_t begin = ptrdiff_t(anchor) + moved;
            begin >= 0 && begin < ptrdiff_t(steps.size()))
          begins.push_back(size_t(begin));
      if (begins.empty())
        continue;
      all.push_back(cutAt(begins));
      order.push_back({-ptrdiff_t(countSpared(all.back())), all.size() - 1});
    }
  llvm::sort(order);
  std::vector<std::vector<Part>> sorted;
  for (auto [spared, number] : order)
    sorted.push_back(std::move(all[number]));
  return sorted;
}

std::optional<Reduced> Reducer::reduce(size_t mostParts) {
  findKinds();
  Run run = findRun();
  if (run.period == 0 || run.getParts() <= mostParts)
    return std::nullopt;
  std::vector<Part> ofRun;
  for (size_t part = 0; part != run.getParts(); ++part)
    ofRun.push_back({run.begin + part * run.period, run.period, 0});
  Reduced reduced;
  // But for what stands before and behind, and a part or two.
  size_t others = steps.size() - run.getParts() * run.period;
  bool isMost = others <= mostParts * run.period;
  if (isMost && !(reduced.few = leaveOut(run, mostParts)))
    return std::nullopt;
  // Not where a part would have to share with others what is its own, as the
  // first and the last of a run may.
  llvm::ArrayRef<Part> own = ofRun;
  for (llvm::ArrayRef<Part> some :
       {own, own.drop_front(), own.drop_back(), own.slice(1, own.size() - 2)})
    if (isMost && use(some, reduced))
      return reduced;
  if (!isMost)
    for (const std::vector<Part> &parts : listParts(run))
      if (use(parts, reduced))
        return reduced;
  return std::nullopt;
}

/// Whether these are the parts.
bool Reducer::use(llvm::ArrayRef<Part> parts, Reduced &reduced) const {
  std::optional<Tied> tied = tie(problem, withoutOps(problem), steps, parts);
  if (!tied)
    return false;
  reduced.tied = std::move(*tied);
  reduced.numParts = parts.size();
  reduced.parts.resize(problem.ops.size());
  for (auto [number, part] : llvm::enumerate(parts))
    for (size_t step = part.begin; step != part.begin + part.size; ++step)
      reduced.parts[steps[step]] = number;
  return true;
}

std::optional<Reduced> cleave::autoshard::reduce(const ShardingProblem &problem,
                                                 llvm::ArrayRef<size_t> steps,
                                                 size_t mostParts) {
  return Reducer(problem, steps).reduce(mostParts);
}
