//===- Cluster.cpp - What a program runs on -------------------------------===//
#include "cleave/Cluster/Cluster.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Threading.h"

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

static llvm::Expected<Cluster> parseFile(llvm::StringRef path) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError(path + ": " + message);
  };
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return fail(buffer.getError().message());
  llvm::Expected<json::Value> root = json::parse((*buffer)->getBuffer());
  if (!root)
    return fail(llvm::toString(root.takeError()));
  const json::Object *object = root->getAsObject();
  if (!object)
    return fail("expects an object");

  Cluster cluster;
  cluster.devicesPerNode = 1;
  int64_t version = 0;
  struct Count {
    llvm::StringRef key;
    int64_t &value;
  };
  const Count counts[] = {{"version", version},
                          {"nodes", cluster.nodes},
                          {"devices_per_node", cluster.devicesPerNode},
                          {"threads_per_device", cluster.threadsPerDevice}};
  for (const auto &entry : *object) {
    llvm::StringRef key = entry.first;
    const json::Value &value = entry.second;
    if (key == "cpu") {
      std::optional<llvm::StringRef> name = value.getAsString();
      if (!name || name->empty())
        return fail(llvm::formatv("key \"cpu\": got {0}, expects a CPU as LLVM "
                                  "names it, or \"native\"",
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
    if (!number || *number < 1 || *number > maxRanks)
      return fail(llvm::formatv("key \"{0}\": got {1}, expects an integer "
                                "between 1 and {2}",
                                key, value, maxRanks));
    count->value = *number;
  }
  if (version != 1)
    return fail("key \"version\": expects 1");
  return cluster;
}

llvm::Expected<Cluster> cleave::parseCluster(llvm::StringRef text) {
  if (text == "local")
    return Cluster();
  if (!text.consume_front("local:"))
    return parseFile(text);
  Cluster cluster;
  if (text.getAsInteger(10, cluster.devicesPerNode) ||
      cluster.devicesPerNode < 1 || cluster.devicesPerNode > 4096)
    return llvm::createStringError("--cluster local:" + text +
                                   ": expects a number of ranks between 1 and "
                                   "4096");
  return cluster;
}
