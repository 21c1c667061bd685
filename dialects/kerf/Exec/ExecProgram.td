//===- ExecProgram.td - functions, kernels, stages ---------*- tablegen -*-===//
#ifndef KERF_EXEC_PROGRAM_TD
#define KERF_EXEC_PROGRAM_TD

include "kerf/Exec/ExecAttributes.td"

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
    `index` is the entry of the manifest's `kernels`; `node`, and in a training
    step `phase`, are its names in traces; `cuda` says how its GPU code is
    launched.

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
                       OptionalAttr<I64Attr>:$count, OptionalAttr<I64Attr>:$grain,
                       OptionalAttr<Exec_PhaseAttr>:$phase,
                       OptionalAttr<Exec_GpuKernelAttr>:$cuda);
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
        attributes {num_inputs = 1 : i64, scratch = 0 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
      %b = exec.param 0 : memref<3xf32>
      exec.launch @add_relu(%x, %b) -> (%y) : (memref<2x3xf32>, memref<3xf32>) -> memref<2x3xf32>
      exec.return
    }
    ```

    C1: the arguments are buffers, there are no results. C2: `num_inputs` is
    at most the number of arguments. C3: with `scratch`, every `exec.arena` has
    an offset and ends within it. C4: `derived` is given for `init` alone, one
    index per argument.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       I64Attr:$num_inputs, I64Attr:$stage, Exec_PhaseAttr:$phase,
                       OptionalAttr<I64Attr>:$scratch,
                       OptionalAttr<DenseI64ArrayAttr>:$derived);
  let extraClassDeclaration = functionDeclaration;
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["KernelOp", "GroupOp"]>]> {
  let summary = "the results of a kernel or a group";
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
    exec.func @nothing(%x: memref<3xf32>) attributes {num_inputs = 1 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
      exec.return
    }
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

def Exec_FileRangeAttr : Exec_Attr<"FileRange", "file_range"> {
  let summary = "a tensor's bytes in a file of the model";
  let description = [{
    `file` counts the module's `kerf.files`.

    ```mlir
    #exec.file_range<file = 0, offset = 64, length = 48, stored = tensor<4x3xf32>>
    ```

    C1: no number is negative, `length` is the size of `stored`.
  }];
  let parameters = (ins "int64_t":$file, "int64_t":$offset, "int64_t":$length,
                        "::mlir::RankedTensorType":$stored);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Exec_DerivedAttr : Exec_Attr<"Derived", "derived"> {
  let summary = "computed at load by an init function";
  let assemblyFormat = "";
}

def Exec_ParameterOp : Exec_Op<"parameter", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "an entry of the manifest's parameters";
  let description = [{
    Parameter number `index`, the type of one rank's part, and where it comes from:
    bytes of a file, a literal, one number in every element, or an init function.
    What is stored has the name `tensor` (that of the parameter where it is not
    given); the parameter is the part of it that begins at `starts`, of the shape
    of `global`, a reshape of it, or all of it; `sharding` cuts that. It is held
    by the ranks of `stages`, where it is not given by all.

    ```mlir
    exec.parameter 0 "fc.weight[0,2]" : memref<4x1xf32>
        from #exec.file_range<file = 0, offset = 64, length = 64, stored = tensor<4x4xf32>> tensor "fc.weight"
        global tensor<4x2xf32> starts [0, 2] sharding <{}, {"tp"}> stages [0] library_only
    exec.parameter 1 "momentum" : memref<4xf32> from 0.0 : f32 is_mutable
    ```

    `library_only`: only library calls use it. `init_only`: only init functions do.
    `is_mutable`: steps write it.

    C1: what is mutable is neither derived nor `library_only`; at most one of
    `library_only` and `init_only`. C2: what is derived has no `global`, `starts`,
    `sharding`, and one stage. C3: a number has the element type. C4: `global` has
    the element type, `starts` and `sharding` its rank.
  }];
  let arguments = (ins I64Attr:$index, StrAttr:$name, TypeAttrOf<Exec_Buffer>:$type, AnyAttr:$source,
                       OptionalAttr<StrAttr>:$tensor, OptionalAttr<TypeAttrOf<AnyRankedTensor>>:$global,
                       OptionalAttr<DenseI64ArrayAttr>:$starts, OptionalAttr<Exec_Sharding>:$sharding,
                       OptionalAttr<DenseI64ArrayAttr>:$stages, UnitAttr:$library_only, UnitAttr:$init_only,
                       UnitAttr:$is_mutable);
  let assemblyFormat = [{
    custom<Int>($index) $name `:` $type `from` $source (`tensor` $tensor^)? (`global` $global^)? (`starts` $starts^)?
    (`sharding` $sharding^)? (`stages` $stages^)? (`library_only` $library_only^)? (`init_only` $init_only^)?
    (`is_mutable` $is_mutable^)? attr-dict
  }];
  let extraClassDeclaration = [{
    bool isDerived() { return ::llvm::isa<::kerf::exec::DerivedAttr>(getSource()); }
    /// The type of the whole parameter.
    ::mlir::RankedTensorType getGlobalType();
    /// The name of what is stored.
    ::llvm::StringRef getTensorName() { return getTensor().value_or(getName()); }
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// What goes in and out
//===----------------------------------------------------------------------===//

class Exec_BoundaryOp<string mnemonic> : Exec_Op<mnemonic, [HasParent<"::mlir::ModuleOp">]> {
  dag boundary = (ins I64Attr:$index, StrAttr:$name, TypeAttrOf<AnyRankedTensor>:$global,
                      TypeAttrOf<AnyRankedTensor>:$local, OptionalAttr<Exec_Sharding>:$sharding);
  string format = "custom<Int>($index) $name `:` $global `->` $local (`sharding` $sharding^)?";
  let hasVerifier = 1;
}

def Exec_ModelInputOp : Exec_BoundaryOp<"model_input"> {
  let summary = "an entry of the manifest's inputs";
  let description = [{
    Input number `index` of the program, as the caller has it and as one rank has
    its part. `range`: what random integers are drawn from.

    ```mlir
    exec.model_input 0 "input_ids" : tensor<8x128xi64> -> tensor<1x128xi64> sharding <{"mb", "dp"}, {}> range [0, 50257]
    ```

    C1: one element type and rank; a sharding of that rank.
  }];
  let arguments = !con(boundary, (ins OptionalAttr<DenseI64ArrayAttr>:$range));
  let assemblyFormat = format # " (`range` $range^)? attr-dict";
}

def Exec_ModelOutputOp : Exec_BoundaryOp<"model_output"> {
  let summary = "an entry of the manifest's outputs";
  let description = [{
    As `exec.model_input`.

    ```mlir
    exec.model_output 0 "logits" : tensor<8x24xf32> -> tensor<4x24xf32> sharding <{"mb"}, {}>
    ```

    C1: one element type and rank; a sharding of that rank.
  }];
  let arguments = boundary;
  let assemblyFormat = format # " attr-dict";
}

def Exec_ChannelOp : Exec_Op<"channel", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "an entry of the manifest's channels";
  let description = [{
    What `dist.channel` is: a way from one stage to another.

    ```mlir
    exec.channel 0 "/act" from 0 to 1 purpose activation phase forward : memref<4x40xf32>
    ```

    C1: two different stages.
  }];
  let arguments = (ins I64Attr:$number, StrAttr:$node, I64Attr:$from, I64Attr:$to, Exec_Purpose:$purpose,
                       Exec_PhaseAttr:$phase, TypeAttrOf<Exec_Buffer>:$type);
  let assemblyFormat = [{
    custom<Int>($number) $node `from` custom<Int>($from) `to` custom<Int>($to) `purpose` `` $purpose
    `phase` `` $phase `:` $type attr-dict
  }];
  let hasVerifier = 1;
}

#endif // KERF_EXEC_PROGRAM_TD
