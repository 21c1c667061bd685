//===- NNInterfaces.td - interfaces of nn ops for lowering -*- tablegen -*-===//
#ifndef KERF_NN_INTERFACES_TD
#define KERF_NN_INTERFACES_TD

include "mlir/IR/OpBase.td"

def NN_KernelInterface : OpInterface<"KernelInterface"> {
  let cppNamespace = "::kerf::nn";
  let description = [{
    How code generation computes the op in a kernel (see KernelKind.h). An op
    without it is in no kernel.
  }];
  let methods = [
    InterfaceMethod<"The kind of the op.", "::kerf::nn::KernelKind", "getKernelKind", (ins)>
  ];
}

def NN_RowInterface : OpInterface<"RowInterface"> {
  let cppNamespace = "::kerf::nn";
  let description = [{
    An op that combines the elements along some dimensions of its first operand.
  }];
  let methods = [
    InterfaceMethod<"These dimensions, ascending.",
      "::llvm::SmallVector<int64_t>", "getRowDims", (ins)>,
    InterfaceMethod<"Whether the result keeps them (softmax) or drops them (reduce).",
      "bool", "keepsRowDims", (ins)>
  ];
}

#endif // KERF_NN_INTERFACES_TD
