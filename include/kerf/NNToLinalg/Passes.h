//===- Passes.h - from nn to linalg -----------------------------*- C++ -*-===//
#ifndef KERF_NNTOLINALG_PASSES_H
#define KERF_NNTOLINALG_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf::nntolinalg {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/NNToLinalg/Passes.h.inc"

} // namespace kerf::nntolinalg

#endif // KERF_NNTOLINALG_PASSES_H
