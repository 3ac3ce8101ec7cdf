//===- Resume.cpp ---------------------------------------------------------===//
#include "runtime/train/Resume.h"
#include "runtime/base/Crc32c.h"
#include "runtime/base/Log.h"
#include "runtime/checkpoint/Restore.h"
#include "runtime/checkpoint/Store.h"
#include <cstdio>

using namespace cleave::runtime;
namespace fb = cleave::program;

/// The checkpoints that rank 0 sees, newest first, on every rank.
static Status listOnAllRanks(Communicator &communicator,
                             const std::string &folder,
                             std::vector<std::string> &paths) {
  std::string list;
  if (communicator.getRank() == 0)
    for (const CheckpointPath &checkpoint : listCheckpoints(folder))
      list += checkpoint.path + '\n';
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(list));
  for (size_t begin = 0; begin < list.size();) {
    size_t end = list.find('\n', begin);
    paths.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return {};
}

static Status restoreAll(Executor &executor, CheckpointReader &reader) {
  const Program &program = executor.getProgram();
  for (const fb::State *state : toList(executor.getStage()->states()))
    if (isSaved(*state))
      CLEAVE_RETURN_IF_ERROR(
          executor.write(*state->operand(), [&](std::span<std::byte> local) {
            return restoreState(program, *state,
                                executor.getCommunicator().getRank(), reader,
                                local);
          }));
  return {};
}

/// Reads one checkpoint on all ranks. `damage`: what is wrong with it.
static Status tryCheckpoint(Executor &executor, const std::string &path,
                            RunProgress &progress, Status &damage) {
  Communicator &communicator = executor.getCommunicator();
  CheckpointReader reader;
  CLEAVE_RETURN_IF_ERROR(
      communicator.share(CheckpointReader::open(path, reader), damage));
  if (!damage.ok())
    return {};
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(checkFits(executor.getProgram(), reader)));
  CLEAVE_RETURN_IF_ERROR(
      communicator.share(restoreAll(executor, reader), damage));
  if (damage.ok())
    progress = reader.getManifest().progress;
  return {};
}

Status cleave::runtime::resumeRun(Executor &executor, const Options &options,
                                  ResumedRun &resumed) {
  Communicator &communicator = executor.getCommunicator();
  bool isFirst = communicator.getRank() == 0;
  std::vector<std::string> there, candidates;
  if (!options.save.empty())
    CLEAVE_RETURN_IF_ERROR(listOnAllRanks(communicator, options.save, there));
  if (!options.resume) {
    if (there.empty())
      return {};
    return communicator.agree(
        Status::error(options.save + ": has checkpoints of a run, " +
                      there.front() + " the newest: --resume goes on from it"));
  }
  CLEAVE_RETURN_IF_ERROR(
      listOnAllRanks(communicator, options.resumeFrom, candidates));
  if (candidates.empty()) {
    if (options.resumeFrom == options.save)
      return {}; // the run's first start
    return communicator.agree(failWithoutCheckpoint(options.resumeFrom));
  }
  for (const std::string &path : candidates) {
    Status damage;
    CLEAVE_RETURN_IF_ERROR(
        tryCheckpoint(executor, path, resumed.progress, damage));
    if (damage.ok()) {
      resumed.path = path;
      break;
    }
    if (isFirst)
      logWarning(describePassedOver(damage, path));
  }
  if (resumed.path.empty())
    return communicator.agree(
        failWithoutWhole(options.resumeFrom, candidates.size()));
  // Later steps of another run would be taken for this one's.
  for (const std::string &path : there) {
    bool isOurs = false;
    for (const std::string &candidate : candidates)
      isOurs |= candidate == path;
    if (!isOurs)
      return communicator.agree(Status::error(
          options.save + ": has " + path + ", which this run does not go on " +
          "from: save into another folder, or remove it"));
  }
  return {};
}

std::string
cleave::runtime::describeData(const std::vector<DataIdentity> &files,
                              uint64_t seqLen) {
  uint64_t tokens = 0;
  uint32_t crc = 0;
  for (const DataIdentity &file : files) {
    tokens += file.tokens;
    const uint64_t facts[] = {file.bytes, file.tokens, file.indexChecksum,
                              file.sampleChecksum};
    crc = computeCrc32c(facts, sizeof(facts), crc);
  }
  char text[160];
  std::snprintf(text, sizeof(text),
                "%zu file%s, %llu tokens, checksum %08x, in samples of %llu",
                files.size(), files.size() == 1 ? "" : "s",
                (unsigned long long)tokens, crc, (unsigned long long)seqLen);
  return text;
}

Status cleave::runtime::checkProgress(const ResumedRun &resumed, uint64_t seed,
                                      const std::string &data, int64_t steps,
                                      std::vector<std::string> &notes) {
  const RunProgress &before = resumed.progress;
  auto differs = [&](const std::string &what, const std::string &was,
                     const std::string &is) {
    return Status::error(resumed.path + ": was saved by a run with " + what +
                         " " + was + "; this one has " + is);
  };
  if (before.seed != seed)
    return differs("--seed", std::to_string(before.seed), std::to_string(seed));
  if (before.data != data)
    return differs("data of", before.data, data);
  if (before.totalSteps != steps)
    notes.push_back("the run that saved had --steps " +
                    std::to_string(before.totalSteps) + ", this one " +
                    std::to_string(steps) +
                    ": a decay until the last step is another");
  return {};
}
