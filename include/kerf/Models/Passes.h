//===- Passes.h - programs of upstream ops ----------------------*- C++ -*-===//
#ifndef KERF_MODELS_PASSES_H
#define KERF_MODELS_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf::models {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Models/Passes.h.inc"

} // namespace kerf::models

#endif // KERF_MODELS_PASSES_H
