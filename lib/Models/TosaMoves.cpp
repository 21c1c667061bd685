//===- TosaMoves.cpp - rules of TOSA ops that move or look at windows -----===//
//
// Slices, pads, tiles, reverses, gathers, pools and convolutions cut the
// dimensions that they leave as they are: element i of the result's dimension
// is made of element i of the operand's alone. What starts, sizes, paddings and
// multiples are has to be known; else nothing is cut.
//
//===----------------------------------------------------------------------===//
#include "Attach.h"

#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

namespace {

ArrayRef<int64_t> shapeOf(Value value) { return plannedType(value).getShape(); }

/// The numbers of a constant shape.
std::optional<SmallVector<int64_t>> numbersOf(Value shape) {
  auto constant = shape.getDefiningOp<tosa::ConstShapeOp>();
  if (!constant)
    return std::nullopt;
  SmallVector<int64_t> numbers;
  for (const APInt &number : constant.getValues().getValues<APInt>())
    numbers.push_back(number.getSExtValue());
  return numbers;
}

/// Nothing is cut so far; none: nothing can be.
std::optional<ShardingRule> start(Operation *op) {
  if (canBeCut(op->getOperand(0).getType()) &&
      llvm::all_of(op->getResultTypes(), canBeCut))
    return replicatedShardingRule(op);
  return std::nullopt;
}

/// A factor on a dimension of the first operand and one of the result.
unsigned keep(Operation *op, ShardingRule &rule, unsigned from, unsigned to) {
  unsigned factor = rule.addFactor(shapeOf(op->getResult(0))[to]);
  rule.operands[0][from] = rule.results[0][to] = {factor};
  return factor;
}

ShardingRule ruleOf(tosa::SliceOp op, ShardingRule rule) {
  auto starts = numbersOf(op.getStart()), sizes = numbersOf(op.getSize());
  if (!starts || !sizes)
    return rule;
  for (auto [dim, size] : llvm::enumerate(shapeOf(op.getInput1())))
    if ((*starts)[dim] == 0 && (*sizes)[dim] == size)
      keep(op, rule, dim, dim);
  rule.linearGroups = {{0}};
  return rule;
}

ShardingRule ruleOf(tosa::PadOp op, ShardingRule rule) {
  auto padding = numbersOf(op.getPadding());
  if (!padding)
    return rule;
  for (size_t dim = 0; dim < shapeOf(op).size(); ++dim)
    if ((*padding)[2 * dim] == 0 && (*padding)[2 * dim + 1] == 0)
      keep(op, rule, dim, dim);
  Value value = op.getPadConst();
  if (matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero()))
    rule.linearGroups = {{0}};
  return rule;
}

ShardingRule ruleOf(tosa::TileOp op, ShardingRule rule) {
  auto multiples = numbersOf(op.getMultiples());
  if (!multiples)
    return rule;
  for (auto [dim, multiple] : llvm::enumerate(*multiples))
    if (multiple == 1)
      keep(op, rule, dim, dim);
  rule.linearGroups = {{0}};
  return rule;
}

ShardingRule ruleOf(tosa::ReverseOp op, ShardingRule rule) {
  for (unsigned dim = 0; dim < shapeOf(op).size(); ++dim)
    if (dim != op.getAxis())
      keep(op, rule, dim, dim);
  rule.linearGroups = {{0}};
  return rule;
}

/// Which one is largest is not said by the largest of each part.
ShardingRule ruleOf(tosa::ArgMaxOp op, ShardingRule rule) {
  for (unsigned dim = 0, to = 0; dim < shapeOf(op.getInput()).size(); ++dim)
    if (dim != op.getAxis())
      keep(op, rule, dim, to++);
  return rule;
}

template <typename Op> ShardingRule logicalReduction(Op op, ShardingRule rule) {
  for (unsigned dim = 0; dim < shapeOf(op).size(); ++dim)
    if (dim != op.getAxis())
      keep(op, rule, dim, dim);
  return rule;
}
ShardingRule ruleOf(tosa::ReduceAllOp op, ShardingRule rule) {
  return logicalReduction(op, std::move(rule));
}
ShardingRule ruleOf(tosa::ReduceAnyOp op, ShardingRule rule) {
  return logicalReduction(op, std::move(rule));
}

/// [n, k, c] at indices [n, w] gives [n, w, c]; any index may name any k.
ShardingRule ruleOf(tosa::GatherOp op, ShardingRule rule) {
  if (!canBeCut(op.getIndices().getType()))
    return rule;
  unsigned batch = keep(op, rule, 0, 0);
  keep(op, rule, 2, 2);
  unsigned index = rule.addFactor(shapeOf(op)[1]);
  rule.operands[1] = {{batch}, {index}};
  rule.results[0][1] = {index};
  rule.linearGroups = {{0}};
  rule.paddingFills = {{1, 0}};
  return rule;
}

/// [n, k, c] with [n, w, c] written at indices [n, w], of which no two are
/// equal: that does not hold of padding.
ShardingRule ruleOf(tosa::ScatterOp op, ShardingRule rule) {
  if (!canBeCut(op.getIndices().getType()) ||
      !canBeCut(op.getInput().getType()))
    return rule;
  unsigned batch = keep(op, rule, 0, 0), channel = keep(op, rule, 2, 2);
  rule.factors[batch].mustDivide = true;
  rule.operands[1][0] = rule.operands[2][0] = {batch};
  rule.operands[2][2] = {channel};
  rule.linearGroups = {{0, 2}};
  return rule;
}

template <typename Op> ShardingRule pool(Op op, ShardingRule rule) {
  keep(op, rule, 0, 0);
  keep(op, rule, 3, 3);
  return rule;
}
ShardingRule ruleOf(tosa::MaxPool2dOp op, ShardingRule rule) {
  return pool(op, std::move(rule));
}
ShardingRule ruleOf(tosa::AvgPool2dOp op, ShardingRule rule) {
  return pool(op, std::move(rule));
}

/// Input [n, d, h, w, ic], weight [oc, ...], bias [oc] or [1].
ShardingRule ruleOf(tosa::Conv3DOp op, ShardingRule rule) {
  if (!canBeCut(op.getWeight().getType()) || !canBeCut(op.getBias().getType()))
    return rule;
  keep(op, rule, 0, 0);
  unsigned channel = rule.addFactor(shapeOf(op)[4]);
  rule.operands[1][0] = rule.results[0][4] = {channel};
  if (shapeOf(op.getBias())[0] == shapeOf(op)[4])
    rule.operands[2][0] = {channel};
  return rule;
}

/// Input [n, h, w, c], weight [kh, kw, c, m], bias [c m] or [1]; m results for
/// each channel, side by side.
ShardingRule ruleOf(tosa::DepthwiseConv2DOp op, ShardingRule rule) {
  if (!canBeCut(op.getWeight().getType()) || !canBeCut(op.getBias().getType()))
    return rule;
  keep(op, rule, 0, 0);
  ArrayRef<int64_t> weight = shapeOf(op.getWeight());
  DimFactors channels = {rule.addFactor(weight[2]), rule.addFactor(weight[3])};
  rule.operands[0][3] = rule.operands[1][2] = {channels[0]};
  rule.operands[1][3] = {channels[1]};
  rule.results[0][3] = channels;
  if (shapeOf(op.getBias())[0] == shapeOf(op)[3])
    rule.operands[2][0] = channels;
  return rule;
}

template <typename Op>
struct MoveModel : ShardingRuleInterface::ExternalModel<MoveModel<Op>, Op> {
  ShardingRule getShardingRule(Operation *op) const {
    std::optional<ShardingRule> rule = start(op);
    return rule ? ruleOf(cast<Op>(op), std::move(*rule))
                : replicatedShardingRule(op);
  }
  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &) const {
    Operation *local = cloneLocal(op, builder, operands, types);
    if (auto slice = dyn_cast<tosa::SliceOp>(local))
      resize(slice, builder);
    return SmallVector<Value>(local->getResults());
  }

private:
  /// A slice says its sizes, which are those of the local result.
  static void resize(tosa::SliceOp slice, OpBuilder &builder) {
    auto type = dyn_cast<RankedTensorType>(slice.getType());
    if (!type || !canBeCut(type) || !numbersOf(slice.getSize()))
      return;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(slice);
    int64_t rank = type.getRank();
    slice.getSizeMutable().assign(tosa::ConstShapeOp::create(
        builder, slice.getLoc(),
        tosa::shapeType::get(builder.getContext(), static_cast<int>(rank)),
        DenseIntElementsAttr::get(
            RankedTensorType::get({rank}, builder.getIndexType()),
            type.getShape())));
  }
};

struct MoveWork {
  static int64_t flops(Operation *op, ArrayRef<RankedTensorType> operands,
                       ArrayRef<RankedTensorType> results) {
    int64_t elements = results[0].getNumElements();
    if (auto conv = dyn_cast<tosa::DepthwiseConv2DOp>(op)) {
      ArrayRef<int64_t> weight = operands[1].getShape();
      return multiplySaturated(elements, 2 * weight[0] * weight[1]);
    }
    if (isa<tosa::Conv3DOp>(op))
      return multiplySaturated(elements, 2 * operands[1].getNumElements() /
                                             operands[1].getDimSize(0));
    if (auto most = dyn_cast<tosa::MaxPool2dOp>(op))
      return multiplySaturated(elements,
                               most.getKernel()[0] * most.getKernel()[1]);
    if (auto mean = dyn_cast<tosa::AvgPool2dOp>(op))
      return multiplySaturated(elements,
                               mean.getKernel()[0] * mean.getKernel()[1]);
    return isReduction(op) ? operands[0].getNumElements() : 0;
  }
  static CostClass costClass(Operation *op) {
    if (isa<tosa::Conv3DOp, tosa::DepthwiseConv2DOp>(op))
      return CostClass::Convolution;
    if (isa<tosa::GatherOp>(op))
      return CostClass::Gather;
    if (isa<tosa::SliceOp>(op))
      return CostClass::View;
    return isReduction(op) ? CostClass::Row : CostClass::Elementwise;
  }

private:
  static bool isReduction(Operation *op) {
    return isa<tosa::ArgMaxOp, tosa::ReduceAllOp, tosa::ReduceAnyOp>(op);
  }
};

template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<MoveModel<Ops>, CostModel<MoveWork, Ops>>(
       *context),
   ...);
}

} // namespace

void kerf::models::attachTosaMoves(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tosa::TosaDialect *) {
    attach<tosa::SliceOp, tosa::PadOp, tosa::TileOp, tosa::ReverseOp,
           tosa::ArgMaxOp, tosa::ReduceAllOp, tosa::ReduceAnyOp, tosa::GatherOp,
           tosa::ScatterOp, tosa::MaxPool2dOp, tosa::AvgPool2dOp,
           tosa::Conv3DOp, tosa::DepthwiseConv2DOp>(context);
  });
}
