//===- Passes.td - what follows the importer ---------------*- tablegen -*-===//
#ifndef KERF_IMPORT_PASSES_TD
#define KERF_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

def SimplifyImport : Pass<"simplify-import", "::mlir::ModuleOp"> {
  let summary = "brings imported functions to one form";
  let description = [{
    Exporters spell one computation in many ways. After this pass
    * what is known is computed, and constants are no larger than their content;
    * transposes around convolutions have cancelled, others sit in matmul's flags;
    * reshapes that flatten for a product and undo it are gone;
    * layer_norm, rms_norm, gelu and softmax are whole;
    * slices of a product with a weight are products with views of the weight
      (fused projections apart).

    ```mlir
    %0 = nn.matmul %x, %qkv : (tensor<8x64xf32>, tensor<64x192xf32>) -> tensor<8x192xf32>
    %q = nn.slice %0 {starts = array<i64: 0, 0>, ...} : (tensor<8x192xf32>) -> tensor<8x64xf32>
    // becomes
    %wq = nn.weight "qkv" {..., starts = array<i64: 0, 0>} : tensor<64x64xf32>
    %q = nn.matmul %x, %wq : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let dependentDialects = ["::kerf::nn::NNDialect"];
}

def VerifyAfterImport : Pass<"verify-after-import", "::mlir::ModuleOp"> {
  let summary = "checks what import promises to the next phase";
  let description = [{
    One function `@main` of nn ops; every value a tensor of static shape; every
    argument and result named by `kerf.name`; `kerf.batch_dim` a dimension of its
    argument; every nn.weight's file an index into the module's `kerf.files`.
  }];
}

#endif // KERF_IMPORT_PASSES_TD
