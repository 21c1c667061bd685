//===- ExecBase.td - the exec dialect, its types -----------*- tablegen -*-===//
#ifndef KERF_EXEC_BASE_TD
#define KERF_EXEC_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::kerf::exec";
  let summary = "when: what is computed together, buffers, launches, library and communication calls";
  let description = [{
    First, on tensors: which ops are computed together and where their results
    are written (`exec.group`, library calls, `exec.empty`).

    Then, on buffers: what a compiled program does, one to one with the table of
    functions that the runtime gives it (`runtime/include/kerf/rt/program.h`).
    Values are memrefs of static shape and identity layout, each a pointer to
    dense row-major elements (i1 in one byte) at a multiple of 64 bytes unless a
    view says otherwise. Calls run in program order.

    `exec.kernel` holds a group of pure tensor ops that becomes one generated
    kernel. `exec.func` is one function of program.so. Library calls and
    collectives are ops with typed attributes; each is an entry of the manifest
    with the number that it carries, which packaging writes
    (`docs/Package.md`). Axes, reductions and purposes are those of `dist`.

    On the module `exec.target` says what the program is lowered for and
    `exec.mesh` is its mesh. `exec.update`, on ops of an optimizer's update, and
    `exec.stored`, on ops whose result is stored as it is, and `exec.at_load`, on
    views of what is computed at load, are marks of lowering. An attribute with
    the prefix `exec.` that is not one of these, or stands where it has no
    meaning, is an error.

    Streams and events: `collective_start` gives an `!exec.event` that
    `collective_wait` takes. A device with streams orders other calls the same
    way, by events as further operands and results.
  }];
  let dependentDialects = ["::kerf::dist::DistDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

class Exec_Type<string name, string typeMnemonic> : TypeDef<Exec_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Exec_Event : Exec_Type<"Event", "event"> {
  let summary = "something that has been started and can be waited for";
}

def Exec_Buffer : Type<
    CPred<"::llvm::isa<::mlir::MemRefType>($_self) && "
          "::llvm::cast<::mlir::MemRefType>($_self).hasStaticShape() && "
          "::llvm::cast<::mlir::MemRefType>($_self).getLayout().isIdentity()">,
    "memref of static shape and identity layout", "::mlir::MemRefType">,
    BuildableType<"">;

def Exec_WeightType : Exec_Type<"Weight", "weight"> {
  let summary = "a parameter as a library call has it";
  let description = [{
    Known to the call by its number alone: the library may keep a packed copy of
    it instead of the plain elements. `!exec.weight<4x3xf32>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
}

def Exec_Tensor : Type<
    CPred<"::llvm::isa<::mlir::RankedTensorType>($_self) && "
          "::llvm::cast<::mlir::RankedTensorType>($_self).hasStaticShape()">,
    "tensor of static shape", "::mlir::RankedTensorType">;

/// What a library call reads or writes: a tensor before there are buffers.
def Exec_Place : Type<Or<[Exec_Buffer.predicate, Exec_Tensor.predicate]>,
    "tensor or memref of static shape", "::mlir::ShapedType">;
/// What it can also have by its number.
def Exec_Operand : AnyTypeOf<[Exec_Place, Exec_WeightType], "tensor, memref or weight">;

//===----------------------------------------------------------------------===//
// Attributes of dist
//===----------------------------------------------------------------------===//

// Their definitions are not included: enums would be generated once more.
class Exec_DistAttr<string name, string what>
    : Attr<CPred<"::llvm::isa<::kerf::dist::" # name # "Attr>($_self)">, what> {
  let storageType = "::kerf::dist::" # name # "Attr";
  let returnType = storageType;
  let convertFromStorage = "$_self";
}
def Exec_Axes : Exec_DistAttr<"Axes", "a list of mesh axes">;
def Exec_Reduction : Exec_DistAttr<"Reduction", "sum, max, min or prod">;
def Exec_Purpose : Exec_DistAttr<"Purpose", "what is moved">;
def Exec_CollectiveKind : Exec_DistAttr<"CollectiveKind", "a kind of collective">;
def Exec_Sharding : Exec_DistAttr<"Sharding", "where the parts of a tensor lie">;

class Exec_Enum<string name, string what, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, what, cases> {
  let cppNamespace = "::kerf::exec";
  let genSpecializedAttr = 0;
}

def Exec_Phase : Exec_Enum<"Phase", "part of a step", [
    I32EnumAttrCase<"Init", 0, "init">, I32EnumAttrCase<"Prologue", 1, "prologue">,
    I32EnumAttrCase<"Forward", 2, "forward">, I32EnumAttrCase<"Backward", 3, "backward">,
    I32EnumAttrCase<"Update", 4, "update">]>;
def Exec_PhaseAttr : EnumAttr<Exec_Dialect, Exec_Phase, "phase"> {
  let summary = "part of a step, as packages name it";
  let description = [{
    `init` runs once at load; the others are phases of `dist`, both halves of the
    backward in one word.
  }];
  let assemblyFormat = "$value";
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

#endif // KERF_EXEC_BASE_TD
