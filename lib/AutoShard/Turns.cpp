//===- Turns.cpp - The best choice where collectives run aside ------------===//
//
// How much of a move is waited for depends on all else, so it is found in
// turns: a choice is made by shares of moves that are waited for, timed, and
// says what shares are next.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"
#include "cleave/AutoShard/Beside.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::autoshard;

void Chooser::setExposed(const std::vector<ByStepKind> &shares) {
  costs.setExposed(shares);
  for (auto *choices : {&known, &found})
    for (ShardingChoice &choice : *choices)
      finish(choice);
  // What is best where much is hidden may be new.
  if (timesExposed++ == 0)
    timesFound = std::min<size_t>(timesFound, 2);
  for (auto *part : {&tied, &inner})
    if (*part)
      (*part)->setExposed(shares);
}

namespace {
/// Which share of what is moved for a reason, by a kind of step, is taken to be
/// exposed.
class Shares {
public:
  Shares(const ShardingProblem &problem, double slowdown)
      : reasons(findReasons(problem)) {
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

  std::vector<ByStepKind> getByTensor() const {
    std::vector<ByStepKind> all;
    for (Reason reason : reasons)
      all.push_back(byReason[size_t(reason)]);
    return all;
  }

  /// Those of timed moves; of what is not moved they stay.
  void learn(llvm::ArrayRef<Move> moves) {
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

  std::vector<Reason> reasons; ///< by tensor
  std::array<ByStepKind, numReasons> byReason;
};
} // namespace

/// About what a step takes in which collectives run beside compute.
double Chooser::estimateBeside(const ShardingChoice &choice,
                               const BesideCompute &beside) {
  if (!inner) {
    std::vector<Move> moves = getMoves(problem, choice, price);
    return timeBeside(problem, choice, moves, price, beside);
  }
  // As much is saved where a few of the equal parts remain.
  ShardingChoice few = reduceChoice(choice);
  if (few.seconds == 0 || few.seconds == impossible)
    return choice.seconds;
  std::vector<Move> moves = getMoves(inner->problem, few, price);
  return timeBeside(inner->problem, few, moves, price, beside) / few.seconds *
         choice.seconds;
}

/// Of what is known, and good by shares, what may well be the best where
/// collectives run beside compute.
std::vector<ShardingChoice>
Chooser::getPromising(const std::vector<ByStepKind> &shares,
                      const BesideCompute &beside,
                      llvm::ArrayRef<ShardingChoice> timed) {
  constexpr size_t mostLooked = 24, most = 4;
  setExposed(shares);
  std::vector<ShardingChoice> known = getKnown(mostLooked);
  setExposed({});
  std::vector<std::pair<double, ShardingChoice>> all;
  for (ShardingChoice &each : known) {
    finish(each);
    if (each.bytes <= problem.memory && !isIn(each, timed))
      all.push_back({estimateBeside(each, beside), std::move(each)});
  }
  sortBy(all, [](const auto &each) { return each.first; });
  all.resize(std::min(all.size(), most));
  std::vector<ShardingChoice> promising;
  for (auto &[seconds, choice] : all)
    promising.push_back(std::move(choice));
  return promising;
}

llvm::Expected<ShardingChoice> Chooser::run(const BesideCompute &beside) {
  if (llvm::Error error = prepare())
    return error;
  llvm::Expected<ShardingChoice> best = choose();
  if (!best)
    return best;
  best->besideSeconds = best->seconds;
  if (!beside.mayHide())
    return best;
  const double bound = best->bound;
  std::vector<ShardingChoice> timed;
  Shares shares(problem, beside.slowdown);
  // Whether it is better; and it says what the next turn's shares are.
  auto time = [&](ShardingChoice choice, Shares &own) {
    std::vector<Move> moves = getMoves(problem, choice, price);
    choice.bound = bound;
    choice.besideSeconds = timeBeside(problem, choice, moves, price, beside);
    own.learn(moves);
    timed.push_back(choice);
    bool isBetter = choice.besideSeconds < best->besideSeconds;
    if (isBetter)
      best = std::move(choice);
    return isBetter;
  };
  best->besideSeconds = impossible;
  Shares ofBest = shares;
  time(*best, ofBest);
  // Those of shares say nothing of the step.
  looksForBounds = false;
  // Of a turn: whether it found anything new, and better.
  auto turn = [&](bool &isBetter) -> llvm::Expected<bool> {
    setExposed(shares.getByTensor());
    llvm::Expected<ShardingChoice> next = choose();
    setExposed({});
    if (!next)
      return next.takeError();
    finish(*next);
    bool isNew = !isIn(*next, timed);
    isBetter = isNew && time(std::move(*next), shares);
    return isNew;
  };
  constexpr int mostTurns = 4, mostInVain = 2;
  for (int number = 0, inVain = 0; number != mostTurns && inVain != mostInVain;
       ++number) {
    bool isBetter = false;
    llvm::Expected<bool> isNew = turn(isBetter);
    if (!isNew)
      return isNew.takeError();
    if (!*isNew)
      break;
    inVain = isBetter ? 0 : inVain + 1;
  }
  // What no turn chose may be better than what shares say of it, and lead on.
  bool isBetter = false;
  for (ShardingChoice &other :
       getPromising(shares.getByTensor(), beside, timed)) {
    Shares own = shares;
    if (time(std::move(other), own)) {
      ofBest = own;
      isBetter = true;
    }
  }
  if (isBetter) {
    shares = ofBest;
    if (llvm::Expected<bool> isNew = turn(isBetter); !isNew)
      return isNew.takeError();
  }
  return best;
}
