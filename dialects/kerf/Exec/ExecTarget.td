//===- ExecTarget.td - properties of the target ------------*- tablegen -*-===//
#ifndef KERF_EXEC_TARGET_TD
#define KERF_EXEC_TARGET_TD

include "kerf/Exec/ExecBase.td"

def Exec_Device : Exec_Enum<"Device", "a kind of device", [
    I32EnumAttrCase<"Cpu", 0, "cpu">,   // oneDNN beside generated vector code
    I32EnumAttrCase<"Cuda", 1, "cuda">  // cuBLASLt and cuDNN beside PTX
  ]>;

def Exec_TargetAttr : AttrDef<Exec_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "what the device of a program and its libraries can do";
  let description = [{
    On the module, as `exec.target`, before lowering; without it the target is
    `#exec.target<device = cpu>`. Passes ask for these properties and not for the
    device, except where only one library can do something (its epilogues).

    * `half_products`: the library has products of float16 (the CPU's has them
      of float32 and bfloat16).
    * `memory_bound`: memory is slow beside computing: what a kernel can compute
      again is not stored, and what follows a product of 16-bit types is stored
      in 16 bits.
    * `row_bytes`: rows of 16-bit products that begin at multiples of so many
      bytes are multiplied faster; a power of two, 1 where it does not matter.

    ```mlir
    module attributes {exec.target = #exec.target<device = cuda, half_products = true,
                                                  memory_bound = true, row_bytes = 16>}
    ```
  }];
  let parameters = (ins EnumParameter<Exec_Device>:$device,
                        DefaultValuedParameter<"bool", "false">:$half_products,
                        DefaultValuedParameter<"bool", "false">:$memory_bound,
                        DefaultValuedParameter<"int64_t", "1">:$row_bytes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral kName = "exec.target";
    static TargetAttr cpu(::mlir::MLIRContext *context);
    static TargetAttr cuda(::mlir::MLIRContext *context);
    /// Of the module that `op` is or is in.
    static TargetAttr of(::mlir::Operation *op);
    bool isCuda() const { return getDevice() == Device::Cuda; }
  }];
}

#endif // KERF_EXEC_TARGET_TD
