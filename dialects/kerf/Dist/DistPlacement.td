//===- DistPlacement.td - mesh, reshard, mask, index -------*- tablegen -*-===//
#ifndef KERF_DIST_PLACEMENT_TD
#define KERF_DIST_PLACEMENT_TD

include "kerf/Dist/DistBase.td"
include "kerf/Interfaces/Interfaces.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_Tensor : StaticShapeTensorOf<[AnyType]>;

def Dist_MeshOp : Op<Dist_Dialect, "mesh", [Symbol]> {
  let summary = "the devices of the module, as a grid with named axes";
  let description = [{
    Ranks are the points of the grid in row-major order, the first axis
    outermost. Axes after `time` are micro-batches: they cut dimensions into
    parts that are computed one after another.

    ```mlir
    dist.mesh @mesh ["pp"=2, "dp"=2, "tp"=2] time ["mb"=4]

    //       tp=0 tp=1            tp=0 tp=1
    //  dp=0 [ 0    1 ]      dp=0 [ 4    5 ]
    //  dp=1 [ 2    3 ]      dp=1 [ 6    7 ]
    //        pp=0                 pp=1
    ```

    C1: names are distinct and not empty. C2: sizes are at least 1. C3: a module
    has one mesh.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Dist_MeshAttr:$mesh);
  let assemblyFormat = "$sym_name $mesh attr-dict";
  let hasVerifier = 1;
}

def Dist_ReshardOp : Op<Dist_Dialect, "reshard", [Pure,
    DeclareOpInterfaceMethods<Kerf_IntervalInterface>]> {
  let summary = "the same tensor, placed otherwise";
  let description = [{
    In a planned function operand and result have the same global type, and the
    sharding of the operand is that of its producer:

    ```mlir
    %r = dist.reshard %x to <{"tp"}, {}> : tensor<6x4xf32>
    ```

    On local shapes the op names both ends and the global type; `kerf-lower-reshards`
    turns it into collectives:

    ```mlir
    %r = dist.reshard %x from <{}, {}, partial sum {"tp"}> to <{"tp"}, {}>
       of tensor<6x4xf32> : tensor<6x4xf32> -> tensor<3x4xf32>
    ```

    C1: with `from`, also `of`, and both types are the local ones of the
    shardings. C2: without, operand and result types agree. C3: `to` is partial
    only over axes over which `from` is.
  }];
  let arguments = (ins Dist_Tensor:$x, OptionalAttr<Dist_ShardingAttr>:$from,
                       Dist_ShardingAttr:$to, OptionalAttr<TypeAttr>:$global,
                       OptionalAttr<Dist_PurposeAttr>:$purpose);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    $x (`from` $from^)? `to` $to (`of` $global^)? (`purpose` `` $purpose^)? attr-dict
    `:` custom<SameOrFunctional>(type($x), type($result))
  }];
  let hasVerifier = 1;
}

def Dist_MaskOp : Op<Dist_Dialect, "mask", [Pure, AllTypesMatch<["x", "result"]>]> {
  let summary = "replaces padding by a given value";
  let description = [{
    Dimension `dim` is part `i` (this rank's position over `axes`) of a global
    dimension of `size` elements:

    `result[..., j, ...] = x[..., j, ...]` where `i*n + j < size`, else `fill`,

    with n the local size of `dim`. No communication.

    ```mlir
    // 5 columns over 2 ranks of 3: the second has 2.
    %r = dist.mask %x dim 1 size 5 over ["tp"] fill 0.0 : f32 : tensor<2x3xf32>

    //    rank 0: a b c      rank 1: d e 0
    ```

    C1: `dim` is a dimension of `x`. C2: it holds `size` in the n parts of
    `axes`: it is `ceil(size/n)`, or more but less than `size`. C3: `fill` has the element type.
  }];
  let arguments = (ins Dist_Tensor:$x, I64Attr:$dim, I64Attr:$size,
                       Dist_AxesAttr:$axes, TypedAttrInterface:$fill);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    $x `dim` custom<Int>($dim) `size` custom<Int>($size) `over` $axes `fill` $fill attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Dist_ShardIndexOp : Op<Dist_Dialect, "shard_index", [Pure]> {
  let summary = "this rank's position over some axes";
  let description = [{
    `result = scale * position`, the position being the mixed-radix number of the
    rank's coordinates on `axes`, first axis most significant. With the size of a
    part as `scale` it is the global index at which the rank's part begins.
    Axes in time count with the micro-batch that is computed.

    ```mlir
    %offset = dist.shard_index ["tp"] scale 3 : tensor<i64>
    ```

    C1: the axes are in the mesh.
  }];
  let arguments = (ins Dist_AxesAttr:$axes, DefaultValuedAttr<I64Attr, "1">:$scale);
  let results = (outs StaticShapeTensorOf<[I64]>:$result);
  let assemblyFormat = "$axes `scale` custom<Int>($scale) attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // KERF_DIST_PLACEMENT_TD
