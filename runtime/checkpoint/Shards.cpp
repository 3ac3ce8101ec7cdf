//===- Shards.cpp ---------------------------------------------------------===//
#include "runtime/checkpoint/Shards.h"
#include "runtime/base/Crc32c.h"
#include "runtime/base/Quote.h"
#include "runtime/checkpoint/Format.h"
#include "runtime/io/OutputFile.h"
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

using namespace cleave::runtime;
namespace fb = cleave::program;

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Whether a value has all exponent bits set, so is infinite or no number.
template <typename Bits>
static bool hasNonFinite(const void *data, uint64_t bytes, Bits exponent) {
  const char *at = static_cast<const char *>(data);
  Bits found = 0;
  for (uint64_t i = 0; i < bytes / sizeof(Bits); ++i) {
    Bits bits;
    std::memcpy(&bits, at + i * sizeof(Bits), sizeof(Bits));
    found |= Bits((bits & exponent) == exponent);
  }
  return found != 0;
}

static bool hasNonFinite(fb::DType dtype, const void *data, uint64_t bytes) {
  switch (dtype) {
  case fb::DType::F32:
    return hasNonFinite<uint32_t>(data, bytes, 0x7f800000);
  case fb::DType::BF16:
    return hasNonFinite<uint16_t>(data, bytes, 0x7f80);
  case fb::DType::I32:
    return false;
  }
  return false;
}

/// What a state is called within a shard: moments have names of their own, and
/// roles tell the rest apart.
static std::string getKey(const fb::State &state) {
  return std::string(toView(state.role())) + ":" +
         std::string(toView(state.name()));
}

/// The index of a shard; `chunks`: the checksums of each part's. By itself, as
/// a JSON value needs memory to be destroyed, and must find it: it is gone
/// before the file is written on.
static std::string
formatIndex(int rank, const std::string &run, int64_t step,
            std::span<const ShardPart> parts,
            const std::vector<std::vector<uint32_t>> &chunks) {
  nlohmann::ordered_json index;
  index["run"] = run;
  index["step"] = step;
  index["rank"] = rank;
  index["states"] = nlohmann::ordered_json::array();
  uint64_t begin = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    index["states"].push_back({{"state", getKey(*parts[i].state)},
                               {"begin", begin},
                               {"bytes", parts[i].data.size()},
                               {"crc32c", chunks[i]}});
    begin += parts[i].data.size();
  }
  return index.dump(-1, ' ', false,
                    nlohmann::ordered_json::error_handler_t::replace);
}

Status cleave::runtime::writeShard(const std::string &folder, int rank,
                                   const std::string &run, int64_t step,
                                   std::span<const ShardPart> parts,
                                   CheckpointFile &file) {
  uint64_t payload = 0;
  for (const ShardPart &part : parts)
    payload += part.data.size();
  std::string name = getShardName(rank);
  OutputFile out;
  CLEAVE_RETURN_IF_ERROR(OutputFile::create(folder + "/" + name, payload, out));
  std::vector<std::vector<uint32_t>> chunks;
  uint64_t begin = 0;
  for (const ShardPart &part : parts) {
    chunks.emplace_back();
    for (uint64_t i = 0; i < part.data.size(); i += chunkBytes) {
      uint64_t size = std::min<uint64_t>(chunkBytes, part.data.size() - i);
      const std::byte *data = part.data.data() + i;
      if (hasNonFinite(part.state->dtype(), data, size))
        return Status::error("state " + quote(toView(part.state->name())) +
                             " has a value that is not a finite number");
      chunks.back().push_back(computeCrc32c(data, size));
      CLEAVE_RETURN_IF_ERROR(out.write(begin + i, data, size));
      // The disk is to be busy while checksums are computed.
      out.startSync(begin + i, size);
    }
    begin += part.data.size();
  }
  std::string text = formatIndex(rank, run, step, parts, chunks);
  CLEAVE_RETURN_IF_ERROR(out.write(begin, text.data(), text.size()));
  CLEAVE_RETURN_IF_ERROR(out.commit());
  file.name = std::move(name);
  file.rank = rank;
  file.bytes = begin + text.size();
  file.indexBegin = begin;
  file.crc = computeCrc32c(text.data(), text.size());
  return {};
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Status cleave::runtime::readSmallFile(const std::string &path, uint64_t limit,
                                      std::string &text) {
  InputFile file;
  CLEAVE_RETURN_IF_ERROR(InputFile::open(path, file));
  if (file.getSize() > limit)
    return Status::error(path + ": has " + std::to_string(file.getSize()) +
                         " bytes, at most " + std::to_string(limit) +
                         " are legal");
  return file.readAll(text);
}

Status ShardFile::readIndex(const Manifest &manifest,
                            const CheckpointFile &listed) {
  auto damaged = [&](const std::string &how) {
    return Status::error(getPath() + ": is damaged: " + how);
  };
  std::string text(listed.bytes - listed.indexBegin, '\0');
  CLEAVE_RETURN_IF_ERROR(
      file.read(listed.indexBegin, text.size(), text.data()));
  if (computeCrc32c(text.data(), text.size()) != listed.crc)
    return damaged("its index does not match the manifest");
  nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  // The checksum holds, so what follows is as some writer meant it.
  if (root.is_discarded() || root.value("run", "") != manifest.run ||
      root.value("step", int64_t(-1)) != manifest.progress.step ||
      root.value("rank", -1) != listed.rank || !root["states"].is_array())
    return damaged("it is of another checkpoint or rank");
  uint64_t end = 0;
  for (const nlohmann::json &state : root["states"]) {
    Entry entry{state.value("state", ""), state.value("begin", uint64_t(0)),
                state.value("bytes", uint64_t(0)),
                state.value("crc32c", std::vector<uint32_t>())};
    if (entry.begin != end || entry.bytes > listed.indexBegin - end ||
        entry.chunks.size() != (entry.bytes + chunkBytes - 1) / chunkBytes)
      return damaged("state " + quote(entry.name) +
                     " of its index is not where it must be");
    end += entry.bytes;
    byName[entry.name] = entries.size();
    entries.push_back(std::move(entry));
  }
  if (end != listed.indexBegin)
    return damaged("its index leaves a gap");
  return {};
}

Status ShardFile::open(const std::string &folder, const Manifest &manifest,
                       const CheckpointFile &listed, ShardFile &shard) {
  ShardFile result;
  CLEAVE_RETURN_IF_ERROR(
      InputFile::open(folder + "/" + listed.name, result.file));
  if (result.file.getSize() != listed.bytes)
    return Status::error(result.getPath() + ": is damaged: has " +
                         std::to_string(result.file.getSize()) +
                         " bytes, the manifest says " +
                         std::to_string(listed.bytes));
  CLEAVE_RETURN_IF_ERROR(result.readIndex(manifest, listed));
  shard = std::move(result);
  return {};
}

const ShardFile::Entry *ShardFile::find(const fb::State &state) const {
  auto found = byName.find(getKey(state));
  return found == byName.end() ? nullptr : &entries[found->second];
}

Status ShardFile::loadChunk(const Entry &entry, uint64_t index) {
  if (chunkEntry == &entry && chunkIndex == index)
    return {};
  chunkEntry = nullptr;
  uint64_t begin = index * chunkBytes;
  chunk.resize(std::min(chunkBytes, entry.bytes - begin));
  CLEAVE_RETURN_IF_ERROR(
      file.read(entry.begin + begin, chunk.size(), chunk.data()));
  if (computeCrc32c(chunk.data(), chunk.size()) != entry.chunks[index])
    return Status::error(
        getPath() + ": is damaged: chunk " + std::to_string(index) + " of " +
        quote(entry.name) + ", bytes " + std::to_string(entry.begin + begin) +
        " to " + std::to_string(entry.begin + begin + chunk.size()) +
        ", does not match its checksum");
  chunkEntry = &entry;
  chunkIndex = index;
  return {};
}

Status ShardFile::read(const Entry &entry, uint64_t begin, uint64_t size,
                       void *out) {
  char *to = static_cast<char *>(out);
  while (size > 0) {
    uint64_t index = begin / chunkBytes, inside = begin % chunkBytes;
    CLEAVE_RETURN_IF_ERROR(loadChunk(entry, index));
    uint64_t here = std::min<uint64_t>(size, chunk.size() - inside);
    std::memcpy(to, chunk.data() + inside, here);
    to += here;
    begin += here;
    size -= here;
  }
  return {};
}

Status ShardFile::verify() {
  for (const Entry &entry : entries)
    for (uint64_t i = 0; i < entry.chunks.size(); ++i)
      CLEAVE_RETURN_IF_ERROR(loadChunk(entry, i));
  return {};
}
