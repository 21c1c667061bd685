//===- Codegen.h - fused groups of nn ops to native code --------*- C++ -*-===//
//
// Problem: the nn ops between library calls form groups; each becomes one
// native loop nest that reads its inputs and writes its outputs once.
//
// Idea: code is *pulled*. A kernel picks a loop domain for its outputs; the
// value of an op at symbolic indices asks for its operands at indices that
// follow from the op. Reshape, transpose, slice, broadcast, pad, concat and
// iota only change indices, so they cost nothing. The innermost loop runs in
// vectors whose width follows from the target; every function (exp, tanh, erf,
// ...) is expanded to polynomials, so the code calls nothing.
//
// Which groups become one kernel (classifyKernel decides, this is the summary):
//
// - Elementwise: elementwise ops, casts, broadcasts, selects, and shape ops.
//   All outputs have the same number of elements. An expensive op must not be
//   repeated: exp of a row that is then broadcast over 1000 rows is refused.
//   Gathers may occur anywhere; their data may be computed (cheaply).
// - Row: one or more of softmax, log_softmax, layer_norm, rms_norm, reduce,
//   arg_reduce, with elementwise prologue and epilogue. All of them have the
//   same number of rows (elements that are not normalised or reduced together),
//   in the same order; outputs are full size (the shape of the first one's
//   operand, or a reshape of it) or one element per row. Any reduced
//   dimensions; trailing and leading ones are the fast cases.
// - Window: max_pool, avg_pool, lrn with elementwise epilogue. Operands come
//   from outside the group, or through shape ops and casts.
// - Contraction: matmul, conv with elementwise epilogue; a plain, slow loop
//   nest for types that the library does not support.
//
// nn.constant may be in a group if it is a splat or has at most
// kMaxInlineConstantBytes; nn.weight may not. Element types: f32 f64 f16 bf16
// (the last two computed in f32), i1 (one byte), i8 i16 i32 i64 and unsigned.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_H
#define KERF_LOWER_CODEGEN_H

#include "kerf/Fusion/Groups.h"
#include "kerf/Lower/ObjectCache.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Operation.h"

#include <string>
#include <vector>

namespace kerf {

enum class KernelForm { Elementwise, Row, Window, Contraction };
llvm::StringRef stringifyKernelForm(KernelForm form);

/// The answer of classifyKernel.
struct KernelVerdict {
  bool supported = false;
  KernelForm form = KernelForm::Elementwise;
  /// Why the ops cannot be one kernel, in one line; empty if they can.
  std::string reason;
  /// The values that the group computes for others, in order of definition.
  llvm::SmallVector<mlir::Value> outputs;
  /// The values that it reads, in order of first use.
  llvm::SmallVector<mlir::Value> inputs;
};

/// Can the ops, all of one block and in its order, become one kernel? Outputs
/// are the results with a use outside of `ops`. Costs about as much as printing
/// the ops; changes nothing. Any single nn op but weight is supported.
KernelVerdict classifyKernel(llvm::ArrayRef<mlir::Operation *> ops);

/// classifyKernel(ops).supported.
bool canFuse(llvm::ArrayRef<mlir::Operation *> ops);

/// Whether output `output` may have the same address as input `input` (indices
/// into the verdict): every element is read only where it is written. Any other
/// overlap of outputs with inputs or outputs is forbidden.
bool mayShareBuffer(llvm::ArrayRef<mlir::Operation *> ops, unsigned input,
                    unsigned output);

struct CodegenOptions {
  /// "host", or a CPU as LLVM names it: x86-64-v2, x86-64-v3, sapphirerapids,
  /// ...
  std::string cpu = "host";
  /// Threads that compile (>= 1); the result does not depend on it.
  unsigned threads = 2;
  /// Whether kernels are compiled; without them, functions launch NULL, for
  /// devices with kernels of their own.
  bool kernels = true;
  /// Where to write the optimised LLVM IR and the assembly of every kernel, for
  /// people and tests; empty: nowhere.
  std::string dumpDir;
  /// Not asked where there is a `dumpDir`.
  ObjectCacheOptions cache;
};

/// The target, as the manifest describes it.
struct TargetInfo {
  std::string cpu;                   ///< the host's name instead of "host"
  std::vector<std::string> features; ///< enabled ones, as LLVM names them
};

/// A compiled program.
struct Program {
  TargetInfo target;
  /// program.so: exports the exec.funcs, imports nothing.
  std::string sharedObject;
  /// Kernels that were compiled, after identical ones were merged.
  int64_t numKernels = 0;
};

/// Compiles every exec.func and exec.kernel of the module. The same module and
/// target give the same bytes, whatever `threads` is.
mlir::FailureOr<Program> compileProgram(mlir::ModuleOp module,
                                        const CodegenOptions &options);

} // namespace kerf

#endif // KERF_LOWER_CODEGEN_H
