//===- ProgramTimes.cpp - What an executable's step takes, and took -------===//
#include "ProgramTimes.h"
#include "PlanFlags.h"
#include "cleave/Search/Format.h"
#include "runtime/device/Link.h"
#include "runtime/program/Envelope.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <map>

using namespace cleave;
using llvm::formatv;
namespace json = llvm::json;

bool tool::isProgram(llvm::StringRef path) {
  auto file = llvm::sys::fs::openNativeFileForRead(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return false;
  }
  std::array<char, 8> head = {};
  auto count = llvm::sys::fs::readNativeFile(*file, head);
  std::error_code code = llvm::sys::fs::closeFile(*file);
  if (!count) {
    llvm::consumeError(count.takeError());
    return false;
  }
  if (code)
    return false;
  llvm::StringRef text(head.data(), *count);
  return text.starts_with("\x7f"
                          "ELF") ||
         text == llvm::StringRef(runtime::programMagic);
}

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

namespace {
class TraceReader {
public:
  TraceReader(const std::string &path, const runtime::Program &program,
              const TaskProgram &tasks)
      : path(path), program(program), tasks(tasks) {}

  llvm::Expected<tool::MeasuredTasks> read() {
    auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
    if (!buffer)
      return llvm::createStringError(path + ": " + buffer.getError().message());
    llvm::Expected<json::Value> root = json::parse((*buffer)->getBuffer());
    if (!root)
      return fail(llvm::toString(root.takeError()));
    const json::Object *object = root->getAsObject();
    const json::Array *events =
        object ? object->getArray("traceEvents") : nullptr;
    if (!events)
      return fail("key \"traceEvents\": expects an array; is this what train "
                  "--trace wrote?");
    for (const json::Value &event : *events)
      if (llvm::Error error = addEvent(event))
        return error;
    if (steps.empty())
      return fail("has no instruction of a step");
    return summarize();
  }

private:
  struct Interval {
    double begin = std::numeric_limits<double>::infinity(), end = 0;
  };
  struct Spent {
    size_t stage, task;
    double seconds;
  };
  struct TracedStep {
    Interval interval;
    std::vector<Spent> spent;
  };

  llvm::Error fail(const llvm::Twine &what) {
    return llvm::createStringError(path + ": " + what);
  }

  llvm::Error addEvent(const json::Value &value) {
    const json::Object *event = value.getAsObject();
    const json::Object *args = event ? event->getObject("args") : nullptr;
    if (args && event->getString("name") == llvm::StringRef("process_labels"))
      device = args->getString("labels").value_or("").str();
    if (!event || event->getString("ph") != llvm::StringRef("X"))
      return llvm::Error::success();
    std::optional<int64_t> rank = event->getInteger("pid");
    std::optional<int64_t> step, task;
    if (args) {
      step = args->getInteger("step");
      task = args->getInteger("instruction");
    }
    std::optional<double> begin = event->getNumber("ts"),
                          length = event->getNumber("dur");
    std::optional<llvm::StringRef> name = event->getString("name");
    if (!rank || !step || !task || !begin || !length || !name)
      return fail("an event lacks its pid, name, ts, dur, or in args step or "
                  "instruction; is this what train --trace wrote?");
    if (*rank < 0 || *rank >= program.getWorldSize())
      return fail(formatv("an event is of rank {0}, and the program has {1}",
                          *rank, program.getWorldSize()));
    size_t stage = program.getStageNumber(int(*rank));
    const std::vector<Task> &list = tasks.stages[stage].tasks;
    if (*task < 0 || size_t(*task) >= list.size() ||
        list[size_t(*task)].name != *name)
      return fail(formatv("instruction {0} of rank {1} is \"{2}\": the trace "
                          "is of another program",
                          *task, *rank, *name));
    TracedStep &traced = steps[*step];
    traced.interval.begin = std::min(traced.interval.begin, *begin);
    traced.interval.end = std::max(traced.interval.end, *begin + *length);
    traced.spent.push_back({stage, size_t(*task), *length * 1e-6});
    return llvm::Error::success();
  }

  tool::MeasuredTasks summarize() {
    if (steps.size() > 1)
      steps.erase(steps.begin());
    tool::MeasuredTasks measured;
    for (const StageTasks &stage : tasks.stages)
      measured.seconds.emplace_back(stage.tasks.size());
    measured.steps = int64_t(steps.size());
    measured.device = device;
    double ranks = double(program.getWorldSize()) / double(tasks.stages.size());
    std::vector<double> lengths;
    for (const auto &[number, step] : steps) {
      lengths.push_back((step.interval.end - step.interval.begin) * 1e-6);
      for (const Spent &spent : step.spent)
        measured.seconds[spent.stage][spent.task] +=
            spent.seconds / ranks / double(measured.steps);
    }
    llvm::sort(lengths);
    measured.step = lengths[lengths.size() / 2];
    return measured;
  }

  const std::string &path;
  const runtime::Program &program;
  const TaskProgram &tasks;
  std::map<int64_t, TracedStep> steps;
  std::string device;
};
} // namespace

llvm::Expected<tool::MeasuredTasks>
tool::readTrace(const std::string &path, const runtime::Program &program,
                const TaskProgram &tasks) {
  return TraceReader(path, program, tasks).read();
}

//===----------------------------------------------------------------------===//
// Prices
//===----------------------------------------------------------------------===//

void tool::ProgramFlags::add(CLI::App &app,
                             llvm::ArrayRef<std::string> needed) {
  for (const std::string &flag : needed) {
    ofModel.push_back(app.get_option(flag));
    ofModel.back()->required(false);
  }
  constexpr const char *group = "Of an executable in place of a model";
  own = {app.add_option("--emulate-link", links,
                        "what is moved along an axis takes at least as long as "
                        "over this link, which transfers share, as under "
                        "train --emulate-link")
             ->type_name("AXIS=BYTES_PER_S,LATENCY")
             ->allow_extra_args(false)
             ->group(group),
         app.add_option("--kernels-from", kernelsFrom,
                        "what computes takes what it took in this trace, of "
                        "train --trace; only communication is priced")
             ->type_name("TRACE")
             ->group(group),
         app.add_flag("--serial", serial,
                      "nothing beside anything else, as under train --serial")
             ->group(group)};
}

bool tool::ProgramFlags::check(const CLI::App &app, const std::string &target,
                               llvm::ArrayRef<std::string> shared) const {
  if (!isProgram(target)) {
    for (const CLI::Option *option : ofModel)
      if (option->count() == 0)
        throw CLI::RequiredError(option->get_name());
    for (const CLI::Option *option : own)
      if (option->count() > 0)
        throw CLI::ValidationError(option->get_name(),
                                   "is of an executable, and " + target +
                                       " is none");
    return false;
  }
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && !option->get_positional() &&
        !llvm::is_contained(own, option) &&
        !llvm::is_contained(shared, option->get_name()))
      throw CLI::ValidationError(option->get_name(),
                                 "is of a model, and " + target +
                                     " is an executable, which was compiled "
                                     "for what it runs");
  return true;
}

/// The machine of a cluster; of `local` without a number, one of so many ranks.
static llvm::Expected<Machine> findMachine(const std::string &cluster,
                                           int64_t ranks) {
  bool saysNoNumber = cluster.empty() || cluster == "local";
  llvm::Expected<Cluster> parsed =
      parseCluster(saysNoNumber ? formatv("local:{0}", ranks).str() : cluster);
  if (!parsed)
    return parsed.takeError();
  llvm::Expected<Machine> machine = tool::getNotedMachine(*parsed);
  if (machine && machine->devices < ranks)
    return llvm::createStringError(
        formatv("--cluster {0}: the program has {1} ranks, and there are {2} "
                "devices",
                cluster, ranks, machine->devices));
  return machine;
}

/// Raises what moves along emulated links to what they take.
static llvm::Error emulateLinks(llvm::ArrayRef<std::string> texts,
                                tool::TimedProgram &timed) {
  std::vector<runtime::EmulatedLink> links;
  for (const std::string &text : texts) {
    runtime::Status status = runtime::parseLink(text, links.emplace_back());
    if (!status.ok())
      return llvm::make_error<tool::UsageError>("--emulate-link " +
                                                status.message());
  }
  runtime::Status status = runtime::verifyLinks(timed.program, links);
  if (!status.ok())
    return llvm::make_error<tool::UsageError>(status.message());
  if (links.empty())
    return llvm::Error::success();
  for (size_t i = 0; i != timed.tasks.stages.size(); ++i) {
    runtime::Stage stage = timed.program.getStage(i);
    const StageTasks &tasks = timed.tasks.stages[i];
    tasks.forEachBucket([&](size_t begin, size_t end) {
      std::vector<const program::Instruction *> bucket;
      double bytes = 0;
      for (size_t task = begin; task != end; ++task) {
        bucket.push_back(&stage.getInstruction(task));
        bytes += tasks.tasks[task].shape.bytes;
      }
      size_t axis = 0;
      double seconds =
          runtime::getLinkSeconds(timed.program, bucket, links, axis);
      for (size_t task = begin; task != end; ++task) {
        // What no emulated link moves, nothing keeps apart.
        timed.times.links[i][task] = seconds > 0 ? int64_t(axis) : -1;
        double share =
            bucket.size() == 1 ? 1 : tasks.tasks[task].shape.bytes / bytes;
        double &taken = timed.times.seconds[i][task];
        taken = std::max(taken, seconds * share);
      }
    });
  }
  return llvm::Error::success();
}

/// Of what computes, what a trace says.
static llvm::Error takeKernels(const std::string &path,
                               tool::TimedProgram &timed) {
  llvm::Expected<tool::MeasuredTasks> measured =
      tool::readTrace(path, timed.program, timed.tasks);
  if (!measured)
    return measured.takeError();
  for (size_t i = 0; i != timed.tasks.stages.size(); ++i) {
    const StageTasks &stage = timed.tasks.stages[i];
    std::vector<double> executions(stage.tasks.size());
    for (const TaskRun &run : stage.runs)
      for (int64_t task = run.begin; task != run.end; ++task)
        ++executions[size_t(task)];
    for (size_t task = 0; task != stage.tasks.size(); ++task)
      if (!stage.tasks[task].shape.communicates())
        timed.times.seconds[i][task] =
            measured->seconds[i][task] / executions[task];
  }
  return llvm::Error::success();
}

llvm::Error tool::ProgramFlags::load(const std::string &path,
                                     const std::string &cluster,
                                     const std::string &profile,
                                     TimedProgram &timed) const {
  runtime::Status status = runtime::Program::loadFile(path, timed.program);
  if (!status.ok())
    return llvm::createStringError(status.message());
  timed.tasks = readTasks(timed.program.get());
  llvm::Expected<Machine> machine =
      findMachine(cluster, timed.program.getWorldSize());
  if (!machine)
    return machine.takeError();
  timed.machine = std::move(*machine);
  llvm::Expected<Profile> stack = loadStack(profile, timed.machine.device);
  if (!stack)
    return stack.takeError();
  // Before they are priced: what is serial does not begin together.
  if (serial)
    makeSerial(timed.tasks);
  timed.times = priceTasks(timed.tasks,
                           TaskPricer(timed.tasks.mesh, timed.tasks.stageAxis,
                                      timed.machine, timed.machine.device,
                                      TaskRates(*stack)));
  if (llvm::Error error = emulateLinks(links, timed))
    return error;
  if (!kernelsFrom.empty())
    if (llvm::Error error = takeKernels(kernelsFrom, timed))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// "gemm layers.*.mlp.up" of "gemm layers.3.mlp.up".
static std::string getGroupName(llvm::StringRef name) {
  std::string group;
  while (!name.empty()) {
    size_t end = name.find_first_of(". ");
    llvm::StringRef part = name.take_front(end);
    bool isNumber = !part.empty() && llvm::all_of(part, llvm::isDigit);
    group += isNumber ? "*" : part.str();
    name = name.drop_front(part.size());
    if (!name.empty()) {
      group += name.front();
      name = name.drop_front();
    }
  }
  return group;
}

std::vector<tool::TaskGroup> tool::groupTasks(const TaskProgram &program,
                                              const TaskSimulation &simulation,
                                              const MeasuredTasks *measured) {
  std::vector<TaskGroup> groups; // in the order of the list
  std::map<std::pair<std::string, std::string>, size_t> numbers;
  for (size_t i = 0; i != program.stages.size(); ++i)
    for (size_t task = 0; task != program.stages[i].tasks.size(); ++task) {
      const Task &each = program.stages[i].tasks[task];
      std::string name = getGroupName(each.name);
      auto [it, isNew] = numbers.try_emplace({name, each.phase}, groups.size());
      if (isNew)
        groups.push_back({name, each.phase});
      TaskGroup &group = groups[it->second];
      group.count += simulation.counts[i][task];
      group.seconds += simulation.seconds[i][task];
      if (measured)
        group.measured += measured->seconds[i][task];
    }
  llvm::sort(groups, [](const TaskGroup &a, const TaskGroup &b) {
    double first = std::max(a.seconds, a.measured),
           second = std::max(b.seconds, b.measured);
    return std::tie(second, a.name, a.phase) < std::tie(first, b.name, b.phase);
  });
  return groups;
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

/// What the program multiplies in.
static DType getProductType(const TaskProgram &program) {
  for (const StageTasks &stage : program.stages)
    for (const Task &task : stage.tasks)
      if (task.shape.kind == TaskShape::Kind::Matmul)
        return task.shape.dtype;
  return DType::F32;
}

/// Model FLOPs over what the ranks' peaks would have done; 0 without a peak.
static double getMFU(const tool::TimedProgram &timed, double step) {
  double peak =
      timed.machine.device.getMatrix(getProductType(timed.tasks)).peak;
  double ranks = double(timed.tasks.mesh.getNumRanks());
  return peak > 0 ? timed.tasks.modelFlops / (step * peak * ranks) : 0;
}

static std::string formatMs(double seconds) {
  return formatv("{0:F3}", seconds * 1e3);
}

static void printStep(llvm::raw_ostream &os, const tool::TimedProgram &timed,
                      const TaskSimulation &simulation) {
  printRow(os, "step", formatSeconds(simulation.step),
           formatv("{0} of {1}",
                   formatNumber(timed.tasks.mesh.getNumRanks(), "rank"),
                   timed.machine.device.name));
  printRow(os, "tokens/s",
           formatv("{0:N}", std::llround(timed.tasks.tokens / simulation.step)),
           "of all ranks");
  printRow(os, "MFU", formatShare(getMFU(timed, simulation.step), 1),
           formatv("of the ranks' peak in {0}",
                   getName(getProductType(timed.tasks))));
}

void tool::printSimulation(llvm::raw_ostream &os, const TimedProgram &timed,
                           const TaskSimulation &simulation) {
  printStep(os, timed, simulation);
  os << "\nms of a rank's step, by stage; communication is that of all "
        "streams, "
        "hidden or not\n"
        "stage\tcompute\texposed\twaits\tidle\tcommunication\tmemory\n";
  for (size_t i = 0; i != simulation.stages.size(); ++i) {
    const StageTime &stage = simulation.stages[i];
    os << i << '\t' << formatMs(stage.compute) << '\t'
       << formatMs(stage.exposed) << '\t' << formatMs(stage.waiting) << '\t'
       << formatMs(stage.idle) << '\t' << formatMs(stage.communication) << '\t'
       << formatBytes(timed.tasks.stages[i].memory) << '\n';
  }
  constexpr size_t most = 12;
  std::vector<TaskGroup> groups = groupTasks(timed.tasks, simulation, nullptr);
  os << "\nwhat takes most, all stages together\nms\tcount\tphase\t"
        "instruction\n";
  for (const TaskGroup &group : llvm::ArrayRef(groups).take_front(most))
    os << formatMs(group.seconds) << '\t' << group.count << '\t' << group.phase
       << '\t' << group.name << '\n';
  if (groups.size() > most)
    os << formatv("and {0} more: --json has all\n", groups.size() - most);
}

void tool::printComparison(llvm::raw_ostream &os, const TimedProgram &timed,
                           const TaskSimulation &simulation,
                           const MeasuredTasks &measured) {
  printStep(os, timed, simulation);
  printRow(os, "measured", formatSeconds(measured.step),
           formatv("median of {0}{1}{2}; predicted {3:F1} % of it",
                   formatNumber(measured.steps, "step"),
                   measured.device.empty() ? "" : " on ", measured.device,
                   simulation.step / measured.step * 100));
  std::vector<TaskGroup> groups =
      groupTasks(timed.tasks, simulation, &measured);
  llvm::sort(groups, [](const TaskGroup &a, const TaskGroup &b) {
    double first = std::abs(a.seconds - a.measured),
           second = std::abs(b.seconds - b.measured);
    return std::tie(second, a.name, a.phase) < std::tie(first, b.name, b.phase);
  });
  double all = measured.step * double(timed.tasks.stages.size());
  constexpr size_t most = 20;
  os << "\nwhere prediction and run part, all stages together; what part of "
        "their steps that is\nmeasured ms\tpredicted ms\tpart\tcount\tphase\t"
        "instruction\n";
  for (const TaskGroup &group : llvm::ArrayRef(groups).take_front(most))
    os << formatMs(group.measured) << '\t' << formatMs(group.seconds) << '\t'
       << formatv("{0:F1} %", (group.measured - group.seconds) / all * 100)
       << '\t' << group.count << '\t' << group.phase << '\t' << group.name
       << '\n';
  if (groups.size() > most)
    os << formatv("and {0} more: --json has all\n", groups.size() - most);
}

json::Object tool::toJSON(const TimedProgram &timed,
                          const TaskSimulation &simulation,
                          const MeasuredTasks *measured) {
  json::Array stages;
  for (size_t i = 0; i != simulation.stages.size(); ++i) {
    const StageTime &stage = simulation.stages[i];
    stages.push_back(
        json::Object{{"compute_s", stage.compute},
                     {"exposed_s", stage.exposed},
                     {"waiting_s", stage.waiting},
                     {"idle_s", stage.idle},
                     {"communication_s", stage.communication},
                     {"arena_bytes", int64_t(timed.tasks.stages[i].memory)}});
  }
  json::Array instructions;
  for (const TaskGroup &group : groupTasks(timed.tasks, simulation, measured)) {
    json::Object row{{"name", group.name},
                     {"phase", group.phase},
                     {"count", group.count},
                     {"seconds", group.seconds}};
    if (measured)
      row["measured_s"] = group.measured;
    instructions.push_back(std::move(row));
  }
  json::Object object{{"step_time_s", simulation.step},
                      {"tokens_per_s", timed.tasks.tokens / simulation.step},
                      {"mfu", getMFU(timed, simulation.step)},
                      {"ranks", timed.tasks.mesh.getNumRanks()},
                      {"stages", std::move(stages)},
                      {"instructions", std::move(instructions)}};
  if (measured) {
    object["measured_step_s"] = measured->step;
    object["measured_steps"] = measured->steps;
    object["measured_device"] = measured->device;
  }
  return object;
}
