//===- simulator.cpp - How many instructions of a step a core simulates ---===//
//
// usage: simulator EXECUTABLE CLUSTER
//
// A step of what `cleave compile` wrote, a rank of each stage, as
// `cleave estimate` simulates it; one thread.
//
//===----------------------------------------------------------------------===//
#include "cleave/Hardware/Cluster.h"
#include "cleave/Simulate/SimulateTasks.h"
#include "runtime/program/Program.h"
#include <benchmark/benchmark.h>

using namespace cleave;

static TaskProgram tasks;
static TaskTimes times;

static void simulateStep(benchmark::State &state) {
  int64_t executions = 0;
  for (const StageTasks &stage : tasks.stages)
    for (const TaskRun &run : stage.runs)
      executions += run.end - run.begin;
  for (auto _ : state)
    benchmark::DoNotOptimize(simulate(tasks, times));
  state.counters["executions"] = double(executions);
  state.SetItemsProcessed(executions * int64_t(state.iterations()));
}
BENCHMARK(simulateStep)->Unit(benchmark::kMillisecond);

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 3) {
    llvm::errs() << "usage: simulator EXECUTABLE CLUSTER\n";
    return 2;
  }
  runtime::Program loaded;
  runtime::Status status = runtime::Program::loadFile(argv[1], loaded);
  if (!status.ok()) {
    llvm::errs() << status.message() << "\n";
    return 1;
  }
  llvm::Expected<Machine> machine = getMachine(argv[2]);
  if (!machine) {
    llvm::errs() << llvm::toString(machine.takeError()) << "\n";
    return 1;
  }
  tasks = readTasks(loaded.get());
  times = priceTasks(tasks, TaskPricer(tasks.mesh, tasks.stageAxis, *machine,
                                       machine->device));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
