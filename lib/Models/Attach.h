//===- Attach.h - what models of several dialects share ---------*- C++ -*-===//
#ifndef KERF_LIB_MODELS_ATTACH_H
#define KERF_LIB_MODELS_ATTACH_H

#include "kerf/Interfaces/AnyOp.h"

#include "mlir/IR/DialectRegistry.h"

namespace kerf::models {

void attachLinalg(mlir::DialectRegistry &registry);
void attachTensor(mlir::DialectRegistry &registry);
void attachArith(mlir::DialectRegistry &registry);
void attachCalls(mlir::DialectRegistry &registry);
void attachCallCosts(mlir::DialectRegistry &registry);
void attachTosa(mlir::DialectRegistry &registry);
void attachTosaMoves(mlir::DialectRegistry &registry);

/// `Work` says flops() and costClass() of an op; the rest of OpCostInterface
/// follows.
template <typename Work, typename Op>
struct CostModel : OpCostInterface::ExternalModel<CostModel<Work, Op>, Op> {
  int64_t getFlops(mlir::Operation *op,
                   llvm::ArrayRef<mlir::RankedTensorType> operands,
                   llvm::ArrayRef<mlir::RankedTensorType> results) const {
    return Work::flops(op, operands, results);
  }
  int64_t
  getBytesTouched(mlir::Operation *op,
                  llvm::ArrayRef<mlir::RankedTensorType> operands,
                  llvm::ArrayRef<mlir::RankedTensorType> results) const {
    return defaultBytesTouched(Work::costClass(op), operands, results);
  }
  CostClass getCostClass(mlir::Operation *op) const {
    return Work::costClass(op);
  }
  LibraryWork getLibraryWork(mlir::Operation *op) const {
    CostClass kind = Work::costClass(op);
    bool isProduct =
        kind == CostClass::Matmul || kind == CostClass::Convolution;
    return isProduct && op->getNumResults() == 1
               ? libraryWorkOn(op->getResult(0).getType(), LibraryWork::Product)
               : LibraryWork::None;
  }
};

/// a * b for sizes that are not negative, at most the largest int64_t.
inline int64_t multiplySaturated(int64_t a, int64_t b) {
  int64_t product;
  return llvm::MulOverflow(a, b, product) ? std::numeric_limits<int64_t>::max()
                                          : product;
}

/// a + b of the same.
inline int64_t addSaturated(int64_t a, int64_t b) {
  int64_t sum;
  return llvm::AddOverflow(a, b, sum) ? std::numeric_limits<int64_t>::max()
                                      : sum;
}

/// Operations of an op on one element of its result; 0: it only moves it.
int64_t flopsPerElement(mlir::Operation *op);

/// A clone of `op` on local operands, with local result types.
mlir::Operation *cloneLocal(mlir::Operation *op, mlir::OpBuilder &builder,
                            mlir::ValueRange operands,
                            mlir::TypeRange resultTypes);

/// `Model` has the sharding rule of `Op`; on local shapes it is the same op.
template <typename Model, typename Op>
struct ClonedModel : ShardingRuleInterface::ExternalModel<Model, Op> {
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  buildLocal(mlir::Operation *op, mlir::OpBuilder &builder,
             mlir::ValueRange operands, mlir::TypeRange types,
             LocalContext &) const {
    mlir::Operation *local = cloneLocal(op, builder, operands, types);
    return llvm::SmallVector<mlir::Value>(local->getResults());
  }
};

} // namespace kerf::models

#endif // KERF_LIB_MODELS_ATTACH_H
