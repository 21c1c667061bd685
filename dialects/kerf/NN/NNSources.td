//===- NNSources.td - weights, literals, iota -------------*- tablegen -*-===//
#ifndef KERF_NN_SOURCES_TD
#define KERF_NN_SOURCES_TD

include "kerf/NN/NNBase.td"

class NN_SourceOp<string mnemonic, list<Trait> traits = [], list<string> own = []>
    : NN_LocalOp<mnemonic, !listconcat(traits, [
        DeclareOpInterfaceMethods<Kerf_SourceOpInterface, own>])>;

def NN_WeightOp : NN_SourceOp<"weight", [], ["isMutable"]> {
  let summary = "a parameter of the model, in a file";
  let description = [{
    The tensor `name` of the model, of type `stored`, whose raw little-endian
    bytes are `length` bytes at `offset` of file number `file` (an index into the
    module's `kerf.files`). Nothing is read until the package is written. With
    `starts`, the result is the view of the stored tensor that begins there and
    has the result's shape: fused projections are taken apart this way. `variable`
    marks a weight that training steps give new values (`dist.assign`); what is
    in the file is its first value. `infinite`: it is known to hold an infinity.

    ```mlir
    %w = nn.weight "mlp.fc" file 0 at 128 : tensor<768x3072xf32>
    %k = nn.weight "attn.qkv" file 0 at 9437312 : tensor<768x768xf32> of tensor<768x2304xf32> from [0, 768]
    ```

    `length` follows from `stored` and is not written, nor is `stored` where it is
    the result's type.

    C1: `length` is the size in bytes of `stored`. C2: the view lies inside
    `stored` and has its rank and element type.
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$file, I64Attr:$offset, I64Attr:$length,
                       TypeAttr:$stored, OptionalAttr<DenseI64ArrayAttr>:$starts,
                       UnitAttr:$variable, UnitAttr:$infinite);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = [{
    $name `file` $file `at` $offset attr-dict
    `:` custom<StoredType>(type($result), $stored, $starts, $length)
  }];
  let hasVerifier = 1;
  let extraClassDefinition = NN_Cost<"View", "0">.definition;
}

def NN_StateOp : NN_SourceOp<"state", [], ["isMutable"]> {
  let summary = "a tensor that training keeps from step to step";
  let description = [{
    Starts with every element equal to `init`; `dist.assign` gives it the value
    for the next step (momenta of an optimizer).

    ```mlir
    %m = nn.state "adam.m/h.0.mlp.weight" {init = 0.0 : f32} : tensor<2x3xf32>
    ```

    C1: `init` has the element type.
  }];
  let arguments = (ins StrAttr:$name, TypedAttrInterface:$init);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDefinition = NN_Cost<"View", "0">.definition;
}

def NN_ConstantOp : NN_SourceOp<"constant", [NN_Kernel<"Constant">, AllTypesMatch<["value", "result"]>], ["isStoredInParts"]> {
  let summary = "a literal tensor";
  let description = [{
    A literal. A `name` marks a parameter of the model that is a literal (a
    weight made by ConstantOfShape is a splat); without one it is a constant.

    ```mlir
    %c = nn.constant dense<1.0> : tensor<2x3xf32>
    ```

    C1: `value` is a dense elements attribute.
  }];
  let arguments = (ins TypedAttrInterface:$value, OptionalAttr<StrAttr>:$name);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "attr-dict $value";
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value), [{
    build($_builder, $_state, value.getShapedType(), ::llvm::cast<::mlir::TypedAttr>(value), nullptr);
  }]>];
  let extraClassDeclaration = [{
    ::mlir::DenseElementsAttr getElements() {
      return ::llvm::cast<::mlir::DenseElementsAttr>(getValue());
    }
  }];
  let hasVerifier = 1;
  let extraClassDefinition = NN_Cost<"View", "0">.definition;
}

def NN_IotaOp : NN_LocalOp<"iota", [NN_Kernel<"Iota">]> {
  let summary = "indices along a dimension";
  let description = [{
    `result[i_0, ..., i_n] = i_dim`.

    ```mlir
    %i = nn.iota dim 1 : tensor<2x3xi64>
    ```
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "`dim` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDefinition = NN_Cost<"Elementwise", "0">.definition;
}

#endif // KERF_NN_SOURCES_TD
