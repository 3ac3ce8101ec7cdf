//===- ChoosePlacements.cpp - Placements by cost --------------------------===//
//
// A function's tensors and ops become a problem of sharding rules, seconds and
// bytes; lib finds the cheapest strategy of each op; types and reshards are
// written back.
//
//===----------------------------------------------------------------------===//
#include "cleave/Hardware/Cluster.h"
#include "cleave/Reshard/Price.h"
#include "dialects/exec/Exec.h"
#include "passes/Place/Passes.h"
#include "passes/Place/PlacementGraph.h"

namespace cleave {
#define GEN_PASS_DEF_CHOOSEPLACEMENTSPASS
#include "passes/Place/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

namespace {
class ChoosePlacements
    : public cleave::impl::ChoosePlacementsPassBase<ChoosePlacements> {
public:
  using ChoosePlacementsPassBase::ChoosePlacementsPassBase;

  void runOnOperation() override {
    auto fail = [&](llvm::Error error) {
      getOperation().emitError(llvm::toString(std::move(error)));
      signalPassFailure();
    };
    llvm::Expected<Cluster> where = parseCluster(cluster);
    if (!where)
      return fail(where.takeError());
    std::string note;
    llvm::Expected<Machine> machine = getMachine(*where, note);
    if (!machine)
      return fail(machine.takeError());
    dist::MeshOp op = dist::lookupMesh(getOperation());
    if (!op) {
      llvm::Expected<Mesh> parsed = Mesh::parse(meshText);
      if (!parsed)
        return fail(parsed.takeError());
      op = addMesh(*parsed);
    } else if (!meshText.empty()) {
      return fail(llvm::createStringError(
          "the module has a dist.mesh: expects no option mesh"));
    }
    Mesh mesh = op.getMesh();
    if (mesh.getNumRanks() > machine->devices)
      return fail(llvm::createStringError(llvm::formatv(
          "mesh {0} has {1} ranks, cluster {2} has {3}", mesh.toString(),
          mesh.getNumRanks(), cluster, machine->devices)));
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(place(function, FlatSymbolRefAttr::get(op), mesh, *machine)))
        return signalPassFailure();
  }

private:
  LogicalResult place(func::FuncOp function, FlatSymbolRefAttr meshName,
                      const Mesh &mesh, const Machine &machine) {
    PlacementGraph graph(function, meshName, mesh, machine);
    if (failed(graph.build()))
      return failure();
    graph.problem.memory = memory > 0 ? double(memory) : machine.device.memory;
    NetworkPricer price(mesh, machine);
    llvm::Expected<ShardingChoice> choice =
        chooseShardings(graph.problem, price, size_t(mostStates));
    if (!choice)
      return function.emitError(llvm::toString(choice.takeError()));
    graph.report(*choice);
    graph.write(*choice);
    // The runtime gives each rank its samples.
    for (auto work : getOperation().getOps<exec::WorkloadOp>())
      work.setBatchAxesAttr(
          dist::getAxesAttr(&getContext(), mesh, graph.getBatchAxes(*choice)));
    return success();
  }

  dist::MeshOp addMesh(const Mesh &mesh) {
    OpBuilder b(getOperation().getBodyRegion());
    SmallVector<Attribute> axes;
    for (const MeshAxis &axis : mesh.getAxes())
      axes.push_back(dist::AxisAttr::get(b.getContext(), axis.name, axis.size));
    return dist::MeshOp::create(b, getOperation().getLoc(), "mesh",
                                b.getArrayAttr(axes));
  }
};
} // namespace
