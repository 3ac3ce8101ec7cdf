//===- StepLists.h - A step as lists for lib/Streams ----------------------===//
//
// A step of the problem's ops becomes lists: what is done once before the
// micro-batches, a micro-batch, what is moved of its sums, and the update, for
// which all streams are waited for. A move stands before the first op that
// needs it, but behind the op that makes its tensor where it is kept or summed
// from there on.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_LIB_AUTOSHARD_STEPLISTS_H
#define CLEAVE_LIB_AUTOSHARD_STEPLISTS_H

#include "cleave/AutoShard/Moves.h"
#include "cleave/Streams/Parts.h"

namespace cleave::autoshard {

/// What an op of a list stands for.
struct Source {
  static constexpr size_t none = ~size_t(0);

  size_t op = none;   ///< of the problem, or
  size_t move = none; ///< one of the moves,
  size_t step = 0;    ///< and of which step
  int64_t parts = 1;  ///< of so many parts it is one
  /// Of a move: seconds that compute takes longer since it is in parts.
  double longer = 0;
};

struct ListOp {
  OverlapOp op;          ///< without what it accesses, which `operands` say
  RowsOperands operands; ///< of placed tensors: a buffer each, of `wholeBuffer`
  Source source;
  int64_t level = -1; ///< of the network, of a collective; -1: of none
};
using List = std::vector<ListOp>;

/// So many bytes has a buffer, whatever it has in fact: parts of it have as
/// many each.
constexpr int64_t wholeBuffer = 8;

struct StepLists {
  List before, inside, sums, update;
  double microBatches = 1;
  /// By buffer, of a rank's shard: what it takes from the first op that
  /// accesses it to the last. Nothing of what is there all the time, and of
  /// what an op makes in no time, in the kernel of another.
  std::vector<double> bytes;
  /// Of these, of what `ShardingChoice::bytes` counts: activations; and of one
  /// micro-batch gradients, and what parameters are gathered to.
  double keptBytes = 0;
};

/// `moves`: of getMoves.
StepLists listStep(const ShardingProblem &problem, const ShardingChoice &choice,
                   llvm::ArrayRef<Move> moves, const BesideCompute &beside);

/// Whether the op is done once a step, and not for each micro-batch.
bool isOnce(const PlacedOp &op);

/// As the scheduler sees it.
std::vector<OverlapOp> getOverlapOps(llvm::ArrayRef<ListOp> list);

/// The list with collectives that are waited for, and products around them, in
/// parts of their rows, where the compiler would do them so.
class PartsCutter {
public:
  PartsCutter(const ShardingProblem &problem, const ShardingChoice &choice,
              llvm::ArrayRef<Move> moves, CollectivePricer price)
      : problem(problem), choice(choice), moves(moves), price(price) {}

  List cut(List list);

private:
  /// What becomes of a window of a list.
  struct Cut {
    int64_t parts = 1; ///< 1: it is left whole
    std::vector<PartOf> order;
  };
  using Key = std::vector<uint64_t>;

  Key getKey(llvm::ArrayRef<ListOp> window, size_t middle) const;
  Cut choose(llvm::ArrayRef<ListOp> window, size_t middle) const;
  List build(llvm::ArrayRef<ListOp> window, const Cut &cut) const;
  ListOp makePart(const ListOp &whole, int64_t parts, int64_t number) const;

  const ShardingProblem &problem;
  const ShardingChoice &choice;
  llvm::ArrayRef<Move> moves;
  CollectivePricer price;
  /// Equal layers have equal windows.
  std::map<Key, Cut> known;
};

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_STEPLISTS_H
