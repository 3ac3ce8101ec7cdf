//===- ProgramBuilder.h - Programs written by hand, for tests -------------===//
#ifndef CLEAVE_TEST_RUNTIME_PROGRAM_PROGRAMBUILDER_H
#define CLEAVE_TEST_RUNTIME_PROGRAM_PROGRAMBUILDER_H

#include "runtime/abi/Workspace.h"
#include "runtime/program/Envelope.h"
#include "runtime/program/Program.h"
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

  /// `bytes`, of no micro-batch or in each of some places; a multiple of 4
  /// where there are more than one.
  fb::Operand allocate(uint64_t bytes, uint64_t places = 0) {
    fb::Operand operand(next, bytes, places > 1 ? bytes : 0, places);
    next += (bytes * std::max<uint64_t>(places, 1) + 63) / 64 * 64;
    stage->arena_bytes = next;
    return operand;
  }

  fb::InstructionT &add(Opcode opcode, std::vector<fb::Operand> operands,
                        std::vector<int64_t> ints = {},
                        std::vector<double> floats = {},
                        std::vector<uint8_t> group = {}) {
    auto instruction = std::make_unique<fb::InstructionT>();
    instruction->opcode = opcode;
    instruction->name = std::string("test ") + fb::EnumNameOpcode(opcode);
    instruction->category = "forward";
    instruction->operands = std::move(operands);
    instruction->ints = std::move(ints);
    instruction->floats = std::move(floats);
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
    kernel->grain = 1;
    // The largest operands have rows of one length; of others the first element
    // is used. The last operand is the output.
    for (const fb::Operand &operand : operands)
      kernel->serial = std::max(kernel->serial, operand.bytes() / 4 / rows);
    kernel->inputs = uint32_t(operands.size()) - 1;
    for (const fb::Operand &operand : operands) {
      bool isFull = operand.bytes() == rows * kernel->serial * 4;
      kernel->accesses.emplace_back(0, 1, isFull ? 0 : 1,
                                    isFull ? kernel->serial : 0, isFull,
                                    fb::DType::F32);
    }
    program.kernels.push_back(std::move(kernel));
    fb::InstructionT &instruction =
        add(Opcode::Launch, std::move(operands), {}, {}, std::move(group));
    instruction.kernel = int32_t(program.kernels.size()) - 1;
    return instruction;
  }

  /// f32 C[m,n] = A[m,k] B[k,n].
  fb::InstructionT &gemm(int64_t m, int64_t n, int64_t k, fb::Operand a,
                         fb::Operand b, fb::Operand c, int64_t mode = 0) {
    fb::Operand workspace = allocate(cpu::gemmWorkspaceBytes(
        m, n, k, false, false, 0, 0, 0, program.threads));
    return add(Opcode::Gemm, {a, b, c, workspace},
               {m, n, k, 0, 0, 0, 0, 0, mode, 0});
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
        add(Opcode::Fill, {*state->operand});
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

  /// The number of the buffer that starts at `offset`: here no two of them
  /// share bytes.
  static uint32_t getBuffer(uint64_t offset) {
    return uint32_t(offset / 64 % (uint32_t(1) << 31)) + 1;
  }

  /// The FlatBuffer alone. Operands that say no buffer get theirs.
  std::vector<uint8_t> pack() const {
    fb::ProgramT numbered(program);
    auto number = [](auto &operand, uint32_t &buffer) {
      if (operand && buffer == 0)
        buffer = getBuffer(operand->offset());
    };
    for (size_t i = 0; i < numbered.stages.size(); ++i) {
      fb::StageT &each = *numbered.stages[i];
      if (each.segments.empty())
        cutSegments(*program.stages[i], each);
      for (auto &instruction : each.instructions)
        if (instruction->buffers.empty())
          for (const fb::Operand &operand : instruction->operands)
            instruction->buffers.push_back(getBuffer(operand.offset()));
      for (auto &state : each.states)
        number(state->operand, state->buffer);
      for (auto &output : each.outputs)
        number(output->operand, output->buffer);
      number(each.tokens, each.tokens_buffer);
      number(each.targets, each.targets_buffer);
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
