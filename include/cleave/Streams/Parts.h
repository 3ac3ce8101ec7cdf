//===- Parts.h - Ops in parts of their rows -------------------------------===//
//
// Ops that make rows from rows can be done part by part. Between a collective
// and the products around it, this lets one part move while another is
// computed:
//
//   gemm, reduce_scatter, norm, all_gather, gemm            in two parts:
//   gemm0, reduce_scatter0, gemm1, reduce_scatter1,
//   norm0, all_gather0, norm1, all_gather1, gemm0, gemm1
//
// Which ops those are, and how they then stand, is found here for whoever has
// ops: the compiler of a program, which makes the parts, and the search for
// placements, which prices what the compiler will make.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_STREAMS_PARTS_H
#define CLEAVE_STREAMS_PARTS_H

#include "cleave/Streams/Overlap.h"
#include "cleave/Streams/Share.h"
#include "llvm/ADT/BitVector.h"
#include <iterator>
#include <map>
#include <optional>

namespace cleave {

/// An operand of an op: bytes [begin, end) of a buffer.
struct RowsOperand {
  int64_t value = 0; ///< operands of one number are the same bytes
  int64_t buffer = 0;
  int64_t begin = 0, end = 0;
  bool isWritten = false;
};

/// Operands of an op in its order.
using RowsOperands = llvm::SmallVector<RowsOperand, 4>;

/// Sets what ops read and write. A number that they access is a stretch of a
/// buffer: two ops have one in common if they share bytes.
void setAccesses(llvm::MutableArrayRef<OverlapOp> ops,
                 llvm::ArrayRef<llvm::ArrayRef<RowsOperand>> operands);

/// Ops that stand one behind the other, and which of them can be done in parts
/// of their rows. Members of a window are those that are, by index and in
/// order.
class Window {
public:
  explicit Window(std::vector<RowsOperands> operands);
  virtual ~Window() = default;

  size_t size() const { return operands.size(); }
  llvm::ArrayRef<RowsOperand> getOperands(size_t i) const {
    return operands[i];
  }
  /// Nothing where the rows of the op cannot be cut.
  const std::optional<Shares> &getShares(size_t i, int64_t parts) const;
  /// Whether two ops access the same byte, one of them to write it.
  bool dependsOn(size_t later, size_t earlier) const;
  /// Whether parts of members get in each other's way by nothing but the same
  /// part of the same bytes.
  bool areApart(llvm::ArrayRef<size_t> members, int64_t parts) const;
  /// Of those that stand between members: which of them must go ahead of all
  /// members; nothing if some stands between two for good.
  std::optional<llvm::SmallVector<bool>>
  findBefore(llvm::ArrayRef<size_t> members) const;

private:
  virtual std::optional<Shares> computeShares(size_t i,
                                              int64_t parts) const = 0;

  std::vector<RowsOperands> operands;
  /// On earlier ones, by later one; empty until someone asks.
  mutable std::vector<llvm::BitVector> dependences;
  mutable std::map<std::pair<size_t, int64_t>, std::optional<Shares>>
      shares; ///< that were asked for
};

/// What an op is to those that are cut.
enum class RowsKind {
  Product, ///< enough to run beside what communicates
  Memory,  ///< it streams through memory
  Other,   ///< a collective, say
};

/// An op of a window that has become a list with parts.
struct PartOf {
  size_t op = 0;
  int64_t number = -1; ///< which part of it; -1: it is whole
};

/// What stands around a collective, in the middle.
class Surroundings {
public:
  /// `kinds` and `streams`: by op of the window, which must outlive this, as
  /// `ops` of a scheduler have it.
  Surroundings(const Window &window, size_t middle, std::vector<RowsKind> kinds,
               std::vector<int64_t> streams)
      : window(window), middle(middle), kinds(std::move(kinds)),
        streams(std::move(streams)) {}

  /// The ops that are cut into `parts` with the one in the middle; it alone if
  /// there are no others, and none if it cannot be. With it go those that
  /// compute what it moves and those that use what it moved, as long as each
  /// needs and makes a part of the others' rows: up to products, and through
  /// collectives on the way. An op that would need one of them as a whole, and
  /// be needed by another, keeps that one out.
  llvm::SmallVector<size_t> findMembers(int64_t parts) const;
  /// The window with its members in parts, part by part between one collective
  /// and the next. What stood between and is needed by them goes ahead of them,
  /// the rest behind. Nothing where that cannot be.
  std::optional<std::vector<PartOf>> cut(llvm::ArrayRef<size_t> members,
                                         int64_t parts) const;

private:
  /// Whether the op can be cut, and adds up nothing over its rows: a sum is
  /// there only once all parts are.
  bool canCut(size_t i, int64_t parts) const;
  llvm::SmallVector<size_t> findPartners(size_t i, int64_t parts) const;
  void prune(llvm::SmallVectorImpl<size_t> &members, int64_t parts) const;

  const Window &window;
  size_t middle;
  std::vector<RowsKind> kinds;
  std::vector<int64_t> streams;
};

/// Into how many parts ops are cut.
constexpr int64_t partCounts[] = {2, 4, 8};
constexpr int64_t largestPartCount = partCounts[std::size(partCounts) - 1];
/// Rows of a tensor of `shape` that lie one behind the other, each of them all
/// that the dims from `dim` on have.
int64_t countRows(llvm::ArrayRef<int64_t> shape, size_t dim);
/// Of how many blocks dim `dim` is taken to be where a shard of it has `shape`
/// (dist.all_gather), so that its collectives can be done in as many parts. A
/// dim that stands between others, as a sequence does between samples and
/// channels, has as many as are missing to the largest number of parts; 1: any
/// other dim, which is whole pieces.
int64_t countBlocks(llvm::ArrayRef<int64_t> shape, size_t dim);
/// Ops that are looked at before a collective, and behind it.
constexpr size_t partsReach = 32;
/// Of a collective's time: cutting has to save as much, since parts make the
/// program longer, and what is waited for less is let be.
constexpr double leastSavedByParts = 0.1;

/// What a list takes, and what is waited for of some of its communication.
struct WindowTime {
  /// Until it is done, and until each message to another stage is there: a
  /// pipeline with few micro-batches waits for that as well.
  double seconds = 0;
  double sent = 0; ///< of these, those of messages
  double compute = 0;
  double communication = 0, waited = 0; ///< of the members alone

  /// By the scheduler. `isMember`: by op.
  static WindowTime measure(llvm::ArrayRef<OverlapOp> ops,
                            llvm::function_ref<bool(size_t)> isMember);
  /// Whether it is worth to do the members of a list in parts, which then takes
  /// `parts`.
  bool isWorth(const WindowTime &parts) const {
    return seconds - parts.seconds >= leastSavedByParts * communication;
  }
};

} // namespace cleave

#endif // CLEAVE_STREAMS_PARTS_H
