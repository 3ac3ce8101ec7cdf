#ifndef CLEAVE_PASSES_MEMORY_PASSES_TD
#define CLEAVE_PASSES_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanMemoryPass : Pass<"cleave-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Give every buffer its offset in one static arena";
  let description = [{
    Before: an `exec.program` whose buffers have no offsets. After: each has one,
    and the program says the arena's size and the least that any arena needs: the
    most bytes that are live at one instruction. A buffer is live from its first to
    its last instruction; one that several segments use, throughout each of them
    that runs more than once; what another stream uses, until the rank's own knows
    that it is done. Leaves a remark with the bytes of each category at
    the peak.

    ```mlir
    %a = exec.buffer "activations" 4096 : !exec.buffer
    // becomes
    %a = exec.buffer "activations" 4096 at 8192 : !exec.buffer
    ```
  }];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
}

def VerifyMemoryPass : Pass<"cleave-verify-memory", "::mlir::ModuleOp"> {
  let summary = "Check that no two live buffers overlap";
  let description = [{
    The contract at the end of this stage: every buffer has an offset, lies in the
    arena, and shares bytes with no buffer that is live at the same time.
  }];
}

#endif
