//===- Passes.td - passes over what several phases hold ----*- tablegen -*-===//
#ifndef KERF_DIST_PASSES_TD
#define KERF_DIST_PASSES_TD

include "mlir/Pass/PassBase.td"

def MergeEqualOps : Pass<"kerf-merge-equal-ops"> {
  let summary = "one op for several that compute the same";
  let description = [{
    Two ops of a block without effects are equal if name, operands, types and
    attributes are, except `dist.step` and `dist.plan`: the part of a step to
    which an op belongs does not change what it computes. The first one stays,
    and keeps its step. Ops that are `recomputed` merge with each other alone.
    (`cse` compares all attributes, so equal ops of forward
    and backward would not merge.) Ops without uses are removed as well.

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
