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

namespace {
/// Reads one description; the first thing wrong with it is kept.
class Reader {
public:
  Reader(llvm::StringRef file) : file(file) {}

  llvm::Error takeError() {
    return message.empty() ? llvm::Error::success()
                           : llvm::createStringError(message);
  }

  void fail(const llvm::Twine &path, const llvm::Twine &what) {
    if (message.empty())
      message = (file + ": key \"" + path + "\": " + what).str();
  }

  const json::Object &getObject(const json::Object &in, llvm::StringRef key,
                                const std::string &path) {
    if (const json::Object *object = in.getObject(key))
      return *object;
    fail(path + key, "expects an object");
    static const json::Object empty;
    return empty;
  }

  /// The value of a constant in `unit`; in [least, most].
  double getConstant(const json::Object &in, llvm::StringRef key,
                     llvm::StringRef unit, const std::string &path,
                     double least = 0, double most = 1e30) {
    const json::Object &object = getObject(in, key, path);
    if (!checkUnit(object, unit, path + key.str()))
      return least;
    std::optional<double> value = object.getNumber("value");
    if (!value || *value < least || *value > most) {
      fail(path + key + ".value",
           llvm::formatv("expects a number from {0} to {1}", least, most));
      return least;
    }
    return *value;
  }

  std::vector<std::pair<int64_t, double>> getTable(const json::Object &in,
                                                   llvm::StringRef key,
                                                   llvm::StringRef unit,
                                                   const std::string &path) {
    const json::Object &object = getObject(in, key, path);
    std::vector<std::pair<int64_t, double>> rows;
    if (!checkUnit(object, unit, path + key.str()))
      return rows;
    if (const json::Array *array = object.getArray("value"))
      for (const json::Value &row : *array) {
        const json::Array *pair = row.getAsArray();
        if (!pair || pair->size() != 2 || !(*pair)[0].getAsInteger() ||
            !(*pair)[1].getAsNumber() || *(*pair)[1].getAsNumber() <= 0)
          break;
        rows.emplace_back(*(*pair)[0].getAsInteger(),
                          *(*pair)[1].getAsNumber());
      }
    const json::Array *array = object.getArray("value");
    if (!array || rows.empty() || rows.size() != array->size() ||
        !llvm::is_sorted(rows))
      fail(path + key + ".value",
           "expects ascending pairs [ranks, positive number]");
    return rows;
  }

private:
  bool checkUnit(const json::Object &object, llvm::StringRef unit,
                 const std::string &path) {
    if (!message.empty())
      return false;
    std::optional<llvm::StringRef> got = object.getString("unit");
    if (!got || *got != unit)
      fail(path + ".unit", "expects \"" + unit + "\"");
    else if (!object.getString("source"))
      fail(path + ".source", "expects where the value is from");
    return message.empty();
  }

  llvm::StringRef file;
  std::string message;
};
} // namespace

static MatrixUnit readMatrix(Reader &reader, const json::Object &in,
                             const std::string &path) {
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

llvm::Expected<Device> cleave::parseDevice(llvm::StringRef text,
                                           llvm::StringRef file) {
  llvm::Expected<json::Object> object = parseJsonObject(text, file);
  if (!object)
    return object.takeError();

  Reader reader(file);
  Device device;
  device.name = object->getString("name").value_or("").str();
  if (device.name.empty())
    reader.fail("name", "expects a name");
  device.memory = reader.getConstant(*object, "memory", "byte", "", 1);
  device.memoryBandwidth =
      reader.getConstant(*object, "memory_bandwidth", "byte/s", "", 1);
  device.memoryEfficiency =
      reader.getConstant(*object, "memory_efficiency", "1", "", 0.01, 1);
  device.multiprocessors = int64_t(
      reader.getConstant(*object, "multiprocessors", "1", "", 1, 1 << 20));
  const json::Object &matrix = reader.getObject(*object, "matrix", "");
  for (const auto &entry : matrix) {
    llvm::StringRef key = entry.first;
    const auto *name = llvm::find(dtypeNames, key);
    if (name == std::end(dtypeNames))
      reader.fail("matrix." + key,
                  "expects one of " +
                      llvm::join(llvm::ArrayRef(dtypeNames), ", "));
    else
      device.matrix[name - dtypeNames] =
          readMatrix(reader, reader.getObject(matrix, key, "matrix."),
                     "matrix." + key.str() + ".");
  }
  const json::Object &attention = reader.getObject(*object, "attention", "");
  for (const auto &entry : attention) {
    std::string path = "attention." + entry.first.str() + ".";
    const json::Object &in =
        reader.getObject(attention, entry.first, "attention.");
    AttentionUnit &unit = device.attention[entry.first.str()];
    unit.forward = reader.getConstant(in, "forward", "1", path, 0.001, 1);
    unit.backward = reader.getConstant(in, "backward", "1", path, 0.001, 1);
    unit.ramp = reader.getConstant(in, "ramp", "token", path);
    unit.kept = reader.getConstant(in, "kept", "byte/pair", path);
    unit.narrow = reader.getConstant(in, "narrow", "1", path, 0.1, 1);
  }
  device.watts = reader.getConstant(*object, "power", "W", "");
  device.pricePerHour = reader.getConstant(*object, "price", "USD/h", "");
  device.mtbfHours = reader.getConstant(*object, "mtbf", "h", "", 1);
  if (llvm::Error error = reader.takeError())
    return error;
  return device;
}

llvm::Expected<Link> cleave::parseLink(llvm::StringRef text,
                                       llvm::StringRef file) {
  llvm::Expected<json::Object> object = parseJsonObject(text, file);
  if (!object)
    return object.takeError();

  Reader reader(file);
  Link link;
  link.name = object->getString("name").value_or("").str();
  if (link.name.empty())
    reader.fail("name", "expects a name");
  link.bandwidth = reader.getConstant(*object, "bandwidth", "byte/s", "", 1);
  link.latency = reader.getConstant(*object, "latency", "s", "");
  const json::Object &curves = reader.getObject(*object, "collectives", "");
  for (size_t kind = 0; kind != numCollectiveKinds; ++kind) {
    std::string path = "collectives." + kindNames[kind].str() + ".";
    const json::Object &in =
        reader.getObject(curves, kindNames[kind], "collectives.");
    CollectiveCurve &curve = link.collectives[kind];
    curve.startup = reader.getConstant(in, "startup", "s", path);
    curve.startupPerRank =
        reader.getConstant(in, "startup_per_rank", "s", path);
    curve.pipeline = reader.getConstant(in, "pipeline", "s", path);
    curve.bandwidth = reader.getTable(in, "bandwidth", "byte/s by ranks", path);
  }
  if (llvm::Error error = reader.takeError())
    return error;
  return link;
}

//===----------------------------------------------------------------------===//
// The catalog
//===----------------------------------------------------------------------===//

static std::vector<std::string> getNames(llvm::StringRef folder) {
  std::vector<std::string> names;
  for (const CatalogFile &file : hardwareCatalog)
    if (file.folder == folder)
      names.push_back(file.name.str());
  return names;
}

/// The text of a built-in file; `what` names the kind in the error.
static llvm::Expected<llvm::StringRef>
getText(llvm::StringRef folder, llvm::StringRef name, llvm::StringRef what) {
  for (const CatalogFile &file : hardwareCatalog)
    if (file.folder == folder && file.name == name)
      return file.text;
  return llvm::createStringError(
      llvm::formatv("unknown {0} \"{1}\", expects one of {2}", what, name,
                    llvm::join(getNames(folder), ", ")));
}

llvm::Expected<Device> cleave::getDevice(llvm::StringRef name) {
  llvm::Expected<llvm::StringRef> text = getText("devices", name, "device");
  if (!text)
    return text.takeError();
  return parseDevice(*text, name);
}

llvm::Expected<Link> cleave::getLink(llvm::StringRef name) {
  llvm::Expected<llvm::StringRef> text = getText("links", name, "link");
  if (!text)
    return text.takeError();
  return parseLink(*text, name);
}

std::vector<std::string> cleave::getDeviceNames() {
  return getNames("devices");
}

llvm::Expected<Machine> cleave::getMachine(llvm::StringRef preset) {
  auto [name, countText] = preset.split(':');
  Machine machine;
  if (countText.getAsInteger(10, machine.devices) || machine.devices < 1 ||
      machine.devices > (1 << 24))
    return llvm::createStringError(
        llvm::formatv("cluster \"{0}\": expects NAME:COUNT with a count from 1 "
                      "to 16777216",
                      preset));
  llvm::Expected<llvm::StringRef> text = getText("machines", name, "cluster");
  if (!text)
    return text.takeError();
  llvm::Expected<json::Object> object = parseJsonObject(*text, name);
  if (!object)
    return object.takeError();
  llvm::Expected<Device> device = getDevice(*object->getString("device"));
  if (!device)
    return device.takeError();
  machine.device = std::move(*device);
  for (const json::Value &entry : *object->getArray("levels")) {
    const json::Object &in = *entry.getAsObject();
    llvm::Expected<Link> link = getLink(*in.getString("link"));
    if (!link)
      return link.takeError();
    int64_t size = *in.getInteger("size");
    machine.levels.push_back(
        {size == 0 ? machine.devices : size, std::move(*link)});
  }
  return machine;
}
