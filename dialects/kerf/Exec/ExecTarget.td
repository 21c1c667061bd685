//===- ExecTarget.td - properties of the target ------------*- tablegen -*-===//
#ifndef KERF_EXEC_TARGET_TD
#define KERF_EXEC_TARGET_TD

include "kerf/Exec/ExecBase.td"

def Exec_Device : Exec_Enum<"Device", "a kind of device", [
    I32EnumAttrCase<"Cpu", 0, "cpu">,   // oneDNN beside generated vector code
    I32EnumAttrCase<"Cuda", 1, "cuda">  // cuBLASLt and cuDNN beside PTX
  ]>;

def Exec_EpilogueForm : Exec_Enum<"EpilogueForm", "what a library does to a result before it is stored", [
    I32EnumAttrCase<"Chain", 0, "chain">, // any number of steps in any order (oneDNN)
    I32EnumAttrCase<"Fixed", 1, "fixed">  // a factor, a bias, an addend, an activation (cuBLASLt; cuDNN without factor)
  ]>;

def Exec_TargetAttr : AttrDef<Exec_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "what the device of a program and its libraries can do";
  let description = [{
    On the module, as `exec.target`, before lowering; without it the target is
    `#exec.target<cpu>`. Passes ask it what they need to know and not which
    device it is. A device stands for what is usual for it; what differs follows:
    `#exec.target<cuda, row_bytes = 1>`.

    * `half_products`: the library has products of float16 (the CPU's has them
      of float32 and bfloat16).
    * `memory_bound`: memory is slow beside computing: what a kernel can compute
      again is not stored, and what follows a product of 16-bit types is stored
      in 16 bits.
    * `row_bytes`: rows of 16-bit products that begin at multiples of so many
      bytes are multiplied faster; a power of two, 1 where it does not matter.
    * `epilogue`: `chain`, or `fixed` where a library has one step of each kind,
      in its order, and narrows what it stores.
    * `gradient_epilogues`: products of the backward pass give the gradient of a
      bias with their result, and multiply by the derivative of an activation.
    * `batches_updates`: optimizer updates are launched together, so that they
      wait for each other.
    * `sums_by_block`: a sum over leading dimensions is shared by the threads of
      a block, of which there are thousands; otherwise by a few tasks.
    * `runs_loops`: a condition that a step computes can be read in that step.
    * `vector_bytes`: the size of the vectors that kernels are written in, a power
      of two; 0: that of the CPU that code is generated for.
    * `held_bytes`: gradients that wait for their updates to be launched
      together; those beyond are updated at once.
    * `processors`: kernels are cut into so many pieces that each multiprocessor
      has several.
    * `block_threads`: the most threads of a block, a power of two.
    * `shared_bytes`: what the threads of a block may have of shared memory.

    | | cpu | cuda |
    |---|---|---|
    | `half_products` | false | true |
    | `memory_bound` | false | true |
    | `row_bytes` | 1 | 16 |
    | `epilogue` | chain | fixed |
    | `gradient_epilogues` | false | true |
    | `batches_updates` | false | true |
    | `sums_by_block` | false | true |
    | `runs_loops` | true | false |
    | `vector_bytes` | 0 | 16 |
    | `held_bytes` | 33554432 | 33554432 |
    | `processors` | 0 | 132 |
    | `block_threads` | 0 | 1024 |
    | `shared_bytes` | 0 | 49152 |

    ```mlir
    module attributes {exec.target = #exec.target<cuda>} {}
    ```
  }];
  let parameters = (ins EnumParameter<Exec_Device>:$device, "bool":$half_products, "bool":$memory_bound,
                        "int64_t":$row_bytes, EnumParameter<Exec_EpilogueForm>:$epilogue,
                        "bool":$gradient_epilogues, "bool":$batches_updates, "bool":$sums_by_block,
                        "bool":$runs_loops, "int64_t":$vector_bytes, "int64_t":$held_bytes,
                        "int64_t":$processors, "int64_t":$block_threads, "int64_t":$shared_bytes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static constexpr ::llvm::StringLiteral kName = "exec.target";
    /// What is usual for a device.
    static TargetAttr get(::mlir::MLIRContext *context, Device device);
    /// Of the module that `op` is or is in.
    static TargetAttr of(::mlir::Operation *op);
    /// The same, or what is usual for `device` if the module is for another.
    static TargetAttr of(::mlir::Operation *op, Device device);
  }];
}

#endif // KERF_EXEC_TARGET_TD
