//===- ProgramBuilder.h - Programs written by hand, for tests -------------===//
#ifndef CLEAVE_TEST_RUNTIME_PROGRAM_PROGRAMBUILDER_H
#define CLEAVE_TEST_RUNTIME_PROGRAM_PROGRAMBUILDER_H

#include "runtime/abi/Workspace.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Program.h"
#include "runtime/program/Verify.h"
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cleave::test {

namespace fb = cleave::program;
using fb::Opcode;

/// Fills in a program table; buffers are laid one after another. What is added
/// is the first stage's, until another is begun.
class ProgramBuilder {
public:
  struct AxisSize {
    std::string name;
    uint64_t size;
  };

  explicit ProgramBuilder(const std::vector<AxisSize> &axes,
                          uint64_t microBatches = 1) {
    program.version = runtime::programVersion;
    for (const AxisSize &axis : axes) {
      program.axes.push_back(std::make_unique<fb::AxisT>());
      program.axes.back()->name = axis.name;
      program.axes.back()->size = axis.size;
    }
    program.vocab = 16;
    program.seq_len = 4;
    program.micro_batches = microBatches;
    program.global_batch = microBatches;
    program.threads = 2;
    program.cpu = "x86-64-v3";
    beginStage();
  }
  ProgramBuilder(ProgramBuilder &&) = default;

  /// What is added from now on is another stage's.
  void beginStage() {
    program.stages.push_back(std::make_unique<fb::StageT>());
    stage = program.stages.back().get();
    stage->arena_bytes = 64;
    next = 0;
    part = Before;
  }

  /// `bytes`, of no micro-batch or in each of some places, with so many bytes
  /// between the end of one and the next.
  fb::Operand allocate(uint64_t bytes, uint64_t places = 0, uint64_t gap = 0) {
    fb::Operand operand(next, bytes, places > 0 ? bytes + gap : 0,
                        uint32_t(places), 0);
    uint64_t others = std::max<uint64_t>(places, 1) - 1;
    next += (others * operand.stride() + bytes + 63) / 64 * 64;
    stage->arena_bytes = next;
    return operand;
  }

  /// A buffer of all micro-batches, a slice of it in a run for each.
  static fb::Operand getSlices(const fb::Operand &whole,
                               uint64_t microBatches) {
    uint64_t slice = whole.bytes() / microBatches;
    return {whole.offset(), slice, slice, uint32_t(microBatches), 0};
  }

  /// An instruction by the fields of its opcode, as in GemmT{{}, m, n, k}.
  template <typename Work>
  fb::InstructionT &add(Work work, std::vector<fb::Operand> operands,
                        std::vector<uint8_t> group = {}) {
    auto instruction = std::make_unique<fb::InstructionT>();
    instruction->work.Set(std::move(work));
    instruction->name =
        std::string("test ") + fb::EnumNameOpcode(instruction->work.type);
    instruction->category = "forward";
    instruction->operands = std::move(operands);
    instruction->group = std::move(group);
    parts[instruction.get()] = part;
    stage->instructions.push_back(std::move(instruction));
    return *stage->instructions.back();
  }

  /// What is added from now on is run once, for each micro-batch, once, or once
  /// as a part of the update.
  enum Part { Before, MicroBatch, After, Update };
  void start(Part newPart) { part = newPart; }

  /// Makes a segment of the stage's instructions since the last one. To be run
  /// by what the caller adds to the runs.
  void cutSegment(const std::string &name) {
    auto segment = std::make_unique<fb::SegmentT>();
    segment->name = name;
    segment->begin = stage->segments.empty() ? 0 : stage->segments.back()->end;
    segment->end = stage->instructions.size();
    stage->segments.push_back(std::move(segment));
  }

  /// Cuts the stage's instructions into segments, and runs each. Instructions
  /// of which this builder does not know are part of what is before them.
  void cutSegments() { cutSegments(*stage, *stage); }

  /// A kernel launch; the kernel is added to the table.
  fb::InstructionT &launch(const std::string &symbol, uint64_t rows,
                           std::vector<fb::Operand> operands,
                           std::vector<uint8_t> group = {}) {
    auto kernel = std::make_unique<fb::KernelT>();
    kernel->symbol = symbol;
    kernel->rows = rows;
    kernel->columns = 1;
    kernel->grain = 1;
    // The largest operands have rows of one length; of others the first element
    // is used. The last operand is the output.
    for (const fb::Operand &operand : operands)
      kernel->columns = std::max(kernel->columns, operand.bytes() / 4 / rows);
    kernel->inputs = uint32_t(operands.size()) - 1;
    for (const fb::Operand &operand : operands) {
      bool isFull = operand.bytes() == rows * kernel->columns * 4;
      kernel->accesses.emplace_back(0, 1, isFull ? 0 : 1,
                                    isFull ? kernel->columns : 0, isFull,
                                    fb::DType::F32);
    }
    fb::LaunchT work{{}, int64_t(program.kernels.size())};
    program.kernels.push_back(std::move(kernel));
    return add(work, std::move(operands), std::move(group));
  }

  /// f32 C[m,n] = A[m,k] B[k,n].
  fb::InstructionT &gemm(int64_t m, int64_t n, int64_t k, fb::Operand a,
                         fb::Operand b, fb::Operand c,
                         fb::Accumulate accumulate = fb::Accumulate::Never) {
    fb::Operand workspace = allocate(cpu::gemmWorkspaceBytes(
        m, n, k, false, false, 0, 0, 0, program.threads));
    fb::GemmT work{{}, m, n, k};
    work.accumulate = accumulate;
    return add(work, {a, b, c, workspace});
  }

  static std::vector<std::unique_ptr<fb::DimAxesT>>
  placement(const std::vector<std::vector<uint8_t>> &dims) {
    std::vector<std::unique_ptr<fb::DimAxesT>> result;
    for (const auto &axes : dims) {
      result.push_back(std::make_unique<fb::DimAxesT>());
      result.back()->axes = axes;
    }
    return result;
  }

  /// A state that no step changes, until its role says another.
  fb::StateT &state(const std::string &name, std::vector<uint64_t> shape,
                    const std::vector<std::vector<uint8_t>> &dims,
                    fb::Operand operand) {
    auto state = std::make_unique<fb::StateT>();
    state->name = name;
    state->role = "constant";
    state->shape = shape;
    state->logical = shape;
    state->dims = placement(dims);
    state->operand = std::make_unique<fb::Operand>(operand);
    stage->states.push_back(std::move(state));
    return *stage->states.back();
  }

  /// An update, so that the program may be loaded: all parameters and moments
  /// become zeros.
  void addUpdate() {
    start(Update);
    for (const auto &state : stage->states)
      if (state->role != "constant")
        add(fb::FillT(), {*state->operand});
  }

  fb::OutputT &output(const std::string &name, std::vector<uint64_t> shape,
                      const std::vector<std::vector<uint8_t>> &dims,
                      fb::Operand operand, std::vector<uint8_t> partial = {}) {
    auto output = std::make_unique<fb::OutputT>();
    output->name = name;
    output->shape = shape;
    output->logical = shape;
    output->dims = placement(dims);
    output->partial = std::move(partial);
    output->operand = std::make_unique<fb::Operand>(operand);
    stage->outputs.push_back(std::move(output));
    return *stage->outputs.back();
  }

  /// The number of the buffer that starts at `offset`: of those that operands
  /// do not name themselves, no two share bytes.
  static uint32_t getBuffer(uint64_t offset) {
    return uint32_t(offset / 64 % (uint32_t(1) << 31)) + 1;
  }
  /// The operand as another buffer's.
  static fb::Operand in(uint32_t buffer, const fb::Operand &operand) {
    return {operand.offset(), operand.bytes(), operand.stride(),
            operand.places(), buffer};
  }

  /// The FlatBuffer alone. Operands that say no buffer get theirs, and the
  /// stage buffers that have room for its operands, behind those that it has.
  std::vector<uint8_t> pack() const {
    fb::ProgramT numbered(program);
    for (size_t i = 0; i < numbered.stages.size(); ++i) {
      fb::StageT &each = *numbered.stages[i];
      if (each.segments.empty())
        cutSegments(*program.stages[i], each);
      auto number = [&](fb::Operand &operand) {
        if (operand.buffer() == 0)
          operand = in(getBuffer(operand.offset()), operand);
        if (operand.buffer() > program.stages[i]->buffers.size())
          addToBuffer(each, operand);
      };
      for (auto &instruction : each.instructions)
        for (fb::Operand &operand : instruction->operands)
          number(operand);
      for (auto &state : each.states)
        if (state->operand)
          number(*state->operand);
      for (auto &output : each.outputs)
        if (output->operand)
          number(*output->operand);
      for (auto *operand : {each.tokens.get(), each.targets.get()})
        if (operand)
          number(*operand);
    }
    flatbuffers::FlatBufferBuilder builder;
    fb::FinishProgramBuffer(builder, fb::Program::Pack(builder, &numbered));
    return {builder.GetBufferPointer(),
            builder.GetBufferPointer() + builder.GetSize()};
  }

  std::vector<uint8_t> seal() const {
    std::vector<uint8_t> payload = pack();
    return runtime::sealProgram(payload.data(), payload.size());
  }

  runtime::Status load(runtime::Program &result) const {
    std::vector<uint8_t> bytes = seal();
    return runtime::Program::load(bytes.data(), bytes.size(), "test", result);
  }

  fb::ProgramT program;
  fb::StageT *stage; ///< that is added to

private:
  /// Of an operand in the arena: others are wrong whatever their buffer.
  static void addToBuffer(fb::StageT &stage, const fb::Operand &operand) {
    auto end = runtime::getOperandEnd(operand, stage.arena_bytes);
    if (!end || operand.bytes() == 0 || operand.offset() % 64 != 0 ||
        operand.buffer() > stage.arena_bytes / 64 + 128)
      return;
    while (stage.buffers.size() < operand.buffer()) {
      stage.buffers.push_back(std::make_unique<fb::BufferT>());
      stage.buffers.back()->bytes = 1; // one that nobody uses
    }
    fb::BufferT &buffer = *stage.buffers[operand.buffer() - 1];
    if (buffer.bytes == 1)
      buffer.offset = operand.offset();
    uint64_t last = std::max(buffer.offset + buffer.bytes, *end);
    buffer.offset = std::min(buffer.offset, operand.offset());
    buffer.bytes = last - buffer.offset;
  }

  void cutSegments(const fb::StageT &from, fb::StageT &cut) const {
    static const char *const names[] = {"before", "micro_batch", "after",
                                        "update"};
    Part last = Before;
    for (size_t i = 0; i < from.instructions.size(); ++i) {
      auto known = parts.find(from.instructions[i].get());
      Part now = known == parts.end() ? last : known->second;
      if (i == 0 || now != last) {
        cut.segments.push_back(std::make_unique<fb::SegmentT>());
        cut.segments.back()->name = names[now];
        cut.segments.back()->begin = i;
        if (now == Update)
          cut.update_run = cut.runs.size();
        uint64_t times = now == MicroBatch ? program.micro_batches : 1;
        for (uint64_t m = 0; m < times; ++m)
          cut.runs.emplace_back(uint32_t(cut.segments.size()) - 1, uint32_t(m),
                                m == 0);
      }
      cut.segments.back()->end = i + 1;
      last = now;
    }
    if (last != Update)
      cut.update_run = cut.runs.size();
  }

  uint64_t next = 0;
  Part part = Before;
  std::map<const fb::InstructionT *, Part> parts;
};

} // namespace cleave::test

#endif // CLEAVE_TEST_RUNTIME_PROGRAM_PROGRAMBUILDER_H
