//===- VerifyDataflow.cpp - What is read was written, state updated once --===//
//
// Buffers share bytes of the arena, one after the other. So that a byte was
// written is not enough: it must have been written as the buffer that the
// reader takes it for, and, where micro-batches take turns in the places of an
// operand, for the reader's micro-batch.
//
// State: for each byte of the arena, the value that was written last: a buffer,
// and whose it is. What a segment writes that runs for several micro-batches is
// the micro-batch's, unless it adds to a sum over them; what one writes that
// runs once is everyone's. At first there is none but state tensors, and tokens
// and targets, of which each micro-batch has its own.
//
//  1. Run by run, in list order, an instruction reads the values that its
//     operands name, then writes its own. In a run that is `first`, what
//     accumulates in others does not read, and finds nothing that was summed.
//  2. What runs once may read all micro-batches' places as one value, when all
//     of them are written.
//  3. At the end, outputs were written, and state tensors still hold
//     themselves.
//  4. Before the update's first run, no byte of a state is written. From there
//     on each byte of a parameter and of a moment is written once, and none of
//     a constant. A program without instructions says what a checkpoint holds:
//     it has no step.
//  5. When the update begins, each sum over micro-batches has as much of one as
//     of any other: no run of a micro-batch is missing, or there twice. What
//     runs once reads such a sum when nothing more is added to it.
//
// Runs that repeat (Dataflow.h) are gone through twice: bytes that a period
// writes have the same last writers after each, bytes that it does not write
// keep theirs, so the third period meets what the second met, each micro-batch
// a period on. Only operands with a place for each micro-batch, which never
// meet the same bytes again, are followed through all.
//
// Each instruction changes few stretches of bytes, so this takes O(n log n).
//
//===----------------------------------------------------------------------===//
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Quote.h"
#include "runtime/program/Dataflow.h"
#include "runtime/program/Stretches.h"
#include "runtime/program/Verify.h"
#include <algorithm>
#include <map>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

constexpr uint32_t noMicroBatch = UINT32_MAX;
/// Expected where any micro-batch will do.
constexpr uint32_t anyMicroBatch = UINT32_MAX - 1;

/// What some bytes hold.
struct Value {
  uint32_t buffer = 0;                ///< 0: nothing was written
  uint32_t microBatch = noMicroBatch; ///< whose it is; everyone's
  bool repeats = false;               ///< of fewer places than micro-batches
  uint32_t run = 0;                   ///< that wrote it

  /// Whether it may be read where `other` is expected.
  bool isReadAs(const Value &other) const {
    return buffer == other.buffer &&
           (microBatch == noMicroBatch || microBatch == other.microBatch ||
            other.microBatch == anyMicroBatch);
  }
};

/// The values of stretches of bytes. Bytes of no stretch hold nothing.
class Values {
public:
  void write(ByteRange range, const Value &value) {
    stretches.write(range, value);
  }

  /// The first byte of the range that cannot be read as `value`; the end if all
  /// can.
  uint64_t findOther(ByteRange range, const Value &value) const {
    uint64_t at = range.begin;
    auto stretch = stretches.upper_bound(at);
    if (stretch != stretches.begin())
      --stretch;
    for (; at < range.end && stretch != stretches.end(); ++stretch) {
      if (stretch->second.end <= at)
        continue;
      if (stretch->first > at || !stretch->second.value.isReadAs(value))
        return at;
      at = stretch->second.end;
    }
    return std::min(at, range.end);
  }

  /// Whether any byte of the range was written.
  bool touches(ByteRange range) const {
    auto stretch = stretches.lower_bound(range.end);
    return stretch != stretches.begin() &&
           (--stretch)->second.end > range.begin;
  }

  Value get(uint64_t byte) const {
    auto stretch = stretches.upper_bound(byte);
    if (stretch == stretches.begin() || (--stretch)->second.end <= byte)
      return {};
    return stretch->second.value;
  }

  /// Moves what repeats, and was written from `run` on, to later micro-batches.
  void advance(uint32_t run, uint64_t microBatches) {
    for (auto &[begin, stretch] : stretches)
      if (stretch.value.repeats && stretch.value.run >= run)
        stretch.value.microBatch += uint32_t(microBatches);
  }

private:
  Stretches<Value> stretches;
};

bool isSame(const fb::Operand &a, const fb::Operand &b) {
  return a.offset() == b.offset() && a.bytes() == b.bytes() &&
         a.stride() == b.stride() && a.places() == b.places();
}

/// Of an operand without places.
ByteRange getRange(const fb::Operand &operand) {
  return {operand.offset(), operand.offset() + operand.bytes()};
}

bool isConstant(const fb::State &state) {
  return toView(state.role()) == "constant";
}

std::string toString(const fb::State &state) {
  return std::string(toView(state.role())) + " " + quote(toView(state.name()));
}

class DataflowVerifier {
public:
  explicit DataflowVerifier(const Stage &stage)
      : stage(stage), program(stage.getProgram()), runs(stage.getRuns()) {}

  Status verify();

private:
  Status verifyRun(size_t index, bool onlyWhole);
  Status verifyInstruction(size_t index, bool onlyWhole);
  Status read(size_t index, size_t operand, ByteRange part);
  Status write(size_t index, size_t operand, bool isDense, fb::Accumulate mode);
  Status update(size_t index, ByteRange place, uint32_t buffer);
  Status verifySums();
  Status verifySumReads(size_t segment);
  Status verifyEnd() const;
  bool isDense(const OperandRoles &roles, const fb::Instruction &instruction,
               size_t output) const;

  const fb::Instruction &getInstruction(size_t index) const {
    return stage.getInstruction(index);
  }
  const fb::Segment &getSegment(const fb::Run &run) const {
    return stage.getSegment(run.segment());
  }
  Status bad(size_t index, const std::string &how) const {
    const fb::Instruction &instruction = getInstruction(index);
    std::string at;
    if (program.micro_batches() > 1)
      at = " for micro-batch " + std::to_string(runs[run].micro_batch());
    return Status::error("instruction " + std::to_string(index) + " (" +
                         fb::EnumNameOpcode(instruction.work_type()) + " " +
                         quote(toView(instruction.name())) + ") " + how + at);
  }
  std::string describe(uint64_t byte) const {
    Value value = values.get(byte);
    std::string text = "at byte " + std::to_string(byte) + " of the arena, ";
    if (value.buffer == 0)
      return text + "which nothing wrote";
    text += "which buffer " + std::to_string(value.buffer) + " has written";
    if (value.microBatch != noMicroBatch)
      text += " for micro-batch " + std::to_string(value.microBatch);
    return text;
  }
  bool isWhole(const fb::Operand &operand) const {
    return hasAllPlaces(program, operand);
  }
  /// What an operand holds in the run at hand.
  Value getValue(const fb::Operand &operand) const {
    uint32_t whose = runs[run].micro_batch();
    // What runs once finds what the last micro-batch left.
    if (operand.places() == 0 && !repeated[runs[run].segment()])
      whose = anyMicroBatch;
    return {operand.buffer(), whose, !isWhole(operand), uint32_t(run)};
  }
  /// The same, once an instruction of `mode` has written it.
  Value getWritten(const fb::Operand &operand, fb::Accumulate mode) const {
    Value value = getValue(operand);
    if (operand.places() > 0)
      return value;
    // Added to: whose it was before.
    bool isCommon =
        !repeated[runs[run].segment()] || mode == fb::Accumulate::AfterFirst;
    if (mode == fb::Accumulate::Always)
      isCommon = values.get(operand.offset()).microBatch == noMicroBatch;
    return isCommon
               ? Value{operand.buffer(), noMicroBatch, false, uint32_t(run)}
               : value;
  }

  /// An instruction in a run.
  using Point = std::pair<size_t, uint64_t>;
  /// What is added up over the micro-batches.
  struct Sum {
    ByteRange range;
    /// How often a run of each segment adds to it.
    std::map<size_t, uint64_t> times = {};
    Point last = {}; ///< that adds to it
  };

  const Stage &stage;
  const fb::Program &program;
  std::span<const fb::Run> runs;
  size_t run = 0;                    ///< that is gone through
  std::multimap<uint32_t, Sum> sums; ///< by buffer
  Values values;
  /// Bytes of states that this step has updated, by buffer.
  Values updated;
  bool hasUpdated = false;    ///< any of them
  std::vector<bool> repeated; ///< segments that run more than once
  /// States by the end of their bytes; no two share any.
  std::map<uint64_t, const fb::State *> states;
};

/// Whether all bytes of an output are written. A kernel may write one operand
/// through several accesses, of which each leaves out some: the halves of a
/// rotation, say.
bool DataflowVerifier::isDense(const OperandRoles &roles,
                               const fb::Instruction &instruction,
                               size_t output) const {
  if (!roles.kernel)
    return true;
  std::span<const fb::Operand> operands = toSpan(instruction.operands());
  std::span<const fb::Access> accesses = toSpan(roles.kernel->accesses());
  uint64_t bytes = 0;
  for (size_t i = roles.inputs; i < operands.size(); ++i) {
    const fb::Access &access = accesses[i];
    if (!isSame(operands[i], operands[output]))
      continue;
    bool isPlain = access.row_div() == 1 && access.row_mod() == 0;
    if (access.row_stride() > 0 && access.row_mod() != 1 && !isPlain)
      continue; // rows that meet in one place: count none
    // Both factors are at most 2^40, and the operand has room for the product.
    uint64_t rows =
        isPlain && access.row_stride() > 0 ? roles.kernel->rows() : 1;
    uint64_t columns = access.col_stride() ? roles.kernel->columns() : 1;
    auto written = multiplyChecked({rows, columns, getBytes(access.dtype())});
    bytes += written.value_or(0);
  }
  return bytes == operands[output].bytes();
}

Status DataflowVerifier::read(size_t index, size_t i, ByteRange part) {
  const fb::Instruction &instruction = getInstruction(index);
  const fb::Operand &operand = toSpan(instruction.operands())[i];
  uint64_t place = getPlace(operand, runs[run].micro_batch());
  ByteRange range{place + part.begin, place + part.end};
  uint64_t at = values.findOther(range, getValue(operand));
  if (at == range.end)
    return {};
  return bad(index, "reads operand " + std::to_string(i) + " (buffer " +
                        std::to_string(operand.buffer()) + ") " + describe(at));
}

/// Notes the write of `place` where that is a state's.
Status DataflowVerifier::update(size_t index, ByteRange place,
                                uint32_t buffer) {
  auto found = states.upper_bound(place.begin);
  if (found == states.end() || found->second->operand()->offset() >= place.end)
    return {};
  const fb::State &state = *found->second;
  std::string label = toString(state);
  if (isConstant(state))
    return bad(index, "writes " + label + ", which no step changes");
  if (run < stage->update_run())
    return bad(index, "writes " + label + " in run " + std::to_string(run) +
                          ", before the update begins with run " +
                          std::to_string(stage->update_run()));
  if (run > stage->update_run() && !hasUpdated)
    return bad(index, "is the first to write a state, in run " +
                          std::to_string(run) +
                          ", and the update begins with "
                          "run " +
                          std::to_string(stage->update_run()));
  hasUpdated = true;
  if (updated.touches(place))
    return bad(index, "updates " + label + " a second time");
  updated.write(place, {buffer});
  return {};
}

Status DataflowVerifier::write(size_t index, size_t i, bool isDense,
                               fb::Accumulate mode) {
  const fb::Instruction &instruction = getInstruction(index);
  const fb::Operand &operand = toSpan(instruction.operands())[i];
  uint64_t place = getPlace(operand, runs[run].micro_batch());
  ByteRange range{place, place + operand.bytes()};
  Value value = getWritten(operand, mode);
  CLEAVE_RETURN_IF_ERROR(update(index, range, operand.buffer()));
  if (mode == fb::Accumulate::AfterFirst && runs[run].first() &&
      values.findOther(range, value) != range.begin)
    return bad(index, "begins the sum in operand " + std::to_string(i) +
                          " (buffer " + std::to_string(operand.buffer()) +
                          ") a second time");
  // What is left out must be the buffer's already.
  if (!isDense) {
    uint64_t at = values.findOther(range, getValue(operand));
    if (at == range.end)
      return {};
    return bad(index, "writes a part of operand " + std::to_string(i) +
                          " (buffer " + std::to_string(operand.buffer()) +
                          "), of which the rest is something " + describe(at));
  }
  values.write(range, value);
  return {};
}

/// `onlyWhole`: only operands with a place for each micro-batch.
Status DataflowVerifier::verifyInstruction(size_t index, bool onlyWhole) {
  const fb::Instruction &instruction = getInstruction(index);
  std::span<const fb::Operand> operands = toSpan(instruction.operands());
  OperandRoles roles = getRoles(program, instruction);
  size_t outputsEnd = roles.inputs + roles.outputs;
  auto counts = [&](size_t i) { return !onlyWhole || isWhole(operands[i]); };
  for (size_t i = 0; i < roles.inputs; ++i) {
    if (!counts(i))
      continue;
    ByteRange part = {0, operands[i].bytes()};
    if (roles.kernel)
      part =
          *getTouchedBytes(*roles.kernel, toSpan(roles.kernel->accesses())[i]);
    CLEAVE_RETURN_IF_ERROR(read(index, i, part));
  }
  if (roles.readsOutputs(runs[run].first()))
    for (size_t i = roles.inputs; i < outputsEnd; ++i)
      if (counts(i))
        CLEAVE_RETURN_IF_ERROR(read(index, i, {0, operands[i].bytes()}));
  for (size_t i = roles.inputs; i < operands.size(); ++i)
    if (counts(i))
      CLEAVE_RETURN_IF_ERROR(
          write(index, i, i >= outputsEnd || isDense(roles, instruction, i),
                i < outputsEnd ? roles.accumulate : fb::Accumulate::Never));
  return {};
}

Status DataflowVerifier::verifyRun(size_t index, bool onlyWhole) {
  run = index;
  const fb::Segment &segment = getSegment(runs[index]);
  for (uint64_t i = segment.begin(); i < segment.end(); ++i)
    CLEAVE_RETURN_IF_ERROR(verifyInstruction(i, onlyWhole));
  return {};
}

Status DataflowVerifier::verify() {
  for (size_t i = 0; i < stage.getSegmentCount(); ++i)
    repeated.push_back(stage.countRuns(i) > 1);
  auto start = [&](const fb::Operand *operand) {
    if (operand)
      values.write(getRange(*operand), {operand->buffer()});
  };
  auto startBatch = [&](const fb::Operand *operand) {
    if (!operand)
      return;
    uint64_t count = program.micro_batches(), bytes = operand->bytes() / count;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t place = operand->offset() + i * bytes;
      values.write({place, place + bytes}, {operand->buffer(), uint32_t(i)});
    }
  };
  startBatch(stage->tokens());
  startBatch(stage->targets());
  for (size_t i = 0; i < getSize(stage->states()); ++i) {
    const fb::State *state = stage->states()->Get(flatbuffers::uoffset_t(i));
    start(state->operand());
    const fb::Operand &operand = *state->operand();
    states[operand.offset() + operand.bytes()] = state;
  }

  for (size_t i = 0; i < runs.size();) {
    Repetition repetition = findRepetition(stage, i);
    size_t exact = std::max<size_t>(2 * repetition.length, 1);
    for (size_t k = 0; k < exact; ++k)
      CLEAVE_RETURN_IF_ERROR(verifyRun(i + k, /*onlyWhole=*/false));
    size_t second = i + repetition.length;
    i += exact;
    if (repetition.count <= 2)
      continue;
    size_t rest = (repetition.count - 2) * repetition.length;
    for (size_t end = i + rest; i < end; ++i)
      CLEAVE_RETURN_IF_ERROR(verifyRun(i, /*onlyWhole=*/true));
    values.advance(uint32_t(second), (repetition.count - 2) * repetition.step);
  }
  CLEAVE_RETURN_IF_ERROR(verifySums());
  return verifyEnd();
}

/// See 5.
Status DataflowVerifier::verifySums() {
  std::vector<size_t> lastRuns(stage.getSegmentCount());
  for (size_t i = 0; i < runs.size(); ++i)
    lastRuns[runs[i].segment()] = i;
  auto getSum = [&](const fb::Operand &operand) -> Sum & {
    ByteRange range = getRange(operand);
    auto [first, end] = sums.equal_range(operand.buffer());
    for (; first != end; ++first)
      if (first->second.range.begin == range.begin &&
          first->second.range.end == range.end)
        return first->second;
    return sums.insert({operand.buffer(), {range}})->second;
  };
  for (size_t s = 0; s < stage.getSegmentCount(); ++s) {
    const fb::Segment &segment = stage.getSegment(s);
    for (uint64_t i = segment.begin(); i < segment.end(); ++i) {
      const fb::Instruction &instruction = getInstruction(i);
      OperandRoles roles = getRoles(program, instruction);
      if (roles.accumulate != fb::Accumulate::AfterFirst)
        continue;
      for (size_t k = roles.inputs; k < roles.inputs + roles.outputs; ++k) {
        Sum &sum = getSum(toSpan(instruction.operands())[k]);
        ++sum.times[s];
        sum.last = std::max(sum.last, {lastRuns[s], i});
      }
    }
  }
  // Runs of each segment and micro-batch, before the update.
  std::vector<std::vector<uint32_t>> counts(
      stage.getSegmentCount(), std::vector<uint32_t>(program.micro_batches()));
  for (size_t i = 0; i < std::min<size_t>(runs.size(), stage->update_run());
       ++i)
    ++counts[runs[i].segment()][runs[i].micro_batch()];
  for (const auto &[buffer, sum] : sums) {
    auto count = [&](size_t microBatch) {
      uint64_t parts = 0;
      for (const auto &[segment, times] : sum.times)
        parts += times * counts[segment][microBatch];
      return parts;
    };
    uint64_t expected = count(0);
    for (size_t i = 0; i < program.micro_batches(); ++i)
      if (count(i) == 0 || count(i) != expected)
        return Status::error("the sum over micro-batches at byte " +
                             std::to_string(sum.range.begin) +
                             " of the arena has " + std::to_string(count(i)) +
                             " parts of micro-batch " + std::to_string(i) +
                             " when the update begins, and " +
                             std::to_string(expected) + " of micro-batch 0");
  }
  for (run = 0; run < runs.size(); ++run)
    if (!repeated[runs[run].segment()])
      CLEAVE_RETURN_IF_ERROR(verifySumReads(runs[run].segment()));
  return {};
}

/// Of a segment that runs once, in the run at hand.
Status DataflowVerifier::verifySumReads(size_t number) {
  const fb::Segment &segment = stage.getSegment(number);
  for (uint64_t i = segment.begin(); i < segment.end(); ++i) {
    const fb::Instruction &instruction = getInstruction(i);
    std::span<const fb::Operand> operands = toSpan(instruction.operands());
    for (size_t k = 0; k < getRoles(program, instruction).inputs; ++k) {
      ByteRange range = getRange(operands[k]);
      auto [sum, end] = sums.equal_range(operands[k].buffer());
      for (; sum != end; ++sum)
        if (sum->second.range.begin < range.end &&
            range.begin < sum->second.range.end &&
            sum->second.last > Point(run, i))
          return bad(i, "reads operand " + std::to_string(k) + " (buffer " +
                            std::to_string(sum->first) +
                            "), a sum over micro-batches, before run " +
                            std::to_string(sum->second.last.first) +
                            " adds to it");
    }
  }
  return {};
}

Status DataflowVerifier::verifyEnd() const {
  auto expectOwn = [&](const std::string &what,
                       const fb::Operand &operand) -> Status {
    for (uint64_t i = 0; i < std::max<uint64_t>(operand.places(), 1); ++i) {
      uint64_t place = getPlace(operand, i);
      ByteRange range{place, place + operand.bytes()};
      // Without places, that of the last micro-batch is there.
      uint32_t whose = operand.places() ? uint32_t(i) : anyMicroBatch;
      uint64_t at = values.findOther(range, {operand.buffer(), whose});
      if (at != range.end)
        return Status::error(
            what + " (buffer " + std::to_string(operand.buffer()) +
            ") is something else at the end of a step, " + describe(at));
    }
    return {};
  };
  for (size_t i = 0; i < getSize(stage->states()); ++i) {
    const fb::State *state = stage->states()->Get(flatbuffers::uoffset_t(i));
    CLEAVE_RETURN_IF_ERROR(
        expectOwn("state " + quote(toView(state->name())), *state->operand()));
    const fb::Operand &operand = *state->operand();
    ByteRange range = getRange(operand);
    uint64_t at = updated.findOther(range, {operand.buffer()});
    if (!runs.empty() && !isConstant(*state) && at != range.end)
      return Status::error("no instruction updates byte " + std::to_string(at) +
                           " of the arena, of " + toString(*state));
  }
  for (size_t i = 0; i < getSize(stage->outputs()); ++i) {
    const fb::Output *output = stage->outputs()->Get(flatbuffers::uoffset_t(i));
    CLEAVE_RETURN_IF_ERROR(expectOwn("output " + quote(toView(output->name())),
                                     *output->operand()));
  }
  if (stage->tokens())
    CLEAVE_RETURN_IF_ERROR(expectOwn("tokens", *stage->tokens()));
  if (stage->targets())
    CLEAVE_RETURN_IF_ERROR(expectOwn("targets", *stage->targets()));
  return {};
}

} // namespace

Status cleave::runtime::verifyDataflow(const Stage &stage) {
  return DataflowVerifier(stage).verify();
}
