//===- Program.cpp --------------------------------------------------------===//
#include "runtime/program/Program.h"
#include "runtime/program/Elf.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Verify.h"
#include <cstring>

using namespace cleave::runtime;

/// Checks the envelope; `payload` is the FlatBuffer in it.
static Status openEnvelope(std::span<const uint8_t> bytes,
                           std::span<const uint8_t> &payload) {
  auto damaged = [](const std::string &how) {
    return Status::error("the program is damaged: " + how);
  };
  if (bytes.size() < programHeaderBytes)
    return damaged("it has " + std::to_string(bytes.size()) +
                   " bytes, expects at least " +
                   std::to_string(programHeaderBytes));
  if (std::memcmp(bytes.data(), programMagic.data(), programMagic.size()) != 0)
    return damaged("it does not start with \"" + std::string(programMagic) +
                   "\"");
  auto read = [&](size_t at, int width) {
    uint64_t value = 0;
    for (int i = 0; i < width; ++i)
      value |= uint64_t(bytes[at + i]) << (8 * i);
    return value;
  };
  uint64_t version = read(8, 4), checksum = read(12, 4), size = read(16, 8);
  if (version != programVersion)
    return Status::error("the program has format version " +
                         std::to_string(version) + ", this runtime reads " +
                         std::to_string(programVersion));
  payload = bytes.subspan(programHeaderBytes);
  if (payload.size() != size)
    return damaged("it has " + std::to_string(payload.size()) +
                   " bytes after the header, which says " +
                   std::to_string(size));
  if (computeCrc32c(payload.data(), payload.size()) != checksum)
    return damaged("its checksum does not match");
  return {};
}

Status Program::load(const void *data, size_t size, const std::string &where,
                     Program &program) {
  auto explain = [&](const Status &status) {
    return Status::error(where + ": " + status.message());
  };
  std::span<const uint8_t> payload;
  if (Status status =
          openEnvelope({static_cast<const uint8_t *>(data), size}, payload);
      !status.ok())
    return explain(status);
  if (payload.size() > limits::programBytes)
    return Status::error(where + ": the program has " +
                         std::to_string(payload.size()) + " bytes, at most " +
                         std::to_string(limits::programBytes) + " are legal");
  Program result;
  result.storage.resize((payload.size() + 7) / 8);
  if (!payload.empty())
    std::memcpy(result.storage.data(), payload.data(), payload.size());
  if (Status status = verifyStructure(result.storage.data(), payload.size());
      !status.ok())
    return explain(status);
  result.root = program::GetProgram(result.storage.data());
  result.checksum = computeCrc32c(payload.data(), payload.size());
  if (Status status = verifyProgram(*result.root); !status.ok())
    return explain(status);
  std::vector<int> sizes;
  for (size_t i = 0; i < getSize(result.root->axes()); ++i)
    sizes.push_back(int(result.root->axes()->Get(i)->size()));
  result.mesh = Mesh(std::move(sizes));
  program = std::move(result);
  return {};
}

Status Program::loadFile(const std::string &path, Program &program) {
  std::vector<uint8_t> bytes;
  std::string version;
  CLEAVE_RETURN_IF_ERROR(readProgramBytes(path, bytes, version));
  CLEAVE_RETURN_IF_ERROR(load(bytes.data(), bytes.size(), path, program));
  program.cleaveVersion = std::move(version);
  return {};
}

const cleave::program::State *Program::findState(std::string_view name,
                                                 std::string_view role) const {
  for (size_t i = 0; i < getSize(root->states()); ++i) {
    const program::State *state = root->states()->Get(i);
    if (toView(state->name()) == name && toView(state->role()) == role)
      return state;
  }
  return nullptr;
}

const cleave::program::Output *
Program::findOutput(std::string_view name) const {
  for (size_t i = 0; i < getSize(root->outputs()); ++i)
    if (const program::Output *output = root->outputs()->Get(i);
        toView(output->name()) == name)
      return output;
  return nullptr;
}
