//===- Tosa.cpp - rules of TOSA ops ---------------------------------------===//
//
// Elementwise ops, products, reductions and what moves elements. Zero points,
// shifts and shapes are whole everywhere. Padding of a product of integers is
// not 0 once the zero point is taken off, so such a sum is cut evenly or not at
// all; the bias of a convolution would count once per part, so its channels
// stay whole.
//
//===----------------------------------------------------------------------===//
#include "Constants.h"

#include "mlir/Dialect/Tosa/IR/TosaOps.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

namespace {

bool areCuttable(Operation *op) {
  return llvm::all_of(op->getOperandTypes(), canBeCut) &&
         llvm::all_of(op->getResultTypes(), canBeCut);
}

ArrayRef<int64_t> shapeOf(Value value) { return plannedType(value).getShape(); }

bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value));
}

bool isZero(Value value) {
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

/// Elementwise in the first `count` operands, which may have dimensions of size
/// 1 where the result has more; the others are whole.
ShardingRule elementwise(Operation *op, unsigned count) {
  ShardingRule rule = replicatedShardingRule(op);
  if (!areCuttable(op))
    return rule;
  for (auto [dim, size] : llvm::enumerate(shapeOf(op->getResult(0)))) {
    if (size == 1)
      continue;
    unsigned factor = rule.addFactor(size);
    rule.factors[factor].mustDivide = isa<tosa::IntDivOp>(op);
    rule.results[0][dim] = {factor};
    for (unsigned operand = 0; operand < count; ++operand)
      if (shapeOf(op->getOperand(operand))[dim] == size)
        rule.operands[operand][dim] = {factor};
  }
  if (getElementTypeOrSelf(op->getResult(0)).isInteger(1))
    return rule;
  if (isa<tosa::AddOp, tosa::SubOp>(op)) {
    rule.linearGroups = {{0, 1}};
  } else if (isa<tosa::MulOp>(op) && isFloat(op->getResult(0))) {
    rule.linearGroups = {{0}, {1}};
    rule.multipliers = {0, 1};
  } else if (isa<tosa::SelectOp>(op)) {
    rule.linearGroups = {{1, 2}};
  }
  return rule;
}

ShardingRule matmul(tosa::MatMulOp op) {
  ShardingRule rule = replicatedShardingRule(op);
  if (!areCuttable(op))
    return rule;
  ArrayRef<int64_t> a = shapeOf(op.getA()), b = shapeOf(op.getB());
  unsigned n = rule.addFactor(a[0]), h = rule.addFactor(a[1]),
           w = rule.addFactor(b[2]),
           c = rule.addFactor(a[2], FactorKind::Reduction);
  rule.operands[0] = {{n}, {h}, {c}};
  rule.operands[1] = {{n}, {c}, {w}};
  rule.results[0] = {{n}, {h}, {w}};
  rule.factors[c].mustDivide = !isFloat(op.getA());
  if (isFloat(op.getA()) && isZero(op.getAZp()) && isZero(op.getBZp())) {
    rule.linearGroups = {{0}, {1}};
    rule.multipliers = {0, 1};
  }
  return rule;
}

ShardingRule convolution(tosa::Conv2DOp op) {
  ShardingRule rule = replicatedShardingRule(op);
  if (!areCuttable(op))
    return rule;
  unsigned batch = rule.addFactor(shapeOf(op.getInput())[0]),
           channel = rule.addFactor(shapeOf(op.getWeight())[0]);
  rule.operands[0][0] = rule.results[0][0] = {batch};
  rule.operands[1][0] = rule.results[0][3] = {channel};
  if (shapeOf(op.getBias())[0] == shapeOf(op.getWeight())[0])
    rule.operands[2][0] = {channel};
  return rule;
}

/// The dimension that is reduced stays, with size 1.
template <typename Op> ShardingRule reduction(Op op) {
  ShardingRule rule = replicatedShardingRule(op);
  if (!areCuttable(op))
    return rule;
  std::optional<ReductionKind> kind;
  if constexpr (std::is_same_v<Op, tosa::ReduceSumOp>)
    kind = ReductionKind::Sum;
  else if constexpr (std::is_same_v<Op, tosa::ReduceProductOp>)
    kind = ReductionKind::Prod;
  else if (op.getNanMode() == tosa::NanPropagationMode::PROPAGATE)
    kind = std::is_same_v<Op, tosa::ReduceMaxOp> ? ReductionKind::Max
                                                 : ReductionKind::Min;
  for (auto [dim, size] : llvm::enumerate(shapeOf(op.getInput()))) {
    bool isReduced = dim == op.getAxis();
    if (isReduced && !kind)
      continue;
    unsigned factor = rule.addFactor(
        size, isReduced ? FactorKind::Reduction : FactorKind::Parallel,
        kind.value_or(ReductionKind::Sum));
    rule.operands[0][dim] = {factor};
    if (!isReduced)
      rule.results[0][dim] = {factor};
  }
  if (kind == ReductionKind::Sum)
    rule.linearGroups = {{0}};
  return rule;
}

ShardingRule reshape(tosa::ReshapeOp op) {
  if (!canBeCut(op.getInput1().getType()) || !canBeCut(op.getType()))
    return replicatedShardingRule(op);
  ShardingRule rule = reshapeShardingRule(shapeOf(op.getInput1()), shapeOf(op));
  rule.operands.emplace_back(); // the shape
  return rule;
}

ShardingRule transpose(tosa::TransposeOp op) {
  ShardingRule rule = replicatedShardingRule(op);
  if (!areCuttable(op))
    return rule;
  for (auto [dim, from] : llvm::enumerate(op.getPerms()))
    rule.operands[0][from] =
        rule.results[0][dim] = {rule.addFactor(shapeOf(op)[dim])};
  rule.linearGroups = {{0}};
  return rule;
}

ShardingRule concat(tosa::ConcatOp op) {
  ShardingRule rule = replicatedShardingRule(op);
  if (!areCuttable(op))
    return rule;
  SmallVector<unsigned> all;
  for (unsigned number = 0; number < op->getNumOperands(); ++number)
    all.push_back(number);
  for (auto [dim, size] : llvm::enumerate(shapeOf(op))) {
    if (dim == op.getAxis())
      continue;
    unsigned factor = rule.addFactor(size);
    rule.results[0][dim] = {factor};
    for (TensorFactors &operand : rule.operands)
      operand[dim] = {factor};
  }
  rule.linearGroups.push_back(std::move(all));
  return rule;
}

template <typename Op> ShardingRule ruleOf(Op op) {
  if constexpr (std::is_same_v<Op, tosa::MatMulOp>)
    return matmul(op);
  else if constexpr (std::is_same_v<Op, tosa::Conv2DOp>)
    return convolution(op);
  else if constexpr (std::is_same_v<Op, tosa::ReshapeOp>)
    return reshape(op);
  else if constexpr (std::is_same_v<Op, tosa::TransposeOp>)
    return transpose(op);
  else if constexpr (std::is_same_v<Op, tosa::ConcatOp>)
    return concat(op);
  else if constexpr (llvm::is_one_of<Op, tosa::ReduceSumOp, tosa::ReduceMaxOp,
                                     tosa::ReduceMinOp,
                                     tosa::ReduceProductOp>::value)
    return reduction(op);
  else if constexpr (std::is_same_v<Op, tosa::MulOp>)
    return elementwise(op, 2); // behind them a shift
  else if constexpr (std::is_same_v<Op, tosa::NegateOp>)
    return elementwise(op, 1); // behind it zero points
  else
    return elementwise(op, op->getNumOperands());
}

template <typename Op>
struct TosaModel : ShardingRuleInterface::ExternalModel<TosaModel<Op>, Op> {
  ShardingRule getShardingRule(Operation *op) const {
    return ruleOf(cast<Op>(op));
  }
  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &) const {
    Operation *local = cloneLocal(op, builder, operands, types);
    if (auto reshaped = dyn_cast<tosa::ReshapeOp>(local);
        reshaped && canBeCut(types[0])) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(local);
      ArrayRef<int64_t> shape = cast<RankedTensorType>(types[0]).getShape();
      auto rank = static_cast<int64_t>(shape.size());
      reshaped.getShapeMutable().assign(tosa::ConstShapeOp::create(
          builder, op->getLoc(),
          tosa::shapeType::get(builder.getContext(), static_cast<int>(rank)),
          DenseIntElementsAttr::get(
              RankedTensorType::get({rank}, builder.getIndexType()), shape)));
    }
    return SmallVector<Value>(local->getResults());
  }
};

struct TosaWork {
  static int64_t flops(Operation *op, ArrayRef<RankedTensorType> operands,
                       ArrayRef<RankedTensorType> results) {
    int64_t elements = results[0].getNumElements();
    if (isa<tosa::MatMulOp>(op))
      return multiplySaturated(elements, 2 * operands[0].getDimSize(2));
    if (isa<tosa::Conv2DOp>(op)) {
      ArrayRef<int64_t> weight = operands[1].getShape(); // OHWI
      return multiplySaturated(elements, 2 * weight[1] * weight[2] * weight[3]);
    }
    if (isa<tosa::ReshapeOp, tosa::TransposeOp, tosa::ConcatOp,
            tosa::IdentityOp, tosa::CastOp>(op))
      return 0;
    if (isReduction(op))
      return operands[0].getNumElements();
    constexpr int64_t kFunction = 20; // a polynomial
    return isa<tosa::ErfOp, tosa::SigmoidOp, tosa::TanhOp, tosa::PowOp,
               tosa::CosOp, tosa::ExpOp, tosa::LogOp, tosa::SinOp>(op)
               ? multiplySaturated(elements, kFunction)
               : elements;
  }
  static CostClass costClass(Operation *op) {
    if (isa<tosa::MatMulOp>(op))
      return CostClass::Matmul;
    if (isa<tosa::Conv2DOp>(op))
      return CostClass::Convolution;
    if (isa<tosa::ReshapeOp>(op))
      return CostClass::View;
    return isReduction(op) ? CostClass::Row : CostClass::Elementwise;
  }

private:
  static bool isReduction(Operation *op) {
    return isa<tosa::ReduceSumOp, tosa::ReduceMaxOp, tosa::ReduceMinOp,
               tosa::ReduceProductOp>(op);
  }
};

template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<TosaModel<Ops>, CostModel<TosaWork, Ops>>(
       *context),
   ...);
}

/// All of these in a list of ops.
template <typename... Ops> void attachElementwise(MLIRContext *context) {
  auto attachOne = [&](auto *op) {
    using Op = std::remove_pointer_t<decltype(op)>;
    if constexpr (Op::template hasTrait<
                      OpTrait::tosa::TosaElementwiseOperator>())
      attach<Op>(context);
  };
  (attachOne(static_cast<Ops *>(nullptr)), ...);
}

} // namespace

void kerf::models::attachTosa(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tosa::TosaDialect *) {
    attachElementwise<
#define GET_OP_LIST
#include "mlir/Dialect/Tosa/IR/TosaOps.cpp.inc"
        >(context);
    attach<tosa::MulOp, tosa::NegateOp, tosa::CastOp, tosa::IdentityOp,
           tosa::MatMulOp, tosa::Conv2DOp, tosa::ReduceSumOp, tosa::ReduceMaxOp,
           tosa::ReduceMinOp, tosa::ReduceProductOp, tosa::ReshapeOp,
           tosa::TransposeOp, tosa::ConcatOp>(context);
    tosa::ConstOp::attachInterface<ConstantRule<tosa::ConstOp>,
                                   ConstantSource<tosa::ConstOp>,
                                   ConstantInterval<tosa::ConstOp>>(*context);
  });
}
