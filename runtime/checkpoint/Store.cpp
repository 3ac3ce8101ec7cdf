//===- Store.cpp ----------------------------------------------------------===//
#include "runtime/checkpoint/Store.h"
#include "runtime/checkpoint/Format.h"
#include "runtime/io/OutputFile.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

using namespace cleave::runtime;
namespace fs = std::filesystem;

/// Prefix of what is not a checkpoint yet, or no longer.
static constexpr std::string_view hidden = ".step-";

/// The step of "step-00000200"; -1 if that is no such name.
static int64_t getStep(const std::string &name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix) || name.size() > prefix.size() + 18)
    return -1;
  std::string digits = name.substr(prefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos)
    return -1;
  int64_t step = std::stoll(digits);
  return getStepName(step) == name ? step : -1;
}

std::vector<CheckpointPath>
cleave::runtime::listCheckpoints(const std::string &folder) {
  std::error_code error;
  if (fs::exists(folder + "/" + manifestName, error))
    return {{getStep(fs::path(folder).filename().string()), folder}};
  std::vector<CheckpointPath> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    int64_t step = getStep(it->path().filename().string());
    if (step >= 0)
      found.push_back({step, it->path().string()});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointPath &a, const CheckpointPath &b) {
              return a.step > b.step;
            });
  return found;
}

std::string cleave::runtime::describePassedOver(const Status &damage,
                                                const std::string &path) {
  return damage.message() + "; the checkpoint " + path + " is not used";
}

Status cleave::runtime::failWithoutCheckpoint(const std::string &folder) {
  return Status::error(folder + ": has no checkpoint, neither manifest.json "
                                "nor step-N/manifest.json");
}

Status cleave::runtime::failWithoutWhole(const std::string &folder,
                                         size_t count) {
  if (count == 1)
    return Status::error(folder + ": its only checkpoint is not whole");
  return Status::error(folder + ": none of its " + std::to_string(count) +
                       " checkpoints is whole");
}

static Status fail(const std::string &path, const std::string &what, int code) {
  return Status::error(path + ": cannot " + what + ": " + std::strerror(code));
}

static Status removeTree(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? fail(path, "remove", error.value()) : Status();
}

CheckpointStore::~CheckpointStore() {
  if (lock >= 0)
    ::close(lock);
}

Status CheckpointStore::open(const std::string &folder,
                             CheckpointStore &store) {
  CLEAVE_RETURN_IF_ERROR(createFolder(folder));
  CLEAVE_RETURN_IF_ERROR(syncFolder(folder + "/.."));
  CheckpointStore result;
  result.folder = folder;
  std::string path = folder + "/lock";
  result.lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (result.lock < 0)
    return fail(path, "create", errno);
  if (::flock(result.lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return Status::error(folder + ": another run saves into this folder");
    return fail(path, "lock", errno);
  }
  // Nobody else writes here, so what is hidden is of a save that was killed.
  std::error_code error;
  std::vector<std::string> leftovers;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    if (it->path().filename().string().starts_with(hidden))
      leftovers.push_back(it->path().string());
  for (const std::string &leftover : leftovers)
    CLEAVE_RETURN_IF_ERROR(removeTree(leftover));
  store = std::move(result);
  return {};
}

std::string CheckpointStore::getTemporaryPath(const std::string &folder,
                                              int64_t step) {
  return folder + "/." + getStepName(step) + ".tmp";
}

std::string CheckpointStore::getPath(int64_t step) const {
  return folder + "/" + getStepName(step);
}

Status CheckpointStore::commit(int64_t step) const {
  std::string temporary = getTemporaryPath(folder, step), path = getPath(step);
  std::string old = folder + "/." + getStepName(step) + ".old";
  CLEAVE_RETURN_IF_ERROR(syncFolder(temporary));
  std::error_code error;
  bool replaces = fs::exists(path, error);
  if (replaces && ::rename(path.c_str(), old.c_str()) != 0)
    return fail(path, "rename", errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    return fail(path, "rename " + temporary + " to it", errno);
  CLEAVE_RETURN_IF_ERROR(syncFolder(folder));
  return replaces ? removeTree(old) : Status();
}

void CheckpointStore::discard(int64_t step) const {
  // What cannot be removed now is removed when the folder is opened next.
  (void)removeTree(getTemporaryPath(folder, step));
}

Status CheckpointStore::remove(const std::vector<CheckpointPath> &old) const {
  for (const CheckpointPath &checkpoint : old) {
    // Under a hidden name first: one that is half removed is no checkpoint.
    std::string gone =
        folder + "/." + getStepName(checkpoint.step) + ".removed";
    if (::rename(checkpoint.path.c_str(), gone.c_str()) != 0)
      return fail(checkpoint.path, "rename", errno);
    CLEAVE_RETURN_IF_ERROR(removeTree(gone));
  }
  return {};
}
