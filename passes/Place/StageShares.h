//===- StageShares.h - What a rank of a pipeline has of a step ------------===//
#ifndef CLEAVE_PASSES_PLACE_STAGESHARES_H
#define CLEAVE_PASSES_PLACE_STAGESHARES_H

#include "cleave/AutoShard/Choose.h"
#include "cleave/Plan/Plan.h"

namespace cleave {

/// The mesh of one stage: along the axis of stages nothing is split.
Mesh getStageMesh(const Mesh &mesh, Axis stages);

/// Makes the bytes of a problem, which is of all stages of a pipeline, those of
/// its fullest one, as near as equal layers allow. Of a layer's tensors it has
/// the most layers that a stage has, over all layers. What is kept for the
/// backward pass is there once for each micro-batch that is in flight by the
/// schedule: of all stages that one counts which has the most of them. What is
/// of no layer, the embedding and the head, counts as if one stage had both.
/// Example, 8 layers, 1F1B on 2 stages: half of the layers' state, and all
/// activations, since the first stage has two micro-batches in flight.
void keepOneStage(ShardingProblem &problem, const PipelinePlan &pipeline,
                  int64_t stages, int64_t microBatches);

} // namespace cleave

#endif // CLEAVE_PASSES_PLACE_STAGESHARES_H
