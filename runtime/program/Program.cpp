//===- Program.cpp --------------------------------------------------------===//
#include "runtime/program/Program.h"
#include "runtime/program/Elf.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Verify.h"
#include <algorithm>
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
  result.indexValues();
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

void Program::indexValues() {
  for (size_t number = 0; number < getStageCount(); ++number) {
    Stage stage = getStage(number);
    for (const program::State *state : toList(stage->states()))
      if (stateIndex
              .emplace(std::pair(toView(state->role()), toView(state->name())),
                       Kept<program::State>{state, number})
              .second)
        states.push_back(state);
    for (const program::Output *output : toList(stage->outputs()))
      if (outputIndex
              .emplace(toView(output->name()),
                       Kept<program::Output>{output, number})
              .second)
        outputs.push_back(output);
  }
}

AxisList Program::getStageAxes() const {
  if (root->stage_axis() < 0)
    return {};
  return {uint8_t(root->stage_axis())};
}

size_t Stage::countStreams() const {
  size_t count = 1;
  for (const program::Instruction *instruction : toList(root->instructions()))
    count = std::max<size_t>(count, size_t(instruction->stream()) + 1);
  return count;
}

size_t Program::countStreams() const {
  size_t count = 1;
  for (size_t i = 0; i < getStageCount(); ++i)
    count = std::max(count, getStage(i).countStreams());
  return count;
}

uint64_t Program::getArenaBytes() const {
  uint64_t most = 0;
  for (const program::Stage *stage : toList(root->stages()))
    most = std::max(most, stage->arena_bytes());
  return most;
}

const cleave::program::State *Program::findState(std::string_view name,
                                                 std::string_view role) const {
  auto found = stateIndex.find({role, name});
  return found == stateIndex.end() ? nullptr : found->second.value;
}

const cleave::program::Output *
Program::findOutput(std::string_view name) const {
  auto found = outputIndex.find(name);
  return found == outputIndex.end() ? nullptr : found->second.value;
}

size_t Program::getFirstStage(const program::State &state) const {
  return stateIndex.find({toView(state.role()), toView(state.name())})
      ->second.stage;
}

size_t Program::getFirstStage(const program::Output &output) const {
  return outputIndex.find(toView(output.name()))->second.stage;
}

const cleave::program::State *Stage::findState(std::string_view name,
                                               std::string_view role) const {
  for (const program::State *state : toList(root->states()))
    if (toView(state->name()) == name && toView(state->role()) == role)
      return state;
  return nullptr;
}

const cleave::program::Output *Stage::findOutput(std::string_view name) const {
  for (const program::Output *output : toList(root->outputs()))
    if (toView(output->name()) == name)
      return output;
  return nullptr;
}
