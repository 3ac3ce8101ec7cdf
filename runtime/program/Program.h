//===- Program.h - A loaded and verified program --------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_PROGRAM_H
#define CLEAVE_RUNTIME_PROGRAM_PROGRAM_H

#include "runtime/base/Mesh.h"
#include "runtime/base/Status.h"
#include "runtime/program/program_generated.h"
#include <cstddef>
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

/// Where an operand starts in a run of `microBatch`.
inline uint64_t getPlace(const program::Operand &operand, uint64_t microBatch) {
  return operand.places() > 1
             ? operand.offset() +
                   microBatch % operand.places() * operand.stride()
             : operand.offset();
}

/// Bytes of one element.
inline uint64_t getBytes(program::DType type) {
  return type == program::DType::BF16 ? 2 : 4;
}

/// A program that may be executed: its bytes are whole, and every instruction
/// keeps to the table of README.md and to the arena. Immutable; shared by the
/// ranks of a process.
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

  /// Null where there is none of that name.
  const program::State *findState(std::string_view name,
                                  std::string_view role = "parameter") const;
  const program::Output *findOutput(std::string_view name) const;

private:
  std::vector<uint64_t> storage; ///< aligned as FlatBuffers asks
  const program::Program *root = nullptr;
  Mesh mesh;
  uint32_t checksum = 0;
  std::string cleaveVersion;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_PROGRAM_H
