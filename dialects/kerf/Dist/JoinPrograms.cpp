//===- JoinPrograms.cpp - the programs of nested modules in one module ----===//
//
// Symbols keep their names where these are free. Linear.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Passes.h"

namespace kerf::dist {
#define GEN_PASS_DEF_JOINPROGRAMS
#include "kerf/Dist/Passes.h.inc"
} // namespace kerf::dist

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

/// Whether two declarations say the same.
bool isSame(Operation *a, Operation *b) {
  auto function = dyn_cast<FunctionOpInterface>(a);
  return function && function.isExternal() &&
         OperationEquivalence::isEquivalentTo(
             a, b, OperationEquivalence::IgnoreLocations);
}

struct JoinPrograms : dist::impl::JoinProgramsBase<JoinPrograms> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<ModuleOp> programs(module.getOps<ModuleOp>());
    // Their names are free for what is in them.
    for (ModuleOp program : programs)
      program->remove();
    SymbolTable outer(module);
    bool failed = false;
    for (ModuleOp program : programs) {
      failed = failed || mlir::failed(join(program, outer));
      if (failed)
        module.push_back(program);
      else
        program.erase();
    }
    if (failed)
      signalPassFailure();
  }

private:
  LogicalResult join(ModuleOp program, SymbolTable &outer) {
    SymbolTable inner(program);
    for (Operation &op : llvm::make_early_inc_range(*program.getBody())) {
      auto symbol = dyn_cast<SymbolOpInterface>(op);
      if (!symbol || isa<MeshOp>(op))
        return op.emitError("belongs to a program that is not lowered yet: "
                            "run kerf-call-runtime before");
      Operation *taken = outer.lookup(symbol.getName());
      if (taken && isSame(taken, &op)) {
        inner.erase(&op);
        continue;
      }
      if (taken && !symbol.isPrivate()) {
        InFlightDiagnostic error = op.emitError("is public in two programs");
        error.attachNote(taken->getLoc()) << "the other one";
        return error;
      }
      if (taken && mlir::failed(inner.rename(&op, free(symbol, inner, outer))))
        return op.emitError("cannot be renamed");
    }
    // Only now: uses were renamed within the program.
    for (Operation &op : llvm::make_early_inc_range(*program.getBody())) {
      op.remove();
      outer.insert(&op);
    }
    return success();
  }

  static StringAttr free(SymbolOpInterface symbol, SymbolTable &inner,
                         SymbolTable &outer) {
    for (unsigned number = 0;; ++number) {
      std::string name = (symbol.getName() + "_" + Twine(number)).str();
      if (!inner.lookup(name) && !outer.lookup(name))
        return StringAttr::get(symbol->getContext(), name);
    }
  }
};

} // namespace
