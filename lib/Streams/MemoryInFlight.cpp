//===- MemoryInFlight.cpp -------------------------------------------------===//
#include "lib/Streams/MemoryInFlight.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace cleave;
using llvm::ArrayRef;

HighestOfRange::HighestOfRange(ArrayRef<double> values)
    : leaves(llvm::PowerOf2Ceil(std::max<size_t>(values.size(), 1))),
      nodes(2 * leaves) {
  double before = 0;
  for (auto [place, value] : llvm::enumerate(values)) {
    double growth = value - before;
    nodes[leaves + place] = {growth, growth};
    before = value;
  }
  for (size_t node = leaves; --node > 0;)
    nodes[node] = join(nodes[2 * node], nodes[2 * node + 1]);
}

void HighestOfRange::raise(size_t from, double by) {
  size_t node = leaves + from;
  nodes[node].growth += by;
  nodes[node].highest += by;
  while (node /= 2)
    nodes[node] = join(nodes[2 * node], nodes[2 * node + 1]);
}

HighestOfRange::Node HighestOfRange::get(size_t from, size_t end) const {
  Node left, right;
  for (from += leaves, end += leaves; from < end; from /= 2, end /= 2) {
    if (from % 2 == 1)
      left = join(left, nodes[from++]);
    if (end % 2 == 1)
      right = join(nodes[--end], right);
  }
  return join(left, right);
}

double HighestOfRange::getHighest(size_t from, size_t end) const {
  return get(0, from).growth + get(from, end).highest;
}

MemoryInFlight::MemoryInFlight(ArrayRef<OverlapOp> ops,
                               const OverlapMemory &memory)
    : ops(ops), memory(memory), numbers(ops.size()) {
  std::iota(numbers.begin(), numbers.end(), 0);
  if (!isLimited())
    return;
  size_t numPlaces = memory.live.size();
  owners.resize(numPlaces);
  for (int64_t op : numbers)
    for (int64_t place : getMembers(op))
      owners[size_t(place)] = op;
  hasBegun.resize(ops.size());
  buffers.resize(ops.size());
  states.resize(memory.buffers.size());
  taken.resize(numPlaces);
  freed.resize(numPlaces);
  for (auto [number, buffer] : llvm::enumerate(memory.buffers)) {
    auto [first, last] =
        std::minmax_element(buffer.users.begin(), buffer.users.end());
    taken[size_t(*first)] += buffer.bytes;
    freed[size_t(*last)].push_back(int64_t(number));
    states[number].last = *last;
    for (int64_t place : buffer.users) {
      auto &own = buffers[size_t(owners[size_t(place)])];
      if (llvm::is_contained(own, int64_t(number)))
        continue;
      own.push_back(int64_t(number));
      ++states[number].toBegin;
      ++states[number].toEnd;
    }
  }
  double local = 0;
  for (size_t place = 0; place != numPlaces; ++place) {
    local += taken[place];
    base.push_back(memory.live[place] - local);
    for (int64_t buffer : freed[place])
      local -= getBytes(buffer);
  }
  standing = HighestOfRange(memory.live);
}

ArrayRef<int64_t> MemoryInFlight::getMembers(int64_t op) const {
  ArrayRef<int64_t> members = ops[size_t(op)].members;
  return members.empty() ? ArrayRef(numbers[size_t(op)]) : members;
}

void MemoryInFlight::begin(int64_t op) {
  if (!isLimited())
    return;
  hasBegun[size_t(op)] = true;
  for (int64_t buffer : buffers[size_t(op)]) {
    State &state = states[size_t(buffer)];
    --state.toBegin;
    if (state.isInUse)
      continue;
    state.isInUse = true;
    inUse += getBytes(buffer);
    if (state.last < at)
      noteLate(buffer);
  }
  for (int64_t place : getMembers(op))
    if (place > at) {
      early += taken[size_t(place)];
      standing.raise(size_t(place), -taken[size_t(place)]);
    }
}

/// The buffer is in use, and its last place is past.
void MemoryInFlight::noteLate(int64_t buffer) {
  states[size_t(buffer)].isLate = true;
  late += getBytes(buffer);
}

void MemoryInFlight::end(int64_t op) {
  if (!isLimited())
    return;
  for (int64_t buffer : buffers[size_t(op)]) {
    State &state = states[size_t(buffer)];
    if (--state.toEnd > 0)
      continue;
    inUse -= getBytes(buffer);
    state.isInUse = false;
    if (state.isLate)
      late -= getBytes(buffer);
  }
}

void MemoryInFlight::reach(int64_t op) {
  if (!isLimited())
    return;
  for (; at < getPlace(op); ++at) {
    for (int64_t buffer : freed[size_t(at)])
      if (states[size_t(buffer)].isInUse)
        noteLate(buffer);
    if (auto next = size_t(at + 1); hasBegun[size_t(owners[next])]) {
      early -= taken[next];
      standing.raise(next, taken[next]);
    }
  }
}

double MemoryInFlight::getInUse() const {
  return isLimited() ? base[size_t(at)] + inUse : 0;
}

bool MemoryInFlight::isFull(int64_t next) const {
  if (!isLimited())
    return false;
  double bytes = getInUse();
  int64_t end =
      next < int64_t(ops.size()) ? getPlace(next) : int64_t(memory.live.size());
  for (int64_t place = at + 1; place < end; ++place)
    if (!hasBegun[size_t(owners[size_t(place)])])
      bytes += taken[size_t(place)];
  return bytes > memory.limit;
}

bool MemoryInFlight::fits(int64_t op, int64_t next) const {
  if (!isLimited())
    return true;
  double more = 0;
  for (int64_t place : getMembers(op))
    more += taken[size_t(place)];
  int64_t from = std::min(at + 1, getPlace(next));
  return more == 0 || getPlace(op) <= from ||
         standing.getHighest(size_t(from), size_t(getPlace(op))) + early +
                 late + more <=
             memory.limit;
}

bool MemoryInFlight::mayFree(int64_t op) const {
  return isLimited() && llvm::any_of(buffers[size_t(op)], [&](int64_t buffer) {
           return states[size_t(buffer)].toBegin == 0 && getBytes(buffer) > 0;
         });
}

double MemoryInFlight::getFreed(int64_t op) const {
  double bytes = 0;
  if (isLimited())
    for (int64_t place : getMembers(op))
      for (int64_t buffer : freed[size_t(place)])
        bytes += getBytes(buffer);
  return bytes;
}
