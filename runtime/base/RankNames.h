//===- RankNames.h - Some ranks in words ----------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_RANKNAMES_H
#define CLEAVE_RUNTIME_BASE_RANKNAMES_H

#include <string>
#include <vector>

namespace cleave::runtime {

/// "rank 3", "ranks 1, 2 and 5", "ranks 1 to 7". Of ascending numbers.
std::string nameRanks(const std::vector<int> &ranks);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_RANKNAMES_H
