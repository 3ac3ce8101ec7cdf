//===- planner.cpp - How many layouts a core prices, how long a plan takes ===//
//
// usage: planner CONFIGS     a folder with llama-3.1-405b.json,
// deepseek-v3.json
//
// Layouts are those of the space in the order of enumeration, each with the
// whole estimate, as `cleave estimate --batch` would price it; one thread.
//
//===----------------------------------------------------------------------===//
#include "cleave/Search/ReadArchitecture.h"
#include "cleave/Search/Search.h"
#include "llvm/Support/Error.h"
#include <benchmark/benchmark.h>

using namespace cleave;

static std::string folder;

namespace {
struct Job {
  const char *config, *cluster;
  int64_t seqLen, globalBatch;
};
} // namespace

static const Job jobs[] = {{"llama-3.1-405b", "h100-sxm:16384", 8192, 2048},
                           {"deepseek-v3", "h800:2048", 4096, 15360}};

static llvm::ExitOnError check;

namespace {
struct Input {
  Architecture model;
  Machine machine;
  SearchRequest request;

  explicit Input(const Job &job)
      : model(check(loadArchitecture(folder + "/" + job.config + ".json"))),
        machine(check(getMachine(job.cluster))) {
    request.work = {job.seqLen, job.globalBatch, DType::BF16};
  }
};
} // namespace

static void plan(benchmark::State &state) {
  Input input(jobs[state.range(0)]);
  SearchResult last;
  for (auto _ : state)
    last = check(search(input.model, input.machine, input.request));
  state.counters["space"] = double(last.space);
  state.counters["priced"] = double(last.evaluated);
}
BENCHMARK(plan)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

/// Every `step`-th layout of part of the space.
static std::vector<TrainLayout> getSample(const Input &input, int64_t step) {
  std::vector<TrainLayout> layouts;
  int64_t number = 0;
  SearchRequest request = input.request;
  // Enumerating all of the space would take longer than the rest.
  for (const char *text : {"cp<=8", "micro-batch<=4", "sequence-parallel=true",
                           "order=tp-cp-dp-pp", "first-blocks=even",
                           "last-blocks=even", "recompute-blocks=0"})
    request.constraints.push_back(check(parseConstraint(text, false)));
  enumerateLayouts(input.model, input.machine, request,
                   [&](const TrainLayout &layout) {
                     if (number++ % step == 0)
                       layouts.push_back(layout);
                   });
  return layouts;
}

static void price(benchmark::State &state) {
  Input input(jobs[state.range(0)]);
  std::vector<TrainLayout> layouts = getSample(input, state.range(1));
  int64_t priced = 0;
  for (auto _ : state) {
    CostModel costs(input.model, input.machine, input.request.work,
                    input.request.profile);
    constexpr double any = std::numeric_limits<double>::infinity();
    for (const TrainLayout &layout : layouts)
      benchmark::DoNotOptimize(costs.tryPrice(layout, any));
    priced += int64_t(layouts.size());
  }
  state.counters["layouts"] = double(layouts.size());
  state.SetItemsProcessed(priced);
}
BENCHMARK(price)
    ->Args({0, 1})
    ->Args({0, 101})
    ->Args({1, 101})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    llvm::errs() << "usage: planner CONFIGS\n";
    return 2;
  }
  folder = argv[1];
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
