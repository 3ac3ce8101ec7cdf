//===- ChoosePlacements.cpp - Placements by cost --------------------------===//
//
// A function's tensors and ops become a problem of sharding rules, seconds and
// bytes; lib finds the cheapest strategy of each op; types and reshards are
// written back.
//
//===----------------------------------------------------------------------===//
#include "cleave/AutoShard/Beside.h"
#include "cleave/AutoShard/BytesInUse.h"
#include "cleave/AutoShard/Tactics.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Reshard/Price.h"
#include "dialects/dist/PlanAttr.h"
#include "dialects/exec/Exec.h"
#include "passes/Place/Passes.h"
#include "passes/Place/PlacementGraph.h"
#include "passes/Place/StageShares.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {
#define GEN_PASS_DEF_CHOOSEPLACEMENTSPASS
#include "passes/Place/Passes.h.inc"
} // namespace cleave

using namespace mlir;
using namespace cleave;

/// A state is where its function needs it; two that share one would have to be
/// placed together.
static LogicalResult checkStates(ModuleOp module) {
  llvm::DenseMap<StringAttr, func::FuncOp> owners;
  WalkResult walked = module.walk([&](Operation *op) {
    StringAttr state;
    if (auto get = dyn_cast<xf::GetOp>(op))
      state = get.getStateAttr().getAttr();
    else if (auto set = dyn_cast<xf::SetOp>(op))
      state = set.getStateAttr().getAttr();
    else
      return WalkResult::advance();
    auto function = op->getParentOfType<func::FuncOp>();
    func::FuncOp owner = owners.try_emplace(state, function).first->second;
    if (owner == function)
      return WalkResult::advance();
    op->emitOpError("is of the state @")
        << state.getValue() << ", which @" << owner.getSymName()
        << " has, too: expects one function for each state, since functions "
           "are placed one by one";
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

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
    if (cluster.empty())
      return fail(llvm::createStringError("expects the option cluster"));
    if (overlap != "auto" && overlap != "always" && overlap != "never")
      return fail(llvm::createStringError(
          "expects overlap to be auto, always or never, got " + overlap));
    if (mostStates == 0)
      return fail(
          llvm::createStringError("expects most-states of 1 or more, got 0"));
    llvm::Expected<Cluster> where = parseCluster(cluster);
    if (!where)
      return fail(where.takeError());
    std::string note;
    llvm::Expected<Machine> machine = getMachine(*where, note);
    if (!machine)
      return fail(machine.takeError());
    auto plan = dist::getPlan(getOperation());
    if (!plan)
      return fail(plan.takeError());
    pipeline = std::nullopt;
    // A mesh of the option's has no stages.
    if (*plan && meshText.empty())
      pipeline = (*plan)->pipeline;
    dist::MeshOp op = dist::lookupMesh(getOperation());
    if (!op) {
      llvm::Expected<Mesh> parsed = readMesh(*plan);
      if (!parsed)
        return fail(parsed.takeError());
      op = dist::createMesh(getOperation(), *parsed,
                            pipeline ? std::optional(pipeline->axis)
                                     : std::nullopt);
    } else if (!meshText.empty()) {
      return fail(llvm::createStringError(
          "the module has a dist.mesh: expects no option mesh"));
    }
    if (!pipeline && op.getStageAxis())
      return fail(llvm::createStringError(
          "the dist.mesh has an axis of stages: expects a dist.plan that says "
          "which layers each of them has"));
    Mesh mesh = op.getMesh();
    if (pipeline && (mesh != (*plan)->mesh ||
                     op.getStageAxis() != mesh.getAxes()[pipeline->axis].name))
      return fail(llvm::createStringError(llvm::formatv(
          "the dist.mesh is {0}: expects that of the dist.plan, {1}, with "
          "stages along {2}",
          mesh.toString(), (*plan)->mesh.toString(),
          (*plan)->mesh.getAxes()[pipeline->axis].name)));
    if (mesh.getNumRanks() > machine->devices)
      return fail(llvm::createStringError(llvm::formatv(
          "mesh {0} has {1} ranks, cluster {2} has {3}", mesh.toString(),
          mesh.getNumRanks(), cluster, machine->devices)));
    if (failed(checkStates(getOperation())))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() &&
          failed(place(function, FlatSymbolRefAttr::get(op), mesh, *machine)))
        return signalPassFailure();
  }

private:
  /// The option's, or the plan's.
  llvm::Expected<Mesh> readMesh(const std::optional<Plan> &plan) {
    if (meshText.empty() && plan)
      return plan->mesh;
    return Mesh::parse(meshText);
  }

  LogicalResult place(func::FuncOp function, FlatSymbolRefAttr meshName,
                      const Mesh &whole, const Machine &machine) {
    Mesh mesh = pipeline ? getStageMesh(whole, pipeline->axis) : whole;
    NetworkPricer price(whole, machine);
    llvm::Expected<Profile> profile = loadOwnProfile(machine.device);
    if (!profile)
      return function.emitError(llvm::toString(profile.takeError()));
    PlacementGraph graph(function, meshName, mesh, machine, *profile, price);
    if (failed(graph.build()))
      return failure();
    if (pipeline)
      keepOneStage(graph.problem, *pipeline, whole.getSize(pipeline->axis),
                   graph.getNumMicroBatches());
    if (llvm::Error error = keepToTactics(graph.problem, price))
      return function.emitError(llvm::toString(std::move(error)));
    setMemory(graph.problem, machine.device, double(memory));
    llvm::Expected<ShardingChoice> choice =
        chooseShardings(graph.problem, price, size_t(mostStates),
                        getBesideCompute(whole, machine, *profile, overlap));
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

  std::optional<PipelinePlan> pipeline; ///< of the module's plan

  llvm::Error explainTactics(const ShardingProblem &problem,
                             ArrayRef<Tactic> lines, CollectivePricer price);
  llvm::Error keepToTactics(ShardingProblem &problem, CollectivePricer price);
};
} // namespace

/// What a choice takes and moves, in words; of collectives, what differs from
/// `before`, which becomes the choice's.
static std::string describe(const ShardingProblem &problem,
                            const ShardingChoice &choice,
                            CollectivePricer price,
                            std::vector<CollectiveTotal> &before) {
  std::string text = llvm::formatv("{0:F2} us", choice.seconds * 1e6).str();
  std::vector<CollectiveTotal> now =
      getTotals(getMoves(problem, choice, price));
  auto find = [](const CollectiveTotal &total, ArrayRef<CollectiveTotal> in) {
    for (const CollectiveTotal &other : in)
      if (other.kind == total.kind && other.axes == total.axes)
        return other;
    return CollectiveTotal{total.kind, total.axes};
  };
  auto add = [&](const CollectiveTotal &total, double count, double bytes,
                 double seconds) {
    if (count != 0 || bytes != 0)
      text += llvm::formatv("; {0}{1:F0} {2} over {3}: {4:F3} MB, {5:F2} us",
                            count < 0 ? "" : "+", count, getName(total.kind),
                            problem.mesh.toString(total.axes), bytes * 1e-6,
                            seconds * 1e6)
                  .str();
  };
  for (const CollectiveTotal &total : now) {
    CollectiveTotal old = find(total, before);
    add(total, total.count - old.count, total.bytes - old.bytes,
        total.seconds - old.seconds);
  }
  for (const CollectiveTotal &old : before)
    if (find(old, now).count == 0)
      add(old, -old.count, -old.bytes, -old.seconds);
  before = std::move(now);
  return text;
}

/// Says of each tactic what the step takes with it and those before it, and
/// which collectives come in with it, where nothing else is split.
llvm::Error ChoosePlacements::explainTactics(const ShardingProblem &problem,
                                             ArrayRef<Tactic> lines,
                                             CollectivePricer price) {
  Tactic alone;
  alone.verb = Tactic::Verb::SplitNothingElse;
  std::vector<CollectiveTotal> before;
  for (size_t i = 0; i != lines.size(); ++i) {
    const Tactic &tactic = lines[i];
    ShardingProblem part = problem;
    std::vector<Tactic> some(lines.begin(), lines.begin() + i + 1);
    some.push_back(alone);
    llvm::Expected<std::vector<TacticEffect>> effects =
        applyTactics(part, some, allowsIdle);
    if (!effects)
      return effects.takeError();
    llvm::Expected<ShardingChoice> choice =
        chooseShardings(part, price, size_t(mostStates));
    if (!choice)
      return llvm::createStringError(tactic.place + ": " +
                                     llvm::toString(choice.takeError()));
    const TacticEffect &effect = (*effects)[i];
    auto remark =
        emitRemark(FileLineColLoc::get(&getContext(), tactics, tactic.line, 1));
    remark << tactic.text << ": of " << effect.ops << " ops";
    if (effect.left > 0)
      remark << ", not of " << effect.left << " (" << effect.firstLeft
             << " the first)";
    remark << "; alone with those before it "
           << describe(part, *choice, price, before);
  }
  return llvm::Error::success();
}

llvm::Error ChoosePlacements::keepToTactics(ShardingProblem &problem,
                                            CollectivePricer price) {
  if (tactics.empty())
    return llvm::Error::success();
  llvm::Expected<std::vector<Tactic>> lines = loadTactics(tactics);
  if (!lines)
    return lines.takeError();
  if (saysTactics)
    if (llvm::Error error = explainTactics(problem, *lines, price))
      return error;
  if (auto effects = applyTactics(problem, *lines, allowsIdle); !effects)
    return effects.takeError();
  return llvm::Error::success();
}
