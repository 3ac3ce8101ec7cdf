//===- Dataflow.cpp -------------------------------------------------------===//
#include "runtime/program/Dataflow.h"
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

using namespace cleave::runtime;
namespace fb = cleave::program;

OperandRoles cleave::runtime::getRoles(const fb::Program &program,
                                       const fb::Instruction &instruction) {
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
  case fb::Opcode::Recv:
    return {0, 1};
  case fb::Opcode::Send:
    return {1, 0};
  case fb::Opcode::Copy:
  case fb::Opcode::AllReduce:
  case fb::Opcode::AllGather:
  case fb::Opcode::ReduceScatter:
  case fb::Opcode::AllToAll:
  case fb::Opcode::Slice:
    return {1, 1};
  }
  return {};
}

namespace {

class RunFinder {
public:
  explicit RunFinder(const Stage &stage)
      : stage(stage), program(stage.getProgram()), runs(stage.getRuns()) {}

  Repetition find(size_t begin) const;

private:
  uint64_t getTurns(size_t begin, size_t length) const;
  bool areApart(size_t begin, size_t length) const;

  const Stage &stage;
  const fb::Program &program;
  std::span<const fb::Run> runs;
};

} // namespace

/// After how many micro-batches all operands of these runs, but those with a
/// place for each, are in the same places again.
uint64_t RunFinder::getTurns(size_t begin, size_t length) const {
  uint64_t turns = 1;
  std::set<uint32_t> seen;
  for (size_t i = begin; i < begin + length; ++i) {
    if (!seen.insert(runs[i].segment()).second)
      continue;
    const fb::Segment &segment = stage.getSegment(runs[i].segment());
    for (uint64_t k = segment.begin(); k < segment.end(); ++k)
      for (const fb::Operand &operand :
           toSpan(stage.getInstruction(k).operands()))
        if (operand.places() > 0 && !hasAllPlaces(program, operand)) {
          turns = std::lcm(turns, operand.places());
          // More than there are micro-batches: nothing repeats.
          if (turns > program.micro_batches())
            return turns;
        }
  }
  return turns;
}

/// Whether no operand of these runs shares bytes with one that has a place for
/// each micro-batch, of another buffer.
bool RunFinder::areApart(size_t begin, size_t length) const {
  struct Use {
    uint64_t begin, end;
    uint32_t buffer;
    bool isWhole;
    auto operator<=>(const Use &) const = default;
  };
  std::set<Use> uses;
  std::set<uint32_t> seen;
  for (size_t i = begin; i < begin + length; ++i) {
    if (!seen.insert(runs[i].segment()).second)
      continue;
    const fb::Segment &segment = stage.getSegment(runs[i].segment());
    for (uint64_t k = segment.begin(); k < segment.end(); ++k) {
      std::span<const fb::Operand> operands =
          toSpan(stage.getInstruction(k).operands());
      for (size_t o = 0; o < operands.size(); ++o)
        uses.insert({operands[o].offset(),
                     getPlace(operands[o], operands[o].places() - 1) +
                         operands[o].bytes(),
                     toSpan(stage.getInstruction(k).buffers())[o],
                     hasAllPlaces(program, operands[o])});
    }
  }
  for (const Use &whole : uses)
    if (whole.isWhole &&
        std::any_of(uses.begin(), uses.end(), [&](const Use &use) {
          return use.buffer != whole.buffer && use.begin < whole.end &&
                 whole.begin < use.end;
        }))
      return false;
  return true;
}

Repetition RunFinder::find(size_t begin) const {
  constexpr size_t longest = 256;
  for (size_t length = 1; begin + 3 * length <= runs.size() && length < longest;
       ++length) {
    if (runs[begin + length].micro_batch() < runs[begin].micro_batch())
      continue;
    auto isLike = [&](size_t i) {
      const fb::Run &a = runs[i], &b = runs[i + length];
      return a.segment() == b.segment() && a.first() == b.first() &&
             b.micro_batch() - a.micro_batch() ==
                 runs[begin + length].micro_batch() - runs[begin].micro_batch();
    };
    size_t end = begin;
    while (end + length < runs.size() && isLike(end))
      ++end;
    if (end - begin < 2 * length)
      continue;
    uint64_t step =
        runs[begin + length].micro_batch() - runs[begin].micro_batch();
    uint64_t turns = getTurns(begin, length);
    uint64_t periods = step == 0 ? 1 : std::lcm(turns, step) / step;
    Repetition found{length * periods,
                     (end - begin + length) / (length * periods),
                     step * periods};
    if (found.count > 2 && areApart(begin, length))
      return found;
    return {};
  }
  return {};
}

Repetition cleave::runtime::findRepetition(const Stage &stage, size_t begin) {
  return RunFinder(stage).find(begin);
}
