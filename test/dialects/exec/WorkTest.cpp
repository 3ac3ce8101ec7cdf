//===- WorkTest.cpp - Instructions and the program format say the same ----===//
//
// program.fbs and exec's ops name the same fields. Held together here: every
// table as attributes and back, and every instruction of exec an opcode.
//
//===----------------------------------------------------------------------===//
#include "dialects/exec/Work.h"
#include "dialects/dist/Dist.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace cleave;
using program::Opcode;
using runtime::WorkField;

namespace {
struct Work : testing::Test {
  Work() { context.loadDialect<exec::ExecDialect, dist::DistDialect>(); }

  /// The op that has these attributes, on no buffers.
  Operation *create(Opcode opcode, ArrayRef<NamedAttribute> attributes) {
    OperationState state(UnknownLoc::get(&context), exec::getOpName(opcode));
    state.addAttributes(attributes);
    return Operation::create(state);
  }

  MLIRContext context;
};

/// A table of an opcode whose every field is `value`, or, of an enum, one of
/// its values.
flatbuffers::FlatBufferBuilder makeTable(Opcode opcode, int64_t value) {
  flatbuffers::FlatBufferBuilder builder;
  flatbuffers::uoffset_t start = builder.StartTable();
  for (const WorkField &field : runtime::getWorkFields(opcode)) {
    if (field.kind == WorkField::Kind::Real)
      builder.AddElement<double>(field.offset, double(value) / 8, 0);
    else if (field.kind == WorkField::Kind::Integer)
      builder.AddElement<int64_t>(field.offset, value, 0);
    else if (field.kind == WorkField::Kind::Flag)
      builder.AddElement<uint8_t>(field.offset, value % 2, 0);
    else
      builder.AddElement<uint8_t>(
          field.offset, uint8_t(size_t(value) % field.values->num_elems), 0);
    ++value;
  }
  builder.Finish(flatbuffers::Offset<void>(builder.EndTable(start)));
  return builder;
}

TEST_F(Work, everyOpcodeIsAnInstructionWithItsFields) {
  for (Opcode opcode : program::EnumValuesOpcode()) {
    if (!runtime::isKnown(opcode))
      continue;
    SCOPED_TRACE(program::EnumNameOpcode(opcode));
    for (int64_t value : {0, 1, 2, 5, 1000}) {
      flatbuffers::FlatBufferBuilder builder = makeTable(opcode, value);
      const auto *table =
          flatbuffers::GetRoot<flatbuffers::Table>(builder.GetBufferPointer());
      Operation *op =
          create(opcode, exec::decodeWork(&context, opcode, table, "kernel"));
      ASSERT_TRUE(op->getName().isRegistered());
      EXPECT_TRUE(isa<exec::InstructionOpInterface>(op));
      EXPECT_EQ(exec::getOpcode(op), opcode);
      EXPECT_TRUE(succeeded(exec::verifyWork(op)));
      // Each is an attribute that the op itself knows.
      for (const WorkField &field : runtime::getWorkFields(opcode))
        EXPECT_TRUE(op->getInherentAttr(StringRef(field.name)).has_value())
            << field.name;
      exec::EncodedWork encoded(op, /*kernel=*/value);
      EXPECT_EQ(encoded.getOpcode(), opcode);
      for (const WorkField &field : runtime::getWorkFields(opcode)) {
        if (field.kind == WorkField::Kind::Real)
          EXPECT_EQ(getReal(encoded.get(), field), getReal(table, field));
        else
          EXPECT_EQ(getInteger(encoded.get(), field), getInteger(table, field))
              << field.name;
      }
      op->erase();
    }
  }
}

TEST_F(Work, everyInstructionIsAnOpcode) {
  int64_t instructions = 0;
  for (RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("exec"))
    if (name.hasInterface<exec::InstructionOpInterface>()) {
      OperationState state(UnknownLoc::get(&context), name);
      Operation *op = Operation::create(state);
      EXPECT_TRUE(exec::getOpcode(op).has_value()) << name.getStringRef().str();
      op->erase();
      ++instructions;
    }
  EXPECT_EQ(instructions, int64_t(Opcode::MAX));
}

TEST_F(Work, whatTheFormatLacksIsNamed) {
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  flatbuffers::FlatBufferBuilder builder = makeTable(Opcode::AllGather, 4);
  Operation *op =
      create(Opcode::AllGather,
             exec::decodeWork(&context, Opcode::AllGather,
                              flatbuffers::GetRoot<flatbuffers::Table>(
                                  builder.GetBufferPointer()),
                              ""));
  op->setAttr("type", TypeAttr::get(Float64Type::get(&context)));
  EXPECT_TRUE(failed(exec::verifyWork(op)));
  EXPECT_EQ(message, "'exec.all_gather' op has type f64, which the program "
                     "format does not have");
  op->erase();
}
} // namespace
