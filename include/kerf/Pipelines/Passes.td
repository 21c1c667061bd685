//===- Passes.td - from a lowered module to a package ------*- tablegen -*-===//
#ifndef KERF_PIPELINES_PASSES_TD
#define KERF_PIPELINES_PASSES_TD

include "mlir/Pass/PassBase.td"

def WritePackage : Pass<"kerf-write-package", "::mlir::ModuleOp"> {
  let summary = "compiles a lowered module and writes a package";
  let description = [{
    The last phase: `exec.func`s and kernels become native code, and the module
    becomes the folder that docs/Package.md describes, with its weights. Where
    the module's `exec.target` is of GPUs, kernels become code of theirs. The
    module keeps its ops; kernels for GPUs get their attribute `cuda`.

    `plan` is the plan.json (kerf.plan/1) that the module was made by. It is
    copied into the package, and the memory that it says each device needs is
    what messages of the runtime name. The same module, plan and options give
    the same bytes.

    Errors: an `output` that is there and no package, a plan that cannot be read
    or is none, an unknown `cpu` or `precision`, files of weights that cannot be read.
  }];
  let dependentDialects = ["::kerf::exec::ExecDialect", "::kerf::nn::NNDialect"];
  let options = [
    Option<"output", "output", "std::string", "", "The package, a folder">,
    Option<"plan", "plan", "std::string", "",
           "plan.json of the module; empty: the package has none">,
    Option<"cpu", "cpu", "std::string", "\"host\"",
           "CPU to compile for, as LLVM names it">,
    Option<"ptxas", "ptxas", "std::string", "",
           "With GPUs: path of ptxas; empty: no cubins">,
    Option<"hostKernels", "host-kernels", "bool", "false",
           "With GPUs: each kernel for the CPU, too">,
    Option<"precision", "precision", "::kerf::autodiff::Precision", "::kerf::autodiff::Precision::F32",
           "With GPUs: how products are computed", [{::llvm::cl::values(
             clEnumValN(::kerf::autodiff::Precision::F32, "f32", "float32"),
             clEnumValN(::kerf::autodiff::Precision::TF32, "tf32", "float32, rounded to 10 bits"),
             clEnumValN(::kerf::autodiff::Precision::BF16, "bf16", "bfloat16"),
             clEnumValN(::kerf::autodiff::Precision::F16, "f16", "float16"))}]>,
    Option<"kernelDumpDir", "kernel-dump-dir", "std::string", "",
           "With GPUs: write gpu.funcs, LLVM IR and PTX of kernels here">,
    Option<"inPlace", "in-place", "bool", "false",
           "Refer to weights where they are instead of copying them">,
  ];
}

#endif // KERF_PIPELINES_PASSES_TD
