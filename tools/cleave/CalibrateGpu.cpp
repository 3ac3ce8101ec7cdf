//===- CalibrateGpu.cpp - A GPU's constants from measurements -------------===//
//
// What is measured on the first GPU of this machine replaces the constants of a
// preset. The preset keeps what one GPU cannot tell: peaks, which are its data
// sheet's and what MFU is told by, links, attention by kernels that are not
// ours, power and price.
//
//===----------------------------------------------------------------------===//
#include "Calibrate.h"
#include "MeasureGpu.h"
#include "cleave/Hardware/Cluster.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
using namespace cleave::tool;
namespace json = llvm::json;

static llvm::Error toError(const runtime::Status &status) {
  return llvm::createStringError(status.message());
}

/// What is fitted to products; all else is the base's.
static json::Object toJSON(const MatrixUnit &unit, llvm::StringRef source) {
  return json::Object{
      {"efficiency", makeConstant(unit.efficiency, "1", source)},
      {"tile_startup", makeConstant(unit.tileStartup, "s", source)},
      {"launch", makeConstant(unit.launch, "s", source)},
      {"memory_efficiency", makeConstant(unit.memoryEfficiency, "1", source)}};
}

/// Not from a file, whose own constants the base would not have.
static llvm::Expected<Cluster> readPreset(llvm::StringRef text) {
  if (!llvm::is_contained(getBuiltinNames("machines"),
                          text.split(':').first.str()))
    return llvm::createStringError(
        "--cluster " + text +
        ": expects local, or a preset and a number of devices, such as h200:8");
  llvm::Expected<Cluster> cluster = parseCluster(text);
  if (!cluster)
    return cluster.takeError();
  if (cluster->getCudaChip().empty())
    return llvm::createStringError("--cluster " + text +
                                   ": expects NVIDIA GPUs of sm_90 or later, "
                                   "for which programs are compiled");
  return cluster;
}

llvm::Expected<json::Object> tool::calibrateGpu(const CalibrateFlags &flags) {
  llvm::Expected<Cluster> cluster = readPreset(flags.cluster);
  if (!cluster)
    return cluster.takeError();
  const NodeGroup &group = cluster->groups.front();
  Device device = *group.device;
  std::unique_ptr<Gpu> gpu;
  if (runtime::Status status = Gpu::open(gpu); !status.ok())
    return toError(status);
  std::string source = "measured by cleave calibrate on " + gpu->getName();
  flags.say("GPU         " + gpu->getName());

  double rate = 0;
  if (runtime::Status status = gpu->measureStream(rate); !status.ok())
    return toError(status);
  device.memoryEfficiency = std::min(rate / device.memoryBandwidth, 1.);
  flags.say(llvm::formatv("memory      {0:F1} GB/s of {1:F1}", rate / 1e9,
                          device.memoryBandwidth / 1e9));
  json::Object matrix;
  for (DType dtype : {DType::F32, DType::BF16}) {
    std::vector<MatmulSample> samples;
    if (runtime::Status status =
            gpu->measureMatmuls(dtype, flags.largestProduct, samples);
        !status.ok())
      return toError(status);
    if (samples.empty())
      return llvm::createStringError(
          "--largest-product: every product that is measured takes more");
    fitMatmuls(device, dtype, samples);
    const MatrixUnit &unit = device.getMatrix(dtype);
    matrix[getName(dtype)] = toJSON(unit, source);
    flags.say(llvm::formatv("{0,-11} {1:F1} TFLOP/s of {2:F1}", getName(dtype),
                            unit.peak * unit.efficiency / 1e12,
                            unit.peak / 1e12));
  }

  json::Array levels;
  for (const Level &level : cluster->levels) {
    bool isLast = &level == &cluster->levels.back();
    levels.push_back(json::Object{{"size", isLast ? 0 : level.size},
                                  {"link", level.link.name}});
  }
  return json::Object{
      {"version", 1},
      {"name", device.name + ", measured"},
      {"device",
       json::Object{{"base", device.name},
                    {"memory_efficiency",
                     makeConstant(device.memoryEfficiency, "1", source)},
                    {"matrix", std::move(matrix)}}},
      {"nodes", group.nodes},
      {"devices_per_node", group.devicesPerNode},
      {"levels", std::move(levels)}};
}
