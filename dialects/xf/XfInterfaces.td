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
    InterfaceMethod<"Bytes read and written, each tensor once.",
      "double", "getBytes", (ins), "", [{
        return ::cleave::xf::getTensorBytes($_op);
      }]>,
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

#endif
