//===- DistCollectives.td - ops in which ranks exchange data -*- tablegen -*-===//
//
// All on local tensors. N = ranks in the group, i = a rank's position in it,
// |x| = bytes of a local tensor.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_COLLECTIVES_TD
#define KERF_DIST_COLLECTIVES_TD

include "kerf/Dist/DistCollectiveKind.td"
include "kerf/Dist/DistPlacement.td"
include "kerf/Dist/DistInterfaces.td"

def Dist_Result : AnyTypeOf<[Dist_Tensor, Dist_PendingType]>;

class Dist_CollectiveOp<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, !listconcat(traits, [Pure,
        DeclareOpInterfaceMethods<Dist_CollectiveOpInterface,
                                  ["getGroupBytes", "getBufferBytes"]>])> {
  let results = (outs Dist_Result:$result);
  let hasVerifier = 1;
  // What its arguments must be follows from its kind, as do its bytes.
  dag common = (ins OptionalAttr<Dist_PurposeAttr>:$purpose,
                    OptionalAttr<Dist_PhaseAttr>:$phase);
  string tail = [{ (`purpose` `` $purpose^)? (`phase` `` $phase^)? attr-dict
                   `:` type($x) `->` type($result)}];
  code asItsKind = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return ::kerf::dist::verifyCollective(getOperation());
    }
    int64_t $cppClass::getGroupBytes(int64_t n) {
      return ::kerf::dist::collectiveGroupBytes(getOperation(), n);
    }
    int64_t $cppClass::getBufferBytes(int64_t n) {
      return ::kerf::dist::collectiveBufferBytes(getOperation(), n);
    }
  }];
  let extraClassDefinition = asItsKind;
}

def Dist_AllReduceOp : Dist_CollectiveOp<"all_reduce"> {
  let summary = "the reduction of all ranks' tensors, on every rank";
  let description = [{
    `result_i = reduction over r of x_r`. Bytes: `2(N-1)|x|` in the group,
    `2(N-1)/N |x|` per rank.

    ```mlir
    %r = dist.all_reduce %x sum ["tp"] : tensor<2x3xf32> -> tensor<2x3xf32>

    //  rank 0: a      rank 0: a+b
    //  rank 1: b  ->  rank 1: a+b
    ```

    C1: axes are in the mesh, in space. C2: result and operand types agree.
  }];
  let arguments = !con((ins Dist_Tensor:$x, Dist_ReductionAttr:$reduction,
                            Dist_AxesAttr:$axes), common);
  let assemblyFormat = "$x `` $reduction $axes" # tail;
  let hasFolder = 1;
}

def Dist_ReduceScatterOp : Dist_CollectiveOp<"reduce_scatter"> {
  let summary = "each rank's part of the reduction";
  let description = [{
    `result_i = part i along dim of (reduction over r of x_r)`; the last parts are
    filled with zeros where N does not divide. Bytes: `(N-1) N |result|` in the
    group, `(N-1)|result|` per rank.

    ```mlir
    %r = dist.reduce_scatter %x sum ["tp"] dim 0 : tensor<4x3xf32> -> tensor<2x3xf32>

    //  rank 0: a b      rank 0: a+c
    //  rank 1: c d  ->  rank 1: b+d
    ```

    C1: axes are in the mesh, in space. C2: `dim` is a dimension. C3: the
    result's `dim` is a part of `size`: `ceil(size/N)`, or more but less than
    `size`; all else agrees.
  }];
  let arguments = !con((ins Dist_Tensor:$x, Dist_ReductionAttr:$reduction,
                            Dist_AxesAttr:$axes, I64Attr:$dim), common);
  let assemblyFormat = "$x `` $reduction $axes `dim` custom<Int>($dim)" # tail;
}

def Dist_AllGatherOp : Dist_CollectiveOp<"all_gather"> {
  let summary = "all ranks' parts side by side";
  let description = [{
    `result = x_0, x_1, ... along dim`; what lies past the end of the result is
    dropped. Bytes: `(N-1) N |x|` in the group, `(N-1)|x|` per rank.

    ```mlir
    %r = dist.all_gather %x ["tp"] dim 0 : tensor<2x3xf32> -> tensor<4x3xf32>

    //  rank 0: a      rank 0: a b
    //  rank 1: b  ->  rank 1: a b
    ```

    C1: axes are in the mesh, in space. C2: `dim` is a dimension. C3: the
    operand's `dim` is a part of the result's (reduce_scatter C3), all else agrees.
  }];
  let arguments = !con((ins Dist_Tensor:$x, Dist_AxesAttr:$axes, I64Attr:$dim), common);
  let assemblyFormat = "$x $axes `dim` custom<Int>($dim)" # tail;
}

def Dist_AllSliceOp : Op<Dist_Dialect, "all_slice", [Pure]> {
  let summary = "each rank's part of a tensor that all have; no communication";
  let description = [{
    `result_i = part i along dim of x`, zeros past its end. The inverse of
    all_gather. Nothing moves.

    ```mlir
    %r = dist.all_slice %x ["tp"] dim 0 : tensor<4x3xf32> -> tensor<2x3xf32>

    //  rank 0: a b      rank 0: a
    //  rank 1: a b  ->  rank 1: b
    ```

    C1: axes are in the mesh. C2: `dim` is a dimension. C3: the result's `dim`
    is a part of `size` (reduce_scatter C3), all else agrees.
  }];
  let arguments = (ins Dist_Tensor:$x, Dist_AxesAttr:$axes, I64Attr:$dim);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$x $axes `dim` custom<Int>($dim) attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}

def Dist_AllToAllOp : Dist_CollectiveOp<"all_to_all"> {
  let summary = "cuts one dimension, joins another";
  let description = [{
    `result_i = part i along split of x_0, x_1, ..., side by side along concat`:
    the axes move from dimension `concat` to dimension `split`. What lies past the
    end of either is zero or dropped. Bytes with |p| a part of x along `split`:
    `(N-1) N |p|` in the group, `(N-1)|p|` per rank.

    ```mlir
    %r = dist.all_to_all %x ["tp"] split 0 concat 1 : tensor<4x3xf32> -> tensor<2x6xf32>

    //  rank 0: a      rank 0: a c
    //          b
    //  rank 1: c  ->  rank 1: b d
    //          d
    ```

    C1: axes are in the mesh, in space. C2: `split` and `concat` are two
    dimensions. C3: the result's `split` is a part of the operand's, the
    operand's `concat` one of the result's (reduce_scatter C3), all else agrees.
  }];
  let arguments = !con((ins Dist_Tensor:$x, Dist_AxesAttr:$axes, I64Attr:$split,
                            I64Attr:$concat), common);
  let assemblyFormat = "$x $axes `split` custom<Int>($split) `concat` custom<Int>($concat)" # tail;
}

def Dist_BroadcastOp : Dist_CollectiveOp<"broadcast"> {
  let summary = "one rank's tensor, on every rank";
  let description = [{
    `result_i = x_root`. Bytes: `(N-1)|x|` in the group.

    ```mlir
    %r = dist.broadcast %x ["dp"] root 0 : tensor<2x3xf32> -> tensor<2x3xf32>

    //  rank 0: a      rank 0: a
    //  rank 1: -  ->  rank 1: a
    ```

    C1: axes are in the mesh, in space. C2: `root` is a position in the group.
    C3: result and operand types agree.
  }];
  let arguments = !con((ins Dist_Tensor:$x, Dist_AxesAttr:$axes, I64Attr:$root), common);
  let assemblyFormat = "$x $axes `root` custom<Int>($root)" # tail;
}

def Dist_PermuteOp : Dist_CollectiveOp<"permute"> {
  let summary = "hands whole tensors on from rank to rank";
  let description = [{
    `result_t = x_s` for each pair (s, t); zeros on a rank that no pair names as
    target. `pairs` is flat: s0, t0, s1, t1, ... Bytes: `|x|` for each pair with
    s != t.

    ```mlir
    %r = dist.permute %x ["tp"] pairs [0, 1, 1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>

    //  rank 0: a      rank 0: b
    //  rank 1: b  ->  rank 1: a
    ```

    C1: axes are in the mesh, in space. C2: `pairs` holds positions of the group,
    each at most once on either side. C3: result and operand types agree.
  }];
  let arguments = !con((ins Dist_Tensor:$x, Dist_AxesAttr:$axes,
                            DenseI64ArrayAttr:$pairs), common);
  let assemblyFormat = "$x $axes `pairs` $pairs" # tail;
}

def Dist_WaitOp : Op<Dist_Dialect, "wait", [Pure,
    TypesMatchWith<"the result is what is pending", "pending", "result",
                   "::kerf::dist::tensorOf($_self)">]> {
  let summary = "the result of a started collective";
  let description = [{
    A collective whose result is `!dist.pending` is only started; until the wait
    its source must stay and its result cannot be read.

    ```mlir
    %p = dist.all_reduce %x sum ["tp"] : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
    // work that needs neither
    %r = dist.wait %p : !dist.pending<tensor<4xf32>>
    ```

    C1: a started collective is waited for once.
  }];
  let arguments = (ins Dist_PendingType:$pending);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$pending attr-dict `:` qualified(type($pending))";
  let builders = [OpBuilder<(ins "::mlir::Value":$pending), [{
    build($_builder, $_state, tensorOf(pending.getType()), pending);
  }]>];
  let hasVerifier = 1;
}

def Dist_PackOp : Op<Dist_Dialect, "pack", [Pure]> {
  let summary = "tensors one after another in one buffer; no communication";
  let description = [{
    `result` holds the elements of all operands in row-major order, one operand
    after another: several small collectives become one.

    ```mlir
    %p = dist.pack %a, %b : tensor<2x3xf32>, tensor<4xf32> -> tensor<10xf32>
    ```

    C1: one element type. C2: the result has as many elements as all operands.
  }];
  let arguments = (ins Variadic<Dist_Tensor>:$inputs);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
}

def Dist_UnpackOp : Op<Dist_Dialect, "unpack", [Pure]> {
  let summary = "takes a packed buffer apart; no communication";
  let description = [{
    The inverse of `dist.pack`.

    ```mlir
    %a, %b = dist.unpack %p : tensor<10xf32> -> tensor<2x3xf32>, tensor<4xf32>
    ```

    C1: one element type. C2: the operand has as many elements as all results.
  }];
  let arguments = (ins Dist_Tensor:$x);
  let results = (outs Variadic<Dist_Tensor>:$outputs);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($outputs)";
  let hasVerifier = 1;
}

#endif // KERF_DIST_COLLECTIVES_TD
