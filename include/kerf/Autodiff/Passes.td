//===- Passes.td - from inference to training --------------*- tablegen -*-===//
#ifndef KERF_AUTODIFF_PASSES_TD
#define KERF_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def AutodiffPass : Pass<"kerf-autodiff", "::mlir::ModuleOp"> {
  let summary = "an inference function becomes a training step";
  let description = [{
    Adds the loss, the gradients of the parameters that it depends on and their
    update (docs/Autodiff.md).

    ```mlir
    func.func @main(%x: tensor<8xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64})
        -> (tensor<f32> {kerf.name = "y"}) {
      %w = nn.weight "w" file 0 at 0 : tensor<f32>
      %0 = nn.mul %x, %w : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      %y = nn.reduce sum %0 dims [0] : (tensor<8xf32>) -> tensor<f32>
      return %y : tensor<f32>
    }
    // becomes, with loss=y
    #forward0 = #dist.step<forward, colocation 0>
    #forward1 = #dist.step<forward, colocation 1>
    #activation1 = #dist.step<backward_input, colocation 1>
    #weight0 = #dist.step<backward_weight, colocation 0>
    #update0 = #dist.step<update, colocation 0>
    func.func @main(%x: tensor<8xf32> {kerf.name = "x", kerf.batch_dim = 0 : i64},
                    %lr: tensor<f32> {kerf.name = "train.learning_rate"}) -> (tensor<f32> {kerf.name = "loss"}) {
      %w = nn.weight "w" file 0 at 0 {variable} : tensor<f32>
      %0 = nn.mul %x, %w {dist.step = #forward0} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      %y = nn.reduce sum %0 dims [0] {dist.step = #forward1} : (tensor<8xf32>) -> tensor<f32>
      %one = nn.constant dense<1.0> : tensor<f32>
      %1 = nn.reshape %one {dist.step = #activation1} : (tensor<f32>) -> tensor<1xf32>
      %2 = nn.broadcast %1 {dist.step = #activation1} : (tensor<1xf32>) -> tensor<8xf32>
      %3 = nn.mul %2, %x {dist.step = #weight0} : tensor<8xf32>
      %dw = nn.reduce sum %3 dims [0] {dist.step = #weight0} : (tensor<8xf32>) -> tensor<f32>
      %loss = dist.accumulate %y {dist.step = #dist.step<forward, colocation 1, statistics>}
         : (tensor<f32>) -> tensor<f32>
      %g = dist.accumulate %dw {dist.step = #dist.step<backward_weight, colocation 0, gradient>}
         : (tensor<f32>) -> tensor<f32>
      %new = nn.sgd_update %w, %g, %lr momentum 0.0 weight_decay 0.0 {dist.step = #update0} : tensor<f32>
      dist.assign %w, %new {dist.step = #update0} : tensor<f32>
      return %loss : tensor<f32>
    }
    ```
  }];
  let options = [
    Option<"loss", "loss", "std::string", "", "LOSS(OUTPUT,LABELS), or the name of a scalar output">,
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"", "NAME,OPTION=VALUE,... as docs/Autodiff.md lists them">,
    ListOption<"trainable", "trainable", "std::string", "regular expressions of parameters to train">,
    ListOption<"frozen", "frozen", "std::string", "regular expressions of parameters to keep">,
    Option<"clipNorm", "clip-norm", "double", "0", "largest norm of all gradients; 0: none">,
    Option<"skipNonFinite", "skip-non-finite", "bool", "false", "no update where loss or gradients are not finite">,
    Option<"batchNorm", "batch-norm", "::kerf::autodiff::BatchNormMode", "::kerf::autodiff::BatchNormMode::Sync",
           "Statistics of BatchNorm", [{::llvm::cl::values(
             clEnumValN(::kerf::autodiff::BatchNormMode::Sync, "sync", "of each micro-batch over all devices"),
             clEnumValN(::kerf::autodiff::BatchNormMode::Local, "local", "of each device's part of it"),
             clEnumValN(::kerf::autodiff::BatchNormMode::Frozen, "frozen", "the running ones"))}]>,
    Option<"precision", "precision", "::kerf::autodiff::Precision", "::kerf::autodiff::Precision::F32",
           "Operands of products", [{::llvm::cl::values(
             clEnumValN(::kerf::autodiff::Precision::F32, "f32", "float32"),
             clEnumValN(::kerf::autodiff::Precision::TF32, "tf32", "float32; products of GPUs round to 10 bits"),
             clEnumValN(::kerf::autodiff::Precision::BF16, "bf16", "bfloat16"),
             clEnumValN(::kerf::autodiff::Precision::F16, "f16", "float16"))}]>,
    Option<"gradientDtype", "gradient-dtype", "std::string", "", "f32, bf16 or f16; empty: the precision">,
    Option<"microBatches", "micro-batches", "int64_t", "1", "groups of BatchNorm's statistics">,
    Option<"dataParallel", "data-parallel", "int64_t", "1", "devices of one micro-batch, for batch-norm=local">
  ];
  let dependentDialects = ["::kerf::nn::NNDialect", "::kerf::dist::DistDialect"];
}

def HoldParameters : Pass<"kerf-hold-parameters", "::mlir::ModuleOp"> {
  let summary = "arguments that are parameters stay at the ranks";
  let description = [{
    Front ends that pass a function its parameters mark them with
    `kerf.parameter`: they become `nn.weight`s, called as `kerf.name` says, or
    `arg` and the number of the argument. What is not marked is an argument still.
    Each rank keeps its part from run to run, the host writes them by name
    ([Embedding.md](../Embedding.md#run-on-ranks)). `kerf-autodiff`, which trains
    parameters and no arguments, does the same by itself.

    ```mlir
    func.func @f(%x: tensor<8x5xf32>, %w: tensor<5x7xf32> {kerf.name = "w", kerf.parameter}) -> tensor<8x7xf32> {
      %0 = nn.matmul %x, %w : (tensor<8x5xf32>, tensor<5x7xf32>) -> tensor<8x7xf32>
      return %0 : tensor<8x7xf32>
    }
    // becomes
    func.func @f(%x: tensor<8x5xf32>) -> tensor<8x7xf32> {
      %w = nn.weight "w" file 0 at 0 : tensor<5x7xf32>
      %0 = nn.matmul %x, %w : (tensor<8x5xf32>, tensor<5x7xf32>) -> tensor<8x7xf32>
      return %0 : tensor<8x7xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::nn::NNDialect"];
}

def LowerPrecision : Pass<"kerf-lower-precision", "::mlir::ModuleOp"> {
  let summary = "operands of products are rounded to a narrower type";
  let description = [{
    What `--precision` does to an inference function; the pass `kerf-autodiff` does
    it by itself.

    ```mlir
    %r = nn.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    // becomes, with precision=f16
    %c = nn.cast %a : (tensor<2x3xf32>) -> tensor<2x3xf16>
    %d = nn.cast %b : (tensor<3x4xf32>) -> tensor<3x4xf16>
    %p = nn.matmul %c, %d : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
    %r = nn.cast %p : (tensor<2x4xf16>) -> tensor<2x4xf32>
    ```
  }];
  let options = [
    Option<"precision", "precision", "::kerf::autodiff::Precision", "::kerf::autodiff::Precision::F32",
           "Operands of products", [{::llvm::cl::values(
             clEnumValN(::kerf::autodiff::Precision::F32, "f32", "float32"),
             clEnumValN(::kerf::autodiff::Precision::TF32, "tf32", "float32; products of GPUs round to 10 bits"),
             clEnumValN(::kerf::autodiff::Precision::BF16, "bf16", "bfloat16"),
             clEnumValN(::kerf::autodiff::Precision::F16, "f16", "float16"))}]>
  ];
  let dependentDialects = ["::kerf::nn::NNDialect"];
}

def VerifyAfterAutodiff : Pass<"kerf-verify-after-autodiff", "::mlir::ModuleOp"> {
  let summary = "checks what autodiff promises to the next phase";
  let description = [{
    The contract of docs/Training.md: every op except sources has a colocation;
    values flow only in the order prologue, forward, backward, update, and leave
    the micro-batches only through `dist.accumulate`; each source occurs once;
    sources that steps write are assigned; results are named, the first is
    `loss`.
  }];
  let dependentDialects = ["::kerf::nn::NNDialect", "::kerf::dist::DistDialect"];
}

#endif // KERF_AUTODIFF_PASSES_TD
