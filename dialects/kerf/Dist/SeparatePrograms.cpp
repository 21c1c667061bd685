//===- SeparatePrograms.cpp - a module of its own for each program --------===//
//
// What a program uses is found by following symbols, and copied; the originals
// go in the end. Linear in the programs times what they use.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/SetVector.h"

namespace kerf::dist {
#define GEN_PASS_DEF_SEPARATEPROGRAMS
#include "kerf/Dist/Passes.h.inc"
} // namespace kerf::dist

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

bool isProgram(Operation &op) {
  auto function = dyn_cast<func::FuncOp>(op);
  return function && function.isPublic() && !function.isExternal();
}

/// Whether `op` is a global variable of this kind that never changes.
template <typename Global> bool isConstant(Operation *op) {
  return op->isRegistered() &&
         op->getName().getStringRef() == Global::getOperationName() &&
         op->hasAttr(Global::getConstantAttrName(op->getName()));
}

/// Whether a copy for each user is as good as one for all: code and constants.
bool mayBeCopied(Operation *op) {
  return isa<FunctionOpInterface>(op) || isConstant<memref::GlobalOp>(op) ||
         isConstant<LLVM::GlobalOp>(op);
}

struct SeparatePrograms : dist::impl::SeparateProgramsBase<SeparatePrograms> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    SmallVector<Operation *> programs;
    for (Operation &op : *module.getBody())
      if (isProgram(op))
        programs.push_back(&op);
    llvm::SetVector<Operation *> gone;
    SmallVector<ModuleOp> made;
    for (Operation *program : programs) {
      FailureOr<llvm::SetVector<Operation *>> used = usedBy(program, symbols);
      if (failed(used))
        return signalPassFailure();
      for (Operation *op : *used)
        if (gone.contains(op) && !mayBeCopied(op) && op != program) {
          op->emitError("is used by several programs, which would each have "
                        "one of its own");
          return signalPassFailure();
        }
      made.push_back(copy(program, *used));
      gone.insert(used->begin(), used->end());
    }
    for (MeshOp mesh : module.getOps<MeshOp>())
      if (!programs.empty())
        gone.insert(mesh);
    for (Operation *op : gone)
      op->erase();
    for (ModuleOp program : made)
      module.push_back(program);
  }

private:
  /// The program and all symbols that it reaches.
  static FailureOr<llvm::SetVector<Operation *>> usedBy(Operation *program,
                                                        SymbolTable &symbols) {
    llvm::SetVector<Operation *> used;
    used.insert(program);
    for (size_t next = 0; next < used.size(); ++next) {
      auto uses = SymbolTable::getSymbolUses(used[next]);
      if (!uses)
        return used[next]->emitError("has symbols that cannot be followed");
      for (const SymbolTable::SymbolUse &use : *uses)
        if (Operation *op =
                symbols.lookup(use.getSymbolRef().getRootReference()))
          used.insert(op);
    }
    return used;
  }

  ModuleOp copy(Operation *program, const llvm::SetVector<Operation *> &used) {
    ModuleOp module = getOperation();
    auto nested = ModuleOp::create(program->getLoc(),
                                   SymbolTable::getSymbolName(program));
    for (NamedAttribute attribute : module->getDiscardableAttrs())
      nested->setAttr(attribute.getName(), attribute.getValue());
    for (Operation &op : *module.getBody()) {
      if (!used.contains(&op) && !isa<MeshOp>(op))
        continue;
      Operation *clone = op.clone();
      nested.push_back(clone);
      if (&op != program && isProgram(op))
        SymbolTable::setSymbolVisibility(clone,
                                         SymbolTable::Visibility::Private);
    }
    return nested;
  }
};

} // namespace
