//===- Plan.h - How a training step is cut over a mesh --------------------===//
#ifndef CLEAVE_PLAN_PLAN_H
#define CLEAVE_PLAN_PLAN_H

#include "cleave/Cost/Orders.h"
#include "cleave/Cost/Workload.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Json/Reader.h"
#include "cleave/Placement/Placement.h"
#include "llvm/ADT/StringMap.h"
#include <map>

namespace cleave {

/// How the layers are cut into the stages of a pipeline: a rank's stage is its
/// coordinate on a mesh axis of their own, along which no tensor is split.
struct PipelinePlan {
  Axis axis = 0;
  Schedule schedule = Schedule::OneFOneB;
  int64_t virtualStages = 1; ///< of each stage
  /// Of each virtual stage, in the model's order; the first has the embedding
  /// besides, the last the head. None: `firstLayers` and `lastLayers`, the rest
  /// as even as can be.
  std::vector<int64_t> layers;
  int64_t firstLayers = TrainLayout::even, lastLayers = TrainLayout::even;
};

/// A mesh, and for each named dim of the model the axes that split it. Dims of
/// tensors have names: "batch", "sequence" (of the residual stream), "vocab",
/// "hidden", "heads", "kv_heads", "head_dim", "intermediate". Every placement
/// follows from these rules; ZeRO's stages are further axes that split what is
/// kept: optimizer state, gradients, parameters.
struct Plan {
  /// Of plan.json.
  static constexpr int64_t currentVersion = 2;

  Mesh mesh;
  int64_t microBatches = 1;
  std::map<std::string, AxisList> dims;
  AxisList optimizerAxes, gradientAxes, parameterAxes;
  /// Modules of a layer that its backward pass repeats, so that what they give
  /// is not kept: of getModules(), or "full", all of them.
  std::vector<std::string> recompute;
  /// So many layers of each virtual stage do, from its first one on; 0: all.
  int64_t recomputeBlocks = 0;
  std::optional<PipelinePlan> pipeline;

  /// What a layer is made of.
  static llvm::ArrayRef<llvm::StringRef> getModules();

  /// Axes of a named dim; none if no rule names it.
  AxisList getAxes(llvm::StringRef dim) const;

  /// The placement in which ops compute with a tensor of these dims.
  Placement getCompute(llvm::ArrayRef<std::string> names) const;

  /// The same, with those of `axes` that do not split it yet added at the minor
  /// end of the first dim that they divide; without them if there is none.
  Placement getKept(llvm::ArrayRef<std::string> names,
                    llvm::ArrayRef<int64_t> shape, const AxisList &axes) const;

  /// Rows that a vocabulary is padded to, so that its axes divide it.
  int64_t getPaddedVocab(int64_t vocab) const;

  /// 1 without a pipeline.
  int64_t getNumStages() const;
  /// Of each virtual stage, of `layers` in all; without a pipeline, all.
  std::vector<int64_t> getStageLayers(int64_t layers) const;
  /// Says them one by one, where there is a pipeline.
  void setStageLayers(int64_t layers);

  /// As plan.json.
  std::string toJSON() const;
  /// What it says of placements, as tactics (cleave/AutoShard/Tactics.h).
  std::string toTactics() const;
};

/// The plan of a layout with neither context nor expert parallelism; what it
/// repeats is `setRecompute`'s. A micro-batch of 0 stands for
/// getDefaultMicroBatch. Fails where the batch does not divide.
llvm::Expected<Plan> makePlan(const TrainLayout &layout, const Workload &work);

/// The keys of plan.json by which a layout is said dim by dim, and a plan by
/// them. The reader says what is wrong: key, value and what is legal.
llvm::ArrayRef<llvm::StringRef> getPlanKeys();
Plan readPlan(JsonReader &reader, const llvm::json::Object &object);

/// Reads a plan.json of those keys alone, as Plan::toJSON writes it.
llvm::Expected<Plan> parsePlan(llvm::StringRef text, llvm::StringRef file);

/// Samples of a micro-batch where nobody says how many: the most of a rank's
/// samples of a step that leave at least as many micro-batches as there are
/// stages; all of them without a pipeline.
int64_t getDefaultMicroBatch(int64_t samples, int64_t stages);

/// Checks that the model's sizes divide as the plan asks, naming legal degrees,
/// and that none is more than the runtime takes.
llvm::Error checkPlan(const Plan &plan, const Model &model,
                      const Workload &work);

} // namespace cleave

#endif // CLEAVE_PLAN_PLAN_H
