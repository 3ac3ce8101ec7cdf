//===- InstructionCosts.h - What an instruction takes on a cluster --------===//
#ifndef CLEAVE_PASSES_OVERLAP_INSTRUCTIONCOSTS_H
#define CLEAVE_PASSES_OVERLAP_INSTRUCTIONCOSTS_H

#include "cleave/Hardware/Cluster.h"
#include "cleave/Mesh/Mesh.h"
#include "dialects/exec/Exec.h"

namespace cleave {

/// Seconds of instructions, by the planner's own figures (lib/Cost): products,
/// attention and what else streams through memory on the device; collectives
/// and messages on the network, rank i of the mesh being device i.
class InstructionCosts {
public:
  /// `device`: none where nothing is said of it. `stageAxis`: along which
  /// messages go; none without pipeline stages. `onlyBetweenNodes`: what stays
  /// inside a node is moved by what computes there.
  InstructionCosts(Mesh mesh, std::optional<Axis> stageAxis, Network network,
                   std::optional<Device> device, bool onlyBetweenNodes)
      : mesh(std::move(mesh)), stageAxis(stageAxis),
        network(std::move(network)), device(std::move(device)),
        onlyBetweenNodes(onlyBetweenNodes) {}

  double getSeconds(exec::InstructionOpInterface op) const;

  /// Whether the instruction moves data to other ranks by itself, and need not
  /// be waited for where it stands: collectives inside a stage, and messages
  /// that are sent.
  bool mayRunAside(exec::InstructionOpInterface op) const;
  /// Whether other stages count on its place: what they meet in, or have sent.
  bool tiesStages(exec::InstructionOpInterface op) const;

private:
  double getComputeSeconds(double flops, double bytes) const;
  AxisList getCrossedAxes(exec::InstructionOpInterface op) const;

  Mesh mesh;
  std::optional<Axis> stageAxis;
  Network network;
  std::optional<Device> device;
  bool onlyBetweenNodes;
};

} // namespace cleave

#endif // CLEAVE_PASSES_OVERLAP_INSTRUCTIONCOSTS_H
