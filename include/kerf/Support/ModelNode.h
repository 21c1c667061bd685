//===- ModelNode.h - which node of the model an op comes from ---*- C++ -*-===//
#ifndef KERF_SUPPORT_MODELNODE_H
#define KERF_SUPPORT_MODELNODE_H

#include "mlir/IR/Location.h"

#include <string>

namespace kerf {

/// The node's name in the model: the innermost name of the location; empty if
/// there is none.
inline std::string modelNode(mlir::Location loc) {
  if (auto name = llvm::dyn_cast<mlir::NameLoc>(loc))
    return name.getName().str();
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(loc)) {
    for (mlir::Location part : fused.getLocations()) {
      std::string name = modelNode(part);
      if (!name.empty())
        return name;
    }
  }
  if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(loc))
    return modelNode(call.getCallee());
  return "";
}

} // namespace kerf

#endif // KERF_SUPPORT_MODELNODE_H
