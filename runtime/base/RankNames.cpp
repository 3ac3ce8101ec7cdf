//===- RankNames.cpp ------------------------------------------------------===//
#include "runtime/base/RankNames.h"

std::string cleave::runtime::nameRanks(const std::vector<int> &ranks) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    if (last < i + 2)
      last = i;
    runs.push_back(std::to_string(ranks[i]));
    if (last > i)
      runs.back() += " to " + std::to_string(ranks[last]);
    i = last + 1;
  }
  constexpr size_t most = 6;
  if (runs.size() > most) {
    runs.resize(most - 1);
    runs.push_back("others");
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < runs.size(); ++i)
    text += (i == 0 ? "" : i + 1 < runs.size() ? ", " : " and ") + runs[i];
  return text;
}
