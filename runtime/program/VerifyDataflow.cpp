//===- VerifyDataflow.cpp - What is read was written; state is updated once
//===//
//
// Buffers share bytes of the arena, one after the other. So that a byte was
// written is not enough: it must have been written as the buffer that the
// reader takes it for.
//
// State: for each byte of the arena, the buffer that wrote it last; none at
// first. State tensors, tokens and targets are there when a step starts.
//
//  1. In list order, an instruction reads bytes of the buffers that its
//     operands name, then writes its own.
//  2. The body of the loop is gone through for the first micro-batch, in which
//     what accumulates after the first does not read, and for the second. The
//     others start from the same state as the second: a byte that the body
//     writes has the same last writer in each.
//  3. An operand that moves on with the micro-batch writes all of its places by
//     the end of the loop; until then, only the same operand may read them, in
//     the same micro-batch. One that reads needs all of its places.
//  4. At the end, outputs were written, and state tensors still hold
//     themselves.
//  5. Until the update begins, no byte of a state is written: a step may end
//     there and leave all as it was. From there on each byte of a parameter and
//     of a moment is written once, and none of a constant. A program without
//     instructions says what a checkpoint holds: it has no step.
//
// Each instruction changes few runs of bytes, so this takes O(n log n).
//
//===----------------------------------------------------------------------===//
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Quote.h"
#include "runtime/program/Program.h"
#include "runtime/program/Verify.h"
#include <map>
#include <tuple>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// A buffer's number; `pending` where the loop has not written all of it.
using Owner = uint64_t;
constexpr Owner nobody = 0;
constexpr Owner pending = Owner(1) << 32;

/// Runs of bytes that one buffer wrote. Bytes of no run are nobody's.
class Owners {
public:
  void write(ByteRange range, Owner owner) {
    split(range.begin);
    split(range.end);
    runs.erase(runs.lower_bound(range.begin), runs.lower_bound(range.end));
    runs[range.begin] = {range.end, owner};
  }

  /// The first byte of the range that is not `owner`'s; the end if all are.
  uint64_t findOther(ByteRange range, Owner owner) const {
    uint64_t at = range.begin;
    auto run = runs.upper_bound(at);
    if (run != runs.begin())
      --run;
    for (; at < range.end && run != runs.end(); ++run) {
      if (run->second.end <= at)
        continue;
      if (run->first > at || run->second.owner != owner)
        return at;
      at = run->second.end;
    }
    return std::min(at, range.end);
  }

  /// Whether any byte of the range is somebody's.
  bool touches(ByteRange range) const {
    auto run = runs.lower_bound(range.end);
    return run != runs.begin() && (--run)->second.end > range.begin;
  }

  Owner getOwner(uint64_t byte) const {
    auto run = runs.upper_bound(byte);
    if (run == runs.begin() || (--run)->second.end <= byte)
      return nobody;
    return run->second.owner;
  }

private:
  struct Run {
    uint64_t end;
    Owner owner;
  };

  /// Makes `at` a border of runs.
  void split(uint64_t at) {
    auto run = runs.lower_bound(at);
    if (run == runs.begin() || (--run)->second.end <= at)
      return;
    runs[at] = run->second;
    run->second.end = at;
  }

  std::map<uint64_t, Run> runs;
};

bool isConstant(const fb::State &state) {
  return toView(state.role()) == "constant";
}

std::string toString(const fb::State &state) {
  return std::string(toView(state.role())) + " " + quote(toView(state.name()));
}

/// Whether outputs are read, as the modes of the table and of kernels say.
bool readsOutputs(int64_t mode, bool isFirst) {
  return mode == 1 || (mode == 2 && !isFirst);
}

class DataflowVerifier {
public:
  explicit DataflowVerifier(const fb::Program &program) : program(program) {}

  Status verify();

private:
  /// How an instruction uses its operands: inputs, then outputs, then
  /// workspace.
  struct Roles {
    size_t inputs = 0, outputs = 0;
    int64_t mode = 0;
    const fb::Kernel *kernel = nullptr;
  };
  Roles getRoles(const fb::Instruction &instruction) const;

  Status verifyRange(size_t begin, size_t end, bool isFirst);
  Status verifyInstruction(size_t index, bool isFirst);
  Status read(size_t index, size_t operand, ByteRange part);
  Status write(size_t index, size_t operand, bool isDense);
  Status update(size_t index, ByteRange places, uint32_t buffer);
  bool isDense(const Roles &roles, const fb::Instruction &instruction,
               size_t output) const;

  const fb::Instruction &getInstruction(size_t index) const {
    return *program.instructions()->Get(flatbuffers::uoffset_t(index));
  }
  Status bad(size_t index, const std::string &how) const {
    const fb::Instruction &instruction = getInstruction(index);
    return Status::error("instruction " + std::to_string(index) + " (" +
                         fb::EnumNameOpcode(instruction.opcode()) + " " +
                         quote(toView(instruction.name())) + ") " + how);
  }
  /// Every place of the operand in the loop, from byte `part.begin` of the
  /// first to byte `part.end` of the last.
  ByteRange getPlaces(const fb::Operand &operand, ByteRange part) const {
    uint64_t last = operand.stride() * (repeats - 1);
    return {operand.offset() + part.begin, operand.offset() + last + part.end};
  }
  std::string describeOwner(uint64_t byte) const {
    Owner owner = owners.getOwner(byte);
    if (owner == nobody)
      return "which nothing wrote";
    if (owner >= pending)
      return "which is not yet whole";
    return "which buffer " + std::to_string(owner) + " has written";
  }
  bool moves(const fb::Operand &operand) const {
    return operand.stride() != 0 && repeats > 1;
  }
  static std::tuple<uint64_t, uint64_t, uint64_t>
  getKey(const fb::Operand &operand) {
    return {operand.offset(), operand.bytes(), operand.stride()};
  }

  const fb::Program &program;
  Owners owners;
  /// Bytes of states that this step has updated, by buffer.
  Owners updated;
  /// States by the end of their bytes; no two share any.
  std::map<uint64_t, const fb::State *> states;
  uint64_t repeats = 1; ///< micro-batches of the loop around
  /// Operands that move, written in this micro-batch; whose they are.
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint32_t> moving;
};

DataflowVerifier::Roles
DataflowVerifier::getRoles(const fb::Instruction &instruction) const {
  std::span<const int64_t> ints = toSpan(instruction.ints());
  switch (instruction.opcode()) {
  case fb::Opcode::Launch: {
    const fb::Kernel &kernel =
        *program.kernels()->Get(flatbuffers::uoffset_t(instruction.kernel()));
    return {kernel.inputs(), getSize(kernel.accesses()) - kernel.inputs(),
            int64_t(kernel.accumulate()), &kernel};
  }
  case fb::Opcode::Gemm:
    return {2 + size_t(ints[9]), 1, ints[8]};
  case fb::Opcode::Attention:
    return {3, 2};
  case fb::Opcode::AttentionGrad:
    return {6, 3};
  case fb::Opcode::Embedding:
    return {2, 1};
  case fb::Opcode::EmbeddingGrad:
    return {2, 1, ints[5]};
  case fb::Opcode::Fill:
  case fb::Opcode::Schedule:
    return {0, 1};
  case fb::Opcode::Copy:
  case fb::Opcode::AllReduce:
  case fb::Opcode::AllGather:
  case fb::Opcode::ReduceScatter:
  case fb::Opcode::AllToAll:
  case fb::Opcode::Slice:
    return {1, 1};
  case fb::Opcode::LoopBegin:
  case fb::Opcode::LoopEnd:
    break;
  }
  return {};
}

/// Whether all bytes of an output are written. A kernel may write one operand
/// through several accesses, of which each leaves out some: the halves of a
/// rotation, say.
bool DataflowVerifier::isDense(const Roles &roles,
                               const fb::Instruction &instruction,
                               size_t output) const {
  if (!roles.kernel)
    return true;
  std::span<const fb::Operand> operands = toSpan(instruction.operands());
  std::span<const fb::Access> accesses = toSpan(roles.kernel->accesses());
  uint64_t bytes = 0;
  for (size_t i = roles.inputs; i < operands.size(); ++i) {
    const fb::Access &access = accesses[i];
    if (getKey(operands[i]) != getKey(operands[output]))
      continue;
    bool isPlain = access.row_div() == 1 && access.row_mod() == 0;
    if (access.row_stride() > 0 && access.row_mod() != 1 && !isPlain)
      continue; // rows that meet in one place: count none
    // Both factors are at most 2^40, and the operand has room for the product.
    uint64_t rows =
        isPlain && access.row_stride() > 0 ? getRows(*roles.kernel) : 1;
    uint64_t columns = access.col_stride() ? getColumns(*roles.kernel) : 1;
    auto written = multiplyChecked({rows, columns, getBytes(access.dtype())});
    bytes += written.value_or(0);
  }
  return bytes == operands[output].bytes();
}

Status DataflowVerifier::read(size_t index, size_t i, ByteRange part) {
  const fb::Instruction &instruction = getInstruction(index);
  const fb::Operand &operand = toSpan(instruction.operands())[i];
  uint32_t buffer = toSpan(instruction.buffers())[i];
  ByteRange places = getPlaces(operand, part);
  uint64_t at = owners.findOther(places, buffer);
  if (at == places.end)
    return {};
  if (moves(operand)) {
    auto written = moving.find(getKey(operand));
    if (written != moving.end() && written->second == buffer &&
        owners.findOther(places, buffer | pending) == places.end)
      return {};
  }
  return bad(index, "reads operand " + std::to_string(i) + " (buffer " +
                        std::to_string(buffer) + ") at byte " +
                        std::to_string(at) + " of the arena, " +
                        describeOwner(at));
}

/// Notes the write of `places` where these are a state's.
Status DataflowVerifier::update(size_t index, ByteRange places,
                                uint32_t buffer) {
  auto found = states.upper_bound(places.begin);
  if (found == states.end() || found->second->operand()->offset() >= places.end)
    return {};
  const fb::State &state = *found->second;
  std::string label = toString(state);
  if (isConstant(state))
    return bad(index, "writes " + label + ", which no step changes");
  if (index < program.update_begin())
    return bad(index, "writes " + label + " before the update begins, at " +
                          std::to_string(program.update_begin()));
  if (updated.touches(places))
    return bad(index, "updates " + label + " a second time");
  updated.write(places, buffer);
  return {};
}

Status DataflowVerifier::write(size_t index, size_t i, bool isDense) {
  const fb::Instruction &instruction = getInstruction(index);
  const fb::Operand &operand = toSpan(instruction.operands())[i];
  uint32_t buffer = toSpan(instruction.buffers())[i];
  ByteRange places = getPlaces(operand, {0, operand.bytes()});
  CLEAVE_RETURN_IF_ERROR(update(index, places, buffer));
  bool hasGaps = moves(operand) && operand.stride() > operand.bytes();
  // What is left out must be the buffer's already.
  if (!isDense || hasGaps) {
    uint64_t at = owners.findOther(places, buffer);
    if (at == places.end)
      return {};
    return bad(index, "writes a part of operand " + std::to_string(i) +
                          " (buffer " + std::to_string(buffer) +
                          "), of which byte " + std::to_string(at) +
                          " of the arena is something " + describeOwner(at));
  }
  if (!moves(operand)) {
    owners.write(places, buffer);
    return {};
  }
  if (owners.findOther(places, buffer) != places.end)
    owners.write(places, buffer | pending);
  moving[getKey(operand)] = buffer;
  return {};
}

Status DataflowVerifier::verifyInstruction(size_t index, bool isFirst) {
  const fb::Instruction &instruction = getInstruction(index);
  std::span<const fb::Operand> operands = toSpan(instruction.operands());
  Roles roles = getRoles(instruction);
  size_t outputsEnd = roles.inputs + roles.outputs;
  for (size_t i = 0; i < roles.inputs; ++i) {
    ByteRange part = {0, operands[i].bytes()};
    if (roles.kernel)
      part =
          *getTouchedBytes(*roles.kernel, toSpan(roles.kernel->accesses())[i]);
    CLEAVE_RETURN_IF_ERROR(read(index, i, part));
  }
  if (readsOutputs(roles.mode, isFirst))
    for (size_t i = roles.inputs; i < outputsEnd; ++i)
      CLEAVE_RETURN_IF_ERROR(read(index, i, {0, operands[i].bytes()}));
  for (size_t i = roles.inputs; i < operands.size(); ++i)
    CLEAVE_RETURN_IF_ERROR(
        write(index, i, i >= outputsEnd || isDense(roles, instruction, i)));
  return {};
}

Status DataflowVerifier::verifyRange(size_t begin, size_t end, bool isFirst) {
  moving.clear();
  for (size_t i = begin; i < end; ++i)
    CLEAVE_RETURN_IF_ERROR(verifyInstruction(i, isFirst));
  return {};
}

Status DataflowVerifier::verify() {
  auto start = [&](const fb::Operand *operand, uint32_t buffer) {
    if (operand)
      owners.write({operand->offset(), operand->offset() + operand->bytes()},
                   buffer);
  };
  start(program.tokens(), program.tokens_buffer());
  start(program.targets(), program.targets_buffer());
  for (size_t i = 0; i < getSize(program.states()); ++i) {
    const fb::State *state = program.states()->Get(flatbuffers::uoffset_t(i));
    start(state->operand(), state->buffer());
    const fb::Operand &operand = *state->operand();
    states[operand.offset() + operand.bytes()] = state;
  }

  size_t count = getSize(program.instructions());
  for (size_t i = 0; i < count; ++i) {
    if (getInstruction(i).opcode() != fb::Opcode::LoopBegin) {
      CLEAVE_RETURN_IF_ERROR(verifyRange(i, i + 1, /*isFirst=*/true));
      continue;
    }
    size_t end = i;
    while (getInstruction(end).opcode() != fb::Opcode::LoopEnd)
      ++end;
    repeats = program.micro_batches();
    CLEAVE_RETURN_IF_ERROR(verifyRange(i, end, /*isFirst=*/true));
    if (repeats > 1)
      CLEAVE_RETURN_IF_ERROR(verifyRange(i, end, /*isFirst=*/false));
    // Operands that moved have been everywhere.
    for (const auto &[key, buffer] : moving) {
      fb::Operand operand(std::get<0>(key), std::get<1>(key), std::get<2>(key));
      ByteRange places = getPlaces(operand, {0, operand.bytes()});
      if (owners.findOther(places, buffer | pending) == places.end)
        owners.write(places, buffer);
    }
    repeats = 1;
    i = end;
  }

  auto expectOwn = [&](const std::string &what, const fb::Operand &operand,
                       uint32_t buffer) -> Status {
    ByteRange range{operand.offset(), operand.offset() + operand.bytes()};
    uint64_t at = owners.findOther(range, buffer);
    if (at == range.end)
      return {};
    return Status::error(what + " (buffer " + std::to_string(buffer) +
                         ") has byte " + std::to_string(at) +
                         " of the arena at the end of a step, " +
                         describeOwner(at));
  };
  for (size_t i = 0; i < getSize(program.states()); ++i) {
    const fb::State *state = program.states()->Get(flatbuffers::uoffset_t(i));
    CLEAVE_RETURN_IF_ERROR(expectOwn("state " + quote(toView(state->name())),
                                     *state->operand(), state->buffer()));
    const fb::Operand &operand = *state->operand();
    ByteRange range{operand.offset(), operand.offset() + operand.bytes()};
    uint64_t at = updated.findOther(range, state->buffer());
    if (count != 0 && !isConstant(*state) && at != range.end)
      return Status::error("no instruction updates byte " + std::to_string(at) +
                           " of the arena, of " + toString(*state));
  }
  for (size_t i = 0; i < getSize(program.outputs()); ++i) {
    const fb::Output *output =
        program.outputs()->Get(flatbuffers::uoffset_t(i));
    CLEAVE_RETURN_IF_ERROR(expectOwn("output " + quote(toView(output->name())),
                                     *output->operand(), output->buffer()));
  }
  if (program.tokens())
    CLEAVE_RETURN_IF_ERROR(
        expectOwn("tokens", *program.tokens(), program.tokens_buffer()));
  if (program.targets())
    CLEAVE_RETURN_IF_ERROR(
        expectOwn("targets", *program.targets(), program.targets_buffer()));
  return {};
}

} // namespace

Status cleave::runtime::verifyDataflow(const fb::Program &program) {
  return DataflowVerifier(program).verify();
}
