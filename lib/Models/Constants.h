//===- Constants.h - constants of any dialect as sources --------*- C++ -*-===//
//
// Constants are sources: a splat is made on each device, anything else is whole
// everywhere.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_MODELS_CONSTANTS_H
#define KERF_LIB_MODELS_CONSTANTS_H

#include "Attach.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace kerf::models {

/// The elements of a constant tensor; null for a number, and for elements that
/// are kept elsewhere (dense_resource).
inline mlir::DenseElementsAttr elementsOf(mlir::Operation *constant) {
  // Without folding, which is slower.
  if (auto arith = llvm::dyn_cast<mlir::arith::ConstantOp>(constant))
    return llvm::dyn_cast<mlir::DenseElementsAttr>(arith.getValue());
  mlir::Attribute value;
  return matchPattern(constant, mlir::m_Constant(&value))
             ? llvm::dyn_cast<mlir::DenseElementsAttr>(value)
             : mlir::DenseElementsAttr();
}

template <typename Op>
struct ConstantRule
    : ShardingRuleInterface::ExternalModel<ConstantRule<Op>, Op> {
  ShardingRule getShardingRule(mlir::Operation *op) const {
    ShardingRule rule = replicatedShardingRule(op);
    mlir::DenseElementsAttr elements = elementsOf(op);
    if (!elements || !elements.isSplat())
      return rule;
    llvm::ArrayRef<int64_t> shape = plannedType(op->getResult(0)).getShape();
    for (auto [dim, size] : llvm::enumerate(shape))
      rule.results[0][dim] = {rule.addFactor(size)};
    return rule;
  }
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  buildLocal(mlir::Operation *op, mlir::OpBuilder &builder,
             mlir::ValueRange operands, mlir::TypeRange types,
             LocalContext &) const {
    mlir::Operation *local = cloneLocal(op, builder, operands, types);
    if (types[0] != op->getResult(0).getType())
      for (mlir::NamedAttribute attr : op->getAttrs())
        if (attr.getValue() == elementsOf(op))
          local->setAttr(attr.getName(),
                         elementsOf(op).resizeSplat(
                             llvm::cast<mlir::ShapedType>(types[0])));
    return llvm::SmallVector<mlir::Value>(local->getResults());
  }
};

template <typename Op>
struct ConstantSource
    : SourceOpInterface::ExternalModel<ConstantSource<Op>, Op> {
  bool isParameter(mlir::Operation *) const { return false; }
  bool isMutable(mlir::Operation *) const { return false; }
  bool isUniform(mlir::Operation *op) const {
    mlir::DenseElementsAttr elements = elementsOf(op);
    return llvm::isa<mlir::ShapedType>(op->getResult(0).getType())
               ? elements && elements.isSplat()
               : true;
  }
  bool isStoredInParts(mlir::Operation *) const { return false; }
  llvm::StringRef getSourceName(mlir::Operation *) const { return ""; }
};

template <typename Op>
struct ConstantInterval
    : IntervalInterface::ExternalModel<ConstantInterval<Op>, Op> {
  Interval getInterval(mlir::Operation *op, unsigned,
                       llvm::ArrayRef<Interval>) const {
    mlir::DenseElementsAttr elements = elementsOf(op);
    return elements && elements.getElementType().isIntOrFloat()
               ? Interval::of(elements)
               : Interval::all();
  }
};

} // namespace kerf::models

#endif // KERF_LIB_MODELS_CONSTANTS_H
