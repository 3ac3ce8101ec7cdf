//===- Restore.cpp --------------------------------------------------------===//
#include "runtime/checkpoint/Restore.h"
#include "runtime/base/Crc32c.h"
#include "runtime/base/Quote.h"
#include "runtime/checkpoint/Format.h"
#include "runtime/checkpoint/StateBox.h"
#include "runtime/io/MappedFile.h"
#include <algorithm>
#include <cstring>

using namespace cleave::runtime;
namespace fb = cleave::program;

/// Above any manifest or program that was ever written.
static constexpr uint64_t mostBytes = uint64_t(1) << 30;

Status CheckpointReader::open(const std::string &path,
                              CheckpointReader &reader) {
  CheckpointReader result;
  result.path = path;
  std::string file = path + "/" + manifestName, text;
  CLEAVE_RETURN_IF_ERROR(readSmallFile(file, mostBytes, text));
  CLEAVE_RETURN_IF_ERROR(Manifest::parse(text, file, result.manifest));
  const CheckpointFile &program = result.manifest.program;
  file = path + "/" + programName;
  CLEAVE_RETURN_IF_ERROR(readSmallFile(file, mostBytes, text));
  if (text.size() != program.bytes ||
      computeCrc32c(text.data(), text.size()) != program.crc)
    return Status::error(file + ": is damaged: does not match the manifest");
  CLEAVE_RETURN_IF_ERROR(
      Program::load(text.data(), text.size(), file, result.program));
  reader = std::move(result);
  return {};
}

Status CheckpointReader::getShard(int rank, ShardFile *&shard) {
  std::unique_ptr<ShardFile> &slot = shards[rank];
  if (!slot) {
    auto file = std::lower_bound(
        manifest.shards.begin(), manifest.shards.end(), rank,
        [](const CheckpointFile &f, int r) { return f.rank < r; });
    if (file == manifest.shards.end() || file->rank != rank)
      return Status::error(path + "/" + manifestName +
                           ": is damaged: lists no file of rank " +
                           std::to_string(rank));
    auto opened = std::make_unique<ShardFile>();
    CLEAVE_RETURN_IF_ERROR(ShardFile::open(path, manifest, *file, *opened));
    slot = std::move(opened);
  }
  shard = slot.get();
  return {};
}

Status CheckpointReader::forEachPart(
    const fb::State &state, const std::function<bool(const ShardBox &)> &wants,
    const PartFunction &fn) {
  const Mesh &mesh = program.getMesh();
  for (int rank = 0; rank < mesh.getWorldSize(); ++rank) {
    if (!isWriter(program, state, rank))
      continue;
    ShardBox box = getShardBox(state, mesh, rank);
    if (box.getElements() == 0 || !wants(box))
      continue;
    ShardFile *shard;
    CLEAVE_RETURN_IF_ERROR(getShard(rank, shard));
    const ShardFile::Entry *entry = shard->find(state);
    if (!entry || entry->bytes != box.getElements() * getBytes(state.dtype()))
      return Status::error(shard->getPath() + ": is damaged: its part of " +
                           quote(toView(state.name())) +
                           " is not that of its layout");
    CLEAVE_RETURN_IF_ERROR(fn(rank, box, *shard, *entry));
  }
  return {};
}

Status CheckpointReader::verify() {
  for (const CheckpointFile &file : manifest.shards) {
    ShardFile shard;
    CLEAVE_RETURN_IF_ERROR(ShardFile::open(path, manifest, file, shard));
    CLEAVE_RETURN_IF_ERROR(shard.verify());
  }
  return {};
}

Status cleave::runtime::verifyCheckpoint(const std::string &path) {
  CheckpointReader reader;
  CLEAVE_RETURN_IF_ERROR(CheckpointReader::open(path, reader));
  return reader.verify();
}

/// The states of a program that a run goes on from, by role and name.
static std::map<std::string, const fb::State *>
getSavedByName(const Program &program) {
  std::map<std::string, const fb::State *> states;
  for (const fb::State *state : program.getStates())
    if (isSaved(*state))
      states[std::string(toView(state->role())) + " " +
             quote(toView(state->name()))] = state;
  return states;
}

Status cleave::runtime::checkFits(const Program &program,
                                  const CheckpointReader &reader) {
  auto wanted = getSavedByName(program);
  auto there = getSavedByName(reader.getProgram());
  auto fail = [&](const std::string &how) {
    return Status::error(
        reader.getPath() +
        ": is a checkpoint of another model or optimizer: " + how);
  };
  for (const auto &[name, state] : wanted) {
    auto found = there.find(name);
    if (found == there.end())
      return fail("it has no " + name);
    auto ours = toSpan(state->logical());
    auto theirs = toSpan(found->second->logical());
    if (!std::ranges::equal(ours, theirs))
      return fail(name + " has shape " + formatList(theirs) +
                  "; the program expects " + formatList(ours));
    if (state->dtype() != found->second->dtype())
      return fail(name + " is " + fb::EnumNameDType(found->second->dtype()) +
                  "; the program expects " + fb::EnumNameDType(state->dtype()));
  }
  for (const auto &[name, state] : there)
    if (!wanted.contains(name))
      return fail("the program has no " + name);
  return {};
}

namespace {

/// Copies the elements that two boxes share, row by row.
class BoxCopier {
public:
  /// `shape`: of the shard to be filled, padding included; `box`: what is not
  /// padding of it.
  BoxCopier(const ShardBox &box, std::vector<uint64_t> shape,
            uint64_t elementBytes, std::byte *out)
      : box(box), shape(std::move(shape)), elementBytes(elementBytes),
        out(out) {}

  bool intersects(const ShardBox &part) const {
    for (size_t d = 0; d < box.sizes.size(); ++d)
      if (part.starts[d] + part.sizes[d] <= box.starts[d] ||
          box.starts[d] + box.sizes[d] <= part.starts[d])
        return false;
    return true;
  }

  Status copy(const ShardBox &part, ShardFile &shard,
              const ShardFile::Entry &entry) {
    return copyDim(part, shard, entry, 0, 0, 0);
  }

  uint64_t getCopied() const { return copied; }

private:
  /// `from`, `to`: index so far of the payload and of the shard.
  Status copyDim(const ShardBox &part, ShardFile &shard,
                 const ShardFile::Entry &entry, size_t dim, uint64_t from,
                 uint64_t to) {
    bool isLast = dim + 1 >= shape.size();
    uint64_t begin = 0, end = 1;
    if (!shape.empty()) {
      begin = std::max(part.starts[dim], box.starts[dim]);
      end = std::min(part.starts[dim] + part.sizes[dim],
                     box.starts[dim] + box.sizes[dim]);
      from = from * part.sizes[dim] - part.starts[dim];
      to = to * shape[dim] - box.starts[dim];
    }
    if (isLast) {
      copied += end - begin;
      return shard.read(entry, (from + begin) * elementBytes,
                        (end - begin) * elementBytes,
                        out + (to + begin) * elementBytes);
    }
    for (uint64_t i = begin; i < end; ++i)
      CLEAVE_RETURN_IF_ERROR(
          copyDim(part, shard, entry, dim + 1, from + i, to + i));
    return {};
  }

  const ShardBox &box;
  std::vector<uint64_t> shape;
  uint64_t elementBytes;
  std::byte *out;
  uint64_t copied = 0;
};

} // namespace

Status cleave::runtime::restoreState(const Program &program,
                                     const fb::State &state, int rank,
                                     CheckpointReader &reader,
                                     std::span<std::byte> local) {
  const fb::State *saved =
      reader.getProgram().findState(toView(state.name()), toView(state.role()));
  if (!saved)
    return Status::error(reader.getPath() + ": has no state " +
                         quote(toView(state.name())));
  ShardBox box = getShardBox(state, program.getMesh(), rank);
  if (box.getElements() * getBytes(state.dtype()) < local.size())
    std::memset(local.data(), 0, local.size());
  if (box.getElements() == 0)
    return {};
  BoxCopier copier(box, getPaddedBox(state, program.getMesh(), rank).sizes,
                   getBytes(state.dtype()), local.data());
  CLEAVE_RETURN_IF_ERROR(reader.forEachPart(
      *saved, [&](const ShardBox &part) { return copier.intersects(part); },
      [&](int, const ShardBox &part, ShardFile &shard,
          const ShardFile::Entry &entry) {
        return copier.copy(part, shard, entry);
      }));
  if (copier.getCopied() != box.getElements())
    return Status::error(reader.getPath() + ": its shards hold " +
                         std::to_string(copier.getCopied()) + " of the " +
                         std::to_string(box.getElements()) +
                         " elements of rank " + std::to_string(rank) +
                         "'s part of " + quote(toView(state.name())));
  return {};
}
