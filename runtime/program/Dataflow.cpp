//===- Dataflow.cpp -------------------------------------------------------===//
#include "runtime/program/Dataflow.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

using namespace cleave::runtime;
namespace fb = cleave::program;

OperandRoles cleave::runtime::getRoles(const fb::Program &program,
                                       const fb::Instruction &instruction) {
  OperandRoles roles;
  OperandCounts counts = countOperands(program, instruction);
  roles.inputs = counts.inputs;
  roles.outputs = counts.outputs;
  if (instruction.work_type() == fb::Opcode::Launch) {
    roles.kernel = &getKernel(program, instruction);
    roles.accumulate = roles.kernel->accumulate();
  } else if (const fb::Gemm *gemm = instruction.work_as_Gemm()) {
    roles.accumulate = gemm->accumulate();
  } else if (auto *embedding = instruction.work_as_EmbeddingGrad()) {
    roles.accumulate = embedding->accumulate();
  }
  return roles;
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
          turns = std::lcm(turns, uint64_t(operand.places()));
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
                     operands[o].buffer(), hasAllPlaces(program, operands[o])});
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
