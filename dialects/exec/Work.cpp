//===- Work.cpp -----------------------------------------------------------===//
#include "dialects/exec/Work.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;
using program::Opcode;
using runtime::WorkField;
using Kind = WorkField::Kind;

static_assert(int(Accumulate::AfterFirst) ==
                      int(program::Accumulate::AfterFirst) &&
                  int(Reduction::Max) == int(program::Reduction::Max) &&
                  int(LRSchedule::WarmupStableDecay) ==
                      int(program::LRSchedule::WarmupStableDecay),
              "exec's enums are the program format's");

std::optional<Opcode> exec::getOpcode(Operation *op) {
  std::string name = llvm::convertToCamelFromSnakeCase(
      op->getName().stripDialect(), /*capitalizeFirst=*/true);
  for (Opcode opcode : program::EnumValuesOpcode())
    if (runtime::isKnown(opcode) && name == program::EnumNameOpcode(opcode))
      return opcode;
  return std::nullopt;
}

std::string exec::getOpName(Opcode opcode) {
  return "exec." + runtime::toSnakeCase(program::EnumNameOpcode(opcode));
}

std::optional<program::DType> exec::getDType(Type type) {
  if (type.isF32())
    return program::DType::F32;
  if (type.isBF16())
    return program::DType::BF16;
  if (type.isInteger(32))
    return program::DType::I32;
  return std::nullopt;
}

Type exec::getType(MLIRContext *context, program::DType type) {
  switch (type) {
  case program::DType::F32:
    return Float32Type::get(context);
  case program::DType::BF16:
    return BFloat16Type::get(context);
  case program::DType::I32:
    return IntegerType::get(context, 32);
  }
  llvm_unreachable("unknown type");
}

/// Which enum of program.fbs a field is of.
static bool isOf(const WorkField &field, flatbuffers::TypeFunction values) {
  return field.values == values();
}

/// The value of an attribute of the field's kind, but for a Real; none of
/// others.
static std::optional<int64_t> getInteger(Attribute attr,
                                         const WorkField &field) {
  if (!attr)
    return std::nullopt;
  if (field.kind == Kind::Flag) {
    auto flag = dyn_cast<BoolAttr>(attr);
    return flag ? std::optional<int64_t>(flag.getValue()) : std::nullopt;
  }
  if (field.kind == Kind::Integer) {
    auto integer = dyn_cast<IntegerAttr>(attr);
    return integer ? std::optional(integer.getInt()) : std::nullopt;
  }
  if (isOf(field, program::DTypeTypeTable)) {
    auto type = dyn_cast<TypeAttr>(attr);
    auto code = type ? getDType(type.getValue()) : std::nullopt;
    return code ? std::optional(int64_t(*code)) : std::nullopt;
  }
  auto getValue = [&](auto attribute) {
    return attribute ? std::optional(int64_t(attribute.getValue()))
                     : std::nullopt;
  };
  if (isOf(field, program::AccumulateTypeTable))
    return getValue(dyn_cast<AccumulateAttr>(attr));
  if (isOf(field, program::ReductionTypeTable))
    return getValue(dyn_cast<ReductionAttr>(attr));
  assert(isOf(field, program::LRScheduleTypeTable) &&
         "an enum without attribute");
  return getValue(dyn_cast<LRScheduleAttr>(attr));
}

/// Whether it is the kernel of a launch, a symbol in IR.
static bool isKernel(Opcode opcode, const WorkField &field) {
  return opcode == Opcode::Launch && field.name == "kernel";
}

LogicalResult exec::verifyWork(Operation *op) {
  std::optional<Opcode> opcode = exec::getOpcode(op);
  if (!opcode)
    return op->emitOpError("is no opcode of the program format");
  for (const WorkField &field : runtime::getWorkFields(*opcode)) {
    Attribute attr = op->getAttr(StringRef(field.name));
    bool fits = isKernel(*opcode, field) ? isa_and_nonnull<SymbolRefAttr>(attr)
                : field.kind == Kind::Real
                    ? isa_and_nonnull<FloatAttr>(attr)
                    : getInteger(attr, field).has_value();
    if (!fits)
      return op->emitOpError("has ")
             << StringRef(field.name) << " " << attr
             << ", which the program format does not have";
  }
  return success();
}

EncodedWork::EncodedWork(Operation *op, int64_t kernel)
    : opcode(*exec::getOpcode(op)), builder(/*initial_size=*/256) {
  flatbuffers::uoffset_t start = builder.StartTable();
  for (const WorkField &field : runtime::getWorkFields(opcode)) {
    Attribute attr = op->getAttr(StringRef(field.name));
    if (field.kind == Kind::Real)
      builder.AddElement<double>(field.offset,
                                 cast<FloatAttr>(attr).getValueAsDouble(), 0);
    else if (field.kind == Kind::Integer)
      builder.AddElement<int64_t>(
          field.offset,
          isKernel(opcode, field) ? kernel : *getInteger(attr, field), 0);
    else
      builder.AddElement<uint8_t>(field.offset,
                                  uint8_t(*getInteger(attr, field)), 0);
  }
  builder.Finish(flatbuffers::Offset<void>(builder.EndTable(start)));
}

const void *EncodedWork::get() const {
  return flatbuffers::GetRoot<flatbuffers::Table>(builder.GetBufferPointer());
}

/// The attribute of an enum's value.
static Attribute decodeEnum(MLIRContext *context, const WorkField &field,
                            int64_t value) {
  if (isOf(field, program::DTypeTypeTable))
    return TypeAttr::get(getType(context, program::DType(value)));
  if (isOf(field, program::AccumulateTypeTable))
    return AccumulateAttr::get(context, Accumulate(value));
  if (isOf(field, program::ReductionTypeTable))
    return ReductionAttr::get(context, Reduction(value));
  assert(isOf(field, program::LRScheduleTypeTable) &&
         "an enum without attribute");
  return LRScheduleAttr::get(context, LRSchedule(value));
}

SmallVector<NamedAttribute> exec::decodeWork(MLIRContext *context,
                                             Opcode opcode, const void *work,
                                             StringRef kernel) {
  Builder b(context);
  SmallVector<NamedAttribute> attributes;
  for (const WorkField &field : runtime::getWorkFields(opcode)) {
    Attribute attr;
    int64_t integer = field.kind == Kind::Real ? 0 : getInteger(work, field);
    if (isKernel(opcode, field))
      attr = FlatSymbolRefAttr::get(context, kernel);
    else if (field.kind == Kind::Real)
      attr = b.getF64FloatAttr(getReal(work, field));
    else if (field.kind == Kind::Enum)
      attr = decodeEnum(context, field, integer);
    else if (field.kind == Kind::Flag)
      attr = b.getBoolAttr(integer != 0);
    else
      attr = b.getI64IntegerAttr(integer);
    attributes.push_back(b.getNamedAttr(StringRef(field.name), attr));
  }
  return attributes;
}
