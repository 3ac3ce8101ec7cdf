//===- Strategies.cpp - Placements of a step, chosen in several ways ------===//
#include "Strategies.h"
#include "CompileFlags.h"
#include "Files.h"
#include "PlanFlags.h"
#include "cleave/AutoShard/BytesInUse.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Ledger/Ledger.h"
#include "cleave/Report/StrategyReport.h"
#include "cleave/Search/Format.h"
#include "cleave/Search/PlanFile.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"

using namespace cleave;

//===----------------------------------------------------------------------===//
// The step, and what is chosen
//===----------------------------------------------------------------------===//

void tool::StepFlags::add(CLI::App &app) {
  CLI::Option *file =
      app.add_option("--plan", plan,
                     "plan.json, by hand or of cleave plan -o, whose mesh, "
                     "micro-batches, pipeline and recomputation there are")
          ->type_name("FILE");
  app.add_option("--mesh", mesh,
                 "axes, the last of neighbours, as dp=8,tp=8 (default: an axis "
                 "of nodes and one of the devices of a node)")
      ->type_name("AXIS=SIZE,...")
      ->excludes(file);
  app.add_option("--seq-len", seqLen, "tokens of a sequence")
      ->required()
      ->check(makePositiveCheck());
  app.add_option("--global-batch", globalBatch, "sequences of a step")
      ->required()
      ->check(makePositiveCheck());
  app.add_option("--micro-batches", microBatches,
                 "that a step adds the gradients of, one after the other")
      ->check(makePositiveCheck())
      ->capture_default_str()
      ->excludes(file);
  app.add_option("--overlap", overlap,
                 "collectives that run beside compute: as of cleave compile")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  app.add_option("--dtype", dtype,
                 "of matrix products (default: bf16; of CPUs f32)")
      ->check(CLI::IsMember({"f32", "bf16"}));
  addMomentsFlag(app, moments);
  app.add_option("--memory", memory,
                 "GB of a device for what is kept (default: what ops do not "
                 "need while they run)")
      ->check(CLI::PositiveNumber);
  app.add_option("--tactics", tactics,
                 "file of tactics; one more strategy, which keeps to them, for "
                 "each (docs/sharding.md)")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

/// An axis for each level of the network, the outermost first.
static Mesh getNaturalMesh(const Machine &machine) {
  std::vector<MeshAxis> axes;
  int64_t inside = 1;
  for (const Level &level : machine.levels) {
    int64_t size = level.size > 0 ? std::min(level.size, machine.devices)
                                  : machine.devices;
    if (size > inside && size % inside == 0) {
      std::string name = axes.empty() ? "devices"
                         : axes.size() == 1
                             ? "nodes"
                             : "level" + std::to_string(axes.size());
      axes.insert(axes.begin(), {name, size / inside});
      inside = size;
    }
  }
  if (axes.empty())
    axes.push_back({"devices", machine.devices});
  return Mesh(axes);
}

/// The plan of the file, or the mesh that is given or the cluster's own.
static llvm::Expected<Plan> findPlan(const tool::StepFlags &flags,
                                     const Model &model, const Workload &work,
                                     const Machine &machine) {
  auto fail = [](const llvm::Twine &message) {
    return llvm::make_error<tool::UsageError>(message);
  };
  Plan plan;
  std::string name = "--mesh " + flags.mesh;
  if (!flags.plan.empty()) {
    llvm::Expected<PlanFile> file = loadPlanFile(flags.plan);
    if (!file)
      return file.takeError();
    llvm::Expected<Plan> read = getPlan(*file, model.modelType, work);
    if (!read)
      return read;
    plan = std::move(*read);
    name = "--plan " + flags.plan;
  } else {
    plan.mesh = getNaturalMesh(machine);
    if (!flags.mesh.empty()) {
      llvm::Expected<Mesh> given = Mesh::parse(flags.mesh);
      if (!given)
        return fail(name + ": " + llvm::toString(given.takeError()));
      plan.mesh = *given;
    }
    plan.microBatches = flags.microBatches;
    if (flags.globalBatch % flags.microBatches != 0)
      return fail(llvm::formatv("--micro-batches {0}: expects a divisor of "
                                "--global-batch {1}",
                                flags.microBatches, flags.globalBatch)
                      .str());
  }
  if (plan.mesh.getNumRanks() > machine.devices)
    return fail(llvm::formatv("{0}: has {1} ranks, --cluster {2} has {3}", name,
                              plan.mesh.getNumRanks(), flags.cluster,
                              machine.devices)
                    .str());
  return plan;
}

llvm::Expected<tool::StepProblem> tool::loadStep(const StepFlags &flags) {
  llvm::Expected<std::string> config = findConfig(flags.model);
  if (!config)
    return config.takeError();
  llvm::Expected<Model> model =
      loadNotedModel(*config, {.seqLen = flags.seqLen});
  if (!model)
    return model.takeError();
  llvm::Expected<Cluster> cluster = parseCluster(flags.cluster);
  if (!cluster)
    return cluster.takeError();
  llvm::Expected<Machine> machine = getNotedMachine(*cluster);
  if (!machine)
    return machine.takeError();
  llvm::Expected<DType> dtype = getDType(flags.dtype, machine->device);
  if (!dtype)
    return dtype.takeError();
  StepProblem step;
  CompileOptions options;
  options.work = {flags.seqLen, flags.globalBatch, *dtype,
                  getMomentsType(flags.moments)};
  options.stages.step.moments = flags.moments;
  llvm::Expected<Plan> plan = findPlan(flags, *model, options.work, *machine);
  if (!plan)
    return plan.takeError();
  options.plan = *plan;
  step.mesh = plan->mesh;
  // The vocabulary is padded so that any axes may split it.
  AxisList all;
  for (unsigned axis = 0; axis != step.mesh.getNumAxes(); ++axis)
    if (!plan->pipeline || plan->pipeline->axis != Axis(axis))
      all.push_back(Axis(axis));
  options.plan.dims["vocab"] = all;
  llvm::Expected<ShardingProblem> problem =
      buildShardingProblem(*model, options, *machine);
  if (!problem)
    return problem.takeError();
  step.problem = std::move(*problem);
  setMemory(step.problem, machine->device, flags.memory * 1e9);
  step.machine = std::move(*machine);
  step.title = flags.model;
  step.seqLen = flags.seqLen;
  step.globalBatch = flags.globalBatch;
  step.microBatches = plan->microBatches;
  llvm::Expected<Profile> profile = loadOwnProfile(step.machine.device);
  if (!profile)
    return profile.takeError();
  step.profile = std::move(*profile);
  step.overlap = flags.overlap;
  return step;
}

/// States that a search keeps at a time.
static constexpr size_t mostStates = 64;

llvm::Expected<NamedStrategy> tool::readStrategy(const StepProblem &step,
                                                 llvm::StringRef tactics) {
  NamedStrategy strategy{"chosen by cost", step.problem, {}};
  if (tactics.empty())
    return strategy;
  strategy.name = "of " + tactics.str();
  llvm::Expected<std::vector<Tactic>> lines = loadTactics(tactics);
  if (!lines)
    return lines.takeError();
  if (auto effects = applyTactics(strategy.problem, *lines); !effects)
    return effects.takeError();
  return strategy;
}

llvm::Error tool::chooseStrategy(const StepProblem &step,
                                 NamedStrategy &strategy) {
  NetworkPricer price = step.getPricer();
  llvm::Expected<ShardingChoice> choice =
      chooseShardings(strategy.problem, price, mostStates, step.getBeside());
  if (!choice)
    return llvm::createStringError(strategy.name + ": " +
                                   llvm::toString(choice.takeError()));
  strategy.explored =
      explore(strategy.problem, std::move(*choice), price, step.getBeside());
  return llvm::Error::success();
}

llvm::Expected<std::vector<NamedStrategy>>
tool::chooseFront(const StepProblem &step, size_t most) {
  NetworkPricer price = step.getPricer();
  auto choices = computeShardingFront(step.problem, price, most, mostStates);
  if (!choices)
    return choices.takeError();
  std::vector<NamedStrategy> front;
  for (ShardingChoice &choice : *choices)
    front.push_back(
        {"corner " + std::to_string(front.size() + 1) + " of the front",
         step.problem,
         explore(step.problem, std::move(choice), price, step.getBeside())});
  return front;
}

//===----------------------------------------------------------------------===//
// As text
//===----------------------------------------------------------------------===//

static std::string showMicros(double seconds) {
  return llvm::formatv("{0:F1}", seconds * 1e6);
}

static std::string showMega(double bytes) {
  return llvm::formatv("{0:F2}", bytes * 1e-6);
}

namespace {
/// Rows of cells, each column as wide as it has to be.
class TextTable {
public:
  explicit TextTable(std::vector<std::string> headings) {
    rows.push_back(std::move(headings));
  }
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  bool empty() const { return rows.size() == 1; }

  void print(llvm::raw_ostream &os) const {
    std::vector<size_t> widths;
    for (const auto &row : rows)
      for (auto [column, cell] : llvm::enumerate(row)) {
        widths.resize(std::max(widths.size(), column + 1));
        widths[column] = std::max(widths[column], cell.size());
      }
    for (const auto &row : rows) {
      std::string line;
      for (auto [column, cell] : llvm::enumerate(row)) {
        line += "  " + cell;
        line.append(widths[column] - cell.size(), ' ');
      }
      os << llvm::StringRef(line).rtrim() << '\n';
    }
  }

private:
  std::vector<std::vector<std::string>> rows;
};
} // namespace

static void printKind(llvm::raw_ostream &os, const NamedStrategy &strategy,
                      const LayerKind &kind) {
  const Exploration &explored = strategy.explored;
  TextTable kept({"kept as", "of", "where", "MB", "moved to it"});
  TextTable ops({"pass", "op", "splits", "result", "us", "moved to it"});
  for (size_t number : kind.ops) {
    const PlacedOp &op = strategy.problem.ops[number];
    const ExploredOp &own = explored.ops[number];
    std::string moves = strategy.describeMoves(number);
    double bytes = strategy.getKeptBytes(number);
    if (bytes > 0 && op.keeps != Keeps::None)
      kept.add({getName(op.keeps).str(), getShortName(op), own.placement,
                showMega(bytes), moves});
    else if (own.seconds > 0)
      ops.add({op.phase, getShortName(op), own.splits, own.placement,
               showMicros(own.seconds), moves});
  }
  os << '\n' << describeLayers(kind) << '\n';
  if (!ops.empty())
    ops.print(os);
  if (!kept.empty())
    kept.print(os);
}

static void printTotals(llvm::raw_ostream &os, const NamedStrategy &strategy) {
  const Exploration &explored = strategy.explored;
  TextTable table({"a step", "count", "GB", "ms", "exposed"});
  auto showMillis = [](double seconds) {
    return llvm::formatv("{0:F3}", seconds * 1e3).str();
  };
  table.add({"compute", "", "", showMillis(explored.compute),
             showMillis(explored.compute)});
  for (const CollectiveTotal &total : explored.totals)
    table.add({getName(total.kind).str() + " over " +
                   strategy.problem.mesh.toString(total.axes),
               llvm::formatv("{0:F0}", total.count).str(),
               llvm::formatv("{0:F3}", total.bytes * 1e-9).str(),
               showMillis(total.seconds), showMillis(total.exposed)});
  table.add({"all", "", "", showMillis(explored.choice.seconds),
             showMillis(explored.choice.besideSeconds)});
  table.print(os);
}

/// In one line.
static std::string showSummary(const NamedStrategy &strategy) {
  const ShardingChoice &choice = strategy.explored.choice;
  std::string bound =
      choice.bound < choice.seconds
          ? ", no choice takes less than " + formatSeconds(choice.bound)
          : std::string(", no choice takes less");
  // The bound is of what is done one after the other.
  std::string step = formatSeconds(choice.besideSeconds) + " a step";
  if (choice.besideSeconds != choice.seconds)
    step +=
        "; " + formatSeconds(choice.seconds) + " with nothing beside compute";
  return step + bound + "; " + formatBytes(choice.bytes) + " kept, " +
         formatBytes(strategy.explored.bytesInUse) + " in use at most";
}

void tool::printStrategy(llvm::raw_ostream &os, const StepProblem &step,
                         const NamedStrategy &strategy) {
  os << strategy.name << ": " << showSummary(strategy) << " of "
     << describeMemory(strategy) << '\n'
     << "mesh " << strategy.problem.mesh.getText() << " of "
     << step.machine.device.name << ", " << step.globalBatch << " x "
     << step.seqLen << " tokens in "
     << formatNumber(step.microBatches, "micro-batch") << '\n'
     << "kept: " << describeKept(strategy.explored) << "\n\n";
  printTotals(os, strategy);
  for (const LayerKind &kind : strategy.explored.kinds)
    printKind(os, strategy, kind);
}

//===----------------------------------------------------------------------===//
// As JSON
//===----------------------------------------------------------------------===//

static llvm::json::Object toJSON(const ShardingProblem &problem,
                                 const Move &move) {
  llvm::json::Array steps;
  for (const MoveStep &each : move.steps)
    steps.push_back(
        llvm::json::Object{{"collective", getName(each.step.kind)},
                           {"over", problem.mesh.toString(each.step.axes)},
                           {"bytes", each.bytes},
                           {"seconds", each.seconds}});
  llvm::json::Array ops;
  for (size_t op : move.ops)
    ops.push_back(problem.ops[op].name);
  return llvm::json::Object{{"from", move.from.toString(problem.mesh)},
                            {"to", move.to.toString(problem.mesh)},
                            {"for", std::move(ops)},
                            {"times", move.times},
                            {"steps", std::move(steps)}};
}

static llvm::json::Object toJSON(const NamedStrategy &strategy, size_t number) {
  const PlacedOp &op = strategy.problem.ops[number];
  const ExploredOp &own = strategy.explored.ops[number];
  llvm::json::Array moves;
  for (size_t move : own.moves)
    moves.push_back(toJSON(strategy.problem, strategy.explored.moves[move]));
  llvm::json::Object object{{"op", op.name},
                            {"splits", own.splits},
                            {"placement", own.placement},
                            {"seconds", own.seconds},
                            {"moves", std::move(moves)}};
  if (op.layer >= 0)
    object["layer"] = op.layer;
  if (!op.phase.empty())
    object["pass"] = op.phase;
  if (op.keeps != Keeps::None) {
    object["keeps"] = getName(op.keeps);
    object["bytes"] = strategy.getKeptBytes(number);
  }
  if (!op.heldBy.empty())
    object["held_by"] = op.heldBy;
  return object;
}

llvm::json::Object tool::toJSON(const StepProblem &step,
                                const NamedStrategy &strategy) {
  const Exploration &explored = strategy.explored;
  llvm::json::Object object{{"name", strategy.name},
                            {"seconds", explored.choice.seconds},
                            {"beside_seconds", explored.choice.besideSeconds},
                            {"least_seconds", explored.choice.bound},
                            {"compute_seconds", explored.compute},
                            {"bytes", explored.choice.bytes},
                            {"bytes_in_use", explored.bytesInUse}};
  llvm::json::Object kept;
  for (auto [keeps, bytes] : explored.bytes)
    kept[keeps == Keeps::None ? "else" : getName(keeps).str()] = bytes;
  object["kept_bytes"] = std::move(kept);
  llvm::json::Array collectives;
  for (const CollectiveTotal &total : explored.totals)
    collectives.push_back(
        llvm::json::Object{{"collective", getName(total.kind)},
                           {"over", strategy.problem.mesh.toString(total.axes)},
                           {"count", total.count},
                           {"bytes", total.bytes},
                           {"seconds", total.seconds},
                           {"exposed_seconds", total.exposed}});
  object["collectives"] = std::move(collectives);
  llvm::json::Array kinds;
  for (const LayerKind &kind : explored.kinds) {
    llvm::json::Array ops;
    for (size_t op : kind.ops)
      ops.push_back(::toJSON(strategy, op));
    llvm::json::Object one{{"ops", std::move(ops)}};
    if (kind.first >= 0) {
      one["first_layer"] = kind.first;
      one["last_layer"] = kind.last;
    }
    kinds.push_back(std::move(one));
  }
  object["kinds"] = std::move(kinds);
  return object;
}

//===----------------------------------------------------------------------===//
// Between two
//===----------------------------------------------------------------------===//

namespace {
/// An op that two strategies run otherwise, in the layers that do so alike.
struct Difference {
  size_t op;
  int64_t last; ///< layer
};
} // namespace

/// What of an op differs, in words: of one and the other.
static std::string showChoice(const NamedStrategy &strategy, size_t op) {
  const ExploredOp &own = strategy.explored.ops[op];
  std::string moves = strategy.describeMoves(op);
  const PlacedOp &placed = strategy.problem.ops[op];
  return (placed.keeps == Keeps::None ? own.splits : own.placement) +
         (moves.empty() ? "" : " < " + moves);
}

static std::vector<Difference> findDifferences(const NamedStrategy &from,
                                               const NamedStrategy &to) {
  std::vector<Difference> found;
  std::map<std::string, size_t> known; ///< by all that it says: which it is
  for (auto [number, op] : llvm::enumerate(from.problem.ops)) {
    std::string a = showChoice(from, number), b = showChoice(to, number);
    if (a == b)
      continue;
    std::string key =
        llvm::formatv("{0}|{1}|{2}|{3}|{4}|{5:e9}|{6:e9}", getShortName(op),
                      op.phase, getName(op.keeps), a, b,
                      from.getSeconds(number), to.getSeconds(number));
    auto [at, isNew] = known.try_emplace(key, found.size());
    if (op.layer >= 0 && !isNew && found[at->second].last == op.layer - 1)
      found[at->second].last = op.layer;
    else {
      at->second = found.size();
      found.push_back({number, op.layer});
    }
  }
  return found;
}

static std::string showLayers(const NamedStrategy &strategy,
                              const Difference &difference) {
  int64_t first = strategy.problem.ops[difference.op].layer;
  if (first < 0)
    return "";
  return first == difference.last
             ? llvm::formatv("{0}", first).str()
             : llvm::formatv("{0}-{1}", first, difference.last).str();
}

void tool::printDifferences(llvm::raw_ostream &os, const NamedStrategy &from,
                            const NamedStrategy &to) {
  os << "from " << from.name << " (" << showSummary(from) << ")\n"
     << "to " << to.name << " (" << showSummary(to) << ")\n\n";
  TextTable table({"layers", "pass", "op", "from", "to", "us of one"});
  for (const Difference &each : findDifferences(from, to)) {
    const PlacedOp &op = from.problem.ops[each.op];
    table.add({showLayers(from, each), op.phase,
               (op.keeps == Keeps::None ? "" : getName(op.keeps).str() + " ") +
                   getShortName(op),
               showChoice(from, each.op), showChoice(to, each.op),
               llvm::formatv("{0} -> {1}", showMicros(from.getSeconds(each.op)),
                             showMicros(to.getSeconds(each.op)))
                   .str()});
  }
  if (table.empty())
    os << "no op differs\n";
  else
    table.print(os);
}

llvm::json::Array tool::getDifferences(const NamedStrategy &from,
                                       const NamedStrategy &to) {
  llvm::json::Array all;
  for (const Difference &each : findDifferences(from, to)) {
    llvm::json::Object object{{"from", ::toJSON(from, each.op)},
                              {"to", ::toJSON(to, each.op)}};
    if (each.last >= 0)
      object["last_layer"] = each.last;
    all.push_back(std::move(object));
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Of one op
//===----------------------------------------------------------------------===//

static void printReasonsOf(llvm::raw_ostream &os, const tool::StepProblem &step,
                           const NamedStrategy &strategy, size_t number) {
  // Besides what tactics leave it, all that it could do.
  ShardingProblem problem = strategy.problem;
  PlacedOp &op = problem.ops[number];
  ShardingChoice choice = strategy.explored.choice;
  const Strategy &own =
      strategy.problem.ops[number].strategies[choice.strategies[number]];
  op = step.problem.ops[number];
  op.heldBy = strategy.problem.ops[number].heldBy;
  for (auto [at, each] : llvm::enumerate(op.strategies))
    if (each.axes == own.axes &&
        llvm::equal(each.placements.operands, own.placements.operands) &&
        llvm::equal(each.placements.results, own.placements.results))
      choice.strategies[number] = at;
  NetworkPricer price = step.getPricer();
  auto all = getAlternatives(problem, choice, number, price);
  const std::optional<ShardingChoice> &chosen = all[choice.strategies[number]];
  double least = chosen ? chosen->seconds : choice.seconds;

  os << op.name;
  if (op.keeps != Keeps::None)
    os << ", kept as " << getName(op.keeps);
  else if (!op.phase.empty())
    os << ", " << op.phase;
  os << ": splits " << strategy.explored.ops[number].splits << ", "
     << strategy.explored.ops[number].placement << '\n';
  if (std::string moves = strategy.describeMoves(number); !moves.empty())
    os << "  moved to it: " << moves << '\n';
  if (!op.heldBy.empty())
    os << "  held by " << op.heldBy << '\n';
  std::vector<size_t> order;
  for (size_t at = 0; at != all.size(); ++at)
    if (all[at] && at != choice.strategies[number])
      order.push_back(at);
  auto getCost = [&](size_t at) {
    return all[at]->seconds + choice.byteSeconds * all[at]->bytes;
  };
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::pair(getCost(a), a) < std::pair(getCost(b), b);
  });
  constexpr size_t most = 6;
  TextTable table(
      {"instead", "its result", "us more", "MB more", "held off by"});
  double bytes = chosen ? chosen->bytes : choice.bytes;
  for (size_t at : llvm::ArrayRef(order).take_front(most)) {
    const Strategy &other = op.strategies[at];
    const RulePlacements &placements = other.placements;
    bool isAllowed = llvm::any_of(
        strategy.problem.ops[number].strategies, [&](const Strategy &each) {
          return each.axes == other.axes &&
                 llvm::equal(each.placements.operands, placements.operands);
        });
    table.add(
        {describeSplits(problem, op, other),
         (placements.results.empty() ? placements.operands : placements.results)
             .front()
             .toString(problem.mesh),
         showMicros(all[at]->seconds - least), showMega(all[at]->bytes - bytes),
         isAllowed ? "" : "tactics"});
  }
  if (!table.empty())
    table.print(os);
  if (order.size() > most)
    os << "  and " << order.size() - most << " that cost more\n";
  if (size_t none = all.size() - order.size() - (chosen ? 1 : 0))
    os << "  and " << none << " for which the ops around it can do nothing\n";
}

llvm::Error tool::printReasons(llvm::raw_ostream &os, const StepProblem &step,
                               const NamedStrategy &strategy,
                               llvm::StringRef pattern) {
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
  if (!glob)
    return llvm::make_error<UsageError>("--op " + pattern + ": " +
                                        llvm::toString(glob.takeError()));
  bool isFirst = true;
  for (auto [number, op] : llvm::enumerate(strategy.problem.ops)) {
    if (!glob->match(op.label) || op.strategies.empty())
      continue;
    if (!isFirst)
      os << '\n';
    isFirst = false;
    printReasonsOf(os, step, strategy, number);
  }
  if (!isFirst)
    return llvm::Error::success();
  std::string some;
  size_t shown = 0;
  for (const PlacedOp &op : strategy.problem.ops)
    if (!op.label.empty() && shown++ < 8)
      some += (some.empty() ? "" : ", ") + op.label;
  return llvm::make_error<UsageError>(
      "--op " + pattern + ": no op is called so; there are " + some + ", ...");
}
