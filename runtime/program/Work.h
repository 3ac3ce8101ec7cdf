//===- Work.h - The fields of what an instruction does --------------------===//
//
// program.fbs has a table for each opcode. Who knows the opcode reads its
// table: `instruction.work_as_Gemm()->m()`. Who treats all alike, to print,
// compare or translate them, goes through the fields by name, as here.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_PROGRAM_WORK_H
#define CLEAVE_RUNTIME_PROGRAM_WORK_H

#include "runtime/program/program_generated.h"
#include <string>
#include <string_view>
#include <vector>

namespace cleave::runtime {

/// A size, flag, constant, or one of an enum's values.
struct WorkField {
  enum class Kind { Integer, Flag, Real, Enum };
  std::string_view name; ///< "trans_a"
  Kind kind;
  /// Of an Enum: its values, and their names.
  const flatbuffers::TypeTable *values = nullptr;
  flatbuffers::voffset_t offset; ///< where a table has it
};

/// "AfterFirst" as it is written in IR and printed: "after_first".
inline std::string toSnakeCase(std::string_view name) {
  std::string text;
  bool wasLower = false;
  for (char c : name) {
    bool isUpper = c >= 'A' && c <= 'Z';
    if (isUpper && wasLower)
      text += '_';
    text += isUpper ? char(c - 'A' + 'a') : c;
    wasLower = c >= 'a' && c <= 'z';
  }
  return text;
}

/// Whether the program format has it.
inline bool isKnown(program::Opcode opcode) {
  return opcode > program::Opcode::NONE && opcode <= program::Opcode::MAX;
}

/// Whether it may begin together with others of its kind, in one bucket.
inline bool isBucketed(program::Opcode opcode) {
  return opcode == program::Opcode::AllReduce ||
         opcode == program::Opcode::AllGather ||
         opcode == program::Opcode::ReduceScatter;
}

/// Those of a table, from FlatBuffers' own description of it.
inline std::vector<WorkField> readWorkFields(program::Opcode opcode) {
  using Kind = WorkField::Kind;
  const flatbuffers::TypeTable &opcodes = *program::OpcodeTypeTable();
  const flatbuffers::TypeTable &table =
      *opcodes.type_refs[opcodes.type_codes[size_t(opcode)].sequence_ref]();
  std::vector<WorkField> fields;
  for (size_t i = 0; i < table.num_elems; ++i) {
    const flatbuffers::TypeCode &code = table.type_codes[i];
    WorkField field{table.names[i], Kind::Integer, nullptr,
                    flatbuffers::FieldIndexToOffset(flatbuffers::voffset_t(i))};
    if (code.sequence_ref >= 0) {
      field.kind = Kind::Enum;
      field.values = table.type_refs[code.sequence_ref]();
    } else if (code.base_type == flatbuffers::ET_BOOL) {
      field.kind = Kind::Flag;
    } else if (code.base_type == flatbuffers::ET_DOUBLE) {
      field.kind = Kind::Real;
    }
    fields.push_back(field);
  }
  return fields;
}

/// The fields of a known opcode's table, in their order.
inline const std::vector<WorkField> &getWorkFields(program::Opcode opcode) {
  static const std::vector<std::vector<WorkField>> all = [] {
    std::vector<std::vector<WorkField>> tables(size_t(program::Opcode::MAX) +
                                               1);
    for (program::Opcode each : program::EnumValuesOpcode())
      if (isKnown(each))
        tables[size_t(each)] = readWorkFields(each);
    return tables;
  }();
  return all[size_t(opcode)];
}

/// A field that is not Real, of a table of its opcode.
inline int64_t getInteger(const void *work, const WorkField &field) {
  const auto *table = static_cast<const flatbuffers::Table *>(work);
  if (field.kind == WorkField::Kind::Integer)
    return table->GetField<int64_t>(field.offset, 0);
  return table->GetField<uint8_t>(field.offset, 0);
}

inline double getReal(const void *work, const WorkField &field) {
  return static_cast<const flatbuffers::Table *>(work)->GetField<double>(
      field.offset, 0);
}

/// An enum's value as a person writes it: "bf16", "after_first". Its number
/// where the enum does not have it.
inline std::string getEnumName(const WorkField &field, int64_t value) {
  if (value < 0 || size_t(value) >= field.values->num_elems)
    return std::to_string(value);
  return toSnakeCase(field.values->names[value]);
}

/// Floats that a Schedule writes: the learning rate, two bias corrections, and
/// what loss and gradient norm must be below for an update.
constexpr size_t scheduleValues = 5;

/// The kernel of a verified Launch.
inline const program::Kernel &
getKernel(const program::Program &program,
          const program::Instruction &instruction) {
  return *program.kernels()->Get(
      flatbuffers::uoffset_t(instruction.work_as_Launch()->kernel()));
}

/// How many operands an instruction reads, and how many it writes; those that
/// follow are workspace.
struct OperandCounts {
  size_t inputs = 0, outputs = 0;
};

/// Of an opcode with the fields `work`; of a Launch its kernel says it.
inline OperandCounts countOperands(program::Opcode opcode, const void *work) {
  using program::Opcode;
  switch (opcode) {
  case Opcode::Gemm:
    return {static_cast<const program::Gemm *>(work)->has_bias() ? size_t(3)
                                                                 : size_t(2),
            1};
  case Opcode::Attention:
    return {3, 2};
  case Opcode::AttentionGrad:
    return {6, 3};
  case Opcode::Embedding:
  case Opcode::EmbeddingGrad:
    return {2, 1};
  case Opcode::Fill:
  case Opcode::Schedule:
  case Opcode::Recv:
    return {0, 1};
  case Opcode::Send:
    return {1, 0};
  case Opcode::Copy:
  case Opcode::AllReduce:
  case Opcode::AllGather:
  case Opcode::ReduceScatter:
  case Opcode::AllToAll:
  case Opcode::Slice:
    return {1, 1};
  case Opcode::Launch:
  case Opcode::NONE:
    break;
  }
  return {};
}

/// Of an instruction whose work is verified.
inline OperandCounts countOperands(const program::Program &program,
                                   const program::Instruction &instruction) {
  if (instruction.work_type() != program::Opcode::Launch)
    return countOperands(instruction.work_type(), instruction.work());
  const program::Kernel &kernel = getKernel(program, instruction);
  size_t all = kernel.accesses() ? kernel.accesses()->size() : 0;
  return {kernel.inputs(), all - kernel.inputs()};
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_WORK_H
