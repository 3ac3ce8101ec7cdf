//===- Saver.cpp ----------------------------------------------------------===//
#include "runtime/checkpoint/Saver.h"
#include "runtime/base/Catch.h"
#include "runtime/base/Crc32c.h"
#include "runtime/base/Log.h"
#include "runtime/checkpoint/Format.h"
#include "runtime/checkpoint/Restore.h"
#include "runtime/checkpoint/StateBox.h"
#include "runtime/io/OutputFile.h"
#include "runtime/program/Envelope.h"
#include <cstring>
#include <random>
#include <system_error>

using namespace cleave::runtime;
namespace fb = cleave::program;

//===----------------------------------------------------------------------===//
// SaveVote
//===----------------------------------------------------------------------===//

void SaveVote::put(std::vector<double> &numbers) const {
  // Sizes below 2^53 and checksums are exact as doubles.
  numbers.insert(numbers.end(), {double(state), double(file.bytes),
                                 double(file.indexBegin), double(file.crc)});
}

SaveVote SaveVote::take(std::span<const double> numbers, int rank) {
  SaveVote vote;
  vote.state = State(int(numbers[0]));
  vote.file.rank = rank;
  vote.file.name = getShardName(rank);
  vote.file.bytes = uint64_t(numbers[1]);
  vote.file.indexBegin = uint64_t(numbers[2]);
  vote.file.crc = uint32_t(numbers[3]);
  return vote;
}

//===----------------------------------------------------------------------===//
// Saver
//===----------------------------------------------------------------------===//

/// The sealed program with what only running it needs left out.
static std::vector<uint8_t> stripProgram(const Program &program) {
  std::unique_ptr<fb::ProgramT> copy(program.get().UnPack());
  copy->kernels.clear();
  for (auto &stage : copy->stages) {
    stage->instructions.clear();
    stage->outputs.clear();
    stage->memory.clear();
    stage->tokens.reset();
    stage->targets.reset();
    stage->segments.clear();
    stage->runs.clear();
    stage->update_run = 0;
  }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::Program::Pack(builder, copy.get()),
                 fb::ProgramIdentifier());
  return sealProgram(builder.GetBufferPointer(), builder.GetSize());
}

Status cleave::runtime::writeManifest(const std::string &folder,
                                      const Program &program,
                                      Manifest manifest) {
  CLEAVE_RETURN_IF_ERROR(createFolder(folder));
  std::vector<uint8_t> sealed = stripProgram(program);
  for (const fb::Axis *axis : toList(program->axes()))
    manifest.mesh.emplace_back(toView(axis->name()), int(axis->size()));
  manifest.program.name = programName;
  manifest.program.bytes = sealed.size();
  manifest.program.crc = computeCrc32c(sealed.data(), sealed.size());
  CLEAVE_RETURN_IF_ERROR(writeWholeFile(
      folder + "/" + programName,
      {reinterpret_cast<const char *>(sealed.data()), sealed.size()}));
  return writeWholeFile(folder + "/" + manifestName, manifest.format());
}

/// Bytes of a checkpoint of the program, over all ranks.
static uint64_t getSavedBytes(const Program &program) {
  uint64_t bytes = 0;
  for (const fb::State *state : program.getStates())
    if (isSaved(*state)) {
      uint64_t elements = 1;
      for (uint64_t size : toSpan(state->logical()))
        elements *= size;
      bytes += elements * cleave::runtime::getBytes(state->dtype());
    }
  return bytes;
}

static std::string makeRunName() {
  std::random_device device;
  char text[33];
  std::snprintf(text, sizeof(text), "%08x%08x%08x%08x", device(), device(),
                device(), device());
  return text;
}

Saver::Saver(Executor &executor, std::string folder, int64_t keep)
    : executor(executor), folder(std::move(folder)), keep(keep),
      rank(executor.getCommunicator().getRank()) {}

Saver::~Saver() {
  if (thread.joinable())
    thread.join();
}

Status Saver::create(Executor &executor, const std::string &folder,
                     int64_t keep, std::unique_ptr<Saver> &saver) {
  Communicator &communicator = executor.getCommunicator();
  std::unique_ptr<Saver> result(new Saver(executor, folder, keep));
  Status status;
  if (result->rank == 0) {
    status = CheckpointStore::open(folder, result->store);
    if (status.ok())
      status = checkFreeSpace(folder, getSavedBytes(executor.getProgram()));
    result->run_ = makeRunName();
  }
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(result->run_));

  const Program &program = executor.getProgram();
  std::vector<uint64_t> begins;
  uint64_t bytes = 0;
  for (const fb::State *state : program.getStates()) {
    if (!isSaved(*state) || !isWriter(program, *state, result->rank))
      continue;
    uint64_t elements =
        getShardBox(*state, program.getMesh(), result->rank).getElements();
    if (elements == 0)
      continue;
    begins.push_back(bytes);
    bytes += elements * cleave::runtime::getBytes(state->dtype());
    result->parts.push_back({state, {}});
  }
  // Resizing writes every page, so that the first copy is as fast as others.
  result->staging.resize(bytes);
  begins.push_back(bytes);
  for (size_t i = 0; i < result->parts.size(); ++i)
    result->parts[i].data = std::span<const std::byte>(result->staging)
                                .subspan(begins[i], begins[i + 1] - begins[i]);
  saver = std::move(result);
  return {};
}

void Saver::run(std::function<Status()> work) {
  if (thread.joinable())
    thread.join();
  threadDone.store(false);
  try {
    thread = std::thread([this, work = std::move(work)] {
      result = catchExceptions(work);
      threadDone.store(true);
    });
  } catch (const std::system_error &error) {
    result = Status::error("cannot start the thread that saves: " +
                           std::string(error.what()));
    threadDone.store(true);
  }
}

Status Saver::begin(const RunProgress &newProgress) {
  progress = newProgress;
  committed = false;
  result = {};
  file = {};
  std::byte *to = staging.data();
  for (const ShardPart &part : parts)
    CLEAVE_RETURN_IF_ERROR(executor.read(
        *part.state->operand(), [&](std::span<const std::byte> local) {
          to = copyPart(*part.state, local, to);
          return Status();
        }));
  phase = Phase::Writing;
  run([this] { return write(); });
  return {};
}

/// Of this rank's shard what is saved of it. Returns where the copy ends.
std::byte *Saver::copyPart(const fb::State &state,
                           std::span<const std::byte> local, std::byte *to) {
  StateBox box(state, executor.getProgram().getMesh(), rank);
  uint64_t element = cleave::runtime::getBytes(state.dtype());
  if (box.getSize() == box.getLocalSize()) {
    // Without padding, the elements' order is that in memory.
    executor.getThreadPool().parallelFor(
        0, int64_t(local.size()), 1 << 20,
        [&](int64_t first, int64_t last, int) {
          std::memcpy(to + first, local.data() + first, size_t(last - first));
        });
    return to + local.size();
  }
  box.forEachRun(0, box.getSize(),
                 [&](uint64_t first, uint64_t, uint64_t, uint64_t count) {
                   std::memcpy(to, local.data() + first * element,
                               count * element);
                   to += count * element;
                 });
  return to;
}

Status Saver::write() {
  if (parts.empty())
    return {};
  std::string temporary =
      CheckpointStore::getTemporaryPath(folder, progress.step);
  CLEAVE_RETURN_IF_ERROR(createFolder(temporary));
  return writeShard(temporary, rank, run_, progress.step, parts, file);
}

SaveVote Saver::getVote() const {
  SaveVote vote;
  if (phase == Phase::Idle)
    return vote;
  vote.state = SaveVote::Busy;
  if (!threadDone.load())
    return vote;
  vote.state = result.ok() ? SaveVote::Written : SaveVote::Failed;
  vote.file = file;
  return vote;
}

bool Saver::hear(std::span<const SaveVote> votes) {
  if (phase == Phase::Idle)
    return false;
  bool busy = false, failed = false;
  for (const SaveVote &vote : votes) {
    busy |= vote.state == SaveVote::Busy;
    failed |= vote.state == SaveVote::Failed;
  }
  // A failure ends the save once no rank writes into its folder any more.
  if (busy)
    return false;
  if (failed) {
    if (rank == 0)
      store.discard(progress.step);
    finish(false);
    return true;
  }
  if (phase == Phase::Committing) {
    finish(true);
    return true;
  }
  phase = Phase::Committing;
  if (rank == 0) {
    std::vector<CheckpointFile> shards;
    for (const SaveVote &vote : votes)
      if (vote.file.bytes > 0)
        shards.push_back(vote.file);
    run([this, shards = std::move(shards)]() mutable {
      return commit(std::move(shards));
    });
  }
  return false;
}

void Saver::finish(bool isCommitted) {
  phase = Phase::Idle;
  committed = isCommitted;
}

Status Saver::commit(std::vector<CheckpointFile> shards) {
  Manifest manifest;
  manifest.run = run_;
  manifest.progress = progress;
  manifest.shards = std::move(shards);
  CLEAVE_RETURN_IF_ERROR(
      writeManifest(CheckpointStore::getTemporaryPath(folder, getStep()),
                    executor.getProgram(), std::move(manifest)));
  CLEAVE_RETURN_IF_ERROR(store.commit(getStep()));
  // The new one is safe; what goes wrong with the old ones is only said.
  Status pruned =
      catchExceptions([&] { return store.prune(keep, verifyCheckpoint); });
  if (!pruned.ok())
    logWarning("no old checkpoint is removed: " + pruned.message());
  return {};
}
