//===- Styles.h - Manners to begin a search with --------------------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_STYLES_H
#define CLEAVE_LIB_AUTOSHARD_STYLES_H

#include "cleave/AutoShard/Choose.h"

namespace cleave::autoshard {

/// By style and op: the strategies of `usable` that keep to the style, or all
/// of an op that has none which do. In a style each axis has one role for all
/// ops:
///
///   - it splits none of the samples' dims, and others as it may;
///   - it splits one of the samples' dims, wherever an op has it;
///   - it splits, wherever an op has one, a dim of the largest set of other
///   dims
///     of which no two meet in one op: of a decoder heads, the intermediate
///     size and the vocabulary;
///   - the same, and where an op has none of these the samples' last dim.
///
/// An op that has no dim of the role splits none of the samples' dims along the
/// axis; one that adds sums which are yet to be reduced along it keeps to any.
/// None where dims have no names, or there are too many axes.
std::vector<std::vector<std::vector<uint32_t>>>
getStyles(const ShardingProblem &problem,
          llvm::ArrayRef<std::vector<uint32_t>> usable);

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_STYLES_H
