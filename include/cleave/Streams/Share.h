//===- Share.h - What a part of an op has of an operand -------------------===//
#ifndef CLEAVE_STREAMS_SHARE_H
#define CLEAVE_STREAMS_SHARE_H

#include "llvm/ADT/SmallVector.h"

namespace cleave {

/// What a part of an op's rows has of an operand: all of it, as every part; its
/// own part of the bytes; or all of it, to add what its rows give.
enum class Share { Whole, Part, Sum };

/// What each of some parts of an op has of its operands.
using Shares = llvm::SmallVector<Share>;

} // namespace cleave

#endif // CLEAVE_STREAMS_SHARE_H
