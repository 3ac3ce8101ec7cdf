//===- Pieces.cpp - Collectives of pieces of blocks -----------------------===//
#include "dialects/exec/Exec.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

using ShardPieces = SmallVector<Pieces, 2>;

/// Of instructions whose shards are [outer, inner], the blocks within outer.
template <typename Op>
static ShardPieces getOuterPieces(Op op) {
  return {{int64_t(op.getBlocks()), int64_t(op.getOuter())}};
}
template <typename Op>
static void joinInOuter(Op op, int64_t count) {
  op.setOuter(int64_t(op.getOuter()) / count);
  op.setInner(int64_t(op.getInner()) * count);
  op.setBlocks(int64_t(op.getBlocks()) / count);
}

ShardPieces AllGatherOp::getPieces() { return getOuterPieces(*this); }
void AllGatherOp::joinPieces(size_t, int64_t count) {
  joinInOuter(*this, count);
}

ShardPieces ReduceScatterOp::getPieces() { return getOuterPieces(*this); }
void ReduceScatterOp::joinPieces(size_t, int64_t count) {
  joinInOuter(*this, count);
}

ShardPieces SliceOp::getPieces() { return getOuterPieces(*this); }
void SliceOp::joinPieces(size_t, int64_t count) { joinInOuter(*this, count); }

/// Blocks of the dim `a` are within outer, those of `b` within mid.
ShardPieces AllToAllOp::getPieces() {
  return {{int64_t(getBlocksA()), int64_t(getOuter())},
          {int64_t(getBlocksB()), int64_t(getMid())}};
}
void AllToAllOp::joinPieces(size_t i, int64_t count) {
  if (i == 0) {
    setOuter(int64_t(getOuter()) / count);
    setA(int64_t(getA()) * count);
    setBlocksA(int64_t(getBlocksA()) / count);
  } else {
    setMid(int64_t(getMid()) / count);
    setB(int64_t(getB()) * count);
    setBlocksB(int64_t(getBlocksB()) / count);
  }
}
