//===- Reader.cpp - The first thing that is wrong with a file -------------===//
#include "cleave/Json/Reader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
namespace json = llvm::json;

/// In quotes and one line, whatever a key is.
static std::string quote(const llvm::Twine &path) {
  return llvm::formatv("{0}", json::Value(path.str()));
}

void JsonReader::fail(const llvm::Twine &path, const llvm::Twine &what,
                      const json::Value *got) {
  if (hasFailed())
    return;
  message = (file + ": key " + quote(path) + ": expects " + what + ", ").str();
  if (!got) {
    message += "but it is missing";
    return;
  }
  constexpr size_t most = 60;
  std::string text = llvm::formatv("{0}", *got);
  if (text.size() > most)
    text = text.substr(0, most) + "...";
  message += "got " + text;
}

void JsonReader::fail(llvm::Error error) {
  std::string text = llvm::toString(std::move(error));
  if (!hasFailed())
    message = text;
}

llvm::Error JsonReader::takeError() const {
  return hasFailed() ? llvm::createStringError(message)
                     : llvm::Error::success();
}

void JsonReader::checkKeys(const json::Object &in, const std::string &path,
                           llvm::ArrayRef<llvm::StringRef> legal) {
  // The first in the alphabet, as an object's keys have no order.
  llvm::StringRef unknown;
  for (const auto &entry : in) {
    llvm::StringRef key = entry.first;
    if (!llvm::is_contained(legal, key) && (unknown.empty() || key < unknown))
      unknown = key;
  }
  if (!hasFailed() && !unknown.empty())
    message = llvm::formatv("{0}: unknown key {1}; legal keys are {2}", file,
                            quote(path + unknown), llvm::join(legal, ", "));
}

void JsonReader::checkVersion(const json::Object &in, int64_t version) {
  if (in.getInteger("version") != version)
    fail("version", llvm::Twine(version), in.get("version"));
}

const json::Object &JsonReader::getObject(const json::Object &in,
                                          llvm::StringRef key,
                                          const std::string &path) {
  if (const json::Object *object = in.getObject(key))
    return *object;
  fail(path + key, "an object", in.get(key));
  static const json::Object empty;
  return empty;
}

std::string JsonReader::getString(const json::Object &in, llvm::StringRef key,
                                  const std::string &path) {
  llvm::StringRef text = in.getString(key).value_or("");
  if (text.empty())
    fail(path + key, "a text", in.get(key));
  return text.str();
}

bool JsonReader::getFlag(const json::Object &in, llvm::StringRef key,
                         const std::string &path, bool absent) {
  const json::Value *value = in.get(key);
  if (value && !value->getAsBoolean())
    fail(path + key, "true or false", value);
  return value ? value->getAsBoolean().value_or(absent) : absent;
}

int64_t JsonReader::getCount(const json::Object &in, llvm::StringRef key,
                             const std::string &path, int64_t least,
                             int64_t most, std::optional<int64_t> absent) {
  const json::Value *value = in.get(key);
  if (!value && absent)
    return *absent;
  std::optional<int64_t> number = value ? value->getAsInteger() : std::nullopt;
  if (number && *number >= least && *number <= most)
    return *number;
  fail(path + key, llvm::formatv("an integer in {0}..{1}", least, most), value);
  return least;
}

double JsonReader::getNumber(const json::Object &in, llvm::StringRef key,
                             const std::string &path, double least, double most,
                             std::optional<double> absent) {
  const json::Value *value = in.get(key);
  if (!value && absent)
    return *absent;
  std::optional<double> number = value ? value->getAsNumber() : std::nullopt;
  if (number && *number >= least && *number <= most)
    return *number;
  fail(path + key,
       llvm::formatv("a number from {0} to {1}", llvm::format("%g", least),
                     llvm::format("%g", most)),
       value);
  return least;
}

const json::Object *JsonReader::getMeasured(const json::Object &in,
                                            llvm::StringRef key,
                                            llvm::StringRef unit,
                                            const std::string &path) {
  if (hasFailed())
    return nullptr;
  const json::Object &object = getObject(in, key, path);
  std::string inside = path + key.str() + ".";
  checkKeys(object, inside, {"value", "unit", "source"});
  if (object.getString("unit") != unit)
    fail(inside + "unit", "\"" + unit + "\"", object.get("unit"));
  if (object.getString("source").value_or("").empty())
    fail(inside + "source", "where the value is from", object.get("source"));
  return hasFailed() ? nullptr : &object;
}

double JsonReader::getConstant(const json::Object &in, llvm::StringRef key,
                               llvm::StringRef unit, const std::string &path,
                               double least, double most,
                               std::optional<double> absent) {
  if (!in.get(key) && absent)
    return *absent;
  const json::Object *object = getMeasured(in, key, unit, path);
  return object
             ? getNumber(*object, "value", path + key.str() + ".", least, most)
             : least;
}

std::vector<std::pair<int64_t, double>>
JsonReader::getTable(const json::Object &in, llvm::StringRef key,
                     llvm::StringRef unit, const std::string &path) {
  std::vector<std::pair<int64_t, double>> rows;
  const json::Object *object = getMeasured(in, key, unit, path);
  if (!object)
    return rows;
  const json::Value *value = object->get("value");
  const json::Array *array = value ? value->getAsArray() : nullptr;
  if (array)
    for (const json::Value &row : *array) {
      const json::Array *pair = row.getAsArray();
      if (!pair || pair->size() != 2)
        break;
      std::optional<int64_t> ranks = (*pair)[0].getAsInteger();
      std::optional<double> rate = (*pair)[1].getAsNumber();
      int64_t before = rows.empty() ? 0 : rows.back().first;
      if (!ranks || *ranks <= before || !rate || *rate <= 0)
        break;
      rows.emplace_back(*ranks, *rate);
    }
  if (!array || rows.empty() || rows.size() != array->size())
    fail(path + key + ".value", "ascending pairs [ranks, positive number]",
         value);
  return rows;
}
