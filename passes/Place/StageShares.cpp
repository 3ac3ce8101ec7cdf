//===- StageShares.cpp - What a rank of a pipeline has of a step ----------===//
#include "passes/Place/StageShares.h"
#include "cleave/Cost/Orders.h"
#include <algorithm>

using namespace cleave;

Mesh cleave::getStageMesh(const Mesh &mesh, Axis stages) {
  llvm::SmallVector<MeshAxis> axes(mesh.getAxes());
  axes[stages].size = 1;
  return Mesh(axes);
}

/// Micro-batches of which a chunk of a stage has run the forward pass and not
/// all of the backward pass, at most; by chunk.
static std::vector<int64_t> countInFlight(const PipelineShape &shape,
                                          int64_t stage) {
  std::vector<int64_t> now(size_t(shape.chunks), 0), most = now;
  for (const PipelineOp &op : getOrder(shape, stage)) {
    int64_t &own = now[size_t(op.chunk)];
    own += op.kind == PipelineOpKind::Forward;
    own -= op.kind == PipelineOpKind::Backward ||
           op.kind == PipelineOpKind::BackwardWeight;
    most[size_t(op.chunk)] = std::max(most[size_t(op.chunk)], own);
  }
  return most;
}

static int64_t countLayers(const ShardingProblem &problem) {
  int64_t layers = 0;
  for (const PlacedOp &op : problem.ops)
    layers = std::max(layers, op.layer + 1);
  return layers;
}

void cleave::keepOneStage(ShardingProblem &problem,
                          const PipelinePlan &pipeline, int64_t stages,
                          int64_t microBatches) {
  int64_t layers = countLayers(problem);
  if (layers == 0)
    return;
  PipelineShape shape;
  shape.schedule = pipeline.schedule;
  shape.stages = stages;
  shape.chunks = pipeline.virtualStages;
  shape.microBatches = microBatches;
  Plan plan;
  plan.mesh = Mesh({{"stages", stages}});
  plan.pipeline = pipeline;
  plan.pipeline->axis = 0;
  std::vector<int64_t> cut = plan.getStageLayers(layers);
  int64_t mostLayers = 0, mostKept = 0, inFlightAtEnds = 1;
  for (int64_t stage = 0; stage != stages; ++stage) {
    std::vector<int64_t> inFlight = countInFlight(shape, stage);
    int64_t has = 0, keeps = 0;
    for (int64_t chunk = 0; chunk != shape.chunks; ++chunk) {
      int64_t at = shape.getVirtualStage(stage, chunk);
      has += cut[size_t(at)];
      keeps += cut[size_t(at)] * inFlight[size_t(chunk)];
      if (at + 1 == shape.getVirtualStages())
        inFlightAtEnds = inFlight[size_t(chunk)];
    }
    mostLayers = std::max(mostLayers, has);
    mostKept = std::max(mostKept, keeps);
  }
  for (const PlacedOp &op : problem.ops)
    for (size_t tensor : op.results) {
      bool isKept = op.keeps == Keeps::Activations;
      double share = op.layer < 0 ? (isKept ? double(inFlightAtEnds) : 1)
                                  : double(isKept ? mostKept : mostLayers) /
                                        double(layers);
      problem.tensors[tensor].copies *= share;
      problem.tensors[tensor].movedTo *= share;
    }
}
