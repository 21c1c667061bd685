//===- Buffers.h - between tensors and what the runtime touches -*- C++ -*-===//
#ifndef KERF_LIB_RANKS_BUFFERS_H
#define KERF_LIB_RANKS_BUFFERS_H

#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace kerf::ranks {

inline mlir::MemRefType bufferType(mlir::RankedTensorType type) {
  return mlir::MemRefType::get(type.getShape(), type.getElementType());
}

/// A buffer that a call fills.
inline mlir::Value newBuffer(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::RankedTensorType type) {
  return mlir::memref::AllocOp::create(builder, loc, bufferType(type));
}

/// The tensor in a buffer that nobody writes any more. No op may write into it:
/// canonicalization folds a readTensor() and the read of it (Calls.h) to the
/// buffer, where bufferization would no longer see that it is read.
inline mlir::Value readTensor(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value buffer) {
  auto type = llvm::cast<mlir::MemRefType>(buffer.getType());
  return mlir::bufferization::ToTensorOp::create(
      builder, loc,
      mlir::RankedTensorType::get(type.getShape(), type.getElementType()),
      buffer, /*restrict=*/true, /*writable=*/false);
}

} // namespace kerf::ranks

#endif // KERF_LIB_RANKS_BUFFERS_H
