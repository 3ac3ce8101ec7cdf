//===- Cluster.cpp - Reading what --cluster says --------------------------===//
#include "cleave/Hardware/Cluster.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Threading.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include <cstdlib>

using namespace cleave;
namespace json = llvm::json;

static constexpr int64_t maxDevices = 1 << 24;
static constexpr int64_t maxThreads = 1024;

int64_t Cluster::getNumRanks() const {
  int64_t ranks = 0;
  for (const NodeGroup &group : groups)
    ranks += group.getDevices();
  return ranks;
}

int64_t Cluster::getThreads(int64_t ranks) const {
  if (threadsPerDevice > 0)
    return threadsPerDevice;
  const NodeGroup &nodes = groups.front();
  int64_t cores = nodes.device
                      ? nodes.device->cores
                      : llvm::hardware_concurrency().compute_thread_count();
  int64_t here = std::max<int64_t>(ranks / nodes.nodes, 1);
  return std::max<int64_t>(cores / here, 1);
}

bool Cluster::hasGPUs() const {
  return llvm::any_of(groups, [](const NodeGroup &group) {
    return group.device && group.device->cores == 0;
  });
}

std::string Cluster::getCudaChip() const {
  constexpr double oldest = 9; // whose code newer ones run as well
  for (const NodeGroup &group : groups)
    if (!group.device || group.device->computeCapability < oldest)
      return "";
  return hasGPUs() ? "sm_90" : "";
}

double Cluster::getPeak(DType dtype) const {
  double peak = 0;
  for (const NodeGroup &group : groups) {
    if (!group.device)
      return 0;
    double own = group.device->matrix[size_t(dtype)].peak;
    if (peak > 0 && own != peak)
      return 0;
    peak = own;
  }
  return peak;
}

llvm::Error Cluster::checkCompiles() const {
  if (groups.size() > 1)
    return llvm::createStringError(llvm::formatv(
        "--cluster {0}: {1} groups of nodes; programs are compiled for equal "
        "nodes: expects one group",
        name, groups.size()));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// cluster.json
//===----------------------------------------------------------------------===//

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

static NodeGroup readGroup(JsonReader &reader, const json::Object &in,
                           const std::string &path) {
  NodeGroup group;
  if (in.get("device"))
    group.device = readDevice(reader, in, "device", path);
  group.nodes = reader.getCount(in, "nodes", path, 1, maxDevices, 1);
  group.devicesPerNode =
      reader.getCount(in, "devices_per_node", path, 1, maxDevices, 1);
  return group;
}

/// An array's objects, each with its path; fails unless there is one.
static std::vector<std::pair<const json::Object *, std::string>>
getObjects(JsonReader &reader, const json::Object &in, llvm::StringRef key) {
  std::vector<std::pair<const json::Object *, std::string>> objects;
  const json::Array *array = in.getArray(key);
  if (!array || array->empty())
    reader.fail(key, "an array of objects", in.get(key));
  else
    for (size_t i = 0; i != array->size(); ++i) {
      std::string path = llvm::formatv("{0}[{1}]", key, i);
      if (const json::Object *object = (*array)[i].getAsObject())
        objects.emplace_back(object, path + ".");
      else
        reader.fail(path, "an object", &(*array)[i]);
    }
  return objects;
}

/// Levels of a preset or a cluster of `devices`.
static void readLevels(JsonReader &reader, const json::Object &in,
                       int64_t devices, Cluster &cluster) {
  auto objects = getObjects(reader, in, "levels");
  int64_t inside = 1;
  for (const auto &[object, path] : objects) {
    bool isLast = object == objects.back().first;
    reader.checkKeys(*object, path,
                     {"size", "link", "oversubscription", "shared_link"});
    Level level;
    level.size = reader.getCount(*object, "size", path, 0, maxDevices);
    if (level.size == 0 && isLast)
      level.size = devices;
    else if (level.size % inside != 0 || level.size < inside)
      reader.fail(path + "size",
                  "a multiple of " + llvm::Twine(inside) +
                      ", the devices of a unit of the level inside" +
                      (isLast ? ", or 0: all" : ""),
                  object->get("size"));
    if (isLast && level.size < devices)
      reader.fail(path + "size",
                  "all " + llvm::Twine(devices) +
                      " devices of the cluster in the last level, or 0",
                  object->get("size"));
    inside = std::max<int64_t>(level.size, 1);
    level.link = readLink(reader, *object, "link", path);
    double share =
        1 / reader.getNumber(*object, "oversubscription", path, 1, 1000, 1);
    level.link.setBandwidth(level.link.bandwidth * share);
    if (object->get("shared_link")) {
      if (!cluster.levels.empty())
        reader.fail(path + "shared_link",
                    "none: only ranks of the innermost level share cores",
                    object->get("shared_link"));
      cluster.sharedLink = readLink(reader, *object, "shared_link", path);
    }
    cluster.levels.push_back(std::move(level));
  }
}

/// Levels of the preset that is called like the devices, if there is one.
static void addLevelsOfPreset(llvm::StringRef name, int64_t devices,
                              Cluster &cluster) {
  llvm::Expected<llvm::StringRef> text =
      getBuiltinText("machines", name, "cluster");
  if (!text)
    return llvm::consumeError(text.takeError());
  JsonReader reader(name);
  readLevels(reader, llvm::cantFail(parseJsonObject(*text, name)), devices,
             cluster);
}

static Cluster readCluster(JsonReader &reader, const json::Object &in,
                           llvm::StringRef name) {
  Cluster cluster;
  cluster.name = name.str();
  reader.checkVersion(in);
  if (in.get("groups")) {
    reader.checkKeys(
        in, "", {"version", "name", "groups", "levels", "storage_bandwidth"});
    for (const auto &[object, path] : getObjects(reader, in, "groups")) {
      reader.checkKeys(*object, path, {"device", "nodes", "devices_per_node"});
      cluster.groups.push_back(readGroup(reader, *object, path));
      if (!cluster.groups.back().device)
        reader.fail(path + "device", "the name of a device, or an object",
                    nullptr);
    }
  } else {
    reader.checkKeys(in, "",
                     {"version", "name", "device", "nodes", "devices_per_node",
                      "threads_per_device", "cpu", "levels",
                      "storage_bandwidth", "groups"});
    cluster.groups.push_back(readGroup(reader, in, ""));
    cluster.threadsPerDevice =
        reader.getCount(in, "threads_per_device", "", 1, maxThreads, 0);
    if (const json::Value *cpu = in.get("cpu")) {
      cluster.cpu = cpu->getAsString().value_or("").str();
      if (!isSupportedCpu(cluster.cpu))
        reader.fail("cpu",
                    "\"native\" or an x86-64 CPU with AVX2 and FMA, as LLVM "
                    "names it",
                    cpu);
    }
    const std::optional<Device> &device = cluster.groups.front().device;
    for (llvm::StringRef key : {"threads_per_device", "cpu"})
      if (in.get(key) && device && device->cores == 0)
        reader.fail(key, "none: " + device->name + " is no CPU", in.get(key));
  }
  if (in.get("name"))
    reader.getString(in, "name", "");
  cluster.storageBandwidth =
      reader.getConstant(in, "storage_bandwidth", "byte/s", "", 1, 1e30, 0);
  int64_t devices = cluster.getNumRanks();
  if (devices > maxDevices)
    reader.fail(in.get("groups") ? "groups" : "nodes",
                "at most " + llvm::Twine(maxDevices) + " devices in all",
                in.get(in.get("groups") ? "groups" : "nodes"));
  if (in.get("levels"))
    readLevels(reader, in, devices, cluster);
  else if (std::optional<llvm::StringRef> preset = in.getString("device"))
    addLevelsOfPreset(*preset, devices, cluster);
  return cluster;
}

static llvm::Expected<Cluster> parseFile(llvm::StringRef path) {
  llvm::Expected<json::Object> object = loadJsonObject(path);
  if (!object)
    return object.takeError();
  JsonReader reader(path);
  Cluster cluster = readCluster(reader, *object, path);
  cluster.where = path.str();
  if (llvm::Error error = reader.takeError())
    return error;
  return cluster;
}

//===----------------------------------------------------------------------===//
// Presets and this machine
//===----------------------------------------------------------------------===//

static llvm::Expected<Cluster> makeLocal(llvm::StringRef text,
                                         llvm::StringRef count) {
  constexpr int64_t mostRanks = 1024;
  Cluster cluster;
  cluster.name = text.str();
  cluster.groups.resize(1);
  int64_t &ranks = cluster.groups.front().devicesPerNode;
  if (text != "local" &&
      (count.getAsInteger(10, ranks) || ranks < 1 || ranks > mostRanks))
    return llvm::createStringError(
        "--cluster " + text + ": expects a number of ranks between 1 and " +
        llvm::Twine(mostRanks));
  return cluster;
}

static llvm::Expected<Cluster>
makePreset(llvm::StringRef text, llvm::StringRef name, llvm::StringRef count) {
  llvm::Expected<llvm::StringRef> file =
      getBuiltinText("machines", name, "cluster");
  if (!file)
    return llvm::createStringError("--cluster " + text + ": " +
                                   llvm::toString(file.takeError()) +
                                   ", local, or the path of a cluster.json");
  int64_t devices = 0;
  if (count.getAsInteger(10, devices) || devices < 1 || devices > maxDevices)
    return llvm::createStringError(
        llvm::formatv("--cluster {0}: expects NAME:COUNT with a count from 1 "
                      "to {1}",
                      text, maxDevices));
  JsonReader reader(name);
  json::Object object = llvm::cantFail(parseJsonObject(*file, name));
  Cluster cluster;
  cluster.name = text.str();
  cluster.groups.push_back(
      {readDevice(reader, object, "device", ""), 1, devices});
  readLevels(reader, object, devices, cluster);
  if (llvm::Error error = reader.takeError())
    return error;
  return cluster;
}

llvm::Expected<Cluster> cleave::parseCluster(llvm::StringRef text) {
  auto [name, count] = text.split(':');
  if (name == "local")
    return makeLocal(text, count);
  bool isPreset = llvm::is_contained(getBuiltinNames("machines"), name);
  if (isPreset || (name != text && !llvm::sys::fs::exists(text)))
    return makePreset(text, name, count);
  return parseFile(text);
}

llvm::Expected<std::string> cleave::getLocalPath() {
  llvm::SmallString<128> path;
  if (const char *folder = std::getenv("CLEAVE_CACHE")) {
    if (!*folder)
      return llvm::createStringError(
          "CLEAVE_CACHE is empty, so nothing is kept or read");
    path = folder;
  } else if (llvm::sys::path::cache_directory(path)) {
    llvm::sys::path::append(path, "cleave");
  } else {
    return llvm::createStringError("none of CLEAVE_CACHE, XDG_CACHE_HOME and "
                                   "HOME says where files are kept");
  }
  llvm::sys::path::append(path, "local.json");
  return path.str().str();
}

//===----------------------------------------------------------------------===//
// What the planner sees
//===----------------------------------------------------------------------===//

/// The slowest device, with what all have; see getMachine.
static Device getCommonDevice(llvm::ArrayRef<NodeGroup> groups) {
  auto getRate = [](const Device &device) {
    const MatrixUnit &unit = device.getMatrix(DType::BF16);
    return unit.peak * unit.efficiency;
  };
  const NodeGroup *slowest = &groups.front();
  for (const NodeGroup &group : groups)
    if (getRate(*group.device) < getRate(*slowest->device))
      slowest = &group;
  Device common = *slowest->device;
  double all = 0, failures = 0;
  common.watts = common.pricePerHour = 0;
  for (const NodeGroup &group : groups) {
    const Device &device = *group.device;
    common.memory = std::min(common.memory, device.memory);
    common.reserve = std::max(common.reserve, device.reserve);
    double rate = std::min(common.memoryBandwidth * common.memoryEfficiency,
                           device.memoryBandwidth * device.memoryEfficiency);
    common.memoryBandwidth =
        std::min(common.memoryBandwidth, device.memoryBandwidth);
    common.memoryEfficiency = rate / common.memoryBandwidth;
    for (size_t i = 0; i != numDTypes; ++i)
      if (device.matrix[i].peak == 0)
        common.matrix[i] = MatrixUnit();
    for (const auto &[kernel, unit] : slowest->device->attention)
      if (!device.attention.count(kernel))
        common.attention.erase(kernel);
    double count = double(group.getDevices());
    all += count;
    failures += count / device.mtbfHours;
    common.watts += count * device.watts;
    common.pricePerHour += count * device.pricePerHour;
  }
  common.watts /= all;
  common.pricePerHour /= all;
  common.mtbfHours = all / failures;
  // All have some kernel; whose cannot be told, the slowest one's stands.
  if (common.attention.empty())
    common.attention = slowest->device->attention;
  return common;
}

/// One of `ranks` equal ranks of a CPU node, `threads` compute threads each.
static Device getRank(Device cpu, int64_t ranks, int64_t threads) {
  double wanted = double(ranks * threads), cores = double(cpu.cores);
  double share = std::min(wanted, cores) / cores / double(ranks);
  // Threads that take turns on a core take that much longer.
  double turns = std::max(1., wanted / cores);
  cpu.memory /= double(ranks);
  cpu.reserve /= double(ranks);
  cpu.memoryBandwidth /= double(ranks);
  cpu.multiprocessors = threads;
  for (MatrixUnit &unit : cpu.matrix) {
    unit.peak *= share;
    unit.launch *= turns;
    unit.tileStartup *= turns;
  }
  cpu.watts /= double(ranks);
  cpu.pricePerHour /= double(ranks);
  // A node's ranks fail together.
  cpu.mtbfHours *= double(ranks);
  return cpu;
}

/// Whether it is of CPUs, described or not.
static bool isCpu(const Cluster &cluster) {
  return llvm::any_of(cluster.groups, [](const NodeGroup &group) {
    return !group.device || group.device->cores > 0;
  });
}

/// Levels between ranks of CPU nodes, which take turns on their cores or not.
static std::vector<Level> getCpuLevels(const Cluster &cluster,
                                       bool takesTurns) {
  std::vector<Level> levels = cluster.levels;
  Link &link = levels.front().link;
  if (takesTurns && cluster.sharedLink)
    link = *cluster.sharedLink;
  // All groups of a node move their bytes at once, through one memory.
  for (CollectiveCurve &curve : link.collectives)
    curve.bandwidth = {
        {2, curve.getBandwidth(cluster.groups.front().devicesPerNode)}};
  return levels;
}

/// Whether it is this machine, which `--cluster` does not describe.
static bool isLocal(const Cluster &cluster) {
  return cluster.where.empty() && !cluster.groups.front().device;
}

/// Whether `cleave calibrate` left something for it.
static bool isLocalMeasured() {
  llvm::Expected<std::string> path = getLocalPath();
  if (path)
    return llvm::sys::fs::exists(*path);
  llvm::consumeError(path.takeError());
  return false;
}

/// This machine as `cleave calibrate` left it, with as many ranks.
static llvm::Expected<Cluster> loadLocal(const Cluster &local) {
  llvm::Expected<std::string> path = getLocalPath();
  if (!path)
    return path.takeError();
  if (!llvm::sys::fs::exists(*path))
    return llvm::createStringError(llvm::formatv(
        "--cluster {0}: this machine was not measured: {1} is missing; `cleave "
        "calibrate` writes it in less than a minute",
        local.name, *path));
  llvm::Expected<Cluster> cluster = parseFile(*path);
  if (!cluster)
    return cluster;
  if (cluster->groups.size() != 1 || cluster->groups.front().nodes != 1 ||
      !cluster->groups.front().device || cluster->levels.size() != 1)
    return llvm::createStringError(*path +
                                   ": expects one node, one device that is "
                                   "described and one level, as `cleave "
                                   "calibrate` writes");
  cluster->name = local.name;
  if (int64_t ranks = local.groups.front().devicesPerNode) {
    cluster->groups.front().devicesPerNode = ranks;
    cluster->levels.back().size = ranks;
  }
  return cluster;
}

static llvm::Error makeMissingLevels(const Cluster &cluster) {
  return llvm::createStringError(
      cluster.where + ": key \"levels\": expects an array of levels, "
                      "innermost first, but it is missing");
}

llvm::Expected<Machine> cleave::getMachine(const Cluster &given,
                                           std::string &note) {
  Cluster cluster = given;
  if (isLocal(cluster)) {
    llvm::Expected<Cluster> local = loadLocal(given);
    if (!local)
      return local.takeError();
    cluster = std::move(*local);
  }
  NodeGroup &first = cluster.groups.front();
  if (!first.device)
    return llvm::createStringError(llvm::formatv(
        "{0}: key \"device\": expects one of {1}, or an object, but it is "
        "missing; without it there is nothing to plan with",
        cluster.where, llvm::join(getDeviceNames(), ", ")));
  if (cluster.levels.empty())
    return makeMissingLevels(cluster);
  Machine machine;
  machine.devices = cluster.getNumRanks();
  machine.levels = cluster.levels;
  if (isCpu(cluster)) {
    if (cluster.groups.size() > 1)
      return llvm::createStringError(cluster.where +
                                     ": key \"groups\": CPUs are planned in "
                                     "one group of equal nodes");
    int64_t ranks = first.devicesPerNode, cores = first.device->cores;
    int64_t threads = cluster.threadsPerDevice > 0
                          ? cluster.threadsPerDevice
                          : std::max<int64_t>(cores / ranks, 1);
    bool takesTurns = ranks * threads > cores;
    if (takesTurns && !cluster.sharedLink)
      return llvm::createStringError(llvm::formatv(
          "{0}: {1} ranks of {2} threads share {3} cores, but there is no "
          "key \"shared_link\" in the innermost level",
          cluster.name, ranks, threads, cores));
    machine.levels = getCpuLevels(cluster, takesTurns);
    machine.device = getRank(*first.device, ranks, threads);
    return machine;
  }
  machine.device = getCommonDevice(cluster.groups);
  bool isMixed = llvm::any_of(cluster.groups, [&](const NodeGroup &group) {
    return group.device->name != first.device->name;
  });
  if (isMixed) {
    std::string names;
    for (const NodeGroup &group : cluster.groups)
      names += llvm::formatv("{0}{1} x {2}", names.empty() ? "" : ", ",
                             group.getDevices(), group.device->name);
    note = llvm::formatv("{0} are planned as {1} x {2} with {3:F1} GB, the "
                         "slowest of them with the least memory",
                         names, machine.devices, machine.device.name,
                         machine.device.memory / 1e9);
    machine.device.name += " (slowest of " + names + ")";
  }
  return machine;
}

llvm::Expected<std::optional<Device>>
cleave::findDevice(const Cluster &cluster) {
  if (!cluster.groups.front().device)
    return std::nullopt;
  std::string note;
  llvm::Expected<Machine> machine = getMachine(cluster, note);
  if (!machine)
    return machine.takeError();
  return machine->device;
}

llvm::Expected<Machine> cleave::getMachine(llvm::StringRef text) {
  llvm::Expected<Cluster> cluster = parseCluster(text);
  if (!cluster)
    return cluster.takeError();
  std::string note;
  return getMachine(*cluster, note);
}

/// What the text says, or else so many threads; `local` as it was measured, if
/// it was.
static llvm::Expected<Cluster> loadCluster(llvm::StringRef text,
                                           int64_t ranks) {
  Cluster threads;
  threads.groups.push_back({std::nullopt, 1, ranks});
  if (text.empty())
    return threads;
  llvm::Expected<Cluster> cluster = parseCluster(text);
  if (!cluster || !isLocal(*cluster))
    return cluster;
  if (cluster->getNumRanks() == 0)
    cluster->groups = threads.groups;
  return isLocalMeasured() ? loadLocal(*cluster) : std::move(cluster);
}

llvm::Expected<Network> cleave::getNetwork(llvm::StringRef text,
                                           int64_t ranks) {
  llvm::Expected<Cluster> loaded = loadCluster(text, ranks);
  if (!loaded)
    return loaded.takeError();
  Cluster &cluster = *loaded;
  const NodeGroup &first = cluster.groups.front();
  int64_t devices = cluster.getNumRanks();
  if (devices < ranks)
    return llvm::createStringError(
        llvm::formatv("--cluster {0} has {1} ranks, expects {2} or more", text,
                      devices, ranks));
  if (!isCpu(cluster)) {
    if (cluster.levels.empty())
      return makeMissingLevels(cluster);
    return Network{devices, cluster.levels};
  }
  if (cluster.levels.empty()) {
    cluster.levels.push_back(
        {first.devicesPerNode, llvm::cantFail(getLink("shared-memory"))});
    if (first.nodes > 1)
      cluster.levels.push_back(
          {devices, llvm::cantFail(getLink("ethernet-100x4"))});
  }
  bool takesTurns =
      first.device &&
      first.devicesPerNode * cluster.getThreads(devices) > first.device->cores;
  return Network{devices, getCpuLevels(cluster, takesTurns)};
}
