//===- States.h - States of a search between two ops ----------------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_STATES_H
#define CLEAVE_LIB_AUTOSHARD_STATES_H

#include "Costs.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Allocator.h"

namespace cleave::autoshard {

/// Places, ascending, in which a tensor is needed besides where it is made.
using Needs = llvm::SmallVector<Place, 3>;

/// What is known of a tensor between two ops: where it is made, if its op has
/// been, and where ops need it besides.
struct Whereabouts {
  Place made = 0;
  Needs needs;
};

/// Numbers of whereabouts, one for each of some tensors, in their order.
using Key = llvm::ArrayRef<uint32_t>;

/// By what asString says of keys; values stay where they are.
template <typename Value>
using ByKey = llvm::StringMap<Value, llvm::BumpPtrAllocator>;
using Keys = llvm::StringSet<llvm::BumpPtrAllocator>;

/// Gives whereabouts numbers, by which states are compared.
class WhereaboutsNumbers {
public:
  uint32_t get(Place made, llvm::ArrayRef<Place> needs) {
    llvm::SmallVector<Place, 8> key{made};
    key.append(needs.begin(), needs.end());
    auto [at, isNew] = numbers.try_emplace(asString(llvm::ArrayRef(key)),
                                           uint32_t(all.size()));
    if (isNew)
      all.push_back({made, Needs(needs)});
    return at->second;
  }
  /// Valid until the next `get`.
  const Whereabouts &operator[](uint32_t number) const { return all[number]; }

private:
  std::vector<Whereabouts> all;
  ByKey<uint32_t> numbers;
};

struct State {
  double cost = 0;
  double rest = 0; ///< what a choice with it takes at least on top
  uint32_t from = 0, strategy = 0; ///< the state before the op, by its number
};

/// States between two ops. Of each a key says where all tensors there are, and
/// its rests what ops to come take at least for each of these being so.
class States {
public:
  explicit States(size_t numTensors = 0) : numTensors(numTensors) {}

  size_t size() const { return states.size(); }
  bool empty() const { return states.empty(); }
  State &operator[](size_t number) { return states[number]; }
  const State &operator[](size_t number) const { return states[number]; }
  Key getKey(size_t number) const {
    return Key(keys).slice(number * numTensors, numTensors);
  }
  llvm::ArrayRef<double> getRests(size_t number) const {
    return llvm::ArrayRef(rests).slice(number * numTensors, numTensors);
  }
  void reserve(size_t count) {
    states.reserve(count);
    keys.reserve(count * numTensors);
    rests.reserve(count * numTensors);
  }
  void add(const State &state, Key key, llvm::ArrayRef<double> restsOfKey) {
    states.push_back(state);
    keys.insert(keys.end(), key.begin(), key.end());
    rests.insert(rests.end(), restsOfKey.begin(), restsOfKey.end());
  }
  /// That one alone.
  States pick(size_t number) const {
    States one(numTensors);
    one.add(states[number], getKey(number), getRests(number));
    return one;
  }
  /// Leaves the first ones.
  void truncate(size_t count) {
    states.resize(count);
    keys.resize(count * numTensors);
    rests.resize(count * numTensors);
  }

private:
  size_t numTensors;
  std::vector<State> states;
  std::vector<uint32_t> keys;
  std::vector<double> rests;
};

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_STATES_H
