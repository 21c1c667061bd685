//===- ExecBase.td - the exec dialect, its types -----------*- tablegen -*-===//
#ifndef KERF_EXEC_BASE_TD
#define KERF_EXEC_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::kerf::exec";
  let summary = "when: buffers, launches, library and communication calls";
  let description = [{
    What a compiled program does, one to one with the table of functions that the
    runtime gives it (`runtime/include/kerf/rt/program.h`). Values are buffers:
    memrefs of static shape and identity layout, each a pointer to dense
    row-major elements (i1 in one byte) at a multiple of 64 bytes unless a view
    says otherwise. Calls run in program order.

    `exec.kernel` holds a group of pure tensor ops that becomes one generated
    kernel. `exec.func` is one function of program.so. Descriptors of library
    calls and collectives are dictionaries whose keys and values are those of
    manifest.json (`docs/Package.md`), so that packaging copies them.

    Streams and events: `collective_start` gives an `!exec.event` that
    `collective_wait` takes. A device with streams orders other calls the same
    way, by events as further operands and results.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
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

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

#endif // KERF_EXEC_BASE_TD
