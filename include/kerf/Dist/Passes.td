//===- Passes.td - passes over what several phases hold ----*- tablegen -*-===//
#ifndef KERF_DIST_PASSES_TD
#define KERF_DIST_PASSES_TD

include "mlir/Pass/PassBase.td"

def MergeEqualOps : Pass<"merge-equal-ops"> {
  let summary = "one op for several that compute the same";
  let description = [{
    Two ops of a block without effects are equal when name, operands, types and
    attributes are, `dist.step` and `dist.plan` left out: to which part of a step
    an op belongs is no part of what it computes. The first one stays, and keeps
    its step. (`cse` compares all attributes: equal ops of forward and backward
    would stay two.) An op that nothing uses goes as well.

    ```mlir
    %a = nn.relu %x : tensor<4xf32>
    %b = nn.relu %x {dist.step = #dist.step<backward_input>} : tensor<4xf32>
    %c = nn.add %a, %b : tensor<4xf32>
    // becomes
    %a = nn.relu %x : tensor<4xf32>
    %c = nn.add %a, %a : tensor<4xf32>
    ```
  }];
}

#endif // KERF_DIST_PASSES_TD
