//===- Lanes.cpp - The table of lane-wise instructions --------------------===//
#include "Lanes.h"

using namespace cleave;
using namespace cleave::ptx;

static LaneTable makeTable() {
  LaneTable table;
  addRoundedLanes(table);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    avx512::addLanes(table);
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    avx2::addLanes(table);
  else
#endif
    portable::addLanes(table);
  return table;
}

const LaneTable &LaneTable::get() {
  static const LaneTable table = makeTable();
  return table;
}

void LaneTable::add(const char *pattern, const char *signature,
                    Compute compute) {
  expand("", pattern, {signature, compute});
}

void LaneTable::expand(const std::string &done, const std::string &rest,
                       const Computation &entry) {
  size_t open = rest.find_first_of("({");
  if (open == std::string::npos) {
    entries.emplace(done + rest, entry);
    return;
  }
  size_t close = rest.find_first_of(")}", open);
  std::string before = done + rest.substr(0, open);
  std::string after = rest.substr(close + 1);
  if (rest[open] == '{')
    expand(before, after, entry);
  std::string choices = rest.substr(open + 1, close - open - 1) + "|";
  for (size_t at = 0; at < choices.size();) {
    size_t bar = choices.find('|', at);
    expand(before + choices.substr(at, bar - at), after, entry);
    at = bar + 1;
  }
}

const Computation *LaneTable::find(const std::string &mnemonic) const {
  auto found = entries.find(mnemonic);
  return found == entries.end() ? nullptr : &found->second;
}
