//===- Turns.cpp - The best choice where collectives run aside ------------===//
//
// How much of a move is waited for depends on all else, so it is found in
// turns: a choice is made by shares of moves that are waited for, timed, and
// says what shares are next.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"
#include "cleave/AutoShard/Beside.h"
#include "cleave/AutoShard/BytesInUse.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::autoshard;

void Chooser::setExposed(const std::vector<ByStepKind> &shares) {
  costs.setExposed(shares);
  for (auto *choices : {&known, &found})
    for (ShardingChoice &choice : *choices)
      count(choice);
  // What is best where much is hidden may be new.
  if (timesExposed++ == 0)
    timesFound = std::min<size_t>(timesFound, 2);
  for (auto *part : {&tied, &inner})
    if (*part)
      (*part)->setExposed(shares);
}

/// Which share of what is moved for a reason, by a kind of step, is taken to be
/// exposed.
class autoshard::Shares {
public:
  explicit Shares(double slowdown) {
    // A guess, since one has to begin: between one product and the next some of
    // it is hidden in parts.
    constexpr double ofActivations = 0.3;
    for (ByStepKind &shares : byReason)
      shares.fill(std::max(least, slowdown));
    for (Reason reason :
         {Reason::ForwardActivations, Reason::BackwardActivations})
      byReason[size_t(reason)].fill(ofActivations);
    for (ByStepKind &shares : byReason)
      shares[size_t(Step::Kind::Slice)] = 1;
  }

  std::vector<ByStepKind> getByTensor(const ShardingProblem &problem) const {
    std::vector<ByStepKind> all;
    for (Reason reason : findReasons(problem))
      all.push_back(byReason[size_t(reason)]);
    return all;
  }

  /// Those of timed moves; of what is not moved they stay.
  void learn(const ShardingProblem &problem, llvm::ArrayRef<Move> moves) {
    std::vector<Reason> reasons = findReasons(problem);
    std::array<ByStepKind, numReasons> all = {}, exposed = {};
    for (const Move &move : moves)
      for (const MoveStep &step : move.steps) {
        size_t reason = size_t(reasons[move.tensor]);
        all[reason][size_t(step.step.kind)] += move.times * step.seconds;
        exposed[reason][size_t(step.step.kind)] += step.exposed;
      }
    for (size_t i = 0; i != numReasons; ++i)
      for (size_t kind = 0; kind != Step::numKinds; ++kind)
        if (all[i][kind] > 0)
          byReason[i][kind] =
              std::clamp(exposed[i][kind] / all[i][kind], least, 1.);
  }

private:
  /// What is hidden is not for nothing: of equals the one that moves less.
  static constexpr double least = 0.02;

  std::array<ByStepKind, numReasons> byReason;
};

/// A choice that was timed, and what that says of shares.
struct Chooser::Timed {
  ShardingChoice choice;
  Shares shares;
  double excess = 0; ///< see leaveRoom
};

/// Bytes that a choice lacks with what its ops need while they run; where these
/// are any, what is chosen from now on leaves as many more for that.
double Chooser::leaveRoom(const ShardingChoice &choice,
                          llvm::ArrayRef<Move> moves) {
  // Of the memory: that it comes to an end.
  constexpr double least = 1e-3;
  if (!leavesRoom)
    return 0;
  double excess = getBytesInUse(problem, choice, moves) - problem.memory;
  if (excess <= 0)
    return 0;
  double kept = choice.bytes - std::max(excess, least * problem.memory);
  limit = std::min(limit, kept);
  return excess;
}

/// A choice that fits, with what its ops need while they run; since that is
/// only known about, where none does the one that lacks least of those whose
/// kept tensors do.
llvm::Expected<ShardingChoice> Chooser::chooseWithTemporaries() {
  if (!leavesRoom)
    return choose();
  llvm::Expected<ShardingChoice> choice = solve(0);
  if (!choice)
    return choice;
  finish(*choice);
  // What the fastest needs is near to what others do.
  limit = problem.memory + choice->bytes -
          getBytesInUse(problem, *choice, getMoves(problem, *choice, price));
  if (choice->bytes <= limit) {
    priced = *choice;
    return choice;
  }
  std::optional<ShardingChoice> closest;
  double lacking = choice->bytes - limit;
  if (choice->bytes <= problem.memory)
    closest = std::move(*choice);
  for (bool isFirst = true;; isFirst = false) {
    choice = choose();
    if (!choice && isFirst && limit < problem.memory) {
      llvm::consumeError(choice.takeError());
      limit = problem.memory;
      choice = choose();
    }
    if (!choice) {
      if (!closest)
        return choice;
      llvm::consumeError(choice.takeError());
      limit = closest->bytes;
      leavesRoom = false;
      return std::move(*closest);
    }
    double excess = leaveRoom(*choice, getMoves(problem, *choice, price));
    if (!closest || excess < lacking) {
      closest = std::move(*choice);
      lacking = excess;
    }
    if (lacking == 0)
      return std::move(*closest);
  }
}

/// What was not moved has those shares.
Chooser::Timed Chooser::time(ShardingChoice choice, const Shares &shares,
                             const BesideCompute &beside) {
  Timed timed{std::move(choice), shares};
  std::vector<Move> moves = getMoves(problem, timed.choice, price);
  timed.choice.besideSeconds =
      timeBeside(problem, timed.choice, moves, price, beside);
  timed.shares.learn(problem, moves);
  timed.excess = leaveRoom(timed.choice, moves);
  return timed;
}

/// About what a step takes in which collectives run beside compute: a few of
/// the equal parts remain, and as much is saved as there.
double Chooser::estimateBeside(const ShardingChoice &choice,
                               const BesideCompute &beside) {
  ShardingChoice few = reduceChoice(choice);
  inner->finish(few);
  if (few.seconds == 0 || few.seconds == impossible)
    return choice.seconds;
  std::vector<Move> moves = getMoves(inner->problem, few, price);
  return timeBeside(inner->problem, few, moves, price, beside) / few.seconds *
         choice.seconds;
}

/// Of what is known, and good by shares, what may well be better than `best`
/// where collectives run beside compute.
std::vector<ShardingChoice>
Chooser::getPromising(const Shares &shares, const ShardingChoice &best,
                      const BesideCompute &beside,
                      llvm::function_ref<bool(const ShardingChoice &)> isNew) {
  constexpr size_t most = 4;
  // Where no few of the parts stand for all, an estimate takes what it is to
  // spare.
  const size_t mostLooked = inner ? 24 : most;
  constexpr double margin = 1.15; ///< so far estimates may be off
  setExposed(shares.getByTensor(problem));
  std::vector<ShardingChoice> known = getKnown(mostLooked);
  setExposed({});
  for (ShardingChoice &each : known)
    count(each);
  llvm::erase_if(known, [&](const ShardingChoice &each) {
    return !isNew(each) || each.bytes > limit;
  });
  if (inner) {
    for (ShardingChoice &each : known)
      each.besideSeconds = estimateBeside(each, beside);
    const double mostSeconds = margin * estimateBeside(best, beside);
    llvm::erase_if(known, [&](const ShardingChoice &each) {
      return each.besideSeconds > mostSeconds;
    });
    sortBy(known, [](const auto &each) { return each.besideSeconds; });
    known.resize(std::min(known.size(), most));
  }
  for (ShardingChoice &each : known)
    finish(each);
  return known;
}

llvm::Expected<ShardingChoice> Chooser::run(const BesideCompute &beside) {
  if (llvm::Error error = prepare())
    return error;
  llvm::Expected<ShardingChoice> alone = chooseWithTemporaries();
  if (!alone)
    return alone;
  alone->bound = getLeastSeconds(*alone);
  alone->besideSeconds = alone->seconds;
  if (!beside.mayHide())
    return alone;
  // Bounds by shares say nothing of the step.
  looksForBounds = false;
  const double bound = alone->bound;
  std::vector<Timed> timed;
  const Shares guess(beside.slowdown);
  timed.push_back(time(std::move(*alone), guess, beside));
  auto isNew = [&](const ShardingChoice &choice) {
    return llvm::none_of(timed, [&](const Timed &other) {
      return other.choice.strategies == choice.strategies;
    });
  };
  auto getBest = [&]() -> const Timed & {
    return *std::min_element(
        timed.begin(), timed.end(), [](const Timed &a, const Timed &b) {
          return std::pair(a.excess, a.choice.besideSeconds) <
                 std::pair(b.excess, b.choice.besideSeconds);
        });
  };
  // By the shares of one that was timed; whether it finds something new that
  // fits.
  auto turn = [&](const Shares &shares) {
    setExposed(shares.getByTensor(problem));
    llvm::Expected<ShardingChoice> next = choose();
    setExposed({});
    if (!next) {
      llvm::consumeError(next.takeError());
      return false;
    }
    finish(*next);
    if (!isNew(*next))
      return false;
    timed.push_back(time(std::move(*next), shares, beside));
    return true;
  };
  constexpr size_t mostTurns = 4;
  constexpr ptrdiff_t mostInVain = 2;
  for (size_t number = 0; number != mostTurns; ++number) {
    // What was chosen without regard to what is hidden says little of it.
    if (!turn(number == 0 ? guess : Shares(timed.back().shares)) ||
        &timed.back() - &getBest() == mostInVain)
      break;
  }
  // What no turn chose may be better than what shares say of it, and lead on.
  const double before = getBest().choice.besideSeconds;
  const Shares last = timed.back().shares;
  for (ShardingChoice &other :
       getPromising(last, getBest().choice, beside, isNew))
    timed.push_back(time(std::move(other), last, beside));
  bool leadsOn = getBest().choice.besideSeconds < before;
  // Where what it leads to does not fit, there is room for that the next time.
  constexpr int mostTries = 2;
  for (int i = 0; leadsOn && i != mostTries; ++i)
    leadsOn = turn(Shares(getBest().shares)) && timed.back().excess > 0;
  ShardingChoice best = getBest().choice;
  best.bound = bound;
  return best;
}
