//===- Hardware.cpp - Reading device and link descriptions ----------------===//
//
// Every number is an object with its unit and its source:
//   "memory_bandwidth": {"value": 3.35e12, "unit": "byte/s", "source": "..."}
//
//===----------------------------------------------------------------------===//
#include "cleave/Hardware/Hardware.h"
#include "cleave/Catalog/Catalog.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
namespace json = llvm::json;

namespace cleave {
extern const Catalog hardwareCatalog;
}

static const llvm::StringRef dtypeNames[numDTypes] = {"f32", "bf16", "fp8",
                                                      "fp4"};
static const llvm::StringRef kindNames[numCollectiveKinds] = {
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all"};

llvm::StringRef cleave::getName(DType dtype) {
  return dtypeNames[size_t(dtype)];
}

double cleave::getBytes(DType dtype) {
  constexpr double bytes[numDTypes] = {4, 2, 1, 0.5};
  return bytes[size_t(dtype)];
}

llvm::StringRef cleave::getName(CollectiveKind kind) {
  return kindNames[size_t(kind)];
}

static MatrixUnit readMatrix(JsonReader &reader, const json::Object &in,
                             const std::string &path) {
  reader.checkKeys(in, path,
                   {"peak", "efficiency", "tile_startup", "tile_slope",
                    "throttle", "launch", "memory_efficiency"});
  MatrixUnit unit;
  unit.peak = reader.getConstant(in, "peak", "FLOP/s", path, 1);
  unit.efficiency = reader.getConstant(in, "efficiency", "1", path, 0.01, 1);
  unit.tileStartup = reader.getConstant(in, "tile_startup", "s", path);
  unit.tileSlope = reader.getConstant(in, "tile_slope", "1", path);
  unit.throttle = reader.getConstant(in, "throttle", "1", path, 0, 1);
  unit.launch = reader.getConstant(in, "launch", "s", path);
  unit.memoryEfficiency =
      reader.getConstant(in, "memory_efficiency", "1", path, 0.01, 1);
  return unit;
}

static AttentionUnit readAttention(JsonReader &reader, const json::Object &in,
                                   const std::string &path) {
  reader.checkKeys(in, path, {"forward", "backward", "ramp", "kept", "narrow"});
  AttentionUnit unit;
  unit.forward = reader.getConstant(in, "forward", "1", path, 0.001, 1);
  unit.backward = reader.getConstant(in, "backward", "1", path, 0.001, 1);
  unit.ramp = reader.getConstant(in, "ramp", "token", path);
  unit.kept = reader.getConstant(in, "kept", "byte/pair", path);
  unit.narrow = reader.getConstant(in, "narrow", "1", path, 0.1, 1);
  return unit;
}

static Device readDeviceKeys(JsonReader &reader, const json::Object &in,
                             const std::string &path) {
  reader.checkKeys(in, path,
                   {"version", "name", "memory", "reserve", "memory_bandwidth",
                    "memory_efficiency", "multiprocessors",
                    "compute_capability", "cores", "matrix", "attention",
                    "power", "price", "mtbf"});
  Device device;
  device.name = reader.getString(in, "name", path);
  device.memory = reader.getConstant(in, "memory", "byte", path, 1);
  // A CPU's process has none to speak of.
  if (in.get("reserve") || !in.get("cores"))
    device.reserve = reader.getConstant(in, "reserve", "byte", path);
  device.memoryBandwidth =
      reader.getConstant(in, "memory_bandwidth", "byte/s", path, 1);
  device.memoryEfficiency =
      reader.getConstant(in, "memory_efficiency", "1", path, 0.01, 1);
  device.multiprocessors =
      int64_t(reader.getConstant(in, "multiprocessors", "1", path, 1, 1 << 20));
  device.computeCapability =
      reader.getConstant(in, "compute_capability", "1", path, 1, 100, 0);
  device.cores =
      int64_t(reader.getConstant(in, "cores", "1", path, 1, 1 << 20, 0));
  const json::Object &matrix = reader.getObject(in, "matrix", path);
  std::string matrixPath = path + "matrix.";
  reader.checkKeys(matrix, matrixPath, dtypeNames);
  for (size_t i = 0; i != numDTypes; ++i)
    if (matrix.get(dtypeNames[i]))
      device.matrix[i] = readMatrix(
          reader, reader.getObject(matrix, dtypeNames[i], matrixPath),
          matrixPath + dtypeNames[i].str() + ".");
  // Products that narrower types leave to it: router and head.
  if (!matrix.get("bf16"))
    reader.fail(matrixPath + "bf16", "an object", nullptr);
  const json::Object &attention = reader.getObject(in, "attention", path);
  std::string attentionPath = path + "attention.";
  if (attention.empty())
    reader.fail(path + "attention", "at least one kernel", in.get("attention"));
  for (const auto &entry : attention)
    device.attention[entry.first.str()] = readAttention(
        reader, reader.getObject(attention, entry.first, attentionPath),
        attentionPath + entry.first.str() + ".");
  device.watts = reader.getConstant(in, "power", "W", path);
  device.pricePerHour = reader.getConstant(in, "price", "USD/h", path);
  device.mtbfHours = reader.getConstant(in, "mtbf", "h", path, 1);
  return device;
}

static Link readLinkKeys(JsonReader &reader, const json::Object &in,
                         const std::string &path) {
  reader.checkKeys(in, path,
                   {"version", "name", "bandwidth", "latency", "collectives"});
  Link link;
  link.name = reader.getString(in, "name", path);
  link.bandwidth = reader.getConstant(in, "bandwidth", "byte/s", path, 1);
  link.latency = reader.getConstant(in, "latency", "s", path);
  const json::Object &curves = reader.getObject(in, "collectives", path);
  std::string inside = path + "collectives.";
  reader.checkKeys(curves, inside, kindNames);
  for (size_t kind = 0; kind != numCollectiveKinds; ++kind) {
    llvm::StringRef name = kindNames[kind];
    const json::Object &each = reader.getObject(curves, name, inside);
    std::string at = inside + name.str() + ".";
    reader.checkKeys(each, at,
                     {"startup", "startup_per_rank", "pipeline", "bandwidth",
                      "tree_startup", "tree_share"});
    CollectiveCurve &curve = link.collectives[kind];
    curve.startup = reader.getConstant(each, "startup", "s", at);
    curve.startupPerRank =
        reader.getConstant(each, "startup_per_rank", "s", at);
    curve.pipeline = reader.getConstant(each, "pipeline", "s", at);
    curve.treeStartup =
        reader.getConstant(each, "tree_startup", "s", at, 0, 1e30, 0);
    curve.treeShare = reader.getConstant(each, "tree_share", "1", at, 0, 1, 0);
    curve.bandwidth = reader.getTable(each, "bandwidth", "byte/s by ranks", at);
  }
  return link;
}

/// Linear in 1/n between measured points.
double CollectiveCurve::getBandwidth(int64_t ranks) const {
  if (ranks <= bandwidth.front().first)
    return bandwidth.front().second;
  for (size_t i = 1; i != bandwidth.size(); ++i) {
    auto [n0, b0] = bandwidth[i - 1];
    auto [n1, b1] = bandwidth[i];
    if (ranks <= n1) {
      double w = (1. / double(n0) - 1. / double(ranks)) /
                 (1. / double(n0) - 1. / double(n1));
      return b0 + w * (b1 - b0);
    }
  }
  return bandwidth.back().second;
}

void Link::setBandwidth(double to) {
  scaleBandwidth(to / bandwidth);
  bandwidth = to; // to the last bit
}

void Link::scaleBandwidth(double factor) {
  bandwidth *= factor;
  for (CollectiveCurve &curve : collectives)
    for (auto &[ranks, rate] : curve.bandwidth)
      rate *= factor;
}

/// A whole file, read by `read`.
template <typename T>
static llvm::Expected<T> parse(llvm::StringRef text, llvm::StringRef file,
                               T (*read)(JsonReader &, const json::Object &,
                                         const std::string &)) {
  llvm::Expected<json::Object> object = parseJsonObject(text, file);
  if (!object)
    return object.takeError();
  JsonReader reader(file);
  reader.checkVersion(*object);
  T result = read(reader, *object, "");
  if (llvm::Error error = reader.takeError())
    return error;
  return result;
}

llvm::Expected<Device> cleave::parseDevice(llvm::StringRef text,
                                           llvm::StringRef file) {
  return parse<Device>(text, file, readDeviceKeys);
}

llvm::Expected<Link> cleave::parseLink(llvm::StringRef text,
                                       llvm::StringRef file) {
  return parse<Link>(text, file, readLinkKeys);
}

//===----------------------------------------------------------------------===//
// The catalog, and what differs from it
//===----------------------------------------------------------------------===//

std::vector<std::string> cleave::getBuiltinNames(llvm::StringRef folder) {
  std::vector<std::string> names;
  for (const CatalogFile &file : hardwareCatalog)
    if (file.folder == folder)
      names.push_back(file.name.str());
  return names;
}

llvm::Expected<llvm::StringRef> cleave::getBuiltinText(llvm::StringRef folder,
                                                       llvm::StringRef name,
                                                       llvm::StringRef what) {
  for (const CatalogFile &file : hardwareCatalog)
    if (file.folder == folder && file.name == name)
      return file.text;
  return llvm::createStringError(
      llvm::formatv("unknown {0} \"{1}\", expects one of {2}", what, name,
                    llvm::join(getBuiltinNames(folder), ", ")));
}

llvm::Expected<Device> cleave::getDevice(llvm::StringRef name) {
  llvm::Expected<llvm::StringRef> text =
      getBuiltinText("devices", name, "device");
  if (!text)
    return text.takeError();
  return parseDevice(*text, name);
}

llvm::Expected<Link> cleave::getLink(llvm::StringRef name) {
  llvm::Expected<llvm::StringRef> text = getBuiltinText("links", name, "link");
  if (!text)
    return text.takeError();
  return parseLink(*text, name);
}

std::vector<std::string> cleave::getDeviceNames() {
  return getBuiltinNames("devices");
}

/// Replaces what `from` has; of objects that are no constants, key by key.
static void overlay(json::Object &onto, const json::Object &from) {
  for (const auto &[key, value] : from) {
    const json::Object *object = value.getAsObject();
    json::Object *inner = onto.getObject(key);
    if (object && inner && !inner->get("value"))
      overlay(*inner, *object);
    else
      onto[key] = value;
  }
}

/// The object that `key` describes: one by name, or one with its base's keys.
static json::Object resolve(JsonReader &reader, const json::Object &in,
                            llvm::StringRef key, const std::string &path,
                            llvm::StringRef folder) {
  const json::Value *value = in.get(key);
  const json::Object *object = value ? value->getAsObject() : nullptr;
  std::optional<llvm::StringRef> base =
      object ? object->getString("base")
             : (value ? value->getAsString() : std::nullopt);
  std::string at = path + key.str();
  if (object && !base && !object->get("base"))
    return *object;
  llvm::Expected<llvm::StringRef> text =
      getBuiltinText(folder, base.value_or(""), key);
  if (!text) {
    llvm::consumeError(text.takeError());
    std::string names = llvm::join(getBuiltinNames(folder), ", ");
    if (object)
      reader.fail(at + ".base", "one of " + names, object->get("base"));
    else
      reader.fail(at, "an object or one of " + names, value);
    return {};
  }
  json::Object result = llvm::cantFail(parseJsonObject(*text, *base));
  if (object) {
    overlay(result, *object);
    result.erase("base");
  }
  return result;
}

Device cleave::readDevice(JsonReader &reader, const json::Object &in,
                          llvm::StringRef key, const std::string &path) {
  return readDeviceKeys(reader, resolve(reader, in, key, path, "devices"),
                        path + key.str() + ".");
}

Link cleave::readLink(JsonReader &reader, const json::Object &in,
                      llvm::StringRef key, const std::string &path) {
  Link link = readLinkKeys(reader, resolve(reader, in, key, path, "links"),
                           path + key.str() + ".");
  const json::Object *object = in.getObject(key);
  if (!object || !object->get("bandwidth") || object->get("collectives"))
    return link;
  if (std::optional<llvm::StringRef> base = object->getString("base")) {
    double bandwidth = link.bandwidth;
    link.bandwidth = llvm::cantFail(getLink(*base)).bandwidth;
    link.setBandwidth(bandwidth);
  }
  return link;
}
