//===- ExecProgram.td - functions, kernels, stages ---------*- tablegen -*-===//
#ifndef KERF_EXEC_PROGRAM_TD
#define KERF_EXEC_PROGRAM_TD

include "kerf/Exec/ExecBase.td"

class Exec_FunctionOp<string mnemonic> : Exec_Op<mnemonic, [
    FunctionOpInterface, IsolatedFromAbove, HasParent<"::mlir::ModuleOp">]> {
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  string functionDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Exec_KernelOp : Exec_FunctionOp<"kernel"> {
  let summary = "a group of tensor ops that becomes one generated kernel";
  let description = [{
    The results are the yielded values. Compiled to
    `void k(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end)`
    where `buffers` are the arguments, then the results, and `[begin, end)` is a
    range of the kernel's outermost parallel loop. Code generation fills `count`,
    the iterations of that loop, and `grain`, the fewest that are worth a thread.
    `index` is the entry of the manifest's `kernels`, `node` what the trace shows;
    in a training step the attribute `phase` says which part of it, too.

    ```mlir
    exec.kernel @add_relu(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32>
        attributes {index = 0 : i64, node = "/relu"} {
      %0 = nn.add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
      %1 = nn.relu %0 : tensor<2x3xf32>
      exec.yield %1 : tensor<2x3xf32>
    }
    ```

    C1: arguments and results are ranked tensors of static shape. C2: the body is
    one block of ops without side effects and regions, all of one dialect other
    than exec, and `exec.yield`. C3: the yielded types are the result types.
    C4: at least one result. C5: `count` and `grain` are given together, `grain`
    is positive.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       I64Attr:$index, StrAttr:$node,
                       OptionalAttr<I64Attr>:$count, OptionalAttr<I64Attr>:$grain);
  let extraClassDeclaration = functionDeclaration # [{
    /// The op at the end of the body: its operands are the results.
    ::mlir::Operation *getYield() { return getBody().front().getTerminator(); }
  }];
}

def Exec_FuncOp : Exec_FunctionOp<"func"> {
  let summary = "one function of program.so, on buffers";
  let description = [{
    A list of calls. The arguments are the boundary buffers: the first
    `num_inputs` are read, the rest are written; a sum over micro-batches comes in
    and goes out in one buffer. `scratch` is the
    number of bytes of scratch memory in which the `exec.arena` buffers lie;
    absent until arenas are planned. The argument attribute `kerf.name` names a
    boundary buffer. An `init` function runs once at load and writes the
    parameters that are computed from others: the k-th written buffer is the
    parameter with index `derived[k]`.

    ```mlir
    exec.func @stage0_forward(%x: memref<2x3xf32>, %y: memref<2x3xf32>)
        attributes {num_inputs = 1 : i64, scratch = 0 : i64, stage = 0 : i64, phase = "forward"} {
      %b = exec.param 0 : memref<3xf32>
      exec.launch @add_relu(%x, %b) -> (%y) : (memref<2x3xf32>, memref<3xf32>) -> memref<2x3xf32>
      exec.return
    }
    ```

    C1: the arguments are buffers, there are no results. C2: `num_inputs` is
    at most the number of arguments. C3: with `scratch`, every `exec.arena` has
    an offset and ends within it. C4: `phase` is one of init, prologue,
    forward, backward, update; `derived` is given for init alone, one index per
    argument.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       I64Attr:$num_inputs, I64Attr:$stage, StrAttr:$phase,
                       OptionalAttr<I64Attr>:$scratch,
                       OptionalAttr<DenseI64ArrayAttr>:$derived);
  let extraClassDeclaration = functionDeclaration;
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "the results of a kernel";
  let description = [{
    ```mlir
    exec.kernel @relu(%x: tensor<3xf32>) -> tensor<3xf32> attributes {index = 0 : i64, node = "/relu"} {
      %0 = nn.relu %x : tensor<3xf32>
      exec.yield %0 : tensor<3xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Exec_ReturnOp : Exec_Op<"return", [Terminator, HasParent<"FuncOp">]> {
  let summary = "the end of a function";
  let description = [{
    ```mlir
    exec.func @nothing(%x: memref<3xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = "forward"} {
      exec.return
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Exec_ParameterOp : Exec_Op<"parameter", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "an entry of the manifest's parameters";
  let description = [{
    Parameter number `index`: where it comes from (`entry`, keys as in
    `docs/Package.md`: `tensor`, `splat` or `derived`, `view`, `sharding`,
    `stages`, `library_only`, `mutable`) and the type of one rank's part. The stored bytes
    of a `tensor` are `data` (a literal) or those of a file (`file`, `offset`,
    `length`, `stored` as on `nn.weight`).

    ```mlir
    exec.parameter 0 "fc.weight" {tensor = "fc.weight", global_shape = [4, 3], sharding = [[], []]}
        : memref<4x3xf32> source {file = 0 : i64, offset = 64 : i64, length = 48 : i64, stored = tensor<4x3xf32>}
    ```

    C1: exactly one of `tensor`, `splat` and `derived`; with `tensor` a source.
    C2: what is `mutable` is neither `derived` nor `library_only`.
  }];
  let arguments = (ins I64Attr:$index, StrAttr:$name, DictionaryAttr:$entry,
                       TypeAttrOf<Exec_Buffer>:$type, OptionalAttr<DictionaryAttr>:$source);
  let assemblyFormat = "$index $name $entry `:` $type (`source` $source^)? attr-dict";
  let hasVerifier = 1;
}

def Exec_StageOp : Exec_Op<"stage", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "an entry of the manifest's stages: slots and instructions";
  let description = [{
    What the ranks of stage `index` do in one step. `slots` and `instructions`
    are as in `docs/Package.md`, with symbols of `exec.func` in place of function
    numbers. Slots lie at `offset` in the arena once it is planned; `arena` is
    its size, `scratch_offset` the place of the functions' scratch memory.

    ```mlir
    exec.stage 0 slots [{name = "x", bytes = 24 : i64}, {name = "y", bytes = 24 : i64} ]
      instructions [{input = 0 : i64, slot = 0 : i64, micro_batch = 0 : i64},
        {run = @stage0_forward, micro_batch = 0 : i64, slots = [0, 1]},
        {output = 0 : i64, slot = 1 : i64, micro_batch = 0 : i64} ]
    ```

    C1: slots that instructions name exist.
  }];
  let arguments = (ins I64Attr:$index, ArrayAttr:$slots, ArrayAttr:$instructions,
                       OptionalAttr<I64Attr>:$arena, OptionalAttr<I64Attr>:$scratch_offset);
  let assemblyFormat = "$index `slots` $slots `instructions` $instructions attr-dict";
  let hasVerifier = 1;
}

#endif // KERF_EXEC_PROGRAM_TD
