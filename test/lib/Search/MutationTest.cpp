//===- MutationTest.cpp - Damaged plans and clusters ----------------------===//
//
// A plan is priced again or refused in one line, and so is what a cluster.json
// with its devices and links says. CLEAVE_MUTANTS=20000 is a longer campaign.
//
//===----------------------------------------------------------------------===//
#include "../Mutations.h"
#include "cleave/Hardware/Cluster.h"
#include "cleave/Json/Json.h"
#include "cleave/Search/PlanFile.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace cleave;
namespace json = llvm::json;

namespace {

Architecture makeModel() {
  Architecture model;
  model.name = "llama";
  model.hidden = 1024;
  model.vocab = 32000;
  Block block;
  block.heads = 16;
  block.kvHeads = 8;
  block.headDim = block.valueDim = 64;
  block.ffn = 4096;
  model.blocks.push_back({block, 16});
  return model;
}

TEST(MutationTest, PlansArePricedOrRefused) {
  Architecture model = makeModel();
  Machine machine = llvm::cantFail(getMachine("h100-sxm:16"));
  std::vector<json::Value> plans;
  for (const char *pin :
       {"pp>=1", "pipeline-schedule=zb-v", "pipeline-schedule=zb-h2",
        "pipeline-schedule=interleaved", "cp=2", "recompute=selective",
        "zero=3"}) {
    SearchRequest request;
    request.work = {2048, 64, DType::BF16};
    request.constraints = {
        llvm::cantFail(parseConstraint(pin, /*forbids=*/false))};
    llvm::Expected<SearchResult> result = search(model, machine, request);
    ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
    plans.push_back(
        toJSON(PlanContext{model, machine, request}, *result, false));
  }
  test::runMutants(std::move(plans), 3000, [&](llvm::StringRef text) {
    llvm::Expected<PlanFile> file = parsePlanFile(text, "plan.json");
    if (!file) {
      test::expectLine(llvm::toString(file.takeError()));
      return false;
    }
    llvm::Expected<Planned> plan = getPlanned(*file);
    if (!plan) {
      test::expectLine(llvm::toString(plan.takeError()));
      return false;
    }
    SearchRequest request;
    request.work = plan->work;
    request.memoryLimit = plan->memoryLimit;
    request.constraints = plan->constraints;
    request.objective = plan->objective;
    PlanContext context{model, machine, request};
    llvm::Expected<Candidate> candidate = price(*file, context);
    if (!candidate) {
      test::expectLine(llvm::toString(candidate.takeError()));
      return false;
    }
    llvm::Expected<Plan> runnable = getPlan(*file, "llama", plan->work);
    if (!runnable)
      test::expectLine(llvm::toString(runnable.takeError()));
    return true;
  });
}

TEST(MutationTest, ClustersArePlannedOrRefused) {
  std::vector<json::Value> clusters;
  for (const auto &entry : std::filesystem::directory_iterator(CLEAVE_CLUSTERS))
    clusters.push_back(llvm::cantFail(loadJson(entry.path().string())));
  // Whole devices and links, in place of their names.
  for (auto [device, link] :
       {std::pair("h100-sxm", "nvlink4"), {"v100-32", "ib-ndr400"}}) {
    auto get = [](llvm::StringRef folder, llvm::StringRef name) {
      return llvm::cantFail(parseJsonObject(
          llvm::cantFail(getBuiltinText(folder, name, "file")), name));
    };
    json::Object level{{"size", 0}, {"link", get("links", link)}};
    json::Array levels;
    levels.push_back(std::move(level));
    clusters.push_back(json::Object{{"version", 1},
                                    {"device", get("devices", device)},
                                    {"nodes", 2},
                                    {"devices_per_node", 8},
                                    {"levels", std::move(levels)}});
  }
  Architecture model = makeModel();
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("cleave-cluster-" + std::to_string(getpid()) + ".json");
  test::runMutants(std::move(clusters), 2000, [&](llvm::StringRef text) {
    std::ofstream(path, std::ios::binary) << text.str();
    llvm::Expected<Cluster> cluster = parseCluster(path.string());
    if (!cluster) {
      test::expectLine(llvm::toString(cluster.takeError()));
      return false;
    }
    std::string note;
    llvm::Expected<Machine> machine = getMachine(*cluster, note);
    if (!machine) {
      test::expectLine(llvm::toString(machine.takeError()));
      return false;
    }
    Profile profile;
    profile.attention = machine->device.attention.begin()->first;
    Workload work{2048, machine->devices, DType::BF16};
    TrainLayout layout;
    layout.dp = machine->devices;
    Estimate estimate = CostModel(model, *machine, work, profile).price(layout);
    EXPECT_TRUE(estimate.step > 0 && std::isfinite(estimate.step));
    EXPECT_TRUE(std::isfinite(estimate.memory.getTotal()));
    return true;
  });
  std::filesystem::remove(path);
}

} // namespace
