//===- DistBase.td - the dist dialect ----------------------*- tablegen -*-===//
#ifndef KERF_DIST_BASE_TD
#define KERF_DIST_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::kerf::dist";
  let summary = "where tensors lie: meshes, shardings, collectives, stages";
  let description = [{
    A module has one `dist.mesh` with named axes. Before partitioning, shardings
    stand as attributes on ops, arguments and results:

    | attribute | on | meaning |
    |---|---|---|
    | `dist.sharding` | function arguments, function results | `#dist.sharding` |
    | `dist.plan` | every op | `#dist.plan<...>`: a sharding per operand and result, the pipeline stage and its chunk |
    | `dist.step` | ops of a training step | `#dist.step<...>`: phase, colocation, purpose, loss, recomputed |
    | `dist.local_reduction` | ops of a training step | `#dist<reach micro_batch>`: what the op reduces over axes in time is not summed up, the result is of the micro-batch at hand; `#dist<reach device>`: neither is what it reduces over any axis (BatchNorm's statistics) |
    | `dist.schedule_kind` | the module of a training step | `#dist<schedule_kind gpipe>` (all forward, then all backward) or `one_f_one_b` (one forward, one backward, in turn), or `interleaved` (the same of several chunks in each stage) |
    | `dist.chunks` | the module of a training step, with `interleaved` | a number of at least 2: chunks of the model that each stage holds |
    | `dist.priority` | arguments, results and ops with a sharding | a number, or `array<i64: ...>` of one for each dimension (not beside a `dist.plan`): `kerf-propagate` lets annotations with smaller ones spread first; without it 0 |
    | `dist.axes` | `shard.grid` | names of its axes (`kerf-dist-to-shard`) |

    After partitioning, types are local and values move through collectives.
    What is left on ops is `dist.sharding` and `dist.global_type` on sources
    (weights) and inputs of a schedule, from which a package knows what each
    rank holds, and of their `dist.step` the phase and whether they are
    recomputed. A stage's function has
    `dist.part`, its arguments and results `dist.sharding`, `dist.global_type`
    and

    | attribute | on | meaning |
    |---|---|---|
    | `dist.from` | arguments | `#dist.from<...>`: the model's input, the channel or the kept value that it is, or the result that is the sum of this argument and what a micro-batch adds |
    | `dist.to` | results | `#dist.to<...>`: the model's outputs, the channels, the kept values that it becomes |

    An attribute with the prefix `dist.` that is not listed here, or stands
    where it has no meaning, is an error. See docs/Partition.md.

    **Parts.** A dimension of size D cut n ways lies in contiguous blocks of
    `ceil(D/n)`, or of the larger size that a sharding names; part `i` of blocks
    of `b` starts at `i*b` and what lies past `D` is padding of unspecified
    content: every op that would read it is masked.
  }];
  let dependentDialects = ["::kerf::KerfDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Dist_Attr<string name, string attrMnemonic> : AttrDef<Dist_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Dist_AxisAttr : Dist_Attr<"Axis", "axis"> {
  let summary = "a mesh axis or a part of one";
  let description = [{
    `"x"` is the whole axis; `"x":(p)s` the sub-axis of size `s` that has `p`
    values before it: with n the size of x, the digit `(c / (n/(p s))) mod s` of
    the coordinate c.
    Written `#dist<axis "x":(1)2>`; inside shardings and ops just `"x":(1)2`.
  }];
  // A size of 0 stands for the whole axis.
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$preSize, "int64_t":$size);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{ bool isWhole() const { return getSize() == 0; } }];
}

def Dist_AxesAttr : Dist_Attr<"Axes", "axes"> {
  let summary = "a list of axes, major to minor";
  let description = [{
    The group over which a collective runs. A rank's position in the group is
    the mixed-radix number of its coordinates, first axis most significant.
    Written `["dp", "x":(1)2]` in ops.
  }];
  let parameters = (ins OptionalArrayRefParameter<"::kerf::dist::AxisAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
}

def Dist_MeshAttr : Dist_Attr<"Mesh", "mesh_shape"> {
  let summary = "named axes and their sizes";
  let description = [{
    `["pp"=2, "tp"=4]`: ranks are the points of the grid in row-major order,
    first axis outermost. `time ["mb"=4]` adds axes in time: micro-batches.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes,
                        "int64_t":$numTimeAxes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The same as plain data.
    ::kerf::dist::Mesh toMesh() const;
    static MeshAttr get(::mlir::MLIRContext *context, const ::kerf::dist::Mesh &mesh);
  }];
}

def Dist_ShardingAttr : Dist_Attr<"Sharding", "sharding"> {
  let summary = "where the parts of a tensor lie";
  let description = [{
    For each dimension the axes that cut it, major to minor; and the axes over
    which the tensor is an unreduced partial result, with the reduction.

    ```mlir
    #dist.sharding<{"dp"}, {}>                      // rows over dp
    #dist.sharding<{"dp", "tp":(1)2}, {"tp":(2)2}>  // sub-axes
    #dist.sharding<{}, {"tp"}:128>                  // columns in blocks of 128
    #dist.sharding<{}, {}, partial sum {"tp"}>      // sum over tp is missing
    ```

    `:b` behind the axes of a dimension of size D lets it lie in blocks of b
    elements instead of `ceil(D/n)`: with n = 8, 768 columns in blocks of 128 are
    two heads of 64 columns on each of six ranks, and nothing on the last two.

    C1: every axis is in the mesh, every sub-axis divides. C2: no part of an axis
    is used twice. C3: as many dimensions as the tensor. C4: `ceil(D/n) < b < D`:
    blocks of ceiling size are not named. (Checked where it is attached to an
    op.)
  }];
  let parameters = (ins OptionalArrayRefParameter<"::kerf::dist::AxesAttr">:$dims,
                        "::kerf::dist::AxesAttr":$partial,
                        "::kerf::ReductionKind":$reduction,
                        OptionalArrayRefParameter<"int64_t">:$blocks);
  let hasCustomAssemblyFormat = 1;
  let builders = [AttrBuilder<(ins "::kerf::dist::MeshAttr":$mesh,
                                   "const ::kerf::dist::Layout &":$layout)>];
  let extraClassDeclaration = [{
    bool isPartial() const { return !getPartial().getAxes().empty(); }
    /// Size of the blocks of a dimension; 0: ceil(D/n).
    int64_t getBlock(size_t dim) const { return getBlocks().empty() ? 0 : getBlocks()[dim]; }
    /// The same as plain data, canonical. An error text if it does not fit.
    ::llvm::Expected<::kerf::dist::Layout> toLayout(const ::kerf::dist::Mesh &mesh) const;
  }];
}

def Dist_ReductionAttr : Dist_Attr<"Reduction", "reduction"> {
  let summary = "sum, max, min or prod";
  let parameters = (ins "::kerf::ReductionKind":$value);
  let hasCustomAssemblyFormat = 1;
}

def Dist_Purpose : I32EnumAttr<"Purpose", "what a collective moves", [
    I32EnumAttrCase<"Gradient", 0, "gradient">,
    I32EnumAttrCase<"Activation", 1, "activation">,
    I32EnumAttrCase<"Parameter", 2, "parameter">,
    I32EnumAttrCase<"Statistics", 3, "statistics">,
    I32EnumAttrCase<"Control", 4, "control">]> {
  let cppNamespace = "::kerf::dist";
  let genSpecializedAttr = 0;
}
def Dist_PurposeAttr : EnumAttr<Dist_Dialect, Dist_Purpose, "purpose"> {
  let assemblyFormat = "$value";
}

def Dist_Phase : I32EnumAttr<"Phase", "part of a step", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"BackwardInput", 1, "backward_input">,
    I32EnumAttrCase<"BackwardWeight", 2, "backward_weight">,
    I32EnumAttrCase<"Update", 3, "update">,
    I32EnumAttrCase<"Prologue", 4, "prologue">]> {
  let cppNamespace = "::kerf::dist";
  let genSpecializedAttr = 0;
}
def Dist_PhaseAttr : EnumAttr<Dist_Dialect, Dist_Phase, "phase"> {
  let summary = "part of a step";
  let description = [{
    `prologue` runs once per step before the first micro-batch, `update` once
    after the last; `forward`, `backward_input` (towards the gradients of
    activations) and `backward_weight` (gradients of parameters alone) run once
    per micro-batch. See docs/Training.md.
  }];
  let assemblyFormat = "$value";
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Dist_PendingType : TypeDef<Dist_Dialect, "Pending"> {
  let mnemonic = "pending";
  let summary = "a tensor that a started collective will write";
  let description = "Only `dist.wait` turns it into the tensor.";
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

#endif // KERF_DIST_BASE_TD
