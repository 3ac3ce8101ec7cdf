//===- HardwareTest.cpp - Descriptions of devices, links and machines -----===//
#include "cleave/Hardware/Hardware.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace cleave;
namespace json = llvm::json;

namespace {

std::string readFile(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> getFiles(const std::string &folder) {
  std::vector<std::filesystem::path> files;
  for (const auto &entry :
       std::filesystem::directory_iterator(CLEAVE_HARDWARE "/" + folder))
    files.push_back(entry.path());
  EXPECT_FALSE(files.empty()) << folder;
  return files;
}

/// Every object with a value has a unit and says where it is from.
void checkConstants(const json::Value &value, const std::string &where) {
  if (const json::Array *array = value.getAsArray())
    for (const json::Value &each : *array)
      checkConstants(each, where);
  const json::Object *object = value.getAsObject();
  if (!object)
    return;
  if (object->get("value")) {
    EXPECT_TRUE(object->getString("unit")) << where;
    EXPECT_GE(object->getString("source").value_or("").size(), 8u) << where;
    return;
  }
  for (const auto &entry : *object) {
    EXPECT_NE(entry.second.kind(), json::Value::Number)
        << where << "." << entry.first.str() << ": no unit, no source";
    checkConstants(entry.second, where + "." + entry.first.str());
  }
}

template <typename T>
std::string getError(llvm::Expected<T> result) {
  return result ? "none" : llvm::toString(result.takeError());
}

/// The H100's description with one text replaced.
std::string getEdited(const std::string &from, const std::string &to) {
  std::string text = readFile(CLEAVE_HARDWARE "/devices/h100-sxm.json");
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(HardwareTest, EveryDeviceAndLinkParses) {
  for (const auto &path : getFiles("devices")) {
    llvm::Expected<Device> device = getDevice(path.stem().string());
    ASSERT_TRUE(bool(device)) << llvm::toString(device.takeError());
    EXPECT_EQ(device->name, path.stem().string());
    EXPECT_GT(device->getMatrix(DType::BF16).peak, 0) << path;
    EXPECT_FALSE(device->attention.empty()) << path;
    EXPECT_GT(device->mtbfHours, 0) << path;
  }
  for (const auto &path : getFiles("links")) {
    llvm::Expected<Link> link = getLink(path.stem().string());
    ASSERT_TRUE(bool(link)) << llvm::toString(link.takeError());
    for (const CollectiveCurve &curve : link->collectives)
      for (auto [ranks, rate] : curve.bandwidth) {
        EXPECT_GE(ranks, 2) << path;
        // In-network reduction can pass a link's rate by at most 2.
        EXPECT_LE(rate, 2 * link->bandwidth) << path;
      }
  }
}

TEST(HardwareTest, EveryConstantHasUnitAndSource) {
  for (const char *folder : {"devices", "links"})
    for (const auto &path : getFiles(folder)) {
      json::Value root = llvm::cantFail(json::parse(readFile(path)));
      json::Object object = *root.getAsObject();
      object.erase("version");
      checkConstants(json::Value(std::move(object)), path.stem().string());
    }
}

TEST(HardwareTest, EveryMachineParses) {
  for (const auto &path : getFiles("machines")) {
    std::string preset = path.stem().string() + ":512";
    llvm::Expected<Machine> machine = getMachine(preset);
    ASSERT_TRUE(bool(machine)) << llvm::toString(machine.takeError());
    EXPECT_EQ(machine->devices, 512);
    ASSERT_GE(machine->levels.size(), 2u) << preset;
    EXPECT_EQ(machine->levels.back().size, 512);
    for (size_t i = 1; i != machine->levels.size(); ++i)
      EXPECT_LT(machine->levels[i - 1].size, machine->levels[i].size);
  }
}

/// A driver's context and some communicators are there on every GPU.
TEST(HardwareTest, EveryDeviceKeepsAReserve) {
  for (const std::string &name : getDeviceNames()) {
    Device device = llvm::cantFail(getDevice(name));
    EXPECT_GE(device.reserve, 1e9) << name;
    EXPECT_LE(device.reserve, 0.05 * device.memory) << name;
  }
}

/// 989 TFLOP/s over 3.35 TB/s: the ridge of the H100's roofline.
TEST(HardwareTest, MachineBalanceOfH100) {
  Device device = llvm::cantFail(getDevice("h100-sxm"));
  EXPECT_NEAR(device.getMatrix(DType::BF16).peak / device.memoryBandwidth, 295,
              1);
}

TEST(HardwareTest, ErrorsNameFileKeyAndLegalValues) {
  EXPECT_EQ(getError(parseDevice("[]", "x.json")), "x.json: expects an object");
  EXPECT_EQ(getError(parseDevice("{}", "x.json")),
            "x.json: key \"version\": expects 1, but it is missing");
  EXPECT_EQ(getError(parseDevice("{\"version\": 1, \"name\": 3}", "x.json")),
            "x.json: key \"name\": expects a text, got 3");
  EXPECT_EQ(getError(parseDevice(getEdited("\"fp8\": {", "\"fp7\": {"), "x")),
            "x: unknown key \"matrix.fp7\"; legal keys are f32, bf16, fp8, "
            "fp4");
  EXPECT_EQ(getError(parseDevice(
                getEdited("\"unit\": \"byte/s\"", "\"unit\": \"GB/s\""), "x")),
            "x: key \"memory_bandwidth.unit\": expects \"byte/s\", got "
            "\"GB/s\"");
  std::string error = getError(
      parseDevice(getEdited("\"value\": 0.85", "\"value\": 1.85"), "x"));
  EXPECT_NE(error.find("x: key \"memory_efficiency.value\": expects a number"),
            std::string::npos)
      << error;
  EXPECT_NE(
      getError(parseDevice(getEdited("\"source\"", "\"sauce\""), "x"))
          .find("unknown key \"memory.sauce\"; legal keys are value, unit, "
                "source"),
      std::string::npos);
  std::string link = readFile(CLEAVE_HARDWARE "/links/nvlink4.json");
  size_t at = link.find("\"all_gather\"");
  EXPECT_EQ(getError(parseLink(link.replace(at, 12, "\"gather\""), "y")),
            "y: unknown key \"collectives.gather\"; legal keys are all_gather, "
            "reduce_scatter, all_reduce, all_to_all");
}

TEST(HardwareTest, UnknownNamesListTheKnown) {
  std::string error = getError(getDevice("h1000"));
  EXPECT_NE(error.find("unknown device \"h1000\""), std::string::npos);
  EXPECT_NE(error.find("h100-sxm"), std::string::npos);
  for (const char *preset : {"h100-sxm", "h100-sxm:", "h100-sxm:0",
                             "h100-sxm:-8", "h100-sxm:x", "h100-sxm:99999999"})
    EXPECT_NE(getError(getMachine(preset)).find("expects NAME:COUNT"),
              std::string::npos)
        << preset;
  EXPECT_NE(getError(getMachine("tpu:8")).find("h100-sxm"), std::string::npos);
}

} // namespace
