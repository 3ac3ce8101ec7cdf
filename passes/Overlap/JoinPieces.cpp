//===- JoinPieces.cpp - No more pieces than parts need --------------------===//
#include "dialects/exec/Exec.h"
#include "passes/Overlap/Passes.h"
#include <map>
#include <numeric>

namespace cleave {
#define GEN_PASS_DEF_JOINPIECESPASS
#include "passes/Overlap/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// As many blocks as make for whole pieces of what is there of a shard. Of four
/// samples in eight blocks each, half a sample is four pieces: two blocks.
static int64_t getNeededBlocks(const exec::Pieces &pieces) {
  return pieces.blocks / std::gcd(pieces.blocks, pieces.count);
}

namespace {
class JoinPieces : public cleave::impl::JoinPiecesPassBase<JoinPieces> {
  void runOnOperation() override {
    // Which instructions have to do with the same shard is not known any more:
    // all with as many blocks are taken for such.
    std::map<int64_t, int64_t> kept;
    getOperation().walk([&](exec::PiecesOpInterface op) {
      for (const exec::Pieces &pieces : op.getPieces()) {
        int64_t &needed = kept.try_emplace(pieces.blocks, 1).first->second;
        needed = std::lcm(needed, getNeededBlocks(pieces));
      }
    });
    getOperation().walk([&](exec::PiecesOpInterface op) {
      for (auto [i, pieces] : llvm::enumerate(op.getPieces())) {
        int64_t count = pieces.blocks / kept.at(pieces.blocks);
        if (count == 1)
          continue;
        op.joinPieces(i, count);
        ++numJoined;
      }
    });
  }
};
} // namespace
