//===- HuggingFaceWeights.cpp ---------------------------------------------===//
#include "runtime/io/HuggingFaceWeights.h"
#include "runtime/base/Quote.h"
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

using namespace cleave::runtime;
namespace fs = std::filesystem;

namespace {

/// Keeps `weight_map` of an index, skips the rest. Depth is bounded: an index
/// has nothing deeper than its metadata.
class IndexReader final : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit IndexReader(std::map<std::string, std::string> &weightMap)
      : weightMap(weightMap) {}

  std::string error;
  bool found = false;

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(int64_t) override { return value("a number"); }
  bool number_unsigned(uint64_t) override { return value("a number"); }
  bool number_float(double, const std::string &) override {
    return value("a number");
  }
  bool binary(nlohmann::json::binary_t &) override { return value("bytes"); }
  bool string(std::string &text) override {
    if (!inMap())
      return value("a string");
    if (!weightMap.emplace(name, text).second)
      return fail("\"weight_map\": tensor " + quote(name) + " is listed twice");
    return true;
  }
  bool start_object(size_t) override { return start(false); }
  bool start_array(size_t) override { return start(true); }
  bool end_object() override {
    --depth;
    return true;
  }
  bool end_array() override { return end_object(); }
  bool key(std::string &text) override {
    if (depth == 1) {
      section = text;
      if (section == "weight_map") {
        if (found)
          return fail("\"weight_map\" is given twice");
        found = true;
      }
    }
    name = text;
    return true;
  }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::json::exception &) override {
    return fail("is not JSON at byte " + std::to_string(position));
  }

private:
  static constexpr unsigned maxDepth = 16;

  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }
  bool inMap() const { return depth == 2 && section == "weight_map"; }
  bool value(const char *what) {
    if (depth == 0)
      return fail(std::string("expects an object, got ") + what);
    if (depth == 1 && section == "weight_map")
      return fail(std::string("\"weight_map\" expects an object, got ") + what);
    if (inMap())
      return fail("\"weight_map\": tensor " + quote(name) +
                  " expects a file name, got " + what);
    return true;
  }
  bool start(bool isArray) {
    bool isMap = depth == 1 && section == "weight_map";
    if (inMap() || (isArray && (isMap || depth == 0)))
      return value(isArray ? "an array" : "an object");
    if (++depth > maxDepth)
      return fail("is nested deeper than " + std::to_string(maxDepth));
    return true;
  }

  std::map<std::string, std::string> &weightMap;
  std::string section, name;
  unsigned depth = 0;
};

} // namespace

Status
cleave::runtime::parseIndex(std::string_view text, const std::string &file,
                            std::map<std::string, std::string> &weightMap) {
  constexpr size_t maxBytes = 100'000'000;
  weightMap.clear();
  if (text.size() > maxBytes)
    return Status::error(file + ": has " + std::to_string(text.size()) +
                         " bytes, over " + std::to_string(maxBytes));
  IndexReader reader(weightMap);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader))
    return Status::error(file + ": " + reader.error);
  if (!reader.found)
    return Status::error(file + ": expects the key \"weight_map\"");
  for (const auto &[tensor, name] : weightMap)
    if (name.empty() || name.find('/') != std::string::npos || name == ".." ||
        name == "." || name.find('\0') != std::string::npos)
      return Status::error(file + ": tensor " + quote(tensor) + ": " +
                           quote(name) +
                           " is not the name of a file in the same folder");
  return {};
}

Status HuggingFaceWeights::open(const std::string &path,
                                HuggingFaceWeights &weights) {
  HuggingFaceWeights result;
  result.path = path;
  std::error_code error;
  Status status;
  if (!fs::is_directory(path, error)) {
    status = result.addFile(path);
  } else {
    std::string single = path + "/model.safetensors";
    std::string index = path + "/model.safetensors.index.json";
    if (fs::exists(single, error))
      status = result.addFile(single);
    else if (fs::exists(index, error))
      status = result.openIndex(path, index);
    else
      status = Status::error(path + ": has neither model.safetensors nor "
                                    "model.safetensors.index.json");
  }
  if (status.ok())
    weights = std::move(result);
  return status;
}

Status HuggingFaceWeights::addFile(const std::string &file) {
  auto opened = std::make_unique<SafetensorsFile>();
  CLEAVE_RETURN_IF_ERROR(SafetensorsFile::open(file, *opened));
  for (const TensorInfo &tensor : opened->getTensors())
    if (!entries.emplace(tensor.name, Entry{opened.get(), &tensor}).second)
      return Status::error(file + ": tensor " + quote(tensor.name) +
                           " is also in " +
                           entries.find(tensor.name)->second.file->getPath());
  files.push_back(std::move(opened));
  return {};
}

Status HuggingFaceWeights::openIndex(const std::string &folder,
                                     const std::string &index) {
  MappedFile text;
  CLEAVE_RETURN_IF_ERROR(MappedFile::open(index, text));
  std::map<std::string, std::string> weightMap;
  CLEAVE_RETURN_IF_ERROR(parseIndex(text.getBytes(), index, weightMap));
  CLEAVE_RETURN_IF_ERROR(text.check());
  std::set<std::string> names;
  for (const auto &[tensor, name] : weightMap)
    names.insert(name);
  for (const std::string &name : names)
    CLEAVE_RETURN_IF_ERROR(addFile(folder + "/" + name));
  for (const auto &[tensor, name] : weightMap) {
    const Entry *entry = find(tensor);
    if (!entry || entry->file->getPath() != folder + "/" + name)
      return Status::error(index + ": tensor " + quote(tensor) + " is not in " +
                           quote(name));
  }
  for (const auto &[tensor, entry] : entries)
    if (!weightMap.count(tensor))
      return Status::error(index + ": does not list tensor " + quote(tensor) +
                           " of " + entry.file->getPath());
  return {};
}

Status HuggingFaceWeights::check() const {
  for (const auto &file : files)
    CLEAVE_RETURN_IF_ERROR(file->check());
  return {};
}

Status
HuggingFaceWeights::describe(std::vector<DataIdentity> &identities) const {
  std::vector<DataIdentity> result(files.size());
  for (size_t i = 0; i < files.size(); ++i)
    CLEAVE_RETURN_IF_ERROR(files[i]->getFile().describe(result[i]));
  identities = std::move(result);
  return {};
}

const HuggingFaceWeights::Entry *
HuggingFaceWeights::find(const std::string &name) const {
  auto it = entries.find(name);
  return it == entries.end() ? nullptr : &it->second;
}
