//===- ControlFlow.cpp - Where lanes meet, and what may be unwritten ------===//
//
// Lanes that a branch separates meet where all their paths do at the latest:
// at the branch's immediate post-dominator. Registers are followed along all
// paths likewise: a read is checked when it runs only where some path to it
// writes nothing.
//
//===----------------------------------------------------------------------===//
#include "Decode.h"
#include <algorithm>

using namespace cleave;
using namespace cleave::ptx;

namespace {

struct Block {
  uint32_t begin, end; // instructions
  std::vector<uint32_t> successors, predecessors;
};

class Graph {
public:
  explicit Graph(Function &function);
  void findMeetings();
  void findUnwritten();

private:
  std::vector<uint32_t> getTargets(const Instruction &i) const;
  static bool endsBlock(const Instruction &i);
  static bool fallsThrough(const Instruction &i);
  uint32_t intersect(uint32_t a, uint32_t b) const;

  Function &function;
  std::vector<Block> blocks; // the last one is behind all exits
  std::vector<uint32_t> blockOf;
  std::vector<uint32_t> postDominator, postOrder;
};

} // namespace

bool Graph::endsBlock(const Instruction &i) {
  return i.kind == Kind::Branch || i.kind == Kind::BranchIndex ||
         i.kind == Kind::Return || i.kind == Kind::Exit || i.kind == Kind::Trap;
}

bool Graph::fallsThrough(const Instruction &i) {
  return !endsBlock(i) || i.guard != none;
}

std::vector<uint32_t> Graph::getTargets(const Instruction &i) const {
  if (i.kind == Kind::Branch)
    return {i.target};
  if (i.kind == Kind::BranchIndex)
    return i.table;
  if (endsBlock(i))
    return {uint32_t(function.code.size())};
  return {};
}

Graph::Graph(Function &function) : function(function) {
  auto size = uint32_t(function.code.size());
  std::vector<bool> starts(size + 1, false);
  starts[0] = true;
  starts[size] = true;
  for (uint32_t n = 0; n < size; ++n) {
    const Instruction &i = function.code[n];
    if (!endsBlock(i))
      continue;
    starts[n + 1] = true;
    for (uint32_t target : getTargets(i))
      starts[target] = true;
  }
  blockOf.resize(size + 1);
  for (uint32_t n = 0; n <= size; ++n) {
    if (starts[n])
      blocks.push_back({n, n, {}, {}});
    blockOf[n] = uint32_t(blocks.size() - 1);
    blocks.back().end = std::min(n + 1, size);
  }
  for (uint32_t b = 0; b + 1 < blocks.size(); ++b) {
    const Instruction &last = function.code[blocks[b].end - 1];
    std::vector<uint32_t> next = getTargets(last);
    if (fallsThrough(last))
      next.push_back(blocks[b].end);
    for (uint32_t n : next) {
      uint32_t successor = blockOf[n];
      if (std::find(blocks[b].successors.begin(), blocks[b].successors.end(),
                    successor) != blocks[b].successors.end())
        continue;
      blocks[b].successors.push_back(successor);
      blocks[successor].predecessors.push_back(b);
    }
  }
}

/// The nearest block that post-dominates both.
uint32_t Graph::intersect(uint32_t a, uint32_t b) const {
  while (a != b) {
    while (postOrder[a] < postOrder[b])
      a = postDominator[a];
    while (postOrder[b] < postOrder[a])
      b = postDominator[b];
  }
  return a;
}

/// Post-dominators after Cooper, Harvey and Kennedy: dominators of the reversed
/// graph, block by block in reverse post-order until none changes.
void Graph::findMeetings() {
  auto exit = uint32_t(blocks.size() - 1);
  postOrder.assign(blocks.size(), none);
  postDominator.assign(blocks.size(), none);
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, size_t>> path = {{exit, 0}};
  std::vector<bool> seen(blocks.size(), false);
  seen[exit] = true;
  while (!path.empty()) {
    auto &[block, next] = path.back();
    if (next < blocks[block].predecessors.size()) {
      uint32_t to = blocks[block].predecessors[next++];
      if (!seen[to]) {
        seen[to] = true;
        path.push_back({to, 0});
      }
      continue;
    }
    postOrder[block] = uint32_t(order.size());
    order.push_back(block);
    path.pop_back();
  }
  postDominator[exit] = exit;
  for (bool changes = true; changes;) {
    changes = false;
    for (auto block = order.rbegin() + 1; block < order.rend(); ++block) {
      uint32_t nearest = none;
      for (uint32_t successor : blocks[*block].successors)
        if (postDominator[successor] != none)
          nearest = nearest == none ? successor : intersect(nearest, successor);
      changes |= postDominator[*block] != nearest;
      postDominator[*block] = nearest;
    }
  }
  for (uint32_t b = 0; b < exit; ++b) {
    Instruction &last = function.code[blocks[b].end - 1];
    uint32_t meeting = postDominator[b];
    if (meeting != none && meeting != exit)
      last.meeting = blocks[meeting].begin;
  }
}

/// Forward, over all paths: the set of registers that have surely been written.
void Graph::findUnwritten() {
  size_t count = function.registerBytes / registerAlignment;
  using Set = std::vector<bool>;
  auto number = [](uint32_t offset) { return offset / registerAlignment; };
  Set start(count, false);
  for (const Constant &constant : function.constants)
    start[number(constant.offset)] = true;
  for (const SpecialRegister &special : function.specials)
    start[number(special.offset)] = true;

  auto passesOnWritten = [&](const Instruction &i, const Set &set) {
    for (unsigned n = i.written; n < i.count; ++n)
      if (set[number(i.operands[n])] == i.packs)
        return i.packs;
    return !i.packs;
  };
  auto apply = [&](const Instruction &i, Set &set) {
    if (i.guard != none)
      return;
    bool isWritten = !i.passesOn || passesOnWritten(i, set);
    for (unsigned n = 0; n < i.written; ++n)
      set[number(i.operands[n])] = isWritten;
  };

  // Empty where nothing has come by yet.
  std::vector<Set> before(blocks.size());
  before[0] = start;
  std::vector<uint32_t> work = {0};
  while (!work.empty()) {
    uint32_t b = work.back();
    work.pop_back();
    Set set = before[b];
    for (uint32_t n = blocks[b].begin; n < blocks[b].end; ++n)
      apply(function.code[n], set);
    for (uint32_t successor : blocks[b].successors) {
      Set &next = before[successor];
      if (next.empty() && count != 0) {
        next = set;
        work.push_back(successor);
        continue;
      }
      bool changes = false;
      for (size_t n = 0; n < count; ++n)
        if (next[n] && !set[n]) {
          next[n] = false;
          changes = true;
        }
      if (changes)
        work.push_back(successor);
    }
  }

  Set suspects(count, false);
  for (uint32_t b = 0; b + 1 < blocks.size(); ++b) {
    Set set = before[b];
    if (set.empty())
      continue;
    for (uint32_t n = blocks[b].begin; n < blocks[b].end; ++n) {
      Instruction &i = function.code[n];
      auto check = [&](uint32_t offset) {
        if (set[number(offset)])
          return;
        i.checksReads = true;
        suspects[number(offset)] = true;
      };
      for (unsigned m = i.written; m < i.count; ++m)
        check(i.operands[m]);
      if (i.guard != none)
        check(i.guard);
      apply(i, set);
    }
  }
  for (Instruction &i : function.code)
    for (unsigned m = 0; m < i.written; ++m)
      i.tracksWrites |= suspects[number(i.operands[m])];
  for (size_t n = 0; n < count; ++n)
    if (suspects[n])
      function.suspects.push_back(uint32_t(n) * registerAlignment);
}

void ptx::analyzeControlFlow(Function &function) {
  Graph graph(function);
  graph.findMeetings();
  graph.findUnwritten();
}
