//===- Arith.cpp - rules of arith and math on tensors ---------------------===//
//
// Elementwise ops: each dimension of the result is a parallel factor. On
// scalars the same ops have nothing to cut.
//
//===----------------------------------------------------------------------===//
#include "Constants.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

int64_t kerf::models::flopsPerElement(Operation *op) {
  if ((op->getNumOperands() == 0 && op->hasTrait<OpTrait::ConstantLike>()) ||
      isa<arith::ExtFOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncFOp,
          arith::TruncIOp, arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp,
          arith::FPToUIOp, arith::IndexCastOp, arith::BitcastOp>(op))
    return 0;
  if (isa<arith::DivFOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp,
          arith::RemUIOp, arith::RemFOp, math::SqrtOp, math::RsqrtOp>(op))
    return 4;
  if (isa<math::AbsFOp, math::AbsIOp, math::FmaOp, math::CopySignOp>(op))
    return isa<math::FmaOp>(op) ? 2 : 1;
  if (isa_and_nonnull<math::MathDialect>(op->getDialect()))
    return 20; // a polynomial
  return isa_and_nonnull<arith::ArithDialect>(op->getDialect()) ? 1 : 0;
}

Operation *kerf::models::cloneLocal(Operation *op, OpBuilder &builder,
                                    ValueRange operands,
                                    TypeRange resultTypes) {
  IRMapping mapping;
  mapping.map(op->getOperands(), operands);
  // Operands that occur twice may be masked in different ways.
  Operation *local = builder.clone(*op, mapping);
  local->setOperands(operands);
  for (auto [result, type] : llvm::zip(local->getResults(), resultTypes))
    result.setType(type);
  return local;
}

namespace {

/// Sets of operands in which a sum, difference, product or choice is linear.
void addLinearGroups(Operation *op, ShardingRule &rule) {
  if (getElementTypeOrSelf(op->getResult(0)).isInteger(1))
    return;
  if (isa<arith::AddFOp, arith::AddIOp, arith::SubFOp, arith::SubIOp>(op)) {
    rule.linearGroups = {{0, 1}};
  } else if (isa<arith::MulFOp, arith::MulIOp>(op)) {
    rule.linearGroups = {{0}, {1}};
    rule.multipliers = {0, 1};
  } else if (isa<arith::DivFOp>(op)) {
    rule.linearGroups = {{0}};
    rule.divisors = {1};
  } else if (isa<arith::NegFOp, arith::ExtFOp>(op)) {
    rule.linearGroups = {{0}};
  } else if (isa<arith::SelectOp>(op)) {
    rule.linearGroups = {{1, 2}};
  }
}

template <typename Op>
struct ElementwiseModel : ClonedModel<ElementwiseModel<Op>, Op> {
  ShardingRule getShardingRule(Operation *op) const {
    ShardingRule rule = replicatedShardingRule(op);
    if (!canBeCut(op->getResult(0).getType()))
      return rule;
    RankedTensorType type = plannedType(op->getResult(0));
    // An operand is a tensor of this shape, or one number for all elements.
    for (Value operand : op->getOperands())
      if (isa<ShapedType>(operand.getType()) &&
          (!canBeCut(operand.getType()) ||
           plannedType(operand).getShape() != type.getShape()))
        return rule;
    // A division of integers by what lies in padding would end the program.
    bool canFail =
        isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
            arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp>(op);
    for (auto [dim, size] : llvm::enumerate(type.getShape())) {
      unsigned factor = rule.addFactor(size);
      rule.factors[factor].mustDivide = canFail;
      for (TensorFactors &operand : rule.operands)
        if (!operand.empty())
          operand[dim] = {factor};
      for (TensorFactors &result : rule.results)
        result[dim] = {factor};
    }
    addLinearGroups(op, rule);
    return rule;
  }
};

struct ElementwiseWork {
  static int64_t flops(Operation *op, ArrayRef<RankedTensorType>,
                       ArrayRef<RankedTensorType> results) {
    return multiplySaturated(results[0].getNumElements(), flopsPerElement(op));
  }
  static CostClass costClass(Operation *) { return CostClass::Elementwise; }
};

template <typename... Ops> void attachElementwise(MLIRContext *context) {
  auto attach = [&](auto *op) {
    using Op = std::remove_pointer_t<decltype(op)>;
    if constexpr (Op::template hasTrait<OpTrait::Elementwise>())
      Op::template attachInterface<ElementwiseModel<Op>,
                                   CostModel<ElementwiseWork, Op>>(*context);
  };
  (attach(static_cast<Ops *>(nullptr)), ...);
}

} // namespace

void kerf::models::attachArith(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachElementwise<
#define GET_OP_LIST
#include "mlir/Dialect/Arith/IR/ArithOps.cpp.inc"
        >(context);
    arith::ConstantOp::attachInterface<ConstantRule<arith::ConstantOp>,
                                       ConstantSource<arith::ConstantOp>,
                                       ConstantInterval<arith::ConstantOp>>(
        *context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attachElementwise<
#define GET_OP_LIST
#include "mlir/Dialect/Math/IR/MathOps.cpp.inc"
        >(context);
  });
}
