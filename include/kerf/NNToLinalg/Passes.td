//===- Passes.td - from nn to linalg -----------------------*- tablegen -*-===//
#ifndef KERF_NNTOLINALG_PASSES_TD
#define KERF_NNTOLINALG_PASSES_TD

include "mlir/Pass/PassBase.td"

def NNToLinalg : Pass<"kerf-nn-to-linalg", "::mlir::ModuleOp"> {
  let summary = "Say nn ops in linalg, tensor, arith and math";
  let description = [{
    For compilers with a back end of their own: `kerf-autodiff` adds losses and
    updates in `nn` to functions of any dialect, and this pass says them in
    upstream's dialects, on the shapes that they have. It runs behind
    `kerf-call-runtime`, which takes parameters, or on functions that were not
    partitioned.

    Ops on elements (also Bitcast, Cast, Select and the updates of optimizers), constants,
    Iota, Reduce, Matmul, Reshape, Broadcast, Transpose, Slice, Pad, Concat and
    Gather have a form. Another op of `nn`, and integers that are not
    signless, and types of 2 to 8 bits by conversion, are errors. 16-bit floats are computed with in f32. Integers are
    divided by 1 where the divisor is 0, and a gather reads the nearest element
    where an index is out of range: compiled by Kerf, both are an error of the run.

    ```mlir
    func.func @f(%x: tensor<4x6xf32>) -> tensor<4xf32> {
      %0 = nn.reduce sum %x dims [1] : (tensor<4x6xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    // becomes
    #map = affine_map<(d0, d1) -> (d0, d1)>
    #map1 = affine_map<(d0, d1) -> (d0)>
    func.func @f(%x: tensor<4x6xf32>) -> tensor<4xf32> {
      %0 = tensor.empty() : tensor<4xf32>
      %cst = arith.constant 0.000000e+00 : f32
      %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
      %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<4x6xf32>) outs(%1 : tensor<4xf32>) {
      ^bb0(%in: f32, %out: f32):
        %3 = arith.addf %out, %in : f32
        linalg.yield %3 : f32
      } -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

#endif // KERF_NNTOLINALG_PASSES_TD
