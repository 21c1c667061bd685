//===- LocalOps.h - ops of dist that move nothing ---------------*- C++ -*-===//
//
// What ranks do without each other becomes ops of arith, linalg and tensor.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_RANKS_LOCALOPS_H
#define KERF_LIB_RANKS_LOCALOPS_H

#include "Calls.h"

#include "kerf/Dist/Dist.h"

namespace kerf::ranks {

/// A rank's place on the mesh, in one function.
class RankPosition {
public:
  RankPosition(const dist::Mesh &mesh, Calls &calls, RankArguments arguments)
      : mesh(mesh), calls(calls), arguments(arguments) {}

  /// The rank's linear index over axes, an i64; axes in time count with the
  /// micro-batch.
  mlir::Value over(mlir::OpBuilder &builder, mlir::Location loc,
                   llvm::ArrayRef<dist::AxisRef> axes);
  mlir::Value over(mlir::OpBuilder &builder, mlir::Location loc,
                   dist::AxesAttr axes);
  /// Into how many parts the axes cut.
  int64_t numParts(dist::AxesAttr axes) const;

private:
  const dist::Mesh &mesh;
  Calls &calls;
  RankArguments arguments;
};

/// A tensor of zeros.
mlir::Value createZeros(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::RankedTensorType type);

/// The values that stand for the results of an op of `dist` that moves nothing.
/// Fails without a message if it is none of these.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerLocalOp(mlir::OpBuilder &builder, mlir::Operation *op,
             RankPosition &position);

} // namespace kerf::ranks

#endif // KERF_LIB_RANKS_LOCALOPS_H
