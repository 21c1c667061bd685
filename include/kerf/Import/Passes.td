//===- Passes.td - passes behind the importer --------------*- tablegen -*-===//
#ifndef KERF_IMPORT_PASSES_TD
#define KERF_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

def SimplifyImport : Pass<"kerf-simplify-import", "::mlir::ModuleOp"> {
  let summary = "brings imported functions to one form";
  let description = [{
    Exporters write one computation in many ways. After this pass
    * ops on constants are computed, and constants are no larger than their content;
    * transposes around convolutions have cancelled, others sit in matmul's flags;
    * reshapes that flatten for a product and undo it are gone;
    * layer_norm, rms_norm, gelu and softmax are whole;
    * what loops compute alike of one group of rows after the other is computed of all at once;
    * slices of a product with a weight are products with views of the weight
      (fused projections apart).

    ```mlir
    %qkv = nn.weight "qkv" file 0 at 0 : tensor<64x128xf32>
    %0 = nn.matmul %x, %qkv : (tensor<8x64xf32>, tensor<64x128xf32>) -> tensor<8x128xf32>
    %q = nn.slice %0 from [0, 0] : (tensor<8x128xf32>) -> tensor<8x64xf32>
    %k = nn.slice %0 from [0, 64] : (tensor<8x128xf32>) -> tensor<8x64xf32>
    // becomes
    %wq = nn.weight "qkv" file 0 at 0 : tensor<64x64xf32> of tensor<64x128xf32> from [0, 0]
    %q = nn.matmul %x, %wq : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %wk = nn.weight "qkv" file 0 at 0 : tensor<64x64xf32> of tensor<64x128xf32> from [0, 64]
    %k = nn.matmul %x, %wk : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let dependentDialects = ["::kerf::nn::NNDialect"];
}

def KeepState : Pass<"kerf-keep-state", "::mlir::ModuleOp"> {
  let summary = "outputs that are inputs of the next step stay where they are";
  let description = [{
    Each of `pairs` (OUTPUT=INPUT), and with `automatic` those that exporters name
    so, becomes an `nn.state`, which the step assigns. A cache that grows becomes
    one of fixed length (that of the output): a single new position is written at the input
    `state.position`, from which `attention_mask` and `position_ids` are computed
    (docs/Generate.md). Refused unless it is proven that the mask hides what is
    not filled.

    ```mlir
    module {
      func.func @main(%x: tensor<3xf32> {kerf.name = "x"}, %p: tensor<3xf32> {kerf.name = "past_0"})
          -> (tensor<3xf32> {kerf.name = "y"}, tensor<3xf32> {kerf.name = "present_0"}) {
        %n = nn.add %p, %x : tensor<3xf32>
        %y = nn.neg %n : tensor<3xf32>
        return %y, %n : tensor<3xf32>, tensor<3xf32>
      }
    }
    // becomes, with automatic
    module {
      func.func @main(%x: tensor<3xf32> {kerf.name = "x"}) -> (tensor<3xf32> {kerf.name = "y"}) {
        %s = nn.state "past_0" {init = 0.000000e+00 : f32} : tensor<3xf32>
        %n = nn.add %s, %x : tensor<3xf32>
        dist.assign %s, %n : tensor<3xf32>
        %y = nn.neg %n : tensor<3xf32>
        return %y : tensor<3xf32>
      }
    }
    ```
  }];
  let options = [
    ListOption<"pairs", "pairs", "std::string", "OUTPUT=INPUT">,
    Option<"automatic", "automatic", "bool", "false", "pairs that exporters name present and past">
  ];
  let dependentDialects = ["::kerf::nn::NNDialect", "::kerf::dist::DistDialect"];
}

def RecogniseAttention : Pass<"kerf-recognise-attention", "::mlir::ModuleOp"> {
  let summary = "attention as one op, for targets that have it as one call";
  let description = [{
    softmax(scale q k^T + mask) v as exporters and the importer write it: masks that
    are added or selected (the lower triangle becomes `causal`), factors in front of
    q or behind the product, keys that are repeated for groups of heads, heads as
    one, two or three dimensions. Not if another op reads the probabilities, if there is
    dropout inside, or for sizes of heads that cuDNN does not support.

    ```mlir
    %s = nn.matmul %q, %k {transpose_rhs} : (tensor<8x4x16x16xbf16>, tensor<8x4x16x16xbf16>) -> tensor<8x4x16x16xbf16>
    %p = nn.softmax %s dim 3 : tensor<8x4x16x16xbf16>
    %y = nn.matmul %p, %v : (tensor<8x4x16x16xbf16>, tensor<8x4x16x16xbf16>) -> tensor<8x4x16x16xbf16>
    // becomes
    %y, %stats = nn.attention %q, %k, %v scale 1.0
       : tensor<8x4x16x16xbf16>, tensor<8x4x16x16xbf16>, tensor<8x4x16x16xbf16>
    ```
  }];
  let options = [
    Option<"wide", "wide", "bool", "false", "f32 as well, which will be rounded">,
    Option<"training", "training", "bool", "false", "biases must not be trained">,
    Option<"lowest", "lowest", "double", "-1e30", "what hides a position in a bias">
  ];
  let dependentDialects = ["::kerf::nn::NNDialect"];
}

def SampleRanges : Pass<"kerf-sample-ranges", "::mlir::ModuleOp"> {
  let summary = "notes which random numbers an input of indices takes";
  let description = [{
    An integer argument that a gather reads as indices gets `kerf.sample_range`,
    `[0, rows of the table)`, of several gathers the smallest: indices drawn from
    it are spread over the table as a user's are, and none is out of range. The
    pass runs before the table is cut.

    ```mlir
    func.func @main(%ids: tensor<2x3xi64>, %table: tensor<10x4xf32>) -> tensor<2x3x4xf32> {
      %r = nn.gather %table, %ids dim 0 : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
      return %r : tensor<2x3x4xf32>
    }
    // becomes
    func.func @main(%ids: tensor<2x3xi64> {kerf.sample_range = [0, 10]}, %table: tensor<10x4xf32>) -> tensor<2x3x4xf32> {
      %r = nn.gather %table, %ids dim 0 : (tensor<10x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
      return %r : tensor<2x3x4xf32>
    }
    ```
  }];
  let dependentDialects = ["::kerf::nn::NNDialect"];
}

def VerifyAfterImport : Pass<"kerf-verify-after-import", "::mlir::ModuleOp"> {
  let summary = "checks what import promises to the next phase";
  let description = [{
    One function `@main` of nn ops, and assignments of state; every value a tensor of static shape; every
    argument and result named by `kerf.name`; `kerf.batch_dim` a dimension of its
    argument; every nn.weight's file an index into the module's `kerf.files`.
  }];
}

#endif // KERF_IMPORT_PASSES_TD
