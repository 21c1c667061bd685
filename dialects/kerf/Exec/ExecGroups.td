//===- ExecGroups.td - groups and calls on tensors ---------*- tablegen -*-===//
//
// The form between tensors and buffers: a function of groups, library calls and
// views in the order in which they will run. The destination of each result is an
// operand (destination-passing style): memory of its own, `exec.empty`, or a value
// over which the result is written.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_EXEC_GROUPS_TD
#define KERF_EXEC_GROUPS_TD

include "kerf/Exec/ExecAttributes.td"

class Exec_TensorOp<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits, [HasParent<"::mlir::func::FuncOp">])>;

def Exec_EmptyOp : Exec_TensorOp<"empty"> {
  let summary = "memory for a result";
  let description = [{
    Memory without content: a group or a library call that has it as destination
    writes its result there. A product may also name that of a kernel as `sums`,
    which either of the two writes. C1: it is the destination of one result; if
    that is the result of `exec.join`, views of it are the destinations of parts.

    ```mlir
    %e = exec.empty : tensor<2x3xf32>
    ```
  }];
  let results = (outs Exec_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Exec_GroupOp : Exec_TensorOp<"group", [AttrSizedOperandSegments]> {
  let summary = "tensor ops that are computed together";
  let description = [{
    Becomes one generated kernel, number `index` of the program, which reads
    `inputs` and writes each result into the operand behind `into`: new memory
    (`exec.empty`), or a value that is not read any more. `node`, and in a
    training step `phase`, are its names in traces. A group `at_load` reads only
    parameters and runs once.

    ```mlir
    %e = exec.empty : tensor<2x3xf32>
    %y = exec.group 0 "/relu" (%a = %x : tensor<2x3xf32>, %c = %b : tensor<3xf32>) into(%e : tensor<2x3xf32>) {
      %0 = nn.add %a, %c : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
      %1 = nn.relu %0 : tensor<2x3xf32>
      exec.yield %1 : tensor<2x3xf32>
    }
    ```

    C1: the body is one block of ops without side effects and regions, all of one
    dialect other than exec, and `exec.yield`; it reads its arguments alone. C2: its arguments have the types of
    the inputs. C3: it yields the results, of the types of the destinations, one
    at least. C4: the index is not negative. C5: what runs at load reads nothing
    that steps change.
  }];
  let arguments = (ins I64Attr:$index, StrAttr:$node, OptionalAttr<Exec_PhaseAttr>:$phase, UnitAttr:$at_load,
                       Variadic<Exec_Tensor>:$inputs, Variadic<Exec_Tensor>:$destinations);
  let results = (outs Variadic<Exec_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Exec_JoinOp : Exec_TensorOp<"join", [AllTypesMatch<["destination", "result"]>]> {
  let summary = "parts that lie one behind the other in memory";
  let description = [{
    The elements of the result are those of the parts, one part behind the other:
    a concatenation along the first dimension of more than one element. A part
    that is written where it belongs, into a view of the destination, costs
    nothing; others are copied, such as those that begin where no buffer may.

    ```mlir
    %e = exec.empty : tensor<2x16xf32>
    %y = exec.join %a, %b into(%e : tensor<2x16xf32>) : tensor<1x16xf32>, tensor<1x16xf32>
    ```

    C1: the parts have the element type of the result, and together as many
    elements.
  }];
  let arguments = (ins Variadic<Exec_Tensor>:$parts, Exec_Tensor:$destination);
  let results = (outs Exec_Tensor:$result);
  let assemblyFormat = "$parts `into` `(` $destination `:` type($destination) `)` attr-dict `:` type($parts)";
  let hasVerifier = 1;
}

#endif // KERF_EXEC_GROUPS_TD
