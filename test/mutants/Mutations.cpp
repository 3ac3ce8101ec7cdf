//===- Mutations.cpp - Ways to make a program compute something else ------===//
//
// Ops and attributes are named as text: this is what a slip in a pass looks
// like, not what the ops' classes allow.
//
//===----------------------------------------------------------------------===//
#include "Mutations.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/xf/Xf.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

using ChangeAttribute = std::function<Attribute(Attribute)>;

/// Changes `attribute` of each op called `op`.
static Mutation change(const char *op, const char *attribute,
                       ChangeAttribute to) {
  std::string name = std::string(op) + ": " + attribute;
  return {name, [=](Operation *each) {
            Attribute from = each->getName().getStringRef() == op
                                 ? each->getAttr(attribute)
                                 : Attribute();
            Attribute changed = from ? to(from) : Attribute();
            if (!changed || changed == from)
              return false;
            each->setAttr(attribute, changed);
            return true;
          }};
}

static ChangeAttribute setReal(std::function<double(double)> f) {
  return [=](Attribute from) -> Attribute {
    auto real = cast<FloatAttr>(from);
    return FloatAttr::get(real.getType(), f(real.getValueAsDouble()));
  };
}

static ChangeAttribute setInteger(std::function<int64_t(int64_t)> f) {
  return [=](Attribute from) -> Attribute {
    auto integer = cast<IntegerAttr>(from);
    return IntegerAttr::get(integer.getType(),
                            f(integer.getValue().getSExtValue()));
  };
}

static ChangeAttribute flip() {
  return [](Attribute from) -> Attribute {
    return BoolAttr::get(from.getContext(), !cast<BoolAttr>(from).getValue());
  };
}

/// Sets or removes an attribute that is there or not.
static Mutation toggle(const char *op, const char *attribute) {
  return {std::string(op) + ": " + attribute, [=](Operation *each) {
            if (each->getName().getStringRef() != op)
              return false;
            if (each->hasAttr(attribute))
              each->removeAttr(attribute);
            else
              each->setAttr(attribute, UnitAttr::get(each->getContext()));
            return true;
          }};
}

/// Another axis in place of the first of a list of them.
static ChangeAttribute setAxis() {
  return [](Attribute from) -> Attribute {
    auto axes = cast<ArrayAttr>(from);
    if (axes.size() != 1)
      return {};
    bool isData = cast<StringAttr>(axes[0]).getValue() == "dp";
    return ArrayAttr::get(
        from.getContext(),
        StringAttr::get(from.getContext(), isData ? "tp" : "dp"));
  };
}

//===----------------------------------------------------------------------===//
// Operands and results
//===----------------------------------------------------------------------===//

static bool isIn(Operation *op, StringRef dialect) {
  return op->getName().getDialectNamespace() == dialect;
}

/// The op's results are gone; its first operand is in place of the first.
static bool bypass(Operation *op) {
  if (op->getNumOperands() == 0 || op->getNumResults() == 0 ||
      op->getOperand(0).getType() != op->getResult(0).getType() ||
      op->use_empty())
    return false;
  for (Value result : op->getResults().drop_front())
    if (!result.use_empty())
      return false;
  op->getResult(0).replaceAllUsesWith(op->getOperand(0));
  op->erase();
  return true;
}

static Mutation swapOperands(const char *op, unsigned i, unsigned j) {
  return {std::string(op) + ": operands " + std::to_string(i) + " and " +
              std::to_string(j) + " swapped",
          [=](Operation *each) {
            if (each->getName().getStringRef() != op ||
                j >= each->getNumOperands() ||
                each->getOperand(i) == each->getOperand(j) ||
                each->getOperand(i).getType() != each->getOperand(j).getType())
              return false;
            Value first = each->getOperand(i);
            each->setOperand(i, each->getOperand(j));
            each->setOperand(j, first);
            return true;
          }};
}

static Mutation swapResults(const char *op, unsigned i, unsigned j) {
  return {std::string(op) + ": results " + std::to_string(i) + " and " +
              std::to_string(j) + " swapped",
          [=](Operation *each) {
            if (each->getName().getStringRef() != op ||
                each->getResult(i).getType() != each->getResult(j).getType())
              return false;
            Value first = each->getResult(i), second = each->getResult(j);
            SmallVector<OpOperand *> uses, others;
            for (OpOperand &use : first.getUses())
              uses.push_back(&use);
            for (OpOperand &use : second.getUses())
              others.push_back(&use);
            for (OpOperand *use : uses)
              use->set(second);
            for (OpOperand *use : others)
              use->set(first);
            return true;
          }};
}

/// Another op of the same name, and in the same block, `distance` before.
static Operation *findSibling(Operation *op, int distance = 1) {
  for (Operation *other = op->getPrevNode(); other;
       other = other->getPrevNode())
    if (other->getName() == op->getName() && --distance == 0)
      return other;
  return nullptr;
}

/// The state that a value is, however it got to where it is used.
static Attribute findState(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto get = dyn_cast<xf::GetOp>(op))
      return get.getStateAttr();
    if (op->getNumOperands() != 1)
      break;
    value = op->getOperand(0);
  }
  return {};
}

/// Whether two values of one type are not the same, as far as one can see.
static bool differ(Value a, Value b) {
  Attribute state = findState(a);
  return a != b && a.getType() == b.getType() &&
         (!state || state != findState(b));
}

/// Operand i becomes that of an op of the same name before, which works on
/// something else.
static Mutation takeSiblings(const char *op, unsigned i) {
  return {std::string(op) + ": operand " + std::to_string(i) + " of another",
          [=](Operation *each) {
            if (each->getName().getStringRef() != op)
              return false;
            for (Operation *other = findSibling(each); other;
                 other = findSibling(other)) {
              if (i < other->getNumOperands() && i < each->getNumOperands() &&
                  differ(other->getOperand(i), each->getOperand(i)) &&
                  (i == 0 || other->getOperand(0) != each->getOperand(0))) {
                each->setOperand(i, other->getOperand(i));
                return true;
              }
            }
            return false;
          }};
}

/// An attribute becomes that of an op of the same name before whose types are
/// the same.
static Mutation takeSiblingsAttribute(const char *op, const char *attribute) {
  return {std::string(op) + ": " + attribute + " of another",
          [=](Operation *each) {
            if (each->getName().getStringRef() != op)
              return false;
            for (Operation *other = findSibling(each); other;
                 other = findSibling(other))
              if (other->getResultTypes() == each->getResultTypes() &&
                  other->getOperandTypes() == each->getOperandTypes() &&
                  other->getAttr(attribute) != each->getAttr(attribute)) {
                each->setAttr(attribute, other->getAttr(attribute));
                return true;
              }
            return false;
          }};
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static bool dropAddend(Operation *op) {
  auto add = dyn_cast<xf::AddOp>(op);
  if (!add || add.getInputs().size() < 2)
    return false;
  op->eraseOperand(op->getNumOperands() - 1);
  return true;
}

static bool doubleAddend(Operation *op) {
  auto add = dyn_cast<xf::AddOp>(op);
  if (!add || add.getInputs().size() < 2)
    return false;
  SmallVector<Value> inputs(op->getOperands());
  inputs.push_back(inputs.back());
  op->setOperands(inputs);
  return true;
}

/// A yielded value in place of another one of its type.
static bool repeatYield(Operation *op) {
  auto yield = dyn_cast<xf::YieldOp>(op);
  if (!yield)
    return false;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    for (unsigned j = 0; j < i; ++j)
      if (op->getOperand(i).getType() == op->getOperand(j).getType() &&
          op->getOperand(i) != op->getOperand(j)) {
        op->setOperand(i, op->getOperand(j));
        return true;
      }
  return false;
}

static bool swapYields(Operation *op) {
  auto yield = dyn_cast<xf::YieldOp>(op);
  if (!yield)
    return false;
  for (unsigned i = op->getNumOperands(); i-- > 0;)
    for (unsigned j = 0; j < i; ++j)
      if (op->getOperand(i).getType() == op->getOperand(j).getType() &&
          op->getOperand(i) != op->getOperand(j)) {
        Value first = op->getOperand(i);
        op->setOperand(i, op->getOperand(j));
        op->setOperand(j, first);
        return true;
      }
  return false;
}

static bool bypassXf(Operation *op) { return isIn(op, "xf") && bypass(op); }

static bool bypassCollective(Operation *op) {
  return isIn(op, "dist") && bypass(op);
}

std::vector<Mutation> test::getTensorMutations() {
  auto twice = setReal([](double x) { return 2 * x; });
  auto half = setReal([](double x) { return 0.5 * x; });
  auto large = setReal([](double) { return 0.5; });
  auto more = setReal([](double x) { return x + 1; });
  auto next = setInteger([](int64_t i) { return i + 1; });
  auto less = setInteger([](int64_t i) { return i - 1; });
  auto kind = setInteger([](int64_t i) { return (i + 2) % 7; });
  return {
      change("xf.attention", "scale", twice),
      change("xf.attention", "window",
             setInteger([](int64_t w) { return w + 2; })),
      change("xf.attention", "softcap", more),
      change("xf.attention_grad", "scale", twice),
      change("xf.attention_grad", "window",
             setInteger([](int64_t w) { return w + 2; })),
      change("xf.attention_grad", "softcap", more),
      toggle("xf.rope", "inverse"),
      change("xf.rms_norm", "eps", large),
      change("xf.rms_norm", "offset", more),
      change("xf.rms_norm_grad", "offset", more),
      change("xf.layer_norm", "eps", large),
      change("xf.activation", "kind", kind),
      change("xf.activation_grad", "kind", kind),
      change("xf.glu", "kind", kind),
      change("xf.glu_grad", "kind", kind),
      change("xf.scale", "factor", twice),
      change("xf.sum_exp", "vocab", less),
      change("xf.cross_entropy", "vocab", less),
      change("xf.cross_entropy_grad", "vocab", less),
      change("xf.mask_rows", "id", next),
      change("xf.clip_factor", "max_norm", half),
      change("xf.adamw", "beta1", half),
      change("xf.adamw", "beta2", half),
      change("xf.adamw", "eps", large),
      change("xf.adamw", "decay", more),
      change("xf.schedule", "lr", twice),
      change("xf.schedule", "beta1", half),
      change("xf.schedule", "beta2", half),
      change("xf.schedule", "warmup_steps",
             setInteger([](int64_t) { return 2; })),
      toggle("xf.linear", "inputs_first"),
      toggle("xf.linear_weight_grad", "inputs_first"),
      {"an addend dropped", dropAddend},
      {"an addend added twice", doubleAddend},
      {"an op left out", bypassXf},
      {"a collective left out", bypassCollective},
      swapResults("xf.attention_grad", 1, 2),
      swapResults("xf.glu_grad", 0, 1),
      swapResults("xf.adamw", 1, 2),
      swapOperands("xf.attention", 1, 2),
      swapOperands("xf.attention_grad", 1, 2),
      swapOperands("xf.attention_grad", 3, 5),
      swapOperands("xf.rope", 1, 2),
      swapOperands("xf.glu", 0, 1),
      swapOperands("xf.glu_grad", 0, 1),
      swapOperands("xf.adamw", 1, 2),
      swapOperands("xf.adamw", 0, 3),
      swapOperands("xf.layer_norm", 1, 2),
      swapOperands("xf.rms_norm_grad", 0, 3),
      takeSiblings("xf.linear", 0),
      takeSiblings("xf.linear", 1),
      takeSiblings("xf.linear_weight_grad", 0),
      takeSiblings("xf.linear_weight_grad", 1),
      takeSiblings("xf.rms_norm", 1),
      takeSiblings("xf.norm_weight_grad", 1),
      takeSiblings("xf.norm_weight_grad", 2),
      takeSiblings("xf.square_sum", 0),
      takeSiblings("xf.adamw", 3),
      takeSiblings("xf.set", 0),
      takeSiblingsAttribute("xf.get", "state"),
      takeSiblingsAttribute("xf.set", "state"),
      {"a gradient yielded for another", repeatYield},
      {"two gradients swapped", swapYields},
      change("dist.all_reduce", "axes", setAxis()),
      change("dist.all_reduce", "reduction",
             setInteger([](int64_t) { return 1; })),
      change("dist.reduce_scatter", "axes", setAxis()),
      change("dist.reduce_scatter", "reduction",
             setInteger([](int64_t i) { return 1 - i; })),
      change("dist.all_gather", "axes", setAxis()),
      change("dist.slice", "axes", setAxis()),
      change("xf.embedding", "shard_axes", setAxis()),
      change("xf.embedding_grad", "shard_axes", setAxis()),
      change("xf.sum_exp", "shard_axes", setAxis()),
      change("xf.pick", "shard_axes", setAxis()),
      change("xf.cross_entropy_grad", "shard_axes", setAxis()),
  };
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// A message arrives as another one of the same stage does.
static bool swapMessages(Operation *op) {
  if (!isa<dist::RecvOp>(op))
    return false;
  for (Operation *other = op->getNextNode(); other;
       other = other->getNextNode()) {
    auto recv = dyn_cast<dist::RecvOp>(other);
    if (!recv || recv.getType() != op->getResult(0).getType())
      continue;
    for (const char *name : {"stage", "channel"}) {
      Attribute own = op->getAttr(name);
      op->setAttr(name, other->getAttr(name));
      other->setAttr(name, own);
    }
    return true;
  }
  return false;
}

/// What is sent is what the value was made of.
static bool sendOperand(Operation *op) {
  auto send = dyn_cast<dist::SendOp>(op);
  Operation *from = send ? send.getInput().getDefiningOp() : nullptr;
  if (!from || from->getNumOperands() == 0 ||
      from->getOperand(0).getType() != send.getInput().getType())
    return false;
  op->setOperand(0, from->getOperand(0));
  return true;
}

/// Another value of the same type in place of a message, which is received in
/// vain.
static bool ignoreMessage(Operation *op) {
  if (!isa<dist::RecvOp>(op) || op->use_empty())
    return false;
  for (Operation *other = op->getPrevNode(); other;
       other = other->getPrevNode())
    if (other->getNumResults() > 0 &&
        other->getResult(0).getType() == op->getResult(0).getType()) {
      op->getResult(0).replaceAllUsesWith(other->getResult(0));
      return true;
    }
  return false;
}

static bool eraseMessage(Operation *op) {
  if (!isa<dist::SendOp>(op))
    return false;
  op->erase();
  return true;
}

/// Two runs of a stage change places.
static bool swapRuns(Operation *op) {
  auto loop = dyn_cast<xf::AccumulateOp>(op);
  if (!loop || !loop.getOrder())
    return false;
  SmallVector<int64_t> order(*loop.getOrder());
  std::swap(order[1], order[order.size() - 1]);
  if (ArrayRef<int64_t>(order) == *loop.getOrder())
    return false;
  loop.setOrder(order);
  return true;
}

/// An op in the segment that runs after its own.
static bool delaySegment(Operation *op) {
  std::optional<int64_t> segment = xf::AccumulateOp::getSegment(op);
  auto loop = op->getParentOfType<xf::AccumulateOp>();
  if (!segment || !loop || !loop.getSegments() ||
      *segment + 1 == int64_t(loop.getSegments()->size()))
    return false;
  OpBuilder b(op);
  op->setAttr(xf::AccumulateOp::segmentName, b.getI64IntegerAttr(*segment + 1));
  return true;
}

std::vector<Mutation> cleave::test::getMessageMutations() {
  return {{"two messages swapped", swapMessages},
          {"a message of something else", sendOperand},
          {"a message that is not read", ignoreMessage},
          {"a message that is not sent", eraseMessage},
          {"runs for other micro-batches", swapRuns},
          {"an op in a later segment", delaySegment}};
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

static bool isInstruction(Operation *op) {
  return isa<exec::InstructionOpInterface>(op);
}

static bool leaveOut(Operation *op) {
  if (!isInstruction(op))
    return false;
  op->erase();
  return true;
}

/// Runs after the next instruction, which reads what it writes.
static bool delay(Operation *op) {
  Operation *next = op->getNextNode();
  if (!isInstruction(op) || !next || !isInstruction(next))
    return false;
  auto first = cast<exec::InstructionOpInterface>(op);
  auto second = cast<exec::InstructionOpInterface>(next);
  for (Value output : first.getOutputs())
    if (llvm::is_contained(second.getInputs(), output)) {
      op->moveAfter(next);
      return true;
    }
  return false;
}

/// Another buffer of the same size in place of an operand.
static std::function<bool(Operation *)> replaceBuffer(bool isOutput) {
  return [=](Operation *op) {
    auto instruction = dyn_cast<exec::InstructionOpInterface>(op);
    // Any number may take the largest logit's place.
    auto reduction = op->getAttrOfType<exec::ReductionAttr>("reduction");
    if (!instruction ||
        (reduction && reduction.getValue() == exec::Reduction::Max))
      return false;
    OperandRange range =
        isOutput ? instruction.getOutputs() : instruction.getInputs();
    if (range.empty())
      return false;
    OpOperand &operand = op->getOpOperand(range.getBeginOperandIndex());
    auto buffer = operand.get().getDefiningOp<exec::BufferOp>();
    if (!buffer)
      return false;
    auto program = op->getParentOfType<exec::ProgramOp>();
    for (auto other : program.getOps<exec::BufferOp>())
      if (other != buffer && other.getBytes() == buffer.getBytes() &&
          other.getCategory() != "workspace" &&
          !llvm::is_contained(op->getOperands(), other.getResult())) {
        operand.set(other);
        return true;
      }
    return false;
  };
}

/// Not where a constant is so small that its sign does not matter.
static bool swapKernelOp(Operation *op) {
  if (!op->getParentOfType<exec::KernelOp>() || op->getNumOperands() != 2)
    return false;
  for (Value operand : op->getOperands())
    if (auto constant = operand.getDefiningOp<arith::ConstantOp>())
      if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
        if (std::abs(real.getValueAsDouble()) < 1e-4)
          return false;
  OpBuilder b(op);
  Operation *other = nullptr;
  Value x = op->getOperand(0), y = op->getOperand(1);
  if (isa<arith::AddFOp>(op))
    other = arith::SubFOp::create(b, op->getLoc(), x, y);
  else if (isa<arith::SubFOp>(op))
    other = arith::AddFOp::create(b, op->getLoc(), x, y);
  else if (isa<arith::MulFOp>(op))
    other = arith::AddFOp::create(b, op->getLoc(), x, y);
  if (!other)
    return false;
  op->replaceAllUsesWith(other);
  op->erase();
  return true;
}

/// Moves an access of a kernel to the element after, where there is one.
static bool shiftAccess(Operation *op) {
  auto kernel = dyn_cast<exec::KernelOp>(op);
  // Another maximum is subtracted from logits and added again.
  if (!kernel || kernel.getInputs().empty() ||
      kernel.getSymName().contains("max"))
    return false;
  SmallVector<Attribute> inputs(kernel.getInputs().getValue());
  for (Attribute &input : inputs) {
    auto access = cast<exec::AccessAttr>(input);
    // A row further, beyond the last of which is the first again.
    if (access.getRowMod() != 0 || access.getRowStride() == 0 ||
        kernel.getRows() < 2)
      continue;
    input = exec::AccessAttr::get(op->getContext(), access.getType(),
                                  access.getOffset(), access.getRowDiv(),
                                  kernel.getRows() / access.getRowDiv() - 1,
                                  access.getRowStride(), access.getColStride());
    kernel.setInputsAttr(ArrayAttr::get(op->getContext(), inputs));
    return kernel.getRows() / access.getRowDiv() > 1;
  }
  return false;
}

static bool moveRunBack(Operation *op) {
  auto run = dyn_cast<exec::RunOp>(op);
  if (!run || !isa_and_nonnull<exec::RunOp>(op->getPrevNode()))
    return false;
  op->moveBefore(op->getPrevNode());
  return true;
}

static bool removeRun(Operation *op) {
  if (!isa<exec::RunOp>(op))
    return false;
  op->erase();
  return true;
}

/// Of those that add to what they did before.
static bool repeatRun(Operation *op) {
  auto run = dyn_cast<exec::RunOp>(op);
  bool adds = run && (run.getSegment() == "update" ||
                      (run.getSegment() == "micro_batch" && !run.getFirst()));
  if (!adds)
    return false;
  OpBuilder(op).clone(*op);
  return true;
}

/// Of the runs of a micro-batch, what `mutation` does to any.
static Mutation ofMicroBatches(Mutation mutation) {
  return {mutation.name, [=](Operation *op) {
            auto run = dyn_cast<exec::RunOp>(op);
            return run && run.getSegment() == "micro_batch" &&
                   mutation.apply(op);
          }};
}

/// What is added to zeros may as well overwrite them; a maximum as below.
static Mutation notOfPadding(Mutation mutation) {
  return {mutation.name, [=](Operation *op) {
            auto kernel = dyn_cast<exec::KernelOp>(op);
            return kernel && !kernel.getSymName().starts_with("pad_rows") &&
                   !kernel.getSymName().starts_with("row_max") &&
                   mutation.apply(op);
          }};
}

/// The largest logit is subtracted before and added after: a maximum over other
/// columns gives the same.
static Mutation notOfMaxima(Mutation mutation) {
  return {mutation.name, [=](Operation *op) {
            auto launch = dyn_cast<exec::LaunchOp>(op);
            return launch && !launch.getKernel().starts_with("row_max") &&
                   mutation.apply(op);
          }};
}

/// A bias of keys shifts all scores of a query alike, so its gradient is zero,
/// and another reduction of it gives the same. Models call its product "keys".
static Mutation notOfKeys(Mutation mutation) {
  return {mutation.name, [=](Operation *op) {
            auto name = dyn_cast<NameLoc>(op->getLoc());
            return !(name && name.getName() == "keys") && mutation.apply(op);
          }};
}

std::vector<Mutation> test::getInstructionMutations() {
  auto twice = setReal([](double x) { return 2 * x; });
  auto accumulate = [](Attribute from) -> Attribute {
    bool never =
        cast<exec::AccumulateAttr>(from).getValue() == exec::Accumulate::Never;
    return exec::AccumulateAttr::get(from.getContext(),
                                     never ? exec::Accumulate::Always
                                           : exec::Accumulate::Never);
  };
  auto nextAccumulate = [](Attribute from) -> Attribute {
    auto now = cast<exec::AccumulateAttr>(from).getValue();
    return exec::AccumulateAttr::get(from.getContext(),
                                     exec::Accumulate((int(now) + 1) % 3));
  };
  auto maximum = [](Attribute from) -> Attribute {
    return exec::ReductionAttr::get(from.getContext(), exec::Reduction::Max);
  };
  auto otherReduction = [](Attribute from) -> Attribute {
    bool isSum =
        cast<exec::ReductionAttr>(from).getValue() == exec::Reduction::Sum;
    return exec::ReductionAttr::get(
        from.getContext(), isSum ? exec::Reduction::Max : exec::Reduction::Sum);
  };
  auto nextRow = setInteger([](int64_t i) { return i + 1; });
  return {
      {"an instruction left out", leaveOut},
      {"an instruction too late", delay},
      {"an input from another buffer", replaceBuffer(false)},
      {"an output to another buffer", replaceBuffer(true)},
      change("exec.gemm", "trans_a", flip()),
      change("exec.gemm", "trans_b", flip()),
      change("exec.gemm", "accumulate", nextAccumulate),
      swapOperands("exec.gemm", 0, 1),
      change("exec.attention", "scale", twice),
      change("exec.attention", "window",
             setInteger([](int64_t w) { return w + 2; })),
      change("exec.attention_grad", "scale", twice),
      change("exec.attention_grad", "window",
             setInteger([](int64_t w) { return w + 2; })),
      swapOperands("exec.attention", 1, 2),
      swapOperands("exec.attention_grad", 1, 2),
      swapOperands("exec.attention_grad", 7, 8),
      change("exec.embedding_grad", "accumulate", nextAccumulate),
      change("exec.embedding", "shard_axes", setAxis()),
      change("exec.embedding_grad", "shard_axes", setAxis()),
      notOfMaxima(change("exec.launch", "shard_axes", setAxis())),
      takeSiblingsAttribute("exec.launch", "kernel"),
      change("exec.all_reduce", "axes", setAxis()),
      change("exec.all_reduce", "reduction", maximum),
      notOfKeys(change("exec.reduce_scatter", "axes", setAxis())),
      notOfKeys(change("exec.reduce_scatter", "reduction", otherReduction)),
      change("exec.all_gather", "axes", setAxis()),
      change("exec.slice", "axes", setAxis()),
      change("exec.schedule", "lr", twice),
      change("exec.schedule", "beta2", setReal([](double x) { return x / 2; })),
      notOfPadding(change("exec.kernel", "accumulate", accumulate)),
      {"another operation in a kernel", swapKernelOp},
      {"a kernel that reads another row", shiftAccess},
      change("exec.view", "places", setInteger([](int64_t) { return 1; })),
      ofMicroBatches(toggle("exec.run", "first")),
      ofMicroBatches(change("exec.run", "micro_batch", nextRow)),
      {"a run too early", moveRunBack},
      {"a run left out", removeRun},
      {"a run twice", repeatRun},
  };
}

std::vector<Mutation> test::getMemoryMutations() {
  auto atAnother = [](Operation *op) {
    auto buffer = dyn_cast<exec::BufferOp>(op);
    auto other =
        dyn_cast_or_null<exec::BufferOp>(buffer ? op->getPrevNode() : nullptr);
    if (!other || buffer.getOffset() == other.getOffset())
      return false;
    buffer.setOffset(other.getOffset());
    return true;
  };
  auto beyond = [](Operation *op) {
    auto buffer = dyn_cast<exec::BufferOp>(op);
    if (!buffer)
      return false;
    buffer.setOffset(
        (*op->getParentOfType<exec::ProgramOp>().getArenaBytes() + 63) / 64 *
        64);
    return true;
  };
  return {{"a buffer where another is", atAnother},
          {"a buffer beyond the arena", beyond},
          change("exec.program", "arena_bytes",
                 setInteger([](int64_t bytes) { return bytes - 64; }))};
}
