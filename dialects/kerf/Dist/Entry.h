//===- Entry.h - the function that is planned -------------------*- C++ -*-===//
#ifndef KERF_DIST_ENTRY_H
#define KERF_DIST_ENTRY_H

#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::dist {

/// The function of a module that is planned, partitioned and lowered: the one
/// whose arguments or results have shardings; before a plan `main`, or else the
/// only public function with a body. Functions of stages are never it. Null if
/// there is none.
mlir::func::FuncOp findEntry(mlir::ModuleOp module);

/// The same; if there is none an error says why, with notes at what could be
/// meant.
mlir::func::FuncOp findEntryOrEmit(mlir::ModuleOp module);

/// Whether a function has a plan, or is a part of a partitioned program. Other
/// functions of a module (that the planned one calls) are left as they are.
bool isPlanned(mlir::func::FuncOp function);

/// Makes the module's mesh, as its first op. Its name is "mesh", or one like it
/// that no other symbol has.
void createMesh(mlir::ModuleOp module, MeshAttr mesh);

/// A name like `base` that no symbol of the module has.
std::string freeSymbol(mlir::ModuleOp module, llvm::StringRef base);

/// Sets an attribute of each argument or result; one for which `attr` is null
/// stays as it is. Linear; FuncOp::setArgAttr builds the whole list anew for
/// each argument.
void setArgAttrs(mlir::func::FuncOp function, llvm::StringRef name,
                 llvm::function_ref<mlir::Attribute(unsigned)> attr);
void setResultAttrs(mlir::func::FuncOp function, llvm::StringRef name,
                    llvm::function_ref<mlir::Attribute(unsigned)> attr);

} // namespace kerf::dist

#endif // KERF_DIST_ENTRY_H
