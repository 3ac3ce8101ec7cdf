//===- Space.h - Layouts as a tree ----------------------------------------===//
#ifndef CLEAVE_LIB_SEARCH_SPACE_H
#define CLEAVE_LIB_SEARCH_SPACE_H

#include "cleave/Search/Search.h"

namespace cleave {

/// What recomputes in a block.
struct Way {
  Recompute recompute;
  unsigned modules;
  bool operator==(const Way &) const = default;
};

/// A branch fixes tp, cp, dp, pp, ep, micro-batch and sequence parallelism.
/// Below it are pipelines (schedules, virtual stages, blocks of the ends), ZeRO
/// stages with their groups, ways to recompute with the number of blocks, and
/// orders of axes; each is chosen without regard to the others.
class Space {
public:
  Space(const Architecture &model, const Machine &machine,
        const SearchRequest &request);

  /// Every branch, whether or not it has legal layouts, with its first order.
  void visit(llvm::function_ref<void(const TrainLayout &)> visit) const;

  /// The choices below a branch; filled in place.
  void getPipelines(std::vector<TrainLayout> &options,
                    const TrainLayout &branch) const;
  void getZeros(std::vector<TrainLayout> &options,
                const TrainLayout &branch) const;
  /// Orders of axes that differ in what blocks cost, the first of equals.
  void getHeads(std::vector<AxisOrder> &heads, const TrainLayout &branch) const;
  /// All orders, or those in which blocks cost what they do in the branch's.
  void getOrders(std::vector<AxisOrder> &orders, const TrainLayout &branch,
                 bool all = false) const;
  llvm::ArrayRef<Way> getWays() const { return ways; }
  /// How many of a virtual stage's `blocks` recompute, ascending; 0, the last
  /// one, is all of them.
  void getCounts(std::vector<int64_t> &counts, int64_t blocks) const;

  static TrainLayout combine(const TrainLayout &pipeline,
                             const TrainLayout &zero, const Way &way,
                             int64_t count);

private:
  bool hasPipelines() const {
    return (able.schedules & ((1u << numSchedules) - 1)) != 0;
  }
  bool allows(const TrainLayout &layout,
              std::initializer_list<llvm::StringRef> fields) const;
  void visitExperts(TrainLayout &layout,
                    llvm::function_ref<void(const TrainLayout &)> visit) const;
  llvm::SmallVector<AxisOrder, numAxisOrders>
  getDifferentOrders(const TrainLayout &layout) const;
  void addStages(std::vector<TrainLayout> &options, TrainLayout layout) const;

  const Architecture &model;
  const Machine &machine;
  const SearchRequest &request;
  const Abilities &able;
  std::vector<int64_t> expertDivisors{1};
  std::vector<Way> ways;
  std::array<bool, numAxisOrders> allowedOrders;
  int64_t mostFewer; ///< blocks that the ends may have fewer than an even share
};

} // namespace cleave

#endif // CLEAVE_LIB_SEARCH_SPACE_H
