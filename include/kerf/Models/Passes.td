//===- Passes.td - programs of upstream ops ----------------*- tablegen -*-===//
#ifndef KERF_MODELS_PASSES_TD
#define KERF_MODELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def SplitProjections : Pass<"kerf-split-projections", "::mlir::ModuleOp"> {
  let summary = "Take fused products apart that are sliced into equal parts";
  let description = [{
    GPT-2 multiplies by one matrix of three times as many columns, and slices the
    result into queries, keys and values. A device's block of these columns is
    not a part of each of the three, so no cut of the product by heads is left.
    In public functions this pass

    - moves slices of one dimension, where an op's result is only read by them,
      up through linalg ops, elementwise ops of arith and math, and
      `tensor.expand_shape`, to arguments that nothing else reads: each part is
      computed by itself, of its part of the weights. Where a slice would end at
      anything but arguments, constants and fills, it stays;
    - gives arguments that are only read in equal slices a dimension that counts
      the slices. **This changes the function's type**, not the bytes that the
      host passes: a weight of 64 x 48 becomes one of 64 x 3 x 16. It can be cut
      within each of its parts.

    It runs behind `kerf-flatten`, before planning. An argument that has a
    `dist.sharding` keeps its type, as do functions that others call.

    ```mlir
    func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
      %zero = arith.constant dense<0.0> : tensor<8x32xf32>
      %y = linalg.matmul ins(%x, %w : tensor<8x64xf32>, tensor<64x32xf32>)
          outs(%zero : tensor<8x32xf32>) -> tensor<8x32xf32>
      %a = tensor.extract_slice %y[0, 0] [8, 16] [1, 1] : tensor<8x32xf32> to tensor<8x16xf32>
      %b = tensor.extract_slice %y[0, 16] [8, 16] [1, 1] : tensor<8x32xf32> to tensor<8x16xf32>
      return %a, %b : tensor<8x16xf32>, tensor<8x16xf32>
    }
    // becomes
    func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x2x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
      %w0 = tensor.extract_slice %w[0, 0, 0] [64, 1, 16] [1, 1, 1] : tensor<64x2x16xf32> to tensor<64x16xf32>
      %zero0 = arith.constant dense<0.0> : tensor<8x16xf32>
      %a = linalg.matmul ins(%x, %w0 : tensor<8x64xf32>, tensor<64x16xf32>)
          outs(%zero0 : tensor<8x16xf32>) -> tensor<8x16xf32>
      %w1 = tensor.extract_slice %w[0, 1, 0] [64, 1, 16] [1, 1, 1] : tensor<64x2x16xf32> to tensor<64x16xf32>
      %zero1 = arith.constant dense<0.0> : tensor<8x16xf32>
      %b = linalg.matmul ins(%x, %w1 : tensor<8x64xf32>, tensor<64x16xf32>)
          outs(%zero1 : tensor<8x16xf32>) -> tensor<8x16xf32>
      return %a, %b : tensor<8x16xf32>, tensor<8x16xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

#endif // KERF_MODELS_PASSES_TD
