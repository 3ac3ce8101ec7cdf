#ifndef CLEAVE_DIALECTS_XF_INTERFACES_TD
#define CLEAVE_DIALECTS_XF_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    The one statement from which type checking and propagation of placements
    follow; see cleave/Placement/ShardingRule.h. An op that implements it is
    verified against its rule wherever its types carry placements.
  }];
  let methods = [
    InterfaceMethod<"The rule for these operand and result shapes.",
                    "::cleave::ShardingRule", "getShardingRule">,
  ];
  // After the op's own verifier, which vouches for what the rule is spelled
  // from: ranks, and attributes such as the number of contracted dims.
  let verifyWithRegions = 1;
  let verify = [{ return ::cleave::xf::verifyShardingRule($_op); }];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    Reverse mode. Given d loss / d result for each result (null: the result does
    not reach the loss), builds d loss / d operand for each operand that is
    asked for; the others stay null, as do operands without a gradient (ids).
  }];
  let methods = [
    InterfaceMethod<"Builds the gradients of the operands.",
      "void", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGrads,
           "::llvm::ArrayRef<bool>":$wanted,
           "::llvm::MutableArrayRef<::mlir::Value>":$operandGrads)>,
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    What an op costs, from shapes alone, by the formulas that the planner prices
    layouts with; see cleave/Cost/Work.h.
  }];
  let methods = [
    InterfaceMethod<[{
        Floating-point operations of the matrix products, those of the model and
        those that are executed; none for ops that are bound by memory.
      }], "::cleave::Flops", "getFlops", (ins), "", "return {};">,
    InterfaceMethod<"What it is asked for, if it is causal attention.",
      "::std::optional<::cleave::AttentionWork>", "getAttention", (ins), "",
      "return ::std::nullopt;">,
    InterfaceMethod<"Bytes read and written, each tensor once.",
      "double", "getBytes", (ins), "", [{
        return ::cleave::xf::getTensorBytes($_op);
      }]>,
    InterfaceMethod<[{
        A tensor of which only those rows are read or written that another one
        names, such as an embedding's table; null if there is none.
      }], "::mlir::Value", "getLookedUp", (ins), "", "return {};">,
  ];
}

def ShardIndexOpInterface : OpInterface<"ShardIndexOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    An op whose local meaning depends on which shard of a dim this rank has: an
    embedding, say, whose ids number the rows of the whole table.
  }];
  let methods = [
    InterfaceMethod<"The tensor and its dim.",
      "::std::pair<::mlir::Value, unsigned>", "getShardedDim">,
  ];
}

def OptimizerOpInterface : OpInterface<"OptimizerOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    The update of one parameter: from its value, its states (moments) and its
    gradient to new values of all but the gradient. An element of a new value
    follows from the elements in its place and from scalars of the step. So an
    update runs on shards as it does on the whole, and may write each new value
    where the old one lies.

    A state may be kept in bf16. It is read as f32, its new value computed in f32
    and rounded once, to nearest even, where it is stored; the parameter's new
    value follows from what was not rounded.

    Where the clip factor is not above 0, every new value is the old one
    (`xf.guard`).

    What does not follow element by element, such as a direction that depends on
    a whole matrix, ops of other kinds compute before; the update reads it as a
    further operand.

    Constraints:
    1. The operands are the parameter, its states, the gradient, the clip factor,
       the schedule, and what else the update reads; result i is the new value
       of operand i.
    2. All have the parameter's shape but the clip factor, which is a scalar, and
       the schedule, which has 5 elements.
    3. A new value has the old one's element type.
  }];
  let methods = [
    InterfaceMethod<"The parameter.", "::mlir::Value", "getParameter", (ins),
                    "", "return $_op->getOperand(0);">,
    InterfaceMethod<"Its gradient, before clipping.", "::mlir::Value",
                    "getGradient", (ins), "", [{
        return $_op->getOperand($_op->getNumResults());
      }]>,
    InterfaceMethod<"The factor that clips the gradient.", "::mlir::Value",
                    "getClipFactor", (ins), "", [{
        return $_op->getOperand($_op->getNumResults() + 1);
      }]>,
    InterfaceMethod<"Learning rate and bias corrections of the step.",
                    "::mlir::Value", "getRates", (ins), "", [{
        return $_op->getOperand($_op->getNumResults() + 2);
      }]>,
    InterfaceMethod<"The operand that a result is the new value of.",
      "::mlir::OpOperand &", "getOldValue", (ins "::mlir::OpResult":$result),
      "", "return $_op->getOpOperand(result.getResultNumber());">,
  ];
  let verify = [{ return ::cleave::xf::verifyUpdate($_op); }];
}

def StepCheckOpInterface : OpInterface<"StepCheckOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    What types cannot say of an op in a training step: that a gradient has the
    attributes of the forward op that it is of, and reads what that one saved.
    `cleave-verify-step` first asks all ops that are not of the backward pass
    what their gradients will know of them, then all ops for their check.
  }];
  let methods = [
    InterfaceMethod<"Notes what gradients will know of this forward op.",
      "void", "noteForward", (ins "::cleave::xf::Origins &":$origins), "",
      "return;">,
    InterfaceMethod<"Checks this op; see dialects/xf/Origins.h.",
      "::llvm::LogicalResult", "verifyInStep",
      (ins "::cleave::xf::Origins &":$origins), "",
      "return ::mlir::success();">,
  ];
}

def AccumulatingOpInterface : OpInterface<"AccumulatingOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    An op with a result that is a sum over tokens or rows, formed term by term:
    it may as well start from what the result's buffer holds, which adds the
    result to it.
  }];
  let methods = [
    InterfaceMethod<"The result that is such a sum.", "::mlir::Value", "getSum",
                    (ins), "", "return $_op->getResult(0);">,
  ];
}

def FixedOrderOpInterface : OpInterface<"FixedOrderOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    An op with a sum that a device may add up in another order in each run, so
    that its last bits differ. Where several ranks compute such an op on the same
    values, each has a copy of the result; if these copies differ, so do the copies
    of parameters that are updated from them. So `cleave-localize` asks such ops to add in an
    order that is fixed, and the device to do so at whatever cost.
  }];
  let methods = [
    InterfaceMethod<"Says whether the order of its sums has to be fixed.",
                    "void", "setFixedOrder", (ins "bool":$fixed)>,
  ];
}

def AdditionOpInterface : OpInterface<"AdditionOpInterface"> {
  let cppNamespace = "::cleave::xf";
  let description = [{
    An op that adds its operands, however many there are. The first one has the
    result's shape, the others may be repeated along leading dims.
  }];
  let methods = [
    InterfaceMethod<"The operands.", "::mlir::MutableOperandRange",
                    "getAddendsMutable", (ins), "", [{
        return ::mlir::MutableOperandRange($_op.getOperation());
      }]>,
  ];
}

#endif
