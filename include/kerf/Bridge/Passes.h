//===- Passes.h - to and from upstream's shard dialect ----------*- C++ -*-===//
#ifndef KERF_BRIDGE_PASSES_H
#define KERF_BRIDGE_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf::bridge {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Bridge/Passes.h.inc"

} // namespace kerf::bridge

#endif // KERF_BRIDGE_PASSES_H
