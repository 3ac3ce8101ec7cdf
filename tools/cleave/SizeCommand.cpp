//===- SizeCommand.cpp - cleave size --------------------------------------===//
#include "CommandLine.h"
#include "PlanFlags.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Sizing/Sizing.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

namespace {
struct SizeFlags {
  Goal goal;
  Fleet fleet;
  std::string law = getScalingLaws().front().name.str(), rule = "daly";
  std::optional<double> tokensPerParameter, interval;
  std::vector<int64_t> sweep;
  std::string cluster, dtype; ///< dtype empty: what devices usually compute in
  /// What the fleet's flags are called, and whether they were given.
  std::map<std::string, CLI::Option *> options;
  bool json = false;
};
} // namespace

static std::string checkWhole(const std::string &text) {
  int64_t number = 0;
  if (!llvm::StringRef(text).getAsInteger(10, number))
    return {};
  return llvm::formatv("expects a whole number from 1 to {0}, got \"{1}\"",
                       Fleet::maxDevices, text);
}

static std::string checkCount(const std::string &text) {
  int64_t devices = 0;
  if (!llvm::StringRef(text).getAsInteger(10, devices) && devices >= 1 &&
      devices <= Fleet::maxDevices)
    return {};
  return llvm::formatv("expects a whole number from 1 to {0}, got \"{1}\"",
                       Fleet::maxDevices, text);
}

/// Fills what no flag says from the cluster.
static llvm::Error fillFleet(const SizeFlags &flags, Fleet &fleet) {
  llvm::Expected<Cluster> cluster = parseCluster(flags.cluster);
  if (!cluster)
    return cluster.takeError();
  llvm::Expected<Machine> machine = tool::getNotedMachine(*cluster);
  if (!machine)
    return machine.takeError();
  const Device &device = machine->device;
  auto isGiven = [&](const char *name) {
    return flags.options.at(name)->count() > 0;
  };
  if (!isGiven("devices"))
    fleet.devices = machine->devices;
  if (!isGiven("peak")) {
    llvm::Expected<DType> dtype = tool::getDType(flags.dtype, device);
    if (!dtype)
      return dtype.takeError();
    fleet.peakFlops = device.getMatrix(*dtype).peak;
  }
  if (!isGiven("mtbf-hours"))
    fleet.mtbfHours = device.mtbfHours;
  if (!isGiven("watts"))
    fleet.watts = device.watts;
  if (!isGiven("price-per-hour"))
    fleet.pricePerHour = device.pricePerHour;
  if (!isGiven("checkpoint-seconds"))
    fleet.storageBandwidth = cluster->storageBandwidth;
  return llvm::Error::success();
}

static int runSize(SizeFlags flags) {
  if (!flags.cluster.empty()) {
    if (llvm::Error error = fillFleet(flags, flags.fleet))
      return tool::failPlan(std::move(error));
  } else if (!flags.dtype.empty() && flags.dtype != "bf16") {
    return tool::failUsage("--dtype " + flags.dtype +
                           ": expects --cluster, whose peak of that type it "
                           "takes");
  }
  llvm::Expected<ScalingLaw> law = getScalingLaw(flags.law);
  if (!law)
    return tool::fail(law.takeError());
  SizingOptions options;
  options.law = *law;
  if (flags.tokensPerParameter) {
    if (law->tokensPerParameter == 0)
      return tool::failUsage(
          "--tokens-per-parameter: expects --law ratio, got " + flags.law);
    options.law.tokensPerParameter = *flags.tokensPerParameter;
  }
  options.rule =
      flags.rule == "young" ? IntervalRule::Young : IntervalRule::Daly;
  if (flags.interval) {
    options.rule = IntervalRule::Given;
    options.intervalSeconds = *flags.interval;
  }
  std::vector<int64_t> counts = flags.sweep;
  if (counts.empty())
    counts.push_back(flags.fleet.devices);
  auto runs = estimateSweep(flags.goal, flags.fleet, counts, options);
  if (!runs)
    return tool::failUsage(llvm::toString(runs.takeError()));
  if (flags.json)
    printJSON(llvm::outs(), *runs, options);
  else if (!flags.sweep.empty())
    printSweep(llvm::outs(), *runs);
  else
    printRun(llvm::outs(), runs->front(), options);
  return llvm::all_of(*runs,
                      [](const RunEstimate &run) { return run.wrong.empty(); })
             ? 0
             : 1;
}

static void addModelFlags(CLI::App &command, SizeFlags &flags) {
  for (const GoalField &field : getGoalFields())
    tool::describe(command.add_option("--" + field.name.str(),
                                      flags.goal.*field.value,
                                      field.meaning.str()),
                   field.unit, field.range)
        ->group("Run: two of parameters, tokens and compute (FLOPs or days), "
                "or one and the law; 70B is 70e9, so K, M, T, P");
  std::vector<std::string> names;
  std::string text = "what gives parameters and tokens that are not given, and "
                     "predicts the loss";
  for (const ScalingLaw &law : getScalingLaws()) {
    names.push_back(law.name.str());
    text += ("\n" + law.name + ": " + law.source).str();
  }
  const char *group = "Law";
  command.add_option("--law", flags.law, text)
      ->check(CLI::IsMember(names))
      ->capture_default_str()
      ->group(group);
  tool::describe(
      command.add_option(
          "--tokens-per-parameter", flags.tokensPerParameter,
          "of --law ratio (default: 20); more of them train a smaller "
          "model for longer"),
      "D/N", {0, 1e9})
      ->group(group);
}

static void addFleetFlags(CLI::App &command, SizeFlags &flags) {
  const char *group = "Devices (defaults: H100 SXM)";
  CLI::Option *devices = command
                             .add_option("--devices", flags.fleet.devices,
                                         "devices that train together")
                             ->type_name("COUNT")
                             ->check(checkCount)
                             ->capture_default_str()
                             ->group(group);
  command
      .add_option("--sweep-devices", flags.sweep,
                  "one line for each of these numbers of devices, separated by "
                  "tabs; MFU is the same for all")
      ->type_name("COUNT,...")
      ->delimiter(',')
      ->check(checkWhole)
      ->excludes(devices)
      ->group(group);
  flags.options["devices"] = devices;
  for (const FleetField &field : getFleetFields())
    flags.options[field.name.str()] =
        tool::describe(command
                           .add_option("--" + field.name.str(),
                                       flags.fleet.*field.value,
                                       field.meaning.str())
                           ->capture_default_str(),
                       field.unit, field.range)
            ->group(group);
  command
      .add_option(
          "--cluster", flags.cluster,
          "says what no flag above does: number, peak, power, price and "
          "MTBF of the devices, and with its storage bandwidth the "
          "seconds of a checkpoint of 16 bytes a parameter; a preset "
          "(h100-sxm:512), local, local:N, or a cluster.json")
      ->group(group);
  command
      .add_option("--dtype", flags.dtype,
                  "type whose peak the cluster gives (default: bf16, on CPUs "
                  "f32)")
      ->check(CLI::IsMember(tool::dtypeNames))
      ->group(group);
}

void tool::addSizeCommand(CLI::App &app, std::function<int()> &run) {
  auto flags = std::make_shared<SizeFlags>();
  CLI::App *command = app.add_subcommand(
      "size", "Estimate a run from a budget: model and data size, loss, days, "
              "failures, checkpoints, energy and price");
  addModelFlags(*command, *flags);
  addFleetFlags(*command, *flags);
  const char *group = "Checkpoints";
  CLI::Option *rule =
      command
          ->add_option("--interval-rule", flags->rule,
                       "time of work between checkpoints: young is "
                       "sqrt(2 x cost x MTBF) (Young 1974), daly its "
                       "refinement to higher order (Daly 2006)")
          ->check(CLI::IsMember({"daly", "young"}))
          ->capture_default_str()
          ->group(group);
  tool::describe(command->add_option("--interval-seconds", flags->interval,
                                     "that time itself, in place of a rule"),
                 "s", {0, 1e9})
      ->excludes(rule)
      ->group(group);
  command->add_flag("--json", flags->json, "print JSON (docs/planner.md)");
  command->callback(
      [flags, &run] { run = [flags] { return runSize(*flags); }; });
}
