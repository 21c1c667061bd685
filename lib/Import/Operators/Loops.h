//===- Loops.h - loops that are not unrolled --------------------*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_OPERATORS_LOOPS_H
#define KERF_LIB_IMPORT_OPERATORS_LOOPS_H

#include "../Importer.h"

namespace kerf::onnx_import {

/// Imports a Loop as nn.loop: its body once. `trip` and `condition` are those
/// of the node, null where it has none; `carried` are its other inputs. Sets
/// the node's outputs, to null where a node of the body has failed.
mlir::LogicalResult importAsLoop(Node &node, const onnx::GraphProto &body,
                                 mlir::Value trip, mlir::Value condition,
                                 llvm::ArrayRef<mlir::Value> carried);

/// An input of a Scan, of which each iteration gets one index of `axis`.
struct ScannedInput {
  mlir::Value x;
  int64_t axis;
  bool isBackwards;
};

/// Imports a Scan of `count` iterations as a loop. Outputs that are stacked lie
/// along dimension 0.
mlir::LogicalResult importScanAsLoop(Node &node, const onnx::GraphProto &body,
                                     llvm::ArrayRef<mlir::Value> carried,
                                     llvm::ArrayRef<ScannedInput> scanned,
                                     int64_t count);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_OPERATORS_LOOPS_H
