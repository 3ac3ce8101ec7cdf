//===- Program.h - A loaded and verified program --------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_PROGRAM_H
#define CLEAVE_RUNTIME_PROGRAM_PROGRAM_H

#include "runtime/base/Mesh.h"
#include "runtime/base/Status.h"
#include "runtime/program/program_generated.h"
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// A FlatBuffers vector of numbers; empty where the field is absent.
template <typename T>
std::span<const T> toSpan(const flatbuffers::Vector<T> *vector) {
  if (!vector)
    return {};
  return {vector->data(), vector->size()};
}

/// Likewise of structs.
inline std::span<const program::Operand>
toSpan(const flatbuffers::Vector<const program::Operand *> *vector) {
  if (!vector)
    return {};
  return {reinterpret_cast<const program::Operand *>(vector->Data()),
          vector->size()};
}

inline std::span<const program::Access>
toSpan(const flatbuffers::Vector<const program::Access *> *vector) {
  if (!vector)
    return {};
  return {reinterpret_cast<const program::Access *>(vector->Data()),
          vector->size()};
}

inline std::span<const program::Run>
toSpan(const flatbuffers::Vector<const program::Run *> *vector) {
  if (!vector)
    return {};
  return {reinterpret_cast<const program::Run *>(vector->Data()),
          vector->size()};
}

inline std::string_view toView(const flatbuffers::String *string) {
  return string ? std::string_view(string->data(), string->size())
                : std::string_view();
}

/// The tables of a vector; none where the field is absent.
template <typename T>
std::vector<const T *>
toList(const flatbuffers::Vector<flatbuffers::Offset<T>> *vector) {
  if (!vector)
    return {};
  return {vector->begin(), vector->end()};
}

/// How many a vector of tables holds.
template <typename T>
size_t getSize(const flatbuffers::Vector<T> *vector) {
  return vector ? vector->size() : 0;
}

/// Whether an instruction meets other ranks.
inline bool isCollective(program::Opcode opcode) {
  return opcode == program::Opcode::AllReduce ||
         opcode == program::Opcode::AllGather ||
         opcode == program::Opcode::ReduceScatter ||
         opcode == program::Opcode::AllToAll;
}

/// Whether it is a message from one rank to another.
inline bool isMessage(program::Opcode opcode) {
  return opcode == program::Opcode::Send || opcode == program::Opcode::Recv;
}

/// Whether its time is that of other ranks, too.
inline bool meetsOthers(program::Opcode opcode) {
  return isCollective(opcode) || isMessage(opcode);
}

/// The other stage and the channel of a message.
struct Message {
  int64_t stage, channel;
};
inline Message getMessage(const program::Instruction &instruction) {
  if (const program::Send *send = instruction.work_as_Send())
    return {send->stage(), send->channel()};
  const program::Recv *recv = instruction.work_as_Recv();
  return {recv->stage(), recv->channel()};
}

/// Where an operand starts in a run of `microBatch`.
inline uint64_t getPlace(const program::Operand &operand, uint64_t microBatch) {
  return operand.places() > 1
             ? operand.offset() +
                   microBatch % operand.places() * operand.stride()
             : operand.offset();
}

/// Whether an output is added to what its buffer holds, in a run that is
/// `first` or another.
inline bool accumulates(program::Accumulate accumulate, bool isFirst) {
  return accumulate == program::Accumulate::Always ||
         (accumulate == program::Accumulate::AfterFirst && !isFirst);
}

/// Bytes of one element.
inline uint64_t getBytes(program::DType type) {
  return type == program::DType::BF16 ? 2 : 4;
}

/// What the ranks of one pipeline stage execute, and what they keep. A view of
/// a program, which outlives it; whether it may be executed, Program says.
class Stage {
public:
  Stage(const program::Program &program, size_t number)
      : program(&program),
        root(program.stages()->Get(flatbuffers::uoffset_t(number))),
        number(number) {}

  const program::Stage *operator->() const { return root; }
  const program::Program &getProgram() const { return *program; }
  /// Counted from 0: the ranks' coordinate on the program's stage axis.
  size_t getNumber() const { return number; }
  /// "stage 1", or nothing where the program has one stage only.
  std::string getLabel() const {
    return getSize(program->stages()) > 1 ? "stage " + std::to_string(number)
                                          : "";
  }

  const program::Instruction &getInstruction(size_t index) const {
    return *root->instructions()->Get(flatbuffers::uoffset_t(index));
  }
  size_t getInstructionCount() const { return getSize(root->instructions()); }
  /// The runs that are a step, in order.
  std::span<const program::Run> getRuns() const { return toSpan(root->runs()); }
  const program::Segment &getSegment(size_t index) const {
    return *root->segments()->Get(flatbuffers::uoffset_t(index));
  }
  size_t getSegmentCount() const { return getSize(root->segments()); }
  /// Runs of the segment in a step.
  size_t countRuns(size_t segment) const {
    size_t count = 0;
    for (const program::Run &run : getRuns())
      count += run.segment() == segment;
    return count;
  }

  /// The streams that its instructions run in are numbered below this.
  size_t countStreams() const;

  /// Null where there is none of that name.
  const program::State *findState(std::string_view name,
                                  std::string_view role = "parameter") const;
  const program::Output *findOutput(std::string_view name) const;

private:
  const program::Program *program;
  const program::Stage *root;
  size_t number;
};

/// A program that may be executed: its bytes are whole, every instruction keeps
/// to the table of README.md and to the arena, and no stage waits for ever for
/// another. Immutable; shared by the ranks of a process.
class Program {
public:
  /// Reads a sealed program (Envelope.h). `where` names it in errors. Copies.
  static Status load(const void *data, size_t size, const std::string &where,
                     Program &program);
  /// Reads a file: an executable with a program in it, or a sealed program.
  static Status loadFile(const std::string &path, Program &program);

  /// CRC-32C of the FlatBuffer, as in the envelope: two programs of different
  /// checksums differ.
  uint32_t getChecksum() const { return checksum; }

  /// Of the Cleave and LLVM that made the executable which was loaded
  /// (Version.h); empty of a program that was in no file, or does not say.
  const std::string &getCleaveVersion() const { return cleaveVersion; }

  const program::Program *operator->() const { return root; }
  const program::Program &get() const { return *root; }
  const Mesh &getMesh() const { return mesh; }
  int getWorldSize() const { return mesh.getWorldSize(); }

  size_t getStageCount() const { return getSize(root->stages()); }
  Stage getStage(size_t number) const { return {*root, number}; }
  /// The stage that a rank executes.
  size_t getStageNumber(int rank) const {
    int axis = root->stage_axis();
    return axis < 0 ? 0 : size_t(mesh.getCoordinate(rank, axis));
  }
  Stage getStageOf(int rank) const { return getStage(getStageNumber(rank)); }
  /// The axis whose coordinate is a rank's stage, as a list; none without one.
  AxisList getStageAxes() const;
  /// Of the stage that needs the most.
  uint64_t getArenaBytes() const;
  /// Of the stage that has the most; at least 1.
  size_t countStreams() const;

  /// The states and outputs of all stages. What several stages have is there
  /// once, as the first of them has it: all agree but in where it lies.
  const std::vector<const program::State *> &getStates() const {
    return states;
  }
  const std::vector<const program::Output *> &getOutputs() const {
    return outputs;
  }
  /// Those of a name, among them; null where there is none.
  const program::State *findState(std::string_view name,
                                  std::string_view role = "parameter") const;
  const program::Output *findOutput(std::string_view name) const;
  /// The first stage that has a state or an output.
  size_t getFirstStage(const program::State &state) const;
  size_t getFirstStage(const program::Output &output) const;

private:
  template <typename T>
  struct Kept {
    const T *value;
    size_t stage;
  };
  void indexValues();

  std::vector<uint64_t> storage; ///< aligned as FlatBuffers asks
  const program::Program *root = nullptr;
  Mesh mesh;
  uint32_t checksum = 0;
  std::string cleaveVersion;
  std::vector<const program::State *> states;
  std::vector<const program::Output *> outputs;
  /// By role and name.
  std::map<std::pair<std::string_view, std::string_view>, Kept<program::State>>
      stateIndex;
  std::map<std::string_view, Kept<program::Output>> outputIndex;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_PROGRAM_H
