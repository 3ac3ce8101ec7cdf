//===- Within.cpp - The best choice within a limit of bytes ---------------===//
//
// A price of bytes leads to the corners of the convex hull of seconds and
// bytes; the best choice that fits may lie between two of them. In a problem of
// few states it is found by going through the ops as Search.cpp does, with
// seconds and bytes apart: of two ways to a state both are kept, unless one
// takes no more of either. What cannot become better than what is known is left
// out, by the bounds that hold at the price: whatever fits into `limit` takes
// at least what it costs at that price, less the price of `limit` bytes.
//
//===----------------------------------------------------------------------===//
#include "Chooser.h"

using namespace cleave;
using namespace cleave::autoshard;

namespace {
/// Seconds, bytes, and where inputs are kept that no op to come reads.
struct Spent {
  double seconds = 0, bytes = 0;
  llvm::SmallVector<std::pair<size_t, Place>, 1> homes;

  bool isNoWorseThan(const Spent &other) const {
    return seconds <= other.seconds && bytes <= other.bytes;
  }
};

/// A way to a state.
struct Way {
  Spent spent;
  size_t from = 0; ///< before the op
  uint32_t strategy = 0;
  llvm::SmallVector<uint32_t, 16> key; ///< of the state
};

/// What a strategy takes: one or the other, by where inputs are kept.
struct Spending {
  Costs &costs;
  std::vector<Spent> all = {};

  void move(size_t tensor, Place from, Place to) {
    for (Spent &each : all)
      add(each, tensor, from, to);
  }
  void keep(size_t tensor, Place place) {
    for (Spent &each : all)
      add(each, tensor, place);
  }
  void end(size_t input, llvm::ArrayRef<Place> needs) {
    if (needs.empty()) // Nobody keeps it.
      return;
    std::vector<Spent> next;
    for (const Spent &each : all)
      for (Place home : costs.homes[input]) {
        Spent &own = next.emplace_back(each);
        own.homes.push_back({input, home});
        add(own, input, home);
        for (Place need : needs)
          add(own, input, home, need);
      }
    all = std::move(next);
  }

private:
  void add(Spent &spent, size_t tensor, Place place) {
    spent.bytes +=
        costs.problem.tensors[tensor].copies * costs.getBytes(tensor, place);
  }
  void add(Spent &spent, size_t tensor, Place from, Place to) {
    if (from == to)
      return;
    spent.seconds += costs.getMoveSeconds(tensor, from, to);
    spent.bytes +=
        costs.problem.tensors[tensor].movedTo * costs.getBytes(tensor, to);
  }
};

/// Adds a way to those to one state, unless it is no better than one of them;
/// takes out those that are no better than it.
void add(Way way, std::vector<Way> &ways) {
  for (const Way &other : ways)
    if (other.spent.isNoWorseThan(way.spent))
      return;
  llvm::erase_if(ways, [&](const Way &other) {
    return way.spent.isNoWorseThan(other.spent);
  });
  ways.push_back(std::move(way));
}
} // namespace

/// The best choice that fits into `limit`, with its placements, if `known` is
/// one that does; nothing where there are more than `mostStates` ways at a
/// time.
std::optional<ShardingChoice>
Chooser::searchWithin(const ShardingChoice &known) {
  costs.setByteCost(priced->byteSeconds);
  boundBy(known);
  const double price = costs.getByteCost();
  const double upper = (known.seconds + price * limit) * (1 + slack);
  std::vector<std::vector<Way>> trail(1);
  trail.front().emplace_back();
  llvm::SmallVector<uint32_t, 8> before, touchedKey;
  for (size_t step = 0; step != steps.size(); ++step) {
    llvm::StringMap<std::vector<Way>> byKey;
    for (auto [from, way] : llvm::enumerate(trail.back())) {
      before.clear();
      for (const Touched &one : touched[step])
        if (one.before != none)
          before.push_back(way.key[one.before]);
      for (uint32_t strategy : costs.usable[steps[step]]) {
        Spending spending{costs, {way.spent}};
        spending.all.front().homes.clear();
        spending.all.front().seconds += costs.seconds[steps[step]][strategy];
        apply(step, before, strategy, touchedKey, spending);
        Way next{{}, from, strategy, {}};
        for (size_t slot : untouched[step])
          next.key.push_back(way.key[slot]);
        llvm::append_range(next.key, touchedKey);
        double least = rest[step + 1];
        for (auto [slot, where] : llvm::enumerate(next.key))
          least += getRest(step + 1, slot, where);
        std::vector<Way> &ways = byKey[asString(Key(next.key))];
        for (Spent &spent : spending.all) {
          double bound = spent.seconds + price * spent.bytes + least;
          if (spent.bytes > limit || !(bound <= upper))
            continue;
          next.spent = std::move(spent);
          add(next, ways);
        }
      }
    }
    std::vector<Way> &all = trail.emplace_back();
    for (auto &entry : byKey)
      llvm::append_range(all, std::move(entry.second));
    if (all.size() > mostStates || all.empty())
      return std::nullopt;
    // Whatever the order of the map is.
    llvm::sort(all, [](const Way &a, const Way &b) {
      return std::tie(a.spent.seconds, a.spent.bytes, a.from, a.strategy,
                      a.key) < std::tie(b.spent.seconds, b.spent.bytes, b.from,
                                        b.strategy, b.key);
    });
  }
  ShardingChoice best = known;
  const Spent &least = trail.back().front().spent;
  if (least.seconds >= known.seconds)
    return best;
  std::vector<std::pair<size_t, Place>> homes;
  size_t at = 0;
  for (size_t step = steps.size(); step-- > 0;) {
    const Way &way = trail[step + 1][at];
    best.strategies[steps[step]] = way.strategy;
    llvm::append_range(homes, way.spent.homes);
    at = way.from;
  }
  finish(best);
  for (auto [input, home] : homes)
    best.placements[input] = costs.places[input]->get(home);
  best.seconds = least.seconds;
  best.bytes = least.bytes;
  return best;
}
