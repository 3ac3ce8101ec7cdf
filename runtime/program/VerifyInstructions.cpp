//===- VerifyInstructions.cpp - The table of README.md, as code -----------===//
#include "runtime/abi/Workspace.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Quote.h"
#include "runtime/program/Print.h"
#include "runtime/program/Program.h"
#include "runtime/program/Verify.h"
#include <algorithm>
#include <cmath>

using namespace cleave::runtime;
namespace fb = cleave::program;
namespace cpu = cleave::cpu;

namespace {

/// Checks one instruction. Each verifyX follows one row of the table; sizes
/// are multiplied with overflow checks and are at most the arena's, so what
/// comes later may multiply any that together are one operand.
class InstructionVerifier {
public:
  InstructionVerifier(const Stage &stage, size_t index)
      : stage(stage), program(stage.getProgram()),
        instruction(stage.getInstruction(index)),
        operands(toSpan(instruction.operands())),
        ints(toSpan(instruction.ints())), floats(toSpan(instruction.floats())),
        index(index) {}

  Status verify();

private:
  std::string describe() const {
    return "instruction " + std::to_string(index) + " (" +
           fb::EnumNameOpcode(instruction.opcode()) + " " +
           quote(toView(instruction.name())) + ")";
  }
  Status bad(const std::string &how) const {
    return Status::error(describe() + " " + how);
  }

  Status expectCounts(size_t operandCount, size_t intCount, size_t floatCount);
  Status expectInt(size_t i, const char *name, int64_t low, int64_t high);
  Status expectSize(size_t i, const char *name) {
    return expectInt(i, name, 1, int64_t(limits::count));
  }
  Status expectType(size_t i, const char *name, bool integers = false) {
    return expectInt(i, name, 0, integers ? 2 : 1);
  }
  /// Operand i has as many bytes as the product of `factors`.
  Status expectBytes(size_t i, const char *name,
                     std::initializer_list<int64_t> factors);
  Status expectAtLeast(size_t i, const char *name, uint64_t bytes);
  /// Operand a shares no byte with b in any micro-batch; `same`: unless they
  /// are one range in each.
  Status expectDisjoint(size_t a, size_t b, bool same = false);
  Status expectDisjointFromAll(size_t out);
  Status verifyOperands();
  Status verifyGroup();

  Status verifyMessage();
  Status verifyLaunch();
  Status verifyGemm();
  Status verifyAttention(bool grad);
  Status verifyEmbedding(bool grad);
  Status verifyAllReduce();
  Status verifyGatherOrScatter();
  Status verifyAllToAll();
  Status verifySchedule();

  int64_t getElementBytes(size_t i) const {
    return int64_t(getBytes(fb::DType(ints[i])));
  }

  const Stage &stage;
  const fb::Program &program;
  const fb::Instruction &instruction;
  std::span<const fb::Operand> operands;
  std::span<const int64_t> ints;
  std::span<const double> floats;
  size_t index;
  int64_t shards = 1; ///< of the group
};

Status InstructionVerifier::expectCounts(size_t operandCount, size_t intCount,
                                         size_t floatCount) {
  auto expect = [&](const char *what, size_t have, size_t want) {
    if (have == want)
      return Status();
    return bad("has " + std::to_string(have) + " " + what + ", expects " +
               std::to_string(want));
  };
  CLEAVE_RETURN_IF_ERROR(expect("operands", operands.size(), operandCount));
  CLEAVE_RETURN_IF_ERROR(expect("ints", ints.size(), intCount));
  return expect("floats", floats.size(), floatCount);
}

Status InstructionVerifier::expectInt(size_t i, const char *name, int64_t low,
                                      int64_t high) {
  if (ints[i] >= low && ints[i] <= high)
    return {};
  return bad(std::string("has ") + name + " " + std::to_string(ints[i]) +
             ", expects " + std::to_string(low) + " to " +
             std::to_string(high));
}

Status
InstructionVerifier::expectBytes(size_t i, const char *name,
                                 std::initializer_list<int64_t> factors) {
  auto bytes = multiplyAll(factors);
  if (bytes && operands[i].bytes() == *bytes)
    return {};
  return bad(std::string("has ") + std::to_string(operands[i].bytes()) +
             " bytes of " + name + ", expects " +
             (bytes ? std::to_string(*bytes) : "more than 2^64"));
}

Status InstructionVerifier::expectAtLeast(size_t i, const char *name,
                                          uint64_t bytes) {
  if (operands[i].bytes() >= bytes)
    return {};
  return bad(std::string("has ") + std::to_string(operands[i].bytes()) +
             " bytes of " + name + ", expects at least " +
             std::to_string(bytes));
}

Status InstructionVerifier::expectDisjoint(size_t a, size_t b, bool same) {
  const fb::Operand &x = operands[a], &y = operands[b];
  bool isParallel = x.stride() == y.stride() && x.places() == y.places();
  if (same && isParallel && x.offset() == y.offset() && x.bytes() == y.bytes())
    return {};
  // Operands that move on together keep their distance; of others, no place of
  // one may share a byte with any place of the other.
  uint64_t xEnd = x.offset() + x.bytes(), yEnd = y.offset() + y.bytes();
  if (!isParallel) {
    xEnd = *getOperandEnd(x, stage->arena_bytes());
    yEnd = *getOperandEnd(y, stage->arena_bytes());
  }
  if (xEnd <= y.offset() || yEnd <= x.offset())
    return {};
  return bad("has operands " + std::to_string(a) + " and " + std::to_string(b) +
             " that overlap");
}

Status InstructionVerifier::expectDisjointFromAll(size_t out) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (i != out)
      CLEAVE_RETURN_IF_ERROR(expectDisjoint(i, out));
  return {};
}

Status InstructionVerifier::verifyOperands() {
  std::span<const uint32_t> buffers = toSpan(instruction.buffers());
  if (buffers.size() != operands.size())
    return bad("has " + std::to_string(buffers.size()) + " buffers for " +
               std::to_string(operands.size()) +
               " operands, expects one for each");
  for (size_t i = 0; i < operands.size(); ++i) {
    if (buffers[i] == 0)
      return bad("has operand " + std::to_string(i) +
                 " in buffer 0, expects a number of at least 1");
    CLEAVE_RETURN_IF_ERROR(verifyPlaces(
        stage, operands[i], describe() + " has operand " + std::to_string(i)));
  }
  return {};
}

Status InstructionVerifier::verifyGroup() {
  uint32_t seen = 0;
  for (uint8_t axis : toSpan(instruction.group())) {
    if (axis >= getSize(program.axes()) || (seen >> axis & 1))
      return bad("has axis " + std::to_string(axis) +
                 " in its group, expects distinct axes of the mesh's " +
                 std::to_string(getSize(program.axes())));
    seen |= uint32_t(1) << axis;
    shards *= int64_t(program.axes()->Get(axis)->size());
  }
  return {};
}

Status InstructionVerifier::verifyLaunch() {
  if (!ints.empty() || !floats.empty())
    return bad("has ints or floats, expects none");
  if (operands.empty())
    return bad("has no operands");
  if (instruction.kernel() < 0 ||
      size_t(instruction.kernel()) >= getSize(program.kernels()))
    return bad("has kernel " + std::to_string(instruction.kernel()) +
               ", expects one of the " +
               std::to_string(getSize(program.kernels())) + " kernels");
  const fb::Kernel &kernel =
      *program.kernels()->Get(flatbuffers::uoffset_t(instruction.kernel()));
  std::span<const fb::Access> accesses = toSpan(kernel.accesses());
  CLEAVE_RETURN_IF_ERROR(expectCounts(accesses.size(), 0, 0));
  for (size_t i = 0; i < accesses.size(); ++i) {
    std::optional<ByteRange> touched = getTouchedBytes(kernel, accesses[i]);
    if (!touched || touched->end > operands[i].bytes())
      return bad("has " + std::to_string(operands[i].bytes()) +
                 " bytes of operand " + std::to_string(i) +
                 ", expects at least " +
                 (touched ? std::to_string(touched->end) : "2^64") +
                 " for the " + std::to_string(getRows(kernel)) + " rows and " +
                 std::to_string(getColumns(kernel)) + " columns of kernel " +
                 quote(toView(kernel.symbol())));
  }
  return {};
}

Status InstructionVerifier::verifyGemm() {
  if (ints.size() != 10)
    return expectCounts(operands.size(), 10, 0);
  CLEAVE_RETURN_IF_ERROR(expectInt(9, "hasBias", 0, 1));
  size_t bias = size_t(ints[9]);
  CLEAVE_RETURN_IF_ERROR(expectCounts(4 + bias, 10, 0));
  CLEAVE_RETURN_IF_ERROR(expectSize(0, "m"));
  CLEAVE_RETURN_IF_ERROR(expectSize(1, "n"));
  CLEAVE_RETURN_IF_ERROR(expectSize(2, "k"));
  CLEAVE_RETURN_IF_ERROR(expectInt(3, "transA", 0, 1));
  CLEAVE_RETURN_IF_ERROR(expectInt(4, "transB", 0, 1));
  CLEAVE_RETURN_IF_ERROR(expectType(5, "typeA"));
  CLEAVE_RETURN_IF_ERROR(expectType(6, "typeB"));
  CLEAVE_RETURN_IF_ERROR(expectType(7, "typeC"));
  CLEAVE_RETURN_IF_ERROR(expectInt(8, "mode", 0, 2));
  int64_t m = ints[0], n = ints[1], k = ints[2];
  CLEAVE_RETURN_IF_ERROR(expectBytes(0, "A", {m, k, getElementBytes(5)}));
  CLEAVE_RETURN_IF_ERROR(expectBytes(1, "B", {k, n, getElementBytes(6)}));
  if (bias)
    CLEAVE_RETURN_IF_ERROR(expectBytes(2, "bias", {n, 4}));
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(2 + bias, "C", {m, n, getElementBytes(7)}));
  CLEAVE_RETURN_IF_ERROR(expectAtLeast(
      3 + bias, "workspace",
      cpu::gemmWorkspaceBytes(m, n, k, ints[3], ints[4], ints[5], ints[6],
                              ints[7], program.threads())));
  CLEAVE_RETURN_IF_ERROR(expectDisjointFromAll(2 + bias));
  return expectDisjointFromAll(3 + bias);
}

Status InstructionVerifier::verifyAttention(bool grad) {
  CLEAVE_RETURN_IF_ERROR(expectCounts(grad ? 10 : 6, 7, 2));
  static const char *const names[] = {"batch", "seq", "heads", "kvHeads"};
  for (size_t i = 0; i < 4; ++i)
    CLEAVE_RETURN_IF_ERROR(expectSize(i, names[i]));
  CLEAVE_RETURN_IF_ERROR(expectInt(4, "headDim", 1, int64_t(limits::headDim)));
  CLEAVE_RETURN_IF_ERROR(expectInt(5, "window", 0, int64_t(limits::count)));
  CLEAVE_RETURN_IF_ERROR(expectType(6, "type"));
  int64_t batch = ints[0], seq = ints[1], heads = ints[2], kvHeads = ints[3],
          headDim = ints[4], bytes = getElementBytes(6);
  if (heads % kvHeads != 0)
    return bad("has heads " + std::to_string(heads) +
               ", expects a multiple of kvHeads " + std::to_string(kvHeads));
  if (!std::isfinite(floats[0]) || !std::isfinite(floats[1]) || floats[1] < 0)
    return bad("has scale " + std::to_string(floats[0]) + " and softcap " +
               std::to_string(floats[1]) +
               ", expects numbers, softcap at least 0");
  auto expectHeads = [&](size_t i, const char *name, int64_t count) {
    return expectBytes(i, name, {batch, seq, count, headDim, bytes});
  };
  CLEAVE_RETURN_IF_ERROR(expectHeads(0, "q", heads));
  CLEAVE_RETURN_IF_ERROR(expectHeads(1, "k", kvHeads));
  CLEAVE_RETURN_IF_ERROR(expectHeads(2, "v", kvHeads));
  CLEAVE_RETURN_IF_ERROR(expectHeads(3, "out", heads));
  CLEAVE_RETURN_IF_ERROR(expectBytes(4, "lse", {batch, heads, seq, 4}));
  if (grad) {
    CLEAVE_RETURN_IF_ERROR(expectHeads(5, "dout", heads));
    CLEAVE_RETURN_IF_ERROR(expectHeads(6, "dq", heads));
    CLEAVE_RETURN_IF_ERROR(expectHeads(7, "dk", kvHeads));
    CLEAVE_RETURN_IF_ERROR(expectHeads(8, "dv", kvHeads));
  }
  auto *getWorkspace =
      grad ? cpu::attentionGradWorkspaceBytes : cpu::attentionWorkspaceBytes;
  CLEAVE_RETURN_IF_ERROR(
      expectAtLeast(operands.size() - 1, "workspace",
                    getWorkspace(batch, seq, heads, kvHeads, headDim, ints[6],
                                 program.threads())));
  for (size_t out = grad ? 6 : 3; out < operands.size(); ++out)
    CLEAVE_RETURN_IF_ERROR(expectDisjointFromAll(out));
  return {};
}

Status InstructionVerifier::verifyEmbedding(bool grad) {
  CLEAVE_RETURN_IF_ERROR(expectCounts(3, grad ? 6 : 5, 0));
  CLEAVE_RETURN_IF_ERROR(expectSize(0, "rows"));
  CLEAVE_RETURN_IF_ERROR(expectSize(1, "width"));
  CLEAVE_RETURN_IF_ERROR(expectSize(2, "tableRows"));
  CLEAVE_RETURN_IF_ERROR(expectType(3, grad ? "typeDout" : "typeTable"));
  CLEAVE_RETURN_IF_ERROR(expectType(4, grad ? "typeDtable" : "typeOut"));
  if (grad)
    CLEAVE_RETURN_IF_ERROR(expectInt(5, "mode", 0, 2));
  int64_t rows = ints[0], width = ints[1], tableRows = ints[2];
  if (tableRows > int64_t(limits::count) / shards)
    return bad("has tableRows " + std::to_string(tableRows) + " in " +
               std::to_string(shards) + " shards, expects at most " +
               std::to_string(limits::count) + " rows in all");
  CLEAVE_RETURN_IF_ERROR(expectBytes(0, "ids", {rows, 4}));
  if (grad) {
    CLEAVE_RETURN_IF_ERROR(
        expectBytes(1, "dout", {rows, width, getElementBytes(3)}));
    CLEAVE_RETURN_IF_ERROR(
        expectBytes(2, "dtable", {tableRows, width, getElementBytes(4)}));
  } else {
    CLEAVE_RETURN_IF_ERROR(
        expectBytes(1, "table", {tableRows, width, getElementBytes(3)}));
    CLEAVE_RETURN_IF_ERROR(
        expectBytes(2, "out", {rows, width, getElementBytes(4)}));
  }
  return expectDisjointFromAll(2);
}

Status InstructionVerifier::verifyAllReduce() {
  CLEAVE_RETURN_IF_ERROR(expectCounts(2, 3, 0));
  CLEAVE_RETURN_IF_ERROR(
      expectInt(0, "elements", 1, int64_t(limits::arenaBytes)));
  CLEAVE_RETURN_IF_ERROR(expectType(1, "type", /*integers=*/true));
  CLEAVE_RETURN_IF_ERROR(expectInt(2, "reduction", 0, 1));
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(0, "input", {ints[0], getElementBytes(1)}));
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(1, "output", {ints[0], getElementBytes(1)}));
  return expectDisjoint(0, 1, /*same=*/true);
}

/// AllGather, ReduceScatter, Slice: one of the two has the ranks as a dim.
Status InstructionVerifier::verifyGatherOrScatter() {
  bool reduces = instruction.opcode() == fb::Opcode::ReduceScatter;
  CLEAVE_RETURN_IF_ERROR(expectCounts(2, reduces ? 4 : 3, 0));
  CLEAVE_RETURN_IF_ERROR(expectSize(0, "outer"));
  CLEAVE_RETURN_IF_ERROR(expectInt(1, "inner", 1, int64_t(limits::arenaBytes)));
  CLEAVE_RETURN_IF_ERROR(expectType(2, "type", /*integers=*/true));
  if (reduces)
    CLEAVE_RETURN_IF_ERROR(expectInt(3, "reduction", 0, 1));
  size_t whole = instruction.opcode() == fb::Opcode::AllGather ? 1 : 0;
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(whole, whole ? "output" : "input",
                  {ints[0], shards, ints[1], getElementBytes(2)}));
  CLEAVE_RETURN_IF_ERROR(expectBytes(1 - whole, whole ? "input" : "output",
                                     {ints[0], ints[1], getElementBytes(2)}));
  return expectDisjoint(0, 1);
}

Status InstructionVerifier::verifyAllToAll() {
  CLEAVE_RETURN_IF_ERROR(expectCounts(2, 7, 0));
  static const char *const names[] = {"outer", "a", "mid", "b", "inner"};
  for (size_t i = 0; i < 5; ++i)
    CLEAVE_RETURN_IF_ERROR(expectSize(i, names[i]));
  CLEAVE_RETURN_IF_ERROR(expectType(5, "type", /*integers=*/true));
  CLEAVE_RETURN_IF_ERROR(expectInt(6, "concatFirst", 0, 1));
  for (size_t i = 0; i < 2; ++i)
    CLEAVE_RETURN_IF_ERROR(expectBytes(i, i ? "output" : "input",
                                       {ints[0], ints[1], ints[2], shards,
                                        ints[3], ints[4], getElementBytes(5)}));
  return expectDisjoint(0, 1);
}

Status InstructionVerifier::verifySchedule() {
  CLEAVE_RETURN_IF_ERROR(expectCounts(1, 4, 4));
  CLEAVE_RETURN_IF_ERROR(expectInt(0, "kind", 0, 3));
  CLEAVE_RETURN_IF_ERROR(
      expectInt(1, "warmupSteps", 0, int64_t(limits::count)));
  CLEAVE_RETURN_IF_ERROR(expectInt(2, "decaySteps", 0, int64_t(limits::count)));
  CLEAVE_RETURN_IF_ERROR(
      expectInt(3, "stableSteps", 0, int64_t(limits::count)));
  for (size_t i = 0; i < 2; ++i)
    if (!std::isfinite(floats[i]) || floats[i] < 0)
      return bad(std::string("has ") + (i ? "minLr " : "lr ") +
                 std::to_string(floats[i]) + ", expects at least 0");
  for (size_t i = 2; i < 4; ++i)
    if (!(floats[i] >= 0 && floats[i] < 1))
      return bad(std::string("has ") + (i == 2 ? "beta1 " : "beta2 ") +
                 std::to_string(floats[i]) +
                 ", expects at least 0 and less than 1");
  return expectBytes(0, "output", {4, 4});
}

/// That a channel has two ends, verifyMeetings() checks.
Status InstructionVerifier::verifyMessage() {
  CLEAVE_RETURN_IF_ERROR(expectCounts(1, 2, 0));
  CLEAVE_RETURN_IF_ERROR(expectInt(messagePeer, "peer", 0,
                                   int64_t(getSize(program.stages())) - 1));
  CLEAVE_RETURN_IF_ERROR(
      expectInt(messageChannel, "channel", 0, int64_t(limits::channels) - 1));
  if (ints[messagePeer] == int64_t(stage.getNumber()))
    return bad("has peer " + std::to_string(ints[messagePeer]) +
               ", expects another stage than its own");
  if (!toSpan(instruction.group()).empty())
    return bad("has a group, expects none");
  return {};
}

Status InstructionVerifier::verify() {
  if (instruction.opcode() > fb::Opcode::MAX)
    return Status::error("instruction " + std::to_string(index) + " " +
                         quote(toView(instruction.name())) +
                         " has the unknown opcode " +
                         std::to_string(int(instruction.opcode())));
  if (!std::isfinite(instruction.flops()) || instruction.flops() < 0)
    return bad("has a number of FLOPs that is not at least 0");
  CLEAVE_RETURN_IF_ERROR(verifyOperands());
  CLEAVE_RETURN_IF_ERROR(verifyGroup());
  switch (instruction.opcode()) {
  case fb::Opcode::Launch:
    return verifyLaunch();
  case fb::Opcode::Gemm:
    return verifyGemm();
  case fb::Opcode::Attention:
    return verifyAttention(/*grad=*/false);
  case fb::Opcode::AttentionGrad:
    return verifyAttention(/*grad=*/true);
  case fb::Opcode::Embedding:
    return verifyEmbedding(/*grad=*/false);
  case fb::Opcode::EmbeddingGrad:
    return verifyEmbedding(/*grad=*/true);
  case fb::Opcode::Fill:
    return expectCounts(1, 0, 0);
  case fb::Opcode::Copy:
    CLEAVE_RETURN_IF_ERROR(expectCounts(2, 0, 0));
    CLEAVE_RETURN_IF_ERROR(
        expectBytes(1, "output", {int64_t(operands[0].bytes())}));
    return expectDisjoint(0, 1, /*same=*/true);
  case fb::Opcode::AllReduce:
    return verifyAllReduce();
  case fb::Opcode::AllGather:
  case fb::Opcode::ReduceScatter:
  case fb::Opcode::Slice:
    return verifyGatherOrScatter();
  case fb::Opcode::AllToAll:
    return verifyAllToAll();
  case fb::Opcode::Schedule:
    return verifySchedule();
  case fb::Opcode::Send:
  case fb::Opcode::Recv:
    return verifyMessage();
  }
  return bad("has an opcode that nothing verifies");
}

} // namespace

/// Streams that exist, each event recorded by one instruction, and waits for
/// events that are recorded.
static Status verifyEvents(const Stage &stage) {
  constexpr size_t none = SIZE_MAX;
  size_t count = stage.getInstructionCount();
  std::vector<size_t> recorders(count + 1, none);
  for (size_t i = 0; i < count; ++i) {
    const fb::Instruction &instruction = stage.getInstruction(i);
    auto bad = [&](const std::string &how) {
      return Status::error(describeInstruction(stage, i) + " " + how);
    };
    if (instruction.stream() >= limits::streams)
      return bad("is of stream " + std::to_string(instruction.stream()) +
                 ", expects one below " + std::to_string(limits::streams));
    uint32_t event = instruction.event();
    if (event > count)
      return bad("records event " + std::to_string(event) +
                 ", expects at most as many as the " + std::to_string(count) +
                 " instructions");
    if (event > 0 && recorders[event] != none)
      return bad("records event " + std::to_string(event) + ", as does " +
                 describeInstruction(stage, recorders[event]));
    if (event > 0)
      recorders[event] = i;
  }
  for (size_t i = 0; i < count; ++i)
    for (uint32_t event : toSpan(stage.getInstruction(i).waits()))
      if (event > count || recorders[event] == none)
        return Status::error(describeInstruction(stage, i) +
                             " waits for event " + std::to_string(event) +
                             ", which no instruction records");
  return {};
}

Status cleave::runtime::verifyInstructions(const Stage &stage) {
  for (size_t i = 0; i < stage.getInstructionCount(); ++i)
    CLEAVE_RETURN_IF_ERROR(InstructionVerifier(stage, i).verify());
  return verifyEvents(stage);
}

Status cleave::runtime::verifyRuns(const Stage &stage) {
  auto bad = [](const std::string &what, const std::string &how) {
    return Status::error(what + " " + how);
  };
  const uint64_t microBatches = stage.getProgram().micro_batches();
  size_t segments = stage.getSegmentCount();
  uint64_t end = 0;
  for (size_t i = 0; i < segments; ++i) {
    const fb::Segment &segment = stage.getSegment(i);
    std::string label =
        "segment " + std::to_string(i) + " " + quote(toView(segment.name()));
    if (segment.begin() != end || segment.end() <= end ||
        segment.end() > stage.getInstructionCount())
      return bad(label, "has instructions " + std::to_string(segment.begin()) +
                            " to " + std::to_string(segment.end()) +
                            ", expects some from " + std::to_string(end) +
                            " on, of the program's " +
                            std::to_string(stage.getInstructionCount()));
    end = segment.end();
  }
  if (end != stage.getInstructionCount())
    return bad("instruction " + std::to_string(end), "is in no segment");

  std::vector<bool> isRun(segments);
  std::span<const fb::Run> runs = stage.getRuns();
  if (runs.size() > limits::runs)
    return bad("the program has " + std::to_string(runs.size()),
               "runs, expects at most " + std::to_string(limits::runs));
  for (size_t i = 0; i < runs.size(); ++i) {
    std::string label = "run " + std::to_string(i);
    if (runs[i].segment() >= segments)
      return bad(label, "is of segment " + std::to_string(runs[i].segment()) +
                            ", expects one of the " + std::to_string(segments));
    if (runs[i].micro_batch() >= microBatches)
      return bad(label,
                 "is for micro-batch " + std::to_string(runs[i].micro_batch()) +
                     ", expects one of the " + std::to_string(microBatches));
    isRun[runs[i].segment()] = true;
  }
  for (size_t i = 0; i < segments; ++i)
    if (!isRun[i])
      return bad("segment " + std::to_string(i), "is never run");
  if (stage->update_run() > runs.size())
    return bad("run " + std::to_string(stage->update_run()),
               "begins the update, and does not exist");
  return {};
}
