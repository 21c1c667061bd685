//===- Capture.h - regions that use values from outside ---------*- C++ -*-===//
//
// Sharding rules see operands. An op whose region uses more than these is
// planned whole, unless it can be built again with it as operands.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_CAPTURE_H
#define KERF_INTERFACES_CAPTURE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "kerf/Interfaces/Capture.h.inc"

#endif // KERF_INTERFACES_CAPTURE_H
