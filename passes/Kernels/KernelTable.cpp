//===- KernelTable.cpp - Distinct kernels by content ----------------------===//
#include "passes/Kernels/KernelTable.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using exec::AccessAttr;

static Value getTensor(Operation *op, unsigned tensor) {
  return tensor < op->getNumOperands()
             ? op->getOperand(tensor)
             : op->getResult(tensor - op->getNumOperands());
}

/// The name of a group's kernel: its ops'.
static std::string getStem(const KernelGroup &group) {
  std::string stem;
  for (const KernelGroup::Member &member : group.members)
    stem +=
        (stem.empty() ? "" : "_") + member.op->getName().stripDialect().str();
  return stem.size() > 60 ? stem.substr(0, 60) : stem;
}

/// True if the space is one run of elements: every access is to the element, or
/// to one scalar.
static bool isFlat(exec::KernelMode mode, int64_t columns,
                   ArrayRef<Attribute> accesses, Block &body) {
  if (mode != exec::KernelMode::Row ||
      !body.getOps<exec::RowReduceOp>().empty() ||
      !body.getOps<exec::ColumnOp>().empty())
    return false;
  return llvm::all_of(accesses, [&](Attribute attr) {
    auto access = cast<AccessAttr>(attr);
    bool scalar = access.getRowMod() == 1 && access.getColStride() == 0;
    return scalar ||
           (access.getRowDiv() == 1 && access.getRowMod() == 0 &&
            access.getRowStride() == columns && access.getColStride() == 1);
  });
}

exec::KernelOp KernelTable::create(Location loc, exec::KernelMode mode,
                                   int64_t rows, int64_t columns,
                                   ArrayRef<Attribute> inputs,
                                   ArrayRef<Attribute> outputs,
                                   exec::Accumulate accumulate) {
  OpBuilder b(anchor);
  auto kernel = exec::KernelOp::create(
      b, UnknownLoc::get(b.getContext()), b.getStringAttr("kernel"),
      exec::KernelModeAttr::get(b.getContext(), mode),
      b.getI64IntegerAttr(rows), b.getI64IntegerAttr(columns),
      b.getArrayAttr(inputs), b.getArrayAttr(outputs),
      exec::AccumulateAttr::get(b.getContext(), accumulate));
  Block &block = kernel.getBody().emplaceBlock();
  for (Attribute attr : inputs) {
    Type stored = cast<AccessAttr>(attr).getType();
    block.addArgument(isa<FloatType>(stored) ? Type(b.getF32Type()) : stored,
                      loc);
  }
  return kernel;
}

FlatSymbolRefAttr KernelTable::intern(exec::KernelOp kernel) {
  std::string stem = kernel.getSymName().str();
  kernel.setSymName("kernel");
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().useLocalScope());
  auto [it, isNew] = known.try_emplace(text);
  if (!isNew) {
    kernel.erase();
    return it->second;
  }
  int64_t number = names[stem]++;
  kernel.setSymName(number ? stem + "_" + std::to_string(number) : stem);
  return it->second = FlatSymbolRefAttr::get(kernel.getSymNameAttr());
}

BuiltKernel KernelTable::build(const KernelGroup &group,
                               exec::Accumulate accumulate) {
  const KernelSpace &space = group.getSpace();
  llvm::SmallPtrSet<Operation *, 8> members;
  for (const KernelGroup::Member &member : group.members)
    members.insert(member.op);

  // What the kernel reads from memory, each access once, and what it stores.
  BuiltKernel built;
  built.rows = space.rows;
  llvm::SetVector<std::pair<Value, Attribute>> inputs;
  SmallVector<std::pair<Value, Attribute>> outputs;
  for (const KernelGroup::Member &member : group.members) {
    for (const KernelAccess &each : member.space.inputs) {
      Value value = getTensor(member.op, each.tensor);
      Operation *producer = value.getDefiningOp();
      if (!producer || !members.contains(producer))
        inputs.insert({value, each.access});
    }
    for (const KernelAccess &each : member.space.outputs) {
      Value value = getTensor(member.op, each.tensor);
      bool stored = llvm::any_of(value.getUsers(), [&](Operation *user) {
        return !members.contains(user);
      });
      if (stored || members.size() == 1)
        outputs.push_back({value, each.access});
    }
  }
  SmallVector<Attribute> inputAccesses, outputAccesses;
  for (auto &[value, access] : inputs) {
    built.inputs.push_back(value);
    inputAccesses.push_back(access);
  }
  for (auto &[value, access] : outputs) {
    built.outputs.push_back(value);
    outputAccesses.push_back(access);
  }

  exec::KernelOp kernel =
      create(group.getLast()->getLoc(), space.mode, space.rows, space.columns,
             inputAccesses, outputAccesses,
             space.foldRows ? exec::Accumulate::Never : accumulate);
  Block &body = kernel.getBody().front();
  OpBuilder b = OpBuilder::atBlockEnd(&body);
  // A tensor may be seen through several accesses (the halves of a rotation).
  llvm::DenseMap<std::pair<Value, Attribute>, Value> scalars;
  for (auto [i, key] : llvm::enumerate(inputs))
    scalars[key] = body.getArgument(i);
  for (const KernelGroup::Member &member : group.members) {
    SmallVector<Value> args;
    for (const KernelAccess &each : member.space.inputs)
      args.push_back(scalars[{getTensor(member.op, each.tensor), each.access}]);
    SmallVector<Value> results =
        cast<KernelOpInterface>(member.op).buildBody(b, args);
    for (auto [each, result] : llvm::zip(member.space.outputs, results)) {
      Value value = getTensor(member.op, each.tensor);
      // What a later member reads is what would have been stored.
      auto stored = cast<RankedTensorType>(value.getType()).getElementType();
      if (stored.isBF16() && members.size() > 1) {
        Value rounded =
            arith::TruncFOp::create(b, member.op->getLoc(), stored, result);
        result = arith::ExtFOp::create(b, member.op->getLoc(), b.getF32Type(),
                                       rounded);
      }
      scalars[{value, each.access}] = result;
    }
  }
  SmallVector<Value> yields;
  for (auto &key : outputs)
    yields.push_back(scalars[key]);
  exec::YieldOp::create(b, kernel.getLoc(), yields);
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(body.getOperations())))
    if (isOpTriviallyDead(&op))
      op.erase();

  SmallVector<Attribute> all(inputAccesses);
  llvm::append_range(all, outputAccesses);
  if (isFlat(space.mode, space.columns, all, body)) {
    auto flatten = [&](ArrayAttr accesses) {
      return b.getArrayAttr(llvm::map_to_vector(accesses, [&](Attribute attr) {
        auto access = cast<AccessAttr>(attr);
        bool scalar = access.getColStride() == 0;
        return Attribute(AccessAttr::get(
            b.getContext(), access.getType(), access.getOffset(), 1,
            access.getRowMod(), scalar ? 0 : 1, 0));
      }));
    };
    kernel.setMode(exec::KernelMode::Flat);
    kernel.setRows(space.rows * space.columns);
    kernel.setColumns(1);
    kernel.setInputsAttr(flatten(kernel.getInputs()));
    kernel.setOutputsAttr(flatten(kernel.getOutputs()));
  }
  kernel.setSymName(getStem(group));
  built.symbol = intern(kernel);
  return built;
}

FlatSymbolRefAttr KernelTable::buildSum(int64_t size,
                                        exec::Accumulate accumulate) {
  Type f32 = Float32Type::get(anchor->getContext());
  Attribute element = AccessAttr::get(anchor->getContext(), f32, 0, 1, 0, 1, 0);
  exec::KernelOp kernel = create(anchor->getLoc(), exec::KernelMode::Flat, size,
                                 1, element, element, accumulate);
  Block &body = kernel.getBody().front();
  OpBuilder b = OpBuilder::atBlockEnd(&body);
  exec::YieldOp::create(b, kernel.getLoc(), body.getArguments());
  kernel.setSymName("accumulate");
  return intern(kernel);
}

FlatSymbolRefAttr KernelTable::buildFold(int64_t size,
                                         exec::Accumulate accumulate) {
  MLIRContext *context = anchor->getContext();
  Type f32 = Float32Type::get(context);
  Attribute input = AccessAttr::get(context, f32, 0, 1, 0, size, 1);
  Attribute output = AccessAttr::get(context, f32, 0, 1, 0, 1, 0);
  exec::KernelOp kernel = create(anchor->getLoc(), exec::KernelMode::Row, 1,
                                 size, input, output, accumulate);
  Block &body = kernel.getBody().front();
  OpBuilder b = OpBuilder::atBlockEnd(&body);
  Value sum = exec::RowReduceOp::create(
      b, kernel.getLoc(), exec::Reduction::Sum, body.getArgument(0));
  exec::YieldOp::create(b, kernel.getLoc(), sum);
  kernel.setSymName("fold");
  return intern(kernel);
}
