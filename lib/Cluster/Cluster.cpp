//===- Cluster.cpp - What a program runs on -------------------------------===//
#include "cleave/Cluster/Cluster.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Threading.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace cleave;
namespace json = llvm::json;

static constexpr int64_t maxRanks = 1 << 24;

int64_t Cluster::getThreads(int64_t ranks) const {
  if (threadsPerDevice > 0)
    return threadsPerDevice;
  int64_t cores = llvm::hardware_concurrency().compute_thread_count();
  int64_t here = std::max<int64_t>(ranks / nodes, 1);
  return std::max<int64_t>(cores / here, 1);
}

/// Whether kernels can be generated for it.
static bool isSupportedCpu(llvm::StringRef name) {
  if (name == "native")
    return true;
  if (llvm::X86::parseArchX86(name, /*Only64Bit=*/true) == llvm::X86::CK_None)
    return false;
  llvm::SmallVector<llvm::StringRef> features;
  llvm::X86::getFeaturesForCPU(name, features);
  return llvm::is_contained(features, "avx2") &&
         llvm::is_contained(features, "fma");
}

static llvm::Expected<Cluster> parseFile(llvm::StringRef path) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError(path + ": " + message);
  };
  llvm::Expected<json::Value> root = loadJson(path);
  if (!root)
    return root.takeError();
  const json::Object *object = root->getAsObject();
  if (!object)
    return fail("expects an object");

  Cluster cluster;
  cluster.devicesPerNode = 1;
  int64_t version = 0;
  struct Count {
    llvm::StringRef key;
    int64_t &value;
    int64_t most;
  };
  const Count counts[] = {
      {"version", version, 1},
      {"nodes", cluster.nodes, maxRanks},
      {"devices_per_node", cluster.devicesPerNode, maxRanks},
      {"threads_per_device", cluster.threadsPerDevice, 1024}};
  for (const auto &entry : *object) {
    llvm::StringRef key = entry.first;
    const json::Value &value = entry.second;
    if (key == "cpu") {
      std::optional<llvm::StringRef> name = value.getAsString();
      if (!name || !isSupportedCpu(*name))
        return fail(llvm::formatv("key \"cpu\": got {0}, expects \"native\" or "
                                  "an x86-64 CPU with AVX2 and FMA, as LLVM "
                                  "names it",
                                  value));
      cluster.cpu = name->str();
      continue;
    }
    const Count *count = llvm::find_if(
        counts, [&](const Count &each) { return each.key == key; });
    if (count == std::end(counts))
      return fail(
          llvm::formatv("unknown key \"{0}\"; legal keys are version, nodes, "
                        "devices_per_node, threads_per_device, cpu",
                        key));
    std::optional<int64_t> number = value.getAsInteger();
    if (!number || *number < 1 || *number > count->most)
      return fail(llvm::formatv("key \"{0}\": got {1}, expects an integer in "
                                "1..{2}",
                                key, value, count->most));
    count->value = *number;
  }
  if (version != 1)
    return fail("key \"version\" is missing, expects 1");
  return cluster;
}

llvm::Expected<Cluster> cleave::parseCluster(llvm::StringRef text) {
  if (text == "local")
    return Cluster();
  if (!text.consume_front("local:"))
    return parseFile(text);
  Cluster cluster;
  if (text.getAsInteger(10, cluster.devicesPerNode) ||
      cluster.devicesPerNode < 1 || cluster.devicesPerNode > 1024)
    return llvm::createStringError("--cluster local:" + text +
                                   ": expects a number of ranks between 1 and "
                                   "1024");
  return cluster;
}
