//===- NNRows.td - reductions and normalizations ----------*- tablegen -*-===//
#ifndef KERF_NN_ROWS_TD
#define KERF_NN_ROWS_TD

include "kerf/NN/NNBase.td"

def NN_ReduceKind : I64EnumAttr<"ReduceKind", "kind of a reduction", [
    I64EnumAttrCase<"Sum", 0, "sum">, I64EnumAttrCase<"Max", 1, "max">,
    I64EnumAttrCase<"Min", 2, "min">, I64EnumAttrCase<"Prod", 3, "prod">]> {
  let cppNamespace = "::kerf::nn";
}

// Combines the elements along some dimensions of its first operand.
def NN_Rows : TraitList<[NN_RowInterface, NN_Kernel<"Row">]>;

// Normalizes the rows of its first operand: statistics of a row, then each element.
def NN_Norm : NativeOpTrait<"Norm"> {
  let cppNamespace = "::kerf::nn";
}

// Which dimensions, as a C++ expression, and whether the result has them.
class NN_RowDims<string dims, bit keeps = 1> {
  string method = "::llvm::SmallVector<int64_t> getRowDims() { return " # dims # "; }\n"
    # "bool keepsRowDims() { return " # !if(keeps, "true", "false") # "; }\n";
}

def NN_ReduceOp : NN_RuleOp<"reduce", [NN_Rows, NN_Infer, NN_Gradient, NN_SumOfProducts]> {
  let summary = "reduction over dimensions";
  let description = [{
    `result[i] = kind over dims of x[i, dims]`; the reduced dimensions are
    dropped. Floats accumulate in f32. An empty range gives the identity.

    ```mlir
    %r = nn.reduce sum %x dims [1] : (tensor<2x3xf32>) -> tensor<2xf32>
    ```

    C1: `dims` are distinct, ascending dimensions of `x`.
  }];
  let arguments = (ins NN_Tensor:$x, NN_ReduceKind:$kind, DenseI64ArrayAttr:$dims);
  let extraClassDeclaration = NN_RowDims<"::llvm::to_vector(getDims())", 0>.method;
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$kind $x `dims` $dims attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = NN_Cost<"Row", "operands[0].getNumElements()">.definition;
}

def NN_ArgReduceOp : NN_RuleOp<"arg_reduce", [NN_Rows, NN_Infer, NN_Gradient]> {
  let summary = "index of the largest or smallest element along a dimension";
  let description = [{
    `result[i] = the first (with last: the last) j that maximises (with min:
    minimises) x[i, j]`, as i64; the dimension is dropped. NaN is beyond every
    number.

    ```mlir
    %r = nn.arg_reduce %x dim 1 {min} : (tensor<2x3xf32>) -> tensor<2xi64>
    ```
  }];
  let arguments = (ins NN_Tensor:$x, I64Attr:$dim, UnitAttr:$min, UnitAttr:$last);
  let extraClassDeclaration = NN_RowDims<"{int64_t(getDim())}", 0>.method;
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$x `dim` $dim attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = NN_Cost<"Row", "operands[0].getNumElements()">.definition;
}

def NN_TopKOp : NN_RuleOp<"top_k", [NN_Infer, NN_Gradient]> {
  let summary = "indices of the largest or smallest elements of rows";
  let description = [{
    `result[a..., p]` is the index of the element of row `x[a..., :]` that is the
    `p`-th from the largest (with `smallest`: from the smallest) on, as i64. Of
    equal elements the one with the lower index comes first; NaN is larger than
    every number.

    ```mlir
    %r = nn.top_k 2 of %x : (tensor<4x8xf32>) -> tensor<4x2xi64>
    ```

    C1: `x` has a dimension, and `k` is at least 1 and at most the size of the last.
  }];
  let arguments = (ins NN_Tensor:$x, I64Attr:$k, UnitAttr:$smallest);
  let results = (outs StaticShapeTensorOf<[I64]>:$result);
  let assemblyFormat = "$k `of` $x attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = NN_Cost<"Row", "2 * operands[0].getNumElements()",
          "indexedLibraryWork(getX().getType())">.definition;
}

def NN_GreedySuppressOp : NN_RuleOp<"greedy_suppress", [NN_Infer, NN_Gradient]> {
  let summary = "boxes that no better one overlaps";
  let description = [{
    `boxes[a..., i, :]` is a box by two opposite corners, `y, x, y, x`, and
    `scores[a..., c, i]` its score in class `c`; where that is NaN the box is not
    looked at. For each class the boxes are taken from the highest score on, of
    equal scores the lower `i` first, and a box is kept unless more than
    `threshold` of its union with one that is kept is common to both, until
    `most` are kept or `count`. `result[a..., c, p]` is the `i` of the one that
    was kept as number `p`, and -1 behind the last. A box without area overlaps
    none. The areas are those of ONNX Runtime's NonMaxSuppression, in f32.
    Nothing is differentiated through the choice.

    ```mlir
    %r = nn.greedy_suppress 3 of %b, %s threshold %t most %m
        : (tensor<2x5x4xf32>, tensor<2x7x5xf32>, tensor<f32>, tensor<i64>) -> tensor<2x7x3xi64>
    ```

    C1: `boxes` are `[a..., n, 4]` and `scores` `[a..., c, n]`. C2: `count` is at
    least 1 and at most n.
  }];
  let arguments = (ins I64Attr:$count, StaticShapeTensorOf<[F32]>:$boxes, StaticShapeTensorOf<[F32]>:$scores,
                       0DTensorOf<[F32]>:$threshold, 0DTensorOf<[I64]>:$most);
  let results = (outs StaticShapeTensorOf<[I64]>:$result);
  let assemblyFormat = "$count `of` $boxes `,` $scores `threshold` $threshold `most` $most attr-dict `:` functional-type(operands, results)";
  // All are looked at once, and some are held against those that are kept.
  let extraClassDefinition = NN_Cost<"Row", "4 * operands[1].getNumElements() + 32 * results[0].getNumElements() * getCount()",
          "::kerf::LibraryWork::Call">.definition;
}

class NN_SoftmaxLike<string mnemonic, string formula>
    : NN_RuleOp<mnemonic, [NN_Rows, NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Softmax">.method # NN_RowDims<"{int64_t(getDim())}">.method;
  let summary = formula # " along a dimension";
  let description = "`result = " # formula # "`, along `dim`, in f32.\n\n```mlir\n%r = nn."
    # mnemonic # " %x dim 1 : tensor<2x3xf32>\n```\n\n"
    # "C1: `dim` is a dimension of `x`.";
  let arguments = (ins NN_Float:$x, I64Attr:$dim);
  let results = (outs NN_Float:$result);
  let assemblyFormat = "$x `dim` $dim attr-dict `:` custom<Types>(type($x), type($result))";
  let extraClassDefinition = NN_Cost<"Row", "14 * results[0].getNumElements()">.definition;
}

def NN_SoftmaxOp : NN_SoftmaxLike<"softmax", "exp(x - max) / sum exp(x - max)">;
def NN_LogSoftmaxOp : NN_SoftmaxLike<"log_softmax", "x - max - log sum exp(x - max)">;

// A normalization of rows over dimensions `dim` and up. `statistics`, C++ code, computes
// numbers once per row: besides the operations on elements, `s` has sum(f) and mean(f) over a
// row, with f a function of an element. `onRow` is an element of the result, an expression of
// x: x[0] is the operand's element, behind it are the statistics, then the elements of the
// other operands at this place in the row.
class NN_NormOp<string mnemonic, int cost>
    : NN_RuleOp<mnemonic, [NN_Rows, NN_Norm, NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  string statistics = "";
  string onRow = "";
  string interval = "::kerf::Interval::all()";
  let results = (outs NN_Float:$result);
  let extraClassDeclaration = NN_Role<"::kerf::OperandRole::Learned">.method
    # NN_RowDims<"dimsFrom(getX(), getDim())">.method # [{
    template <typename S> ::llvm::SmallVector<typename S::V, 2> statistics(S &s) {
      }] # statistics # [{
    }
    template <typename S>
    typename S::V onRow(S &s, ::llvm::ArrayRef<typename S::V> x) {
      return }] # onRow # [{;
    }
  }];
  let extraClassDefinition = [{
    ::mlir::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *, std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
        ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      Adaptor op(operands, attributes, properties, regions);
      return ::kerf::nn::inferRow(location, op.getX(), op.getDim(), operands.drop_front(), types);
    }
    ::kerf::ShardingRule $cppClass::getShardingRule() {
      return ::kerf::nn::normRule(getOperation(), getDim());
    }
    ::kerf::Interval $cppClass::getInterval(unsigned,
                                            [[maybe_unused]] ::llvm::ArrayRef<::kerf::Interval> x) {
      return }] # interval # [{;
    }
  }] # NN_Cost<"Row", "results[0].getNumElements() * " # cost>.definition;
}

def NN_LayerNormOp : NN_NormOp<"layer_norm", 8> {
  let summary = "normalization over the trailing dimensions";
  let description = [{
    `result = (x - mean) / sqrt(var + epsilon) * scale + bias`, mean and variance
    over dimensions `dim` and up, in f32; `scale` and `bias` have the shape of
    those dimensions.

    ```mlir
    %r = nn.layer_norm %x, %s, %b dim 1 epsilon 1.0e-05 : tensor<2x3xf32>, tensor<3xf32>
    ```

    C1: `dim` is a dimension of `x`. C2: `scale` and `bias` have the trailing shape.
  }];
  let arguments = (ins NN_Float:$x, NN_Float:$scale, NN_Float:$bias, I64Attr:$dim,
                       F64Attr:$epsilon);
  let statistics = [{
      auto mean = s.mean([&](auto x) { return x; });
      auto variance = s.mean([&](auto x) {
        auto d = s.sub(x, mean);
        return s.mul(d, d);
      });
      return {mean, inverseRoot(s, variance, getEpsilon().convertToDouble())};}];
  let onRow = "s.mulAdd(s.mul(s.sub(x[0], x[1]), x[2]), x[3], x[4])";
  let interval = "normalized(getX(), int64_t(getDim()), getEpsilon().convertToDouble(), x[1], x[2])";
  let assemblyFormat = [{
    $x `,` $scale `,` $bias `dim` $dim `epsilon` custom<Single>($epsilon) attr-dict
    `:` custom<RowTypes>(type($x), type($scale), type($bias), type($result))
  }];
}

def NN_RMSNormOp : NN_NormOp<"rms_norm", 5> {
  let summary = "root-mean-square normalization over the trailing dimensions";
  let description = [{
    `result = x / sqrt(mean(x^2) + epsilon) * scale`, the mean over dimensions
    `dim` and up, in f32.

    ```mlir
    %r = nn.rms_norm %x, %s dim 1 epsilon 1.0e-05 : tensor<2x3xf32>, tensor<3xf32>
    ```

    C1: `dim` is a dimension of `x`. C2: `scale` has the trailing shape.
  }];
  let arguments = (ins NN_Float:$x, NN_Float:$scale, I64Attr:$dim, F64Attr:$epsilon);
  let statistics = [{
      auto square = s.mean([&](auto x) { return s.mul(x, x); });
      return {inverseRoot(s, square, getEpsilon().convertToDouble())};}];
  let onRow = "s.mul(s.mul(x[0], x[1]), x[2])";
  let interval = "normalized(getX(), int64_t(getDim()), getEpsilon().convertToDouble(), x[1], "
                 "::kerf::Interval::of(0))";
  let assemblyFormat = [{
    $x `,` $scale `dim` $dim `epsilon` custom<Single>($epsilon) attr-dict
    `:` custom<RowTypes>(type($x), type($scale), type($result))
  }];
}

def NN_LpNormOp : NN_NormOp<"lp_norm", 4> {
  let summary = "rows divided by their norm";
  let description = [{
    `result = x / norm`, where the norm of dimensions `dim` and up is the root of
    the sum of squares, or with `absolute` the sum of magnitudes, in f32. A row of
    zeros stays, and has no gradient.

    ```mlir
    %r = nn.lp_norm %x dim 1 : tensor<2x3xf32>
    ```

    C1: `dim` is a dimension of `x`.
  }];
  let arguments = (ins NN_Float:$x, I64Attr:$dim, UnitAttr:$absolute);
  let statistics = [{
      auto sum = s.sum([&](auto x) { return getAbsolute() ? s.abs(x) : s.mul(x, x); });
      auto norm = getAbsolute() ? sum : s.sqrt(sum);
      return {s.select(s.equal(norm, s.number(0)), s.number(1), norm)};}];
  let onRow = "s.div(x[0], x[1])";
  let assemblyFormat = "$x `dim` $dim attr-dict `:` custom<Types>(type($x), type($result))";
}

def NN_BatchNormOp : NN_RuleOp<"batch_norm", [NN_Kernel<"Elementwise">, NN_Infer, NN_Gradient, Kerf_OperandRoleInterface]> {
  let summary = "normalization per channel by given statistics";
  let description = [{
    `result[..., c] = (x[..., c] - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c]`;
    the channel is the last dimension. `momentum` is what training keeps of the
    old running statistics in each step (ONNX's, one minus PyTorch's).

    ```mlir
    %r = nn.batch_norm %x, %s, %b, %m, %v epsilon 1.0e-05 : tensor<1x8x8x3xf32>, tensor<3xf32>
    ```

    C1: `scale`, `bias`, `mean` and `variance` have the size of the last dimension.
  }];
  let arguments = (ins NN_Float:$x, NN_Float:$scale, NN_Float:$bias, NN_Float:$mean,
                       NN_Float:$variance, F64Attr:$epsilon,
                       DefaultValuedAttr<F64Attr, "0.9f">:$momentum);
  let extraClassDeclaration = NN_Role<"operand < 3 ? ::kerf::OperandRole::Learned : ::kerf::OperandRole::Statistic">.method;
  let results = (outs NN_Float:$result);
  let assemblyFormat = [{
    $x `,` $scale `,` $bias `,` $mean `,` $variance `epsilon` custom<Single>($epsilon)
    (`momentum` custom<Single>($momentum)^)? attr-dict
    `:` custom<RowTypes>(type($x), type($scale), type($bias), type($mean), type($variance), type($result))
  }];
  let extraClassDefinition = NN_Cost<"Elementwise", "2 * results[0].getNumElements()",
          "::kerf::LibraryWork::None", "EpilogueStep::Normalize">.definition;
}

def NN_LRNOp : NN_RuleOp<"lrn", [NN_Kernel<"Window">, NN_Infer, NN_Gradient]> {
  let summary = "local response normalization across channels";
  let description = [{
    `result[..., c] = x[..., c] / (bias + alpha / size * s)^beta` where `s` sums
    the squares of channels `c - floor((size-1)/2)` to `c + ceil((size-1)/2)`;
    the channel is the last dimension.

    ```mlir
    %r = nn.lrn %x size 5 alpha 1.0e-04 beta 0.75 bias 1.0 : tensor<1x8x8x16xf32>
    ```

    C1: `size` is positive.
  }];
  let arguments = (ins NN_Float:$x, I64Attr:$size, F64Attr:$alpha, F64Attr:$beta, F64Attr:$bias);
  let results = (outs NN_Float:$result);
  let assemblyFormat = [{
    $x `size` $size `alpha` custom<Single>($alpha) `beta` custom<Single>($beta) `bias` custom<Single>($bias) attr-dict
    `:` custom<Types>(type($x), type($result))
  }];
  let extraClassDefinition = NN_Cost<"Row", "(2 * int64_t(getSize()) + 20) * results[0].getNumElements()">.definition;
}

#endif // KERF_NN_ROWS_TD
