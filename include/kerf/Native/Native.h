//===- Native.h - machine code in memory ------------------------*- C++ -*-===//
//
// For hosts without a back end of their own: what is left behind
// kerf-call-runtime, or a function that was never cut, goes through upstream
// passes to LLVM and is compiled in this process; ranks are threads
// (docs/Embedding.md, Run on ranks). The code is of loops, as upstream's passes
// write them: right, and not fast.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NATIVE_NATIVE_H
#define KERF_NATIVE_NATIVE_H

#include "kerf/rt/ranks.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace mlir {
class OpPassManager;
}

namespace kerf::native {

/// Upstream passes from func, linalg, tensor, memref, scf, arith and math to
/// LLVM. Results of public functions become arguments behind the others.
void buildLowerToLLVM(mlir::OpPassManager &passes);

/// A compiled function, and the ranks that run it. A run is called from one
/// thread at a time; programs do not share anything.
class Program {
public:
  /// Lowers the module, which is changed, and compiles it. `function` is the
  /// program's name; its arguments and results have static shapes. Upstream
  /// dialects and translations are added to the module's context. An error for
  /// a function that there is not, and where a pass, the compiler or
  /// kerf_ranks_create fails; passes say more through the context's
  /// diagnostics.
  static llvm::Expected<std::unique_ptr<Program>>
  create(mlir::ModuleOp module, llvm::StringRef function);
  ~Program();

  /// What it takes: tensors or memrefs of its inputs, then of its outputs. They
  /// live as long as the context.
  llvm::ArrayRef<mlir::ShapedType> getTypes() const { return types; }
  /// Null for a function that kerf-call-runtime has not lowered: it runs as it
  /// is, on the thread of the caller.
  kerf_ranks_t *getRanks() const { return ranks; }

  /// Runs the function, on all ranks at once. `tensors` are whole, dense and
  /// row-major, one for each type, in host memory; outputs are written.
  llvm::Error run(llvm::ArrayRef<void *> tensors);
  /// Parameters and state that ranks keep (kerf_ranks_write, kerf_ranks_read).
  llvm::Error write(const std::string &parameter, const void *whole);
  llvm::Error read(const std::string &parameter, void *whole) const;

private:
  struct Code;
  Program();
  std::unique_ptr<Code> code;
  llvm::SmallVector<mlir::ShapedType> types;
  kerf_ranks_t *ranks = nullptr;
};

} // namespace kerf::native

#endif // KERF_NATIVE_NATIVE_H
