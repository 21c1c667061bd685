//===- Passes.td - passes of the lower phase --------------*- tablegen -*-===//
#ifndef KERF_LOWER_PASSES
#define KERF_LOWER_PASSES

include "mlir/Pass/PassBase.td"

def LowerToExec : Pass<"lower-to-exec", "::mlir::ModuleOp"> {
  let summary = "Turn local tensor functions into kernels and calls on buffers";
  let description = [{
    Matmuls and convolutions become library calls with what they can take in
    (bias, activation, residual, scale; reshapes and transposes as strides);
    everything else becomes kernels, as few as code generation allows; what
    depends on parameters alone moves to an `init` function.

    ```mlir
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
      %w = nn.weight "w" {...} : tensor<3x4xf32>
      %b = nn.weight "b" {...} : tensor<4xf32>
      %0 = nn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      %1 = nn.add %0, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
      %2 = nn.relu %1 : (tensor<2x4xf32>) -> tensor<2x4xf32>
      return %2 : tensor<2x4xf32>
    }
    // becomes
    exec.parameter 0 "w" ...
    exec.parameter 1 "b" ...
    exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x4xf32>) ... {
      exec.library 0 {kind = "matmul", m = 2, n = 4, k = 3, lhs = {buffer = 0},
          rhs = {param = 0}, bias = {param = 1}, dst = {buffer = 1}, post_ops = [{kind = "relu"} ]}
        (%x) -> (%y) : (memref<2x3xf32>) -> memref<2x4xf32>
      exec.return
    }
    exec.stage 0 ...
    ```
  }];
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect",
                           "::kerf::dist::DistDialect"];
}

def PlanArenas : Pass<"plan-arenas", "::mlir::ModuleOp"> {
  let summary = "Give buffers and slots their offsets";
  let description = [{
    Kernels write over inputs that nobody reads any more and all-reduces work in
    place; then every buffer gets an offset, first-fit by decreasing size.

    ```mlir
    %0 = exec.arena : memref<2x3xf32>
    // becomes
    %0 = exec.arena at 128 : memref<2x3xf32>
    ```
  }];
}

def VerifyAfterLower : Pass<"verify-after-lower", "::mlir::ModuleOp"> {
  let summary = "Check the contract between lowering and packaging";
  let description = [{
    Only `exec` ops are left, everything has an offset, buffers that are live
    together do not overlap, entries are numbered without gaps.
  }];
}

#endif // KERF_LOWER_PASSES
