//===- ClusterTest.cpp - What --cluster says ------------------------------===//
#include "cleave/Hardware/Cluster.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace cleave;

namespace {

/// A folder for a test's files, which is also where `local` is kept.
class ClusterTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::path(testing::TempDir()) / "cleave-cluster";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder / "cleave");
    setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    unsetenv("CLEAVE_CACHE");
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    unsetenv("CLEAVE_CACHE");
  }

  std::string write(const std::string &name, const std::string &text) {
    std::filesystem::path path = folder / name;
    std::ofstream(path) << text;
    return path.string();
  }
  Machine load(const std::string &text, std::string *note = nullptr) {
    Cluster cluster = llvm::cantFail(parseCluster(write("cluster.json", text)));
    std::string ignored;
    return llvm::cantFail(getMachine(cluster, note ? *note : ignored));
  }
  /// What is wrong, without the path.
  std::string getError(const std::string &text) {
    std::string path = write("cluster.json", text);
    llvm::Expected<Machine> machine = getMachine(path);
    if (machine)
      return "none";
    std::string message = llvm::toString(machine.takeError());
    EXPECT_EQ(message.substr(0, path.size()), path) << message;
    return message.substr(path.size());
  }

  std::filesystem::path folder;
};

std::string makeConstant(double value, const char *unit) {
  return llvm::formatv(R"({{"value": {0}, "unit": "{1}", "source": "test"})",
                       llvm::format("%g", value), unit);
}

std::string makeLink(const char *name) {
  std::string curve = llvm::formatv(
      R"({{"startup": {0}, "startup_per_rank": {0}, "pipeline": {0},
          "bandwidth": {{"value": [[2, 1e9], [4, 4e8], [8, 2e8]],
                        "unit": "byte/s by ranks", "source": "test"} })",
      makeConstant(0, "s"));
  return llvm::formatv(
      R"({{"name": "{0}", "bandwidth": {1}, "latency": {2},
          "collectives": {{"all_gather": {3}, "reduce_scatter": {3},
                          "all_reduce": {3}, "all_to_all": {3} } })",
      name, makeConstant(1e9, "byte/s"), makeConstant(1e-6, "s"), curve);
}

/// A CPU node of 4 cores: 1e11 FLOP/s, 1e10 byte/s and 8e9 bytes in all.
std::string makeCpu(bool shares, const std::string &more = "") {
  std::string unit = llvm::formatv(
      R"({{"peak": {0}, "efficiency": {1}, "tile_startup": {2},
          "tile_slope": {3}, "throttle": {3}, "launch": {2},
          "memory_efficiency": {1} })",
      makeConstant(1e11, "FLOP/s"), makeConstant(1, "1"),
      makeConstant(1e-6, "s"), makeConstant(0, "1"));
  std::string kernel = llvm::formatv(
      R"({{"forward": {0}, "backward": {0}, "ramp": {1}, "kept": {2},
          "narrow": {0} })",
      makeConstant(1, "1"), makeConstant(0, "token"),
      makeConstant(0, "byte/pair"));
  std::string device = llvm::formatv(
      R"({{"name": "cpu", "cores": {0}, "memory": {1},
          "memory_bandwidth": {2}, "memory_efficiency": {3},
          "multiprocessors": {0}, "matrix": {{"bf16": {4}, "f32": {4} },
          "attention": {{"cleave": {5} }, "power": {6}, "price": {7},
          "mtbf": {8} })",
      makeConstant(4, "1"), makeConstant(8e9, "byte"),
      makeConstant(1e10, "byte/s"), makeConstant(1, "1"), unit, kernel,
      makeConstant(200, "W"), makeConstant(0.4, "USD/h"),
      makeConstant(1000, "h"));
  std::string shared = shares ? ", \"shared_link\": " + makeLink("shared") : "";
  return llvm::formatv(R"({{"version": 1, "device": {0}{1},
                           "levels": [{{"size": 0, "link": {2}{3} }] })",
                       device, more, makeLink("own"), shared);
}

TEST_F(ClusterTest, APresetIsItsFile) {
  Machine preset = llvm::cantFail(getMachine("h100-sxm:512"));
  for (const char *levels : {"", R"(, "levels": [{"size": 8, "link": "nvlink4"},
                            {"size": 0, "link": "ib-ndr400"}])"}) {
    Machine machine =
        load(std::string(R"({"version": 1, "device": "h100-sxm", "nodes": 64,
                             "devices_per_node": 8)") +
             levels + "}");
    EXPECT_EQ(machine.devices, 512);
    EXPECT_EQ(machine.device.name, "h100-sxm");
    ASSERT_EQ(machine.levels.size(), preset.levels.size());
    for (size_t i = 0; i != machine.levels.size(); ++i) {
      EXPECT_EQ(machine.levels[i].size, preset.levels[i].size);
      EXPECT_EQ(machine.levels[i].link.name, preset.levels[i].link.name);
    }
  }
}

TEST_F(ClusterTest, ABaseIsChangedKeyByKey) {
  Device base = llvm::cantFail(getDevice("h100-sxm"));
  Device device =
      load(R"({"version": 1, "devices_per_node": 8,
               "device": {"base": "h100-sxm", "name": "mine",
                          "power": )" +
           makeConstant(500, "W") + R"(, "matrix": {"bf16": {"throttle": )" +
           makeConstant(0.5, "1") +
           R"(}}}, "levels": [{"size": 0, "link": "nvlink4"}]})")
          .device;
  EXPECT_EQ(device.name, "mine");
  EXPECT_EQ(device.watts, 500);
  EXPECT_EQ(device.getMatrix(DType::BF16).throttle, 0.5);
  EXPECT_EQ(device.getMatrix(DType::BF16).peak,
            base.getMatrix(DType::BF16).peak);
  EXPECT_EQ(device.getMatrix(DType::FP8).throttle,
            base.getMatrix(DType::FP8).throttle);
  EXPECT_EQ(device.memory, base.memory);
}

TEST_F(ClusterTest, OversubscriptionAndBandwidthScaleCurves) {
  Link base = llvm::cantFail(getLink("ib-ndr400"));
  Machine machine =
      load(R"({"version": 1, "device": "h100-sxm", "devices_per_node": 8,
               "nodes": 64,
               "levels": [{"size": 8, "link": "nvlink4"},
                          {"size": 64, "link": {"base": "ib-ndr400",
                                                "bandwidth": )" +
           makeConstant(base.bandwidth / 4, "byte/s") +
           R"(}}, {"size": 0, "link": "ib-ndr400", "oversubscription": 3}]})");
  for (size_t kind = 0; kind != numCollectiveKinds; ++kind) {
    CollectiveKind each = CollectiveKind(kind);
    double rate = base.getCurve(each).getBandwidth(8);
    EXPECT_NEAR(machine.levels[1].link.getCurve(each).getBandwidth(8), rate / 4,
                1e-9 * rate);
    EXPECT_NEAR(machine.levels[2].link.getCurve(each).getBandwidth(8), rate / 3,
                1e-9 * rate);
    EXPECT_EQ(machine.levels[2].link.getCurve(each).startup,
              base.getCurve(each).startup);
  }
}

/// The A100 multiplies slower, the 40 GB one has less memory and bandwidth
/// than the H100; three of four devices are A100s.
TEST_F(ClusterTest, GroupsAreTheSlowestOfThem) {
  Device slow = llvm::cantFail(getDevice("a100-40"));
  Device fast = llvm::cantFail(getDevice("h100-sxm"));
  std::string note;
  Machine machine = load(R"({"version": 1,
               "groups": [{"device": "h100-sxm", "devices_per_node": 8},
                          {"device": "a100-40", "nodes": 3,
                           "devices_per_node": 8}],
               "levels": [{"size": 8, "link": "nvlink3"},
                          {"size": 0, "link": "ib-hdr200"}]})",
                         &note);
  const Device &device = machine.device;
  EXPECT_EQ(machine.devices, 32);
  EXPECT_EQ(device.getMatrix(DType::BF16).peak,
            slow.getMatrix(DType::BF16).peak);
  EXPECT_EQ(device.memory, slow.memory);
  EXPECT_DOUBLE_EQ(device.memoryBandwidth * device.memoryEfficiency,
                   slow.memoryBandwidth * slow.memoryEfficiency);
  EXPECT_EQ(device.getMatrix(DType::FP8).peak, 0) << "A100s have no such unit";
  for (const auto &[kernel, unit] : device.attention)
    EXPECT_TRUE(fast.attention.count(kernel) && slow.attention.count(kernel));
  EXPECT_DOUBLE_EQ(device.watts, (fast.watts + 3 * slow.watts) / 4);
  EXPECT_DOUBLE_EQ(device.pricePerHour,
                   (fast.pricePerHour + 3 * slow.pricePerHour) / 4);
  EXPECT_DOUBLE_EQ(1 / device.mtbfHours,
                   (1 / fast.mtbfHours + 3 / slow.mtbfHours) / 4);
  EXPECT_NE(note.find("8 x h100-sxm, 24 x a100-40 are planned as 32 x a100-40"),
            std::string::npos)
      << note;
  EXPECT_NE(device.name.find("slowest of"), std::string::npos);
}

TEST_F(ClusterTest, RanksShareACpu) {
  struct Case {
    int ranks, threads; ///< threads 0: as many as there are
    double peak, memory, slower;
    int64_t busy;
    const char *link;
    double rate;
  };
  for (const Case &each : {Case{1, 0, 1e11, 8e9, 1, 4, "own", 1e9},
                           Case{2, 0, 5e10, 4e9, 1, 2, "own", 1e9},
                           Case{4, 0, 2.5e10, 2e9, 1, 1, "own", 4e8},
                           Case{8, 0, 1.25e10, 1e9, 2, 1, "shared", 2e8},
                           Case{1, 1, 2.5e10, 8e9, 1, 1, "own", 1e9},
                           Case{2, 4, 5e10, 4e9, 2, 4, "shared", 1e9}}) {
    std::string more = llvm::formatv(", \"devices_per_node\": {0}", each.ranks);
    if (each.threads > 0)
      more += llvm::formatv(", \"threads_per_device\": {0}", each.threads);
    Machine machine = load(makeCpu(true, more));
    const MatrixUnit &unit = machine.device.getMatrix(DType::F32);
    EXPECT_DOUBLE_EQ(unit.peak, each.peak) << each.ranks;
    EXPECT_DOUBLE_EQ(unit.launch, each.slower * 1e-6) << each.ranks;
    EXPECT_DOUBLE_EQ(machine.device.memory, each.memory);
    EXPECT_DOUBLE_EQ(machine.device.memoryBandwidth, 1e10 / each.ranks);
    EXPECT_EQ(machine.device.multiprocessors, each.busy);
    EXPECT_DOUBLE_EQ(machine.device.watts, 200. / each.ranks);
    const Link &link = machine.levels.front().link;
    EXPECT_EQ(link.name, each.link) << each.ranks;
    // Even between two, all ranks move their bytes at once.
    EXPECT_DOUBLE_EQ(link.getCurve(CollectiveKind::AllReduce).getBandwidth(2),
                     each.rate)
        << each.ranks;
  }
  EXPECT_NE(getError(makeCpu(false, ", \"devices_per_node\": 8"))
                .find("8 ranks of 1 threads share 4 cores, but there is no key "
                      "\"shared_link\""),
            std::string::npos);
}

TEST_F(ClusterTest, LocalIsWhatCalibrateWrote) {
  llvm::Expected<Machine> none = getMachine("local:4");
  ASSERT_FALSE(bool(none));
  std::string message = llvm::toString(none.takeError());
  EXPECT_NE(message.find("--cluster local:4: this machine was not measured"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("`cleave calibrate`"), std::string::npos);
  EXPECT_EQ(llvm::cantFail(getLocalPath()),
            (folder / "cleave" / "local.json").string());
  write("cleave/local.json", makeCpu(true, ", \"devices_per_node\": 4"));
  EXPECT_EQ(llvm::cantFail(getMachine("local")).devices, 4);
  for (int ranks : {1, 3, 8}) {
    std::string text = llvm::formatv("local:{0}", ranks);
    Machine machine = llvm::cantFail(getMachine(text));
    EXPECT_EQ(machine.devices, ranks);
    EXPECT_EQ(machine.levels.back().size, ranks);
    EXPECT_EQ(machine.device.multiprocessors, ranks == 1 ? 4 : 1);
  }
  // Compiling needs no measurement.
  std::filesystem::remove(folder / "cleave" / "local.json");
  Cluster local = llvm::cantFail(parseCluster("local:3"));
  EXPECT_EQ(local.getNumRanks(), 3);
  EXPECT_FALSE(bool(local.checkCompiles()));
}

TEST_F(ClusterTest, TheCacheMayBeElsewhereOrNowhere) {
  write("cleave/local.json", makeCpu(true, ", \"devices_per_node\": 4"));
  std::filesystem::create_directories(folder / "other");
  write("other/local.json", makeCpu(true, ", \"devices_per_node\": 2"));
  setenv("CLEAVE_CACHE", (folder / "other").c_str(), 1);
  EXPECT_EQ(llvm::cantFail(getLocalPath()),
            (folder / "other" / "local.json").string());
  EXPECT_EQ(llvm::cantFail(getMachine("local")).devices, 2);
  setenv("CLEAVE_CACHE", "", 1);
  llvm::Expected<Machine> none = getMachine("local");
  ASSERT_FALSE(bool(none));
  EXPECT_EQ(llvm::toString(none.takeError()),
            "CLEAVE_CACHE is empty, so nothing is kept or read");
  EXPECT_EQ(llvm::cantFail(getNetwork("local", 4)).levels.front().link.name,
            "shared-memory");
}

TEST_F(ClusterTest, ANetworkNeedsNoDevice) {
  auto getNames = [](llvm::StringRef cluster, int64_t ranks) {
    llvm::Expected<Network> network = getNetwork(cluster, ranks);
    if (!network)
      return llvm::toString(network.takeError());
    std::string names;
    for (const Level &level : network->levels)
      names += llvm::formatv("{0} {1}, ", level.size, level.link.name);
    return names + std::to_string(network->devices);
  };
  EXPECT_EQ(getNames("", 8), "8 shared-memory, 8");
  EXPECT_EQ(getNames("local", 8), "8 shared-memory, 8");
  EXPECT_EQ(getNames("local:4", 2), "4 shared-memory, 4");
  EXPECT_EQ(getNames("h100-sxm:16", 16), "8 nvlink4, 16 ib-ndr400, 16");
  EXPECT_EQ(getNames("h100-sxm:8", 16),
            "--cluster h100-sxm:8 has 8 ranks, expects 16 or more");
  std::string nodes = write(
      "nodes.json", R"({"version": 1, "nodes": 2, "devices_per_node": 4})");
  EXPECT_EQ(getNames(nodes, 8), "4 shared-memory, 8 ethernet-100x4, 8");
  std::string joined = write("joined.json",
                             R"({"version": 1, "devices_per_node": 4,
                                 "levels": [{"size": 0, "link": "ib-100"}]})");
  EXPECT_EQ(getNames(joined, 4), "4 ib-100, 4");
  std::string parts = write("parts.json",
                            R"({"version": 1, "devices_per_node": 4,
                                "device": {"base": "b200", "name": "mine"}})");
  EXPECT_EQ(getNames(parts, 4), parts + ": key \"levels\": expects an array of "
                                        "levels, innermost first, but it is "
                                        "missing");
  // Ranks that share cores, though nothing says how fast they are then.
  EXPECT_EQ(getNames(write("cpu.json", makeCpu(false, ", \"devices_per_node\": "
                                                      "8")),
                     8),
            "8 own, 8");

  // What was measured is `local`, and nothing else.
  write("cleave/local.json", makeCpu(true, ", \"devices_per_node\": 4"));
  EXPECT_EQ(getNames("local", 3), "3 own, 3");
  EXPECT_EQ(getNames("local:8", 8), "8 shared, 8");
  EXPECT_EQ(getNames("", 8), "8 shared-memory, 8");
  for (auto [cluster, ranks] : {std::pair("local:3", 3), {"local:8", 8}}) {
    Network network = llvm::cantFail(getNetwork(cluster, ranks));
    Machine machine = llvm::cantFail(getMachine(cluster));
    for (size_t kind = 0; kind != numCollectiveKinds; ++kind)
      EXPECT_EQ(network.levels[0].link.collectives[kind].bandwidth,
                machine.levels[0].link.collectives[kind].bandwidth);
  }
  write("cleave/local.json", "{");
  EXPECT_NE(getNames("local", 3).find("local.json"), std::string::npos);
}

TEST_F(ClusterTest, ProgramsAreCompiledForEqualNodes) {
  auto getProblem = [&](llvm::StringRef cluster) {
    return llvm::toString(
        llvm::cantFail(parseCluster(cluster)).checkCompiles());
  };
  EXPECT_EQ(getProblem("b200:8"), "");
  EXPECT_TRUE(llvm::cantFail(parseCluster("b200:8")).hasGPUs());
  std::string mixed = write("mixed.json", R"({"version": 1, "groups":
      [{"device": "a100-80"}, {"device": "h100-sxm"}]})");
  EXPECT_NE(getProblem(mixed).find("2 groups of nodes"), std::string::npos);
  std::string cpu = write("cpu.json", makeCpu(true));
  EXPECT_EQ(getProblem(cpu), "");
  EXPECT_FALSE(llvm::cantFail(parseCluster(cpu)).hasGPUs());
  Cluster four = llvm::cantFail(parseCluster(cpu)); // cores of one node
  EXPECT_EQ(four.getThreads(1), 4);
  EXPECT_EQ(four.getThreads(2), 2);
  EXPECT_EQ(four.getThreads(8), 1);
}

TEST_F(ClusterTest, ErrorsNameFileKeyValueAndLegalValues) {
  std::string levels = R"(, "levels": [{"size": 0, "link": "nvlink4"}]})";
  std::string eight = R"({"version": 1, "device": "h100-sxm", "nodes": 2,
                          "devices_per_node": 4)";
  const std::pair<std::string, std::string> cases[] = {
      {"[]", ": expects an object"},
      {"{}", ": key \"version\": expects 1, but it is missing"},
      {R"({"version": 2})", ": key \"version\": expects 1, got 2"},
      {R"({"version": 1, "nodes": 2})",
       ": key \"device\": expects one of a100-40"},
      {R"({"version": 1, "device": "tpu")" + levels,
       ": key \"device\": expects an object or one of a100-40"},
      {R"({"version": 1, "device": {"base": "tpu"})" + levels,
       ": key \"device.base\": expects one of a100-40"},
      {R"({"version": 1, "device": {"base": "b200", "colour": 3})" + levels,
       ": unknown key \"device.colour\"; legal keys are version, name"},
      {R"({"version": 1, "device": {"base": "b200", "memory":
           {"value": -1, "unit": "byte", "source": "x"}})" +
           levels,
       ": key \"device.memory.value\": expects a number from 1 to 1e+30, got "
       "-1"},
      {eight + R"(, "levels": []})",
       ": key \"levels\": expects an array of objects, got []"},
      {eight + R"(, "levels": [3]})",
       ": key \"levels[0]\": expects an object, got 3"},
      {eight + R"(, "levels": [{"size": 8}]})",
       ": key \"levels[0].link\": expects an object or one of ethernet-100x4"},
      {eight + R"(, "levels": [{"size": 4, "link": "nvlink4"}]})",
       ": key \"levels[0].size\": expects all 8 devices of the cluster in the "
       "last level, or 0, got 4"},
      {eight + R"(, "levels": [{"size": 4, "link": "nvlink4"},
                               {"size": 10, "link": "ib-ndr400"}]})",
       ": key \"levels[1].size\": expects a multiple of 4, the devices of a "
       "unit of the level inside, or 0: all, got 10"},
      {eight + R"(, "levels": [{"size": 0, "link": "nvlink4",
                                "oversubscription": 0.5}]})",
       ": key \"levels[0].oversubscription\": expects a number from 1 to 1000"},
      {eight + R"(, "threads_per_device": 4})",
       ": key \"threads_per_device\": expects none: h100-sxm is no CPU, got 4"},
      {eight + R"(, "groups": [{"device": "b200"}]})",
       ": unknown key \"device\"; legal keys are version, name, groups, "
       "levels"},
      {R"({"version": 1, "groups": [{"nodes": 3}]})",
       ": key \"groups[0].device\": expects the name of a device, or an "
       "object"},
      {R"({"version": 1, "device": "b200", "nodes": 16777216,
           "devices_per_node": 8})",
       ": key \"nodes\": expects at most 16777216 devices in all"},
      {R"({"version": 1, "groups": [{"device": "b200"}]})",
       ": key \"levels\": expects an array of levels, innermost first, but it "
       "is missing"},
      {eight + R"(, "storage_bandwidth": 3})",
       ": key \"storage_bandwidth\": expects an object, got 3"},
  };
  for (const auto &[text, expected] : cases)
    EXPECT_EQ(getError(text).substr(0, expected.size()), expected) << text;
  EXPECT_NE(llvm::toString(getMachine("z9:8").takeError())
                .find("unknown cluster \"z9\", expects one of a100-40"),
            std::string::npos);
  EXPECT_EQ(llvm::toString(parseCluster("local:x").takeError()),
            "--cluster local:x: expects a number of ranks between 1 and 1024");
}

} // namespace
