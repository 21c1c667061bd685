//===- ExecInterfaces.td - the interface of library calls --*- tablegen -*-===//
#ifndef KERF_EXEC_INTERFACES_TD
#define KERF_EXEC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Exec_LibraryCallInterface : OpInterface<"LibraryCallInterface"> {
  let cppNamespace = "::kerf::exec";
  let description = [{
    A call into the device's library: an entry of the manifest's `library`. Its
    operands are what it reads, then what it writes, the destination first. The
    runtime gets a list of buffers: each that is read once, in the order of the
    operands, then those that are written.
  }];
  let methods = [
    InterfaceMethod<"Its number in the manifest.", "uint64_t", "getIndex">,
    InterfaceMethod<"Sets that.", "void", "setIndex", (ins "uint64_t":$index)>,
    InterfaceMethod<"The name of the attribute that holds it.", "::mlir::StringAttr", "getIndexAttrName">,
    InterfaceMethod<"The node of the model, for people.", "::llvm::StringRef", "getNode">,
    InterfaceMethod<"The part of a training step that it belongs to.",
      "std::optional<::kerf::exec::Phase>", "getPhase">,
    InterfaceMethod<"How its code for GPUs is launched, where it has one; null.",
      "::kerf::exec::GpuKernelAttr", "getCudaAttr">,
    InterfaceMethod<[{Whether GPUs have a kernel of ours for it, alone or beside their library's: one of
      lib/Lower/Gpu.}], "bool", "hasGpuKernel", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"Sets that.", "void", "setCudaAttr", (ins "::kerf::exec::GpuKernelAttr":$gpu)>,
    InterfaceMethod<[{Operands under their names in the package: their views, and the sizes that the
      call gives them. Second tensors of the epilogue are not among them.}],
      "::llvm::SmallVector<::kerf::exec::Role>", "getRoles">,
    InterfaceMethod<"The operand that the call writes.", "::mlir::OpOperand &", "getDestination", (ins), [{}], [{
        return $_op.getDstMutable();
      }]>,
    InterfaceMethod<"What is done to the result before it is stored.",
      "::llvm::SmallVector<::kerf::exec::PostOpAttr>", "getEpilogue", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"Second tensors of the epilogue, in its order.",
      "::mlir::OperandRange", "getEpilogueOperands", (ins), [{}], [{
        return $_op.getOperation()->getOperands().take_front(0);
      }]>,
    InterfaceMethod<[{Whether parameters are handed over by their number, as weights: not to calls of
      our own.}], "bool", "takesWeights", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"Whether the call keeps a copy of its own of a weight, packed.", "bool", "packs",
      (ins "::mlir::OpOperand &":$operand), [{}], [{ return false; }]>,
    InterfaceMethod<"An operand whose buffer the destination may be: each element is read before it is written.",
      "::mlir::OpOperand *", "getInPlaceOperand", (ins), [{}], [{ return nullptr; }]>,
    InterfaceMethod<"Element type of what is read.", "::mlir::Type", "getInputType", (ins), [{}], [{
        return ::kerf::exec::elementType($_op.getOperation()->getOperand(0));
      }]>
  ];
  let extraSharedClassDeclaration = [{
    /// Element type of what is stored.
    ::mlir::Type getResultType() {
      return ::kerf::exec::elementType($_op.getDestination().get());
    }
    /// Operands that are read, and that are written.
    ::mlir::OperandRange getReads() {
      return $_op.getOperation()->getOperands().take_front($_op.getDestination().getOperandNumber());
    }
    ::mlir::OperandRange getWrites() {
      return $_op.getOperation()->getOperands().drop_front($_op.getDestination().getOperandNumber());
    }
  }];
  let verify = [{ return ::kerf::exec::verifyLibraryCall($_op); }];
}

#endif // KERF_EXEC_INTERFACES_TD
