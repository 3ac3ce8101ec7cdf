//===- Space.h - Layouts as a tree ----------------------------------------===//
#ifndef CLEAVE_LIB_SEARCH_SPACE_H
#define CLEAVE_LIB_SEARCH_SPACE_H

#include "cleave/Search/Search.h"

namespace cleave {

/// Ways to recompute, pipeline schedules with their virtual stages, and ZeRO
/// stages with their groups: each is chosen without regard to the others.
struct Branch {
  TrainLayout layout; ///< with the first of each
  int64_t index = 0;  ///< number of its first layout in enumeration order
  double bound = 0;
};

class Space {
public:
  Space(const Architecture &model, const Machine &machine,
        const SearchRequest &request)
      : model(model), machine(machine), request(request) {}

  /// Every branch that has legal layouts.
  void visit(llvm::function_ref<void(const TrainLayout &)> visit) const;

  /// The choices below a branch; filled in place.
  void getRecomputes(std::vector<TrainLayout> &options,
                     const TrainLayout &branch) const;
  void getSchedules(std::vector<TrainLayout> &options,
                    const TrainLayout &branch) const;
  void getZeros(std::vector<TrainLayout> &options,
                const TrainLayout &branch) const;

private:
  bool allows(const TrainLayout &layout,
              std::initializer_list<llvm::StringRef> fields) const;

  const Architecture &model;
  const Machine &machine;
  const SearchRequest &request;
};

} // namespace cleave

#endif // CLEAVE_LIB_SEARCH_SPACE_H
