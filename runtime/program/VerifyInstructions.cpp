//===- VerifyInstructions.cpp - The table of README.md, as code -----------===//
#include "runtime/abi/Workspace.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Quote.h"
#include "runtime/program/Print.h"
#include "runtime/program/Program.h"
#include "runtime/program/Verify.h"
#include "runtime/program/Work.h"
#include <algorithm>
#include <cmath>
#include <type_traits>

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
        operands(toSpan(instruction.operands())), index(index) {}

  Status verify();

private:
  std::string describe() const {
    return "instruction " + std::to_string(index) + " (" +
           fb::EnumNameOpcode(instruction.work_type()) + " " +
           quote(toView(instruction.name())) + ")";
  }
  Status bad(const std::string &how) const {
    return Status::error(describe() + " " + how);
  }

  Status expectOperands(size_t count) const;
  Status expectInt(const char *name, int64_t value, int64_t low, int64_t high);
  Status expectSize(const char *name, int64_t value) {
    return expectInt(name, value, 1, int64_t(limits::count));
  }
  template <typename Enum>
  Status expectEnum(const char *name, Enum value, Enum last) {
    return expectInt(name, int64_t(value), 0, int64_t(last));
  }
  Status expectFloat(const char *name, fb::DType type) {
    return expectEnum(name, type, fb::DType::BF16);
  }
  Status expectType(const char *name, fb::DType type) {
    return expectEnum(name, type, fb::DType::MAX);
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

  Status verifyLaunch(const fb::Launch &launch);
  Status verifyGemm(const fb::Gemm &gemm);
  /// Attention or AttentionGrad, which has further operands.
  template <typename Table>
  Status verifyAttention(const Table &attention);
  Status verifyEmbeddingSizes(int64_t rows, int64_t width, int64_t tableRows);
  Status verifyEmbedding(const fb::Embedding &embedding);
  Status verifyEmbeddingGrad(const fb::EmbeddingGrad &embedding);
  Status verifyCopy();
  Status verifyAllReduce(const fb::AllReduce &reduce);
  /// AllGather, ReduceScatter, Slice: operand `whole` has the ranks as a dim.
  template <typename Table>
  Status verifyParts(const Table &table, size_t whole);
  Status verifyAllToAll(const fb::AllToAll &exchange);
  Status verifySchedule(const fb::Schedule &schedule);
  Status verifyMessage();

  const Stage &stage;
  const fb::Program &program;
  const fb::Instruction &instruction;
  std::span<const fb::Operand> operands;
  size_t index;
  int64_t shards = 1; ///< of the group
};

/// Whether they keep their distance from one micro-batch to the next.
bool moveTogether(const fb::Operand &x, const fb::Operand &y) {
  return x.stride() == y.stride() && x.places() == y.places();
}

bool areAlike(const fb::Operand &x, const fb::Operand &y) {
  return x.bytes() == y.bytes() && moveTogether(x, y);
}

/// Whether two verified operands have a byte in common in some micro-batch.
bool mayShareBytes(const Stage &stage, const fb::Operand &x,
                   const fb::Operand &y) {
  // Of those that do not move together, no place of one may share a byte with
  // any place of the other.
  uint64_t xEnd = x.offset() + x.bytes(), yEnd = y.offset() + y.bytes();
  if (!moveTogether(x, y)) {
    xEnd = *getOperandEnd(x, stage->arena_bytes());
    yEnd = *getOperandEnd(y, stage->arena_bytes());
  }
  return x.offset() < yEnd && y.offset() < xEnd;
}

int64_t getElementBytes(fb::DType type) { return int64_t(getBytes(type)); }

Status InstructionVerifier::expectOperands(size_t count) const {
  if (operands.size() == count)
    return {};
  return bad("has " + std::to_string(operands.size()) + " operands, expects " +
             std::to_string(count));
}

Status InstructionVerifier::expectInt(const char *name, int64_t value,
                                      int64_t low, int64_t high) {
  if (value >= low && value <= high)
    return {};
  return bad(std::string("has ") + name + " " + std::to_string(value) +
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
  if (same && areAlike(x, y) && x.offset() == y.offset())
    return {};
  if (!mayShareBytes(stage, x, y))
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
  for (size_t i = 0; i < operands.size(); ++i)
    CLEAVE_RETURN_IF_ERROR(verifyPlaces(
        stage, operands[i], describe() + " has operand " + std::to_string(i)));
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

Status InstructionVerifier::verifyLaunch(const fb::Launch &launch) {
  if (operands.empty())
    return bad("has no operands");
  if (launch.kernel() < 0 ||
      size_t(launch.kernel()) >= getSize(program.kernels()))
    return bad("has kernel " + std::to_string(launch.kernel()) +
               ", expects one of the " +
               std::to_string(getSize(program.kernels())) + " kernels");
  const fb::Kernel &kernel = getKernel(program, instruction);
  std::span<const fb::Access> accesses = toSpan(kernel.accesses());
  CLEAVE_RETURN_IF_ERROR(expectOperands(accesses.size()));
  for (size_t i = 0; i < accesses.size(); ++i) {
    std::optional<ByteRange> touched = getTouchedBytes(kernel, accesses[i]);
    if (!touched || touched->end > operands[i].bytes())
      return bad("has " + std::to_string(operands[i].bytes()) +
                 " bytes of operand " + std::to_string(i) +
                 ", expects at least " +
                 (touched ? std::to_string(touched->end) : "2^64") +
                 " for the " + std::to_string(kernel.rows()) + " rows and " +
                 std::to_string(kernel.columns()) + " columns of kernel " +
                 quote(toView(kernel.symbol())));
  }
  return {};
}

Status InstructionVerifier::verifyGemm(const fb::Gemm &gemm) {
  size_t bias = gemm.has_bias();
  CLEAVE_RETURN_IF_ERROR(expectOperands(4 + bias));
  CLEAVE_RETURN_IF_ERROR(expectSize("m", gemm.m()));
  CLEAVE_RETURN_IF_ERROR(expectSize("n", gemm.n()));
  CLEAVE_RETURN_IF_ERROR(expectSize("k", gemm.k()));
  CLEAVE_RETURN_IF_ERROR(expectFloat("type_a", gemm.type_a()));
  CLEAVE_RETURN_IF_ERROR(expectFloat("type_b", gemm.type_b()));
  CLEAVE_RETURN_IF_ERROR(expectFloat("type_c", gemm.type_c()));
  CLEAVE_RETURN_IF_ERROR(
      expectEnum("accumulate", gemm.accumulate(), fb::Accumulate::MAX));
  int64_t m = gemm.m(), n = gemm.n(), k = gemm.k();
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(0, "A", {m, k, getElementBytes(gemm.type_a())}));
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(1, "B", {k, n, getElementBytes(gemm.type_b())}));
  if (bias)
    CLEAVE_RETURN_IF_ERROR(expectBytes(2, "bias", {n, 4}));
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(2 + bias, "C", {m, n, getElementBytes(gemm.type_c())}));
  CLEAVE_RETURN_IF_ERROR(expectAtLeast(
      3 + bias, "workspace",
      cpu::gemmWorkspaceBytes(m, n, k, gemm.trans_a(), gemm.trans_b(),
                              int64_t(gemm.type_a()), int64_t(gemm.type_b()),
                              int64_t(gemm.type_c()), program.threads())));
  CLEAVE_RETURN_IF_ERROR(expectDisjointFromAll(2 + bias));
  return expectDisjointFromAll(3 + bias);
}

template <typename Table>
Status InstructionVerifier::verifyAttention(const Table &attention) {
  constexpr bool isGrad = std::is_same_v<Table, fb::AttentionGrad>;
  CLEAVE_RETURN_IF_ERROR(expectOperands(isGrad ? 10 : 6));
  int64_t batch = attention.batch(), seq = attention.seq(),
          heads = attention.heads(), kvHeads = attention.kv_heads(),
          headDim = attention.head_dim();
  CLEAVE_RETURN_IF_ERROR(expectSize("batch", batch));
  CLEAVE_RETURN_IF_ERROR(expectSize("seq", seq));
  CLEAVE_RETURN_IF_ERROR(expectSize("heads", heads));
  CLEAVE_RETURN_IF_ERROR(expectSize("kv_heads", kvHeads));
  CLEAVE_RETURN_IF_ERROR(
      expectInt("head_dim", headDim, 1, int64_t(limits::headDim)));
  CLEAVE_RETURN_IF_ERROR(
      expectInt("window", attention.window(), 0, int64_t(limits::count)));
  CLEAVE_RETURN_IF_ERROR(expectFloat("type", attention.type()));
  if (heads % kvHeads != 0)
    return bad("has heads " + std::to_string(heads) +
               ", expects a multiple of kv_heads " + std::to_string(kvHeads));
  if (!std::isfinite(attention.scale()) ||
      !std::isfinite(attention.softcap()) || attention.softcap() < 0)
    return bad("has scale " + std::to_string(attention.scale()) +
               " and softcap " + std::to_string(attention.softcap()) +
               ", expects numbers, softcap at least 0");
  auto expectHeads = [&](size_t i, const char *name, int64_t count) {
    return expectBytes(
        i, name,
        {batch, seq, count, headDim, getElementBytes(attention.type())});
  };
  CLEAVE_RETURN_IF_ERROR(expectHeads(0, "q", heads));
  CLEAVE_RETURN_IF_ERROR(expectHeads(1, "k", kvHeads));
  CLEAVE_RETURN_IF_ERROR(expectHeads(2, "v", kvHeads));
  CLEAVE_RETURN_IF_ERROR(expectHeads(3, "out", heads));
  CLEAVE_RETURN_IF_ERROR(expectBytes(4, "lse", {batch, heads, seq, 4}));
  if (isGrad) {
    CLEAVE_RETURN_IF_ERROR(expectHeads(5, "dout", heads));
    CLEAVE_RETURN_IF_ERROR(expectHeads(6, "dq", heads));
    CLEAVE_RETURN_IF_ERROR(expectHeads(7, "dk", kvHeads));
    CLEAVE_RETURN_IF_ERROR(expectHeads(8, "dv", kvHeads));
  }
  auto *getWorkspace =
      isGrad ? cpu::attentionGradWorkspaceBytes : cpu::attentionWorkspaceBytes;
  CLEAVE_RETURN_IF_ERROR(expectAtLeast(
      operands.size() - 1, "workspace",
      getWorkspace(batch, seq, heads, kvHeads, headDim,
                   int64_t(attention.type()), program.threads())));
  for (size_t out = isGrad ? 6 : 3; out < operands.size(); ++out)
    CLEAVE_RETURN_IF_ERROR(expectDisjointFromAll(out));
  return {};
}

Status InstructionVerifier::verifyEmbeddingSizes(int64_t rows, int64_t width,
                                                 int64_t tableRows) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(3));
  CLEAVE_RETURN_IF_ERROR(expectSize("rows", rows));
  CLEAVE_RETURN_IF_ERROR(expectSize("width", width));
  CLEAVE_RETURN_IF_ERROR(expectSize("table_rows", tableRows));
  if (tableRows > int64_t(limits::count) / shards)
    return bad("has table_rows " + std::to_string(tableRows) + " in " +
               std::to_string(shards) + " shards, expects at most " +
               std::to_string(limits::count) + " rows in all");
  return expectBytes(0, "ids", {rows, 4});
}

Status InstructionVerifier::verifyEmbedding(const fb::Embedding &embedding) {
  int64_t rows = embedding.rows(), width = embedding.width(),
          tableRows = embedding.table_rows();
  CLEAVE_RETURN_IF_ERROR(verifyEmbeddingSizes(rows, width, tableRows));
  CLEAVE_RETURN_IF_ERROR(expectFloat("type_table", embedding.type_table()));
  CLEAVE_RETURN_IF_ERROR(expectFloat("type_out", embedding.type_out()));
  CLEAVE_RETURN_IF_ERROR(expectBytes(
      1, "table", {tableRows, width, getElementBytes(embedding.type_table())}));
  CLEAVE_RETURN_IF_ERROR(expectBytes(
      2, "out", {rows, width, getElementBytes(embedding.type_out())}));
  return expectDisjointFromAll(2);
}

Status
InstructionVerifier::verifyEmbeddingGrad(const fb::EmbeddingGrad &embedding) {
  int64_t rows = embedding.rows(), width = embedding.width(),
          tableRows = embedding.table_rows();
  CLEAVE_RETURN_IF_ERROR(verifyEmbeddingSizes(rows, width, tableRows));
  CLEAVE_RETURN_IF_ERROR(expectFloat("type_dout", embedding.type_dout()));
  CLEAVE_RETURN_IF_ERROR(expectFloat("type_dtable", embedding.type_dtable()));
  CLEAVE_RETURN_IF_ERROR(
      expectEnum("accumulate", embedding.accumulate(), fb::Accumulate::MAX));
  CLEAVE_RETURN_IF_ERROR(expectBytes(
      1, "dout", {rows, width, getElementBytes(embedding.type_dout())}));
  CLEAVE_RETURN_IF_ERROR(expectBytes(
      2, "dtable",
      {tableRows, width, getElementBytes(embedding.type_dtable())}));
  return expectDisjointFromAll(2);
}

Status InstructionVerifier::verifyCopy() {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2));
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(1, "output", {int64_t(operands[0].bytes())}));
  return expectDisjoint(0, 1, /*same=*/true);
}

Status InstructionVerifier::verifyAllReduce(const fb::AllReduce &reduce) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2));
  CLEAVE_RETURN_IF_ERROR(
      expectInt("elements", reduce.elements(), 1, int64_t(limits::arenaBytes)));
  CLEAVE_RETURN_IF_ERROR(expectType("type", reduce.type()));
  CLEAVE_RETURN_IF_ERROR(
      expectEnum("reduction", reduce.reduction(), fb::Reduction::MAX));
  int64_t bytes = getElementBytes(reduce.type());
  CLEAVE_RETURN_IF_ERROR(expectBytes(0, "input", {reduce.elements(), bytes}));
  CLEAVE_RETURN_IF_ERROR(expectBytes(1, "output", {reduce.elements(), bytes}));
  return expectDisjoint(0, 1, /*same=*/true);
}

template <typename Table>
Status InstructionVerifier::verifyParts(const Table &table, size_t whole) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2));
  CLEAVE_RETURN_IF_ERROR(expectSize("outer", table.outer()));
  CLEAVE_RETURN_IF_ERROR(
      expectInt("inner", table.inner(), 1, int64_t(limits::arenaBytes)));
  CLEAVE_RETURN_IF_ERROR(expectType("type", table.type()));
  if constexpr (std::is_same_v<Table, fb::ReduceScatter>)
    CLEAVE_RETURN_IF_ERROR(
        expectEnum("reduction", table.reduction(), fb::Reduction::MAX));
  int64_t bytes = getElementBytes(table.type());
  CLEAVE_RETURN_IF_ERROR(
      expectBytes(whole, whole ? "output" : "input",
                  {table.outer(), shards, table.inner(), bytes}));
  CLEAVE_RETURN_IF_ERROR(expectBytes(1 - whole, whole ? "input" : "output",
                                     {table.outer(), table.inner(), bytes}));
  return expectDisjoint(0, 1);
}

Status InstructionVerifier::verifyAllToAll(const fb::AllToAll &exchange) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(2));
  CLEAVE_RETURN_IF_ERROR(expectSize("outer", exchange.outer()));
  CLEAVE_RETURN_IF_ERROR(expectSize("a", exchange.a()));
  CLEAVE_RETURN_IF_ERROR(expectSize("mid", exchange.mid()));
  CLEAVE_RETURN_IF_ERROR(expectSize("b", exchange.b()));
  CLEAVE_RETURN_IF_ERROR(expectSize("inner", exchange.inner()));
  CLEAVE_RETURN_IF_ERROR(expectType("type", exchange.type()));
  for (size_t i = 0; i < 2; ++i)
    CLEAVE_RETURN_IF_ERROR(expectBytes(
        i, i ? "output" : "input",
        {exchange.outer(), exchange.a(), exchange.mid(), shards, exchange.b(),
         exchange.inner(), getElementBytes(exchange.type())}));
  return expectDisjoint(0, 1);
}

Status InstructionVerifier::verifySchedule(const fb::Schedule &schedule) {
  CLEAVE_RETURN_IF_ERROR(expectOperands(1));
  CLEAVE_RETURN_IF_ERROR(
      expectEnum("kind", schedule.kind(), fb::LRSchedule::MAX));
  constexpr int64_t most = int64_t(limits::count);
  CLEAVE_RETURN_IF_ERROR(
      expectInt("warmup_steps", schedule.warmup_steps(), 0, most));
  CLEAVE_RETURN_IF_ERROR(
      expectInt("decay_steps", schedule.decay_steps(), 0, most));
  CLEAVE_RETURN_IF_ERROR(
      expectInt("stable_steps", schedule.stable_steps(), 0, most));
  for (auto [name, rate] :
       {std::pair("lr", schedule.lr()), std::pair("min_lr", schedule.min_lr())})
    if (!std::isfinite(rate) || rate < 0)
      return bad(std::string("has ") + name + " " + std::to_string(rate) +
                 ", expects at least 0");
  for (auto [name, beta] : {std::pair("beta1", schedule.beta1()),
                            std::pair("beta2", schedule.beta2())})
    if (!(beta >= 0 && beta < 1))
      return bad(std::string("has ") + name + " " + std::to_string(beta) +
                 ", expects at least 0 and less than 1");
  return expectBytes(0, "output", {scheduleValues, sizeof(float)});
}

/// That a channel has two ends, verifyMeetings() checks.
Status InstructionVerifier::verifyMessage() {
  CLEAVE_RETURN_IF_ERROR(expectOperands(1));
  Message message = getMessage(instruction);
  CLEAVE_RETURN_IF_ERROR(expectInt("stage", message.stage, 0,
                                   int64_t(getSize(program.stages())) - 1));
  CLEAVE_RETURN_IF_ERROR(
      expectInt("channel", message.channel, 0, int64_t(limits::channels) - 1));
  if (message.stage == int64_t(stage.getNumber()))
    return bad("has stage " + std::to_string(message.stage) +
               ", expects another than its own");
  if (!toSpan(instruction.group()).empty())
    return bad("has a group, expects none");
  return {};
}

Status InstructionVerifier::verify() {
  fb::Opcode opcode = instruction.work_type();
  if (opcode <= fb::Opcode::NONE || opcode > fb::Opcode::MAX)
    return Status::error("instruction " + std::to_string(index) + " " +
                         quote(toView(instruction.name())) +
                         " has the unknown opcode " +
                         std::to_string(int(opcode)));
  if (!instruction.work())
    return bad("says nothing of its work");
  if (!std::isfinite(instruction.flops()) || instruction.flops() < 0)
    return bad("has a number of FLOPs that is not at least 0");
  CLEAVE_RETURN_IF_ERROR(verifyOperands());
  CLEAVE_RETURN_IF_ERROR(verifyGroup());
  switch (opcode) {
  case fb::Opcode::Launch:
    return verifyLaunch(*instruction.work_as_Launch());
  case fb::Opcode::Gemm:
    return verifyGemm(*instruction.work_as_Gemm());
  case fb::Opcode::Attention:
    return verifyAttention(*instruction.work_as_Attention());
  case fb::Opcode::AttentionGrad:
    return verifyAttention(*instruction.work_as_AttentionGrad());
  case fb::Opcode::Embedding:
    return verifyEmbedding(*instruction.work_as_Embedding());
  case fb::Opcode::EmbeddingGrad:
    return verifyEmbeddingGrad(*instruction.work_as_EmbeddingGrad());
  case fb::Opcode::Fill:
    return expectOperands(1);
  case fb::Opcode::Copy:
    return verifyCopy();
  case fb::Opcode::AllReduce:
    return verifyAllReduce(*instruction.work_as_AllReduce());
  case fb::Opcode::AllGather:
    return verifyParts(*instruction.work_as_AllGather(), /*whole=*/1);
  case fb::Opcode::ReduceScatter:
    return verifyParts(*instruction.work_as_ReduceScatter(), /*whole=*/0);
  case fb::Opcode::Slice:
    return verifyParts(*instruction.work_as_Slice(), /*whole=*/0);
  case fb::Opcode::AllToAll:
    return verifyAllToAll(*instruction.work_as_AllToAll());
  case fb::Opcode::Schedule:
    return verifySchedule(*instruction.work_as_Schedule());
  case fb::Opcode::Send:
  case fb::Opcode::Recv:
    return verifyMessage();
  case fb::Opcode::NONE:
    break;
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

/// Whether instruction `index` of a segment may begin with `first`, which is
/// the first of their bucket.
static Status verifyInBucket(const Stage &stage, const fb::Segment &segment,
                             size_t first, size_t index) {
  auto bad = [&](size_t which, const std::string &how) {
    return Status::error(describeInstruction(stage, which) + " " + how);
  };
  if (index >= segment.end())
    return bad(index - 1, "begins together with the next one, expects one "
                          "behind it in its segment");
  if (index - first >= limits::bucket)
    return bad(first, "begins together with more than " +
                          std::to_string(limits::bucket - 1) + " others");
  const fb::Instruction &a = stage.getInstruction(first),
                        &b = stage.getInstruction(index);
  if (!isBucketed(a.work_type()))
    return bad(first, "begins together with the next one, expects AllReduce, "
                      "AllGather or ReduceScatter");
  int stageAxis = stage.getProgram().stage_axis();
  if (std::ranges::count(toSpan(a.group()), stageAxis) > 0)
    return bad(first, "begins together with the next one, and other stages are "
                      "in its group");
  if (a.work_type() != b.work_type() || a.stream() != b.stream() ||
      !std::ranges::equal(toSpan(a.group()), toSpan(b.group())))
    return bad(index, "begins together with " +
                          describeInstruction(stage, first) +
                          ", expects its opcode, group and stream");
  // Each reads its operand 0 and writes its operand 1.
  for (size_t i = first; i < index; ++i) {
    auto earlier = toSpan(stage.getInstruction(i).operands());
    auto later = toSpan(b.operands());
    if (mayShareBytes(stage, earlier[1], later[0]) ||
        mayShareBytes(stage, earlier[1], later[1]) ||
        mayShareBytes(stage, earlier[0], later[1]))
      return bad(index, "begins together with " +
                            describeInstruction(stage, i) +
                            ", and one writes what the other accesses");
  }
  return {};
}

Status cleave::runtime::verifyBuckets(const Stage &stage) {
  for (size_t s = 0; s < stage.getSegmentCount(); ++s) {
    const fb::Segment &segment = stage.getSegment(s);
    size_t first = segment.begin();
    for (size_t i = segment.begin(); i < segment.end(); ++i) {
      if (!stage.getInstruction(i).with_next())
        first = i + 1;
      else
        CLEAVE_RETURN_IF_ERROR(verifyInBucket(stage, segment, first, i + 1));
    }
  }
  return {};
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
