//===- DistTraining.td - sums over micro-batches, state ----*- tablegen -*-===//
#ifndef KERF_DIST_TRAINING_TD
#define KERF_DIST_TRAINING_TD

include "kerf/Dist/DistPlacement.td"

def Dist_AccumulateOp : Op<Dist_Dialect, "accumulate", [Pure,
    AllTypesMatch<["x", "result"]>, DeclareOpInterfaceMethods<Kerf_IntervalInterface>]> {
  let summary = "the sum over the micro-batches of a step";
  let description = [{
    Where a value that is computed once per micro-batch (a gradient, a loss) is
    handed to what runs once per step (the update, the program's outputs):

    `result = sum over micro-batches j of x_j`, in order of j.

    Without micro-batches it is the identity. In a planned function the operand
    may be `partial sum` over time axes (and over others); the result has the
    operand's sharding without the time axes.

    ```mlir
    %g = dist.accumulate %dw : (tensor<6x4xf32>) -> tensor<6x4xf32>
    ```

    After partitioning the sum so far is the operand after `into`; a step begins
    with `dist.zero`:

    ```mlir
    %acc1 = dist.accumulate %dw into %acc : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    ```

    C1: `into` has the type of `x`.
  }];
  let arguments = (ins Dist_Tensor:$x, Optional<Dist_Tensor>:$into);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$x (`into` $into^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Dist_AssignOp : Op<Dist_Dialect, "assign", [AllTypesMatch<["source", "value"]>]> {
  let summary = "gives a mutable source its value for the next step";
  let description = [{
    `source` is the result of a source op (a weight, an optimizer's state) that
    outlives the step. All uses of the source in this step see the old value.
    Both operands have the sharding in which the source is stored.

    ```mlir
    %w = nn.weight "w" file 0 at 0 {variable} : tensor<6x4xf32>
    dist.assign %w, %new : tensor<6x4xf32>
    ```

    C1: `source` is defined by a source op that is a mutable parameter. C2: in a
    function a source is assigned at most once, before stages are split once in
    each. C3: with shardings, both operands
    have the source's, which is not partial.
  }];
  let arguments = (ins Dist_Tensor:$source, Dist_Tensor:$value);
  let assemblyFormat = "$source `,` $value attr-dict `:` type($source)";
  let hasVerifier = 1;
}

#endif // KERF_DIST_TRAINING_TD
