//===- Manifest.cpp -------------------------------------------------------===//
#include "runtime/checkpoint/Manifest.h"
#include "runtime/base/Crc32c.h"
#include "runtime/base/Quote.h"
#include "runtime/checkpoint/Format.h"
#include <nlohmann/json.hpp>

using namespace cleave::runtime;
using Json = nlohmann::ordered_json;

static constexpr const char *formatName = "cleave-checkpoint";
static constexpr std::string_view checksumKey = ",\n  \"crc32c\": ";

static Json toJson(const CheckpointFile &file) {
  Json object;
  object["file"] = file.name;
  object["bytes"] = file.bytes;
  if (file.rank >= 0) {
    object["rank"] = file.rank;
    object["index_begin"] = file.indexBegin;
  }
  object["crc32c"] = file.crc;
  return object;
}

std::string Manifest::format() const {
  Json object;
  object["format"] = formatName;
  object["version"] = checkpointVersion;
  object["step"] = progress.step;
  object["run"] = run;
  object["mesh"] = Json::object();
  for (const auto &[name, size] : mesh)
    object["mesh"][name] = size;
  Json &state = object["progress"];
  state["samples"] = progress.samples;
  state["seed"] = progress.seed;
  state["data"] = progress.data;
  state["total_steps"] = progress.totalSteps;
  state["skipped_steps"] = progress.skippedSteps;
  state["losses"] = progress.losses;
  state["grad_norms"] = progress.gradNorms;
  object["program"] = toJson(program);
  object["shards"] = Json::array();
  for (const CheckpointFile &shard : shards)
    object["shards"].push_back(toJson(shard));
  std::string text = object.dump(2, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2); // the line break and brace at the end
  uint32_t crc = computeCrc32c(text.data(), text.size());
  return text + std::string(checksumKey) + std::to_string(crc) + "\n}\n";
}

namespace {

/// Takes fields out of an object; the first one that is not as expected is the
/// error.
class FieldReader {
public:
  FieldReader(const nlohmann::json &object, std::string path, Status &status)
      : object(object), path(std::move(path)), status(status) {}

  template <typename T>
  void read(const char *key, T &value) {
    if (!status.ok())
      return;
    auto found = object.is_object() ? object.find(key) : object.end();
    if (found == object.end() || !isLegal(*found, value))
      status = Status::error(
          path + quote(key) + " is " +
          (found == object.end() ? "missing" : "not as expected"));
    else
      value = found->template get<T>();
  }

private:
  static bool isLegal(const nlohmann::json &found, const std::string &) {
    return found.is_string();
  }
  static bool isLegal(const nlohmann::json &found,
                      const std::vector<double> &) {
    for (const auto &value : found)
      if (!value.is_number())
        return false;
    return found.is_array();
  }
  template <typename T>
  static bool isLegal(const nlohmann::json &found, const T &) {
    return found.is_number_unsigned() &&
           found.get<uint64_t>() <= uint64_t(std::numeric_limits<T>::max());
  }

  const nlohmann::json &object;
  std::string path;
  Status &status;
};

void readFile(const nlohmann::json &object, const std::string &path,
              CheckpointFile &file, Status &status) {
  FieldReader reader(object, path, status);
  reader.read("file", file.name);
  reader.read("bytes", file.bytes);
  reader.read("crc32c", file.crc);
}

} // namespace

/// Checks the last line. A text cut anywhere, or changed anywhere, fails.
static Status checkChecksum(std::string_view text) {
  size_t at = text.rfind(checksumKey);
  if (at == text.npos)
    return Status::error("it has no checksum at its end");
  uint32_t crc = computeCrc32c(text.data(), at);
  if (text.substr(at) !=
      std::string(checksumKey) + std::to_string(crc) + "\n}\n")
    return Status::error("its checksum does not match");
  return {};
}

Status Manifest::parse(std::string_view text, const std::string &where,
                       Manifest &manifest) {
  auto damaged = [&](const std::string &how) {
    return Status::error(where + ": the manifest is damaged: " + how);
  };
  if (Status status = checkChecksum(text); !status.ok())
    return damaged(status.message());
  nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (root.is_discarded())
    return damaged("it is not JSON");

  Manifest result;
  Status status;
  std::string format;
  int version = 0;
  FieldReader top(root, "", status);
  top.read("format", format);
  top.read("version", version);
  if (status.ok() && (format != formatName || version != checkpointVersion))
    return Status::error(where + ": is " + quote(format) + ", version " +
                         std::to_string(version) + "; this runtime reads " +
                         quote(formatName) + ", version " +
                         std::to_string(checkpointVersion));
  top.read("step", result.progress.step);
  top.read("run", result.run);
  for (const char *key : {"mesh", "progress", "program"})
    if (status.ok() && (!root.contains(key) || !root[key].is_object()))
      status = Status::error(quote(key) + " is not an object");
  if (status.ok() && (!root.contains("shards") || !root["shards"].is_array()))
    status = Status::error("\"shards\" is not an array");
  if (!status.ok())
    return damaged(status.message());
  for (const auto &[name, size] : root["mesh"].items()) {
    int value = 0;
    FieldReader(root["mesh"], "mesh: ", status).read(name.c_str(), value);
    result.mesh.emplace_back(name, value);
  }
  FieldReader progress(root["progress"], "progress: ", status);
  progress.read("samples", result.progress.samples);
  progress.read("seed", result.progress.seed);
  progress.read("data", result.progress.data);
  progress.read("total_steps", result.progress.totalSteps);
  progress.read("skipped_steps", result.progress.skippedSteps);
  progress.read("losses", result.progress.losses);
  progress.read("grad_norms", result.progress.gradNorms);
  readFile(root["program"], "program: ", result.program, status);
  for (const nlohmann::json &entry : root["shards"]) {
    CheckpointFile shard;
    std::string path = "shard " + std::to_string(result.shards.size()) + ": ";
    readFile(entry, path, shard, status);
    FieldReader reader(entry, path, status);
    reader.read("rank", shard.rank);
    reader.read("index_begin", shard.indexBegin);
    if (status.ok() &&
        (shard.name != getShardName(shard.rank) ||
         shard.indexBegin > shard.bytes ||
         (!result.shards.empty() && result.shards.back().rank >= shard.rank)))
      status = Status::error(path + "its numbers contradict each other");
    result.shards.push_back(std::move(shard));
  }
  if (status.ok() && result.program.name != programName)
    status =
        Status::error("program: its name is " + quote(result.program.name));
  if (!status.ok())
    return damaged(status.message());
  manifest = std::move(result);
  return {};
}
