//===- Tensor.cpp - rules of tensor ops -----------------------------------===//
//
// What moves elements cuts the dimensions that it leaves as they are.
//
//===----------------------------------------------------------------------===//
#include "Attach.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

namespace {

/// Every dimension has a factor of its own.
ShardingRule eachDim(Operation *op) {
  ShardingRule rule = replicatedShardingRule(op);
  ArrayRef<int64_t> shape = plannedType(op->getResult(0)).getShape();
  for (auto [dim, size] : llvm::enumerate(shape))
    rule.results[0][dim].push_back(rule.addFactor(size));
  return rule;
}

bool areCuttable(Operation *op, ArrayRef<Value> operands) {
  return llvm::all_of(op->getResultTypes(), canBeCut) &&
         llvm::all_of(operands,
                      [](Value value) { return canBeCut(value.getType()); });
}

SmallVector<Value> built(Operation *op) {
  return SmallVector<Value>(op->getResults());
}

struct EmptyModel
    : ShardingRuleInterface::ExternalModel<EmptyModel, tensor::EmptyOp> {
  ShardingRule getShardingRule(Operation *op) const { return eachDim(op); }
  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &) const {
    return built(
        tensor::EmptyOp::create(builder, op->getLoc(), types[0], operands));
  }
};

/// What an empty tensor holds is not defined, so it is the same everywhere.
struct EmptySource
    : SourceOpInterface::ExternalModel<EmptySource, tensor::EmptyOp> {
  bool isParameter(Operation *) const { return false; }
  bool isMutable(Operation *) const { return false; }
  bool isUniform(Operation *) const { return true; }
  bool isStoredInParts(Operation *) const { return false; }
  StringRef getSourceName(Operation *) const { return ""; }
};

struct SplatModel : ClonedModel<SplatModel, tensor::SplatOp> {
  ShardingRule getShardingRule(Operation *op) const { return eachDim(op); }
};

/// The dimension of the slice for each dimension of the tensor that the slice
/// has whole; none for others.
template <typename Op>
SmallVector<std::optional<unsigned>> wholeDims(Op op, RankedTensorType tensor) {
  llvm::SmallBitVector dropped = op.getDroppedDims();
  SmallVector<std::optional<unsigned>> found(tensor.getRank());
  unsigned next = 0;
  for (unsigned dim = 0; dim < found.size(); ++dim) {
    if (dropped.test(dim))
      continue;
    if (isConstantIntValue(op.getMixedOffsets()[dim], 0) &&
        isConstantIntValue(op.getMixedStrides()[dim], 1) &&
        isConstantIntValue(op.getMixedSizes()[dim], tensor.getDimSize(dim)))
      found[dim] = next;
    ++next;
  }
  return found;
}

/// Sizes of a slice, with those of whole dimensions as they are here.
template <typename Op>
SmallVector<OpFoldResult>
localSizes(Op op, OpBuilder &builder, RankedTensorType global,
           RankedTensorType local, ArrayRef<OpFoldResult> sizes) {
  SmallVector<OpFoldResult> mine(sizes);
  for (auto [dim, whole] : llvm::enumerate(wholeDims(op, global)))
    if (whole)
      mine[dim] = builder.getIndexAttr(local.getDimSize(dim));
  return mine;
}

struct ExtractSliceModel
    : ShardingRuleInterface::ExternalModel<ExtractSliceModel,
                                           tensor::ExtractSliceOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    ShardingRule rule = replicatedShardingRule(op);
    if (!areCuttable(op, {slice.getSource()}))
      return rule;
    RankedTensorType source = slice.getSourceType();
    for (auto [dim, whole] : llvm::enumerate(wholeDims(slice, source)))
      if (whole) {
        unsigned factor = rule.addFactor(source.getDimSize(dim));
        rule.operands[0][dim] = {factor};
        rule.results[0][*whole] = {factor};
      }
    rule.linearGroups.push_back({0});
    return rule;
  }
  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    auto local =
        cast<tensor::ExtractSliceOp>(cloneLocal(op, builder, operands, types));
    auto made = tensor::ExtractSliceOp::create(
        builder, op->getLoc(), cast<RankedTensorType>(types[0]),
        local.getSource(), local.getMixedOffsets(),
        localSizes(slice, builder, slice.getSourceType(), local.getSourceType(),
                   local.getMixedSizes()),
        local.getMixedStrides());
    local.erase();
    return built(made);
  }
};

struct InsertSliceModel
    : ShardingRuleInterface::ExternalModel<InsertSliceModel,
                                           tensor::InsertSliceOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto slice = cast<tensor::InsertSliceOp>(op);
    ShardingRule rule = replicatedShardingRule(op);
    if (!areCuttable(op, {slice.getSource(), slice.getDest()}))
      return rule;
    RankedTensorType dest = slice.getDestType();
    for (auto [dim, whole] : llvm::enumerate(wholeDims(slice, dest)))
      if (whole) {
        unsigned factor = rule.addFactor(dest.getDimSize(dim));
        rule.operands[0][*whole] = {factor};
        rule.operands[1][dim] = rule.results[0][dim] = {factor};
      }
    rule.linearGroups.push_back({0, 1});
    return rule;
  }
  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &) const {
    auto slice = cast<tensor::InsertSliceOp>(op);
    auto local =
        cast<tensor::InsertSliceOp>(cloneLocal(op, builder, operands, types));
    auto made = tensor::InsertSliceOp::create(
        builder, op->getLoc(), local.getSource(), local.getDest(),
        local.getMixedOffsets(),
        localSizes(slice, builder, slice.getDestType(), local.getDestType(),
                   local.getMixedSizes()),
        local.getMixedStrides());
    local.erase();
    return built(made);
  }
};

struct PadModel : ClonedModel<PadModel, tensor::PadOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto pad = cast<tensor::PadOp>(op);
    ShardingRule rule = replicatedShardingRule(op);
    Value value = pad.getConstantPaddingValue();
    if (!areCuttable(op, {pad.getSource()}) || !value)
      return rule;
    for (int64_t dim = 0; dim < pad.getSourceType().getRank(); ++dim)
      if (isConstantIntValue(pad.getMixedLowPad()[dim], 0) &&
          isConstantIntValue(pad.getMixedHighPad()[dim], 0))
        rule.operands[0][dim] = rule.results[0][dim] = {
            rule.addFactor(pad.getSourceType().getDimSize(dim))};
    if (matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero()))
      rule.linearGroups.push_back({0});
    return rule;
  }
};

struct ConcatModel : ClonedModel<ConcatModel, tensor::ConcatOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto concat = cast<tensor::ConcatOp>(op);
    ShardingRule rule = replicatedShardingRule(op);
    if (!areCuttable(op, SmallVector<Value>(op->getOperands())))
      return rule;
    SmallVector<unsigned> all;
    for (unsigned number = 0; number < op->getNumOperands(); ++number)
      all.push_back(number);
    ArrayRef<int64_t> shape = plannedType(op->getResult(0)).getShape();
    for (auto [dim, size] : llvm::enumerate(shape)) {
      if (dim == concat.getDim())
        continue;
      unsigned factor = rule.addFactor(size);
      for (TensorFactors &operand : rule.operands)
        operand[dim] = {factor};
      rule.results[0][dim] = {factor};
    }
    rule.linearGroups.push_back(std::move(all));
    return rule;
  }
};

template <typename Op>
struct ReshapeModel
    : ShardingRuleInterface::ExternalModel<ReshapeModel<Op>, Op> {
  ShardingRule getShardingRule(Operation *op) const {
    Value source = op->getOperand(0), result = op->getResult(0);
    if (!areCuttable(op, {source}))
      return replicatedShardingRule(op);
    ShardingRule rule = reshapeShardingRule(plannedType(source).getShape(),
                                            plannedType(result).getShape());
    rule.operands.resize(op->getNumOperands()); // sizes that are not constant
    return rule;
  }
  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &) const {
    if (!canBeCut(op->getResult(0).getType()))
      return built(cloneLocal(op, builder, operands, types));
    return built(Op::create(builder, op->getLoc(),
                            cast<RankedTensorType>(types[0]), operands[0],
                            cast<Op>(op).getReassociationIndices()));
  }
};

struct MoveWork {
  static int64_t flops(Operation *, ArrayRef<RankedTensorType>,
                       ArrayRef<RankedTensorType>) {
    return 0;
  }
  static CostClass costClass(Operation *op) {
    return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
               tensor::ExtractSliceOp>(op)
               ? CostClass::View
               : CostClass::Elementwise;
  }
};

template <typename Op, typename Model> void attach(MLIRContext *context) {
  Op::template attachInterface<Model, CostModel<MoveWork, Op>>(*context);
}

} // namespace

void kerf::models::attachTensor(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::EmptyOp::attachInterface<EmptyModel, EmptySource>(*context);
    attach<tensor::SplatOp, SplatModel>(context);
    attach<tensor::ExtractSliceOp, ExtractSliceModel>(context);
    attach<tensor::InsertSliceOp, InsertSliceModel>(context);
    attach<tensor::PadOp, PadModel>(context);
    attach<tensor::ConcatOp, ConcatModel>(context);
    attach<tensor::ExpandShapeOp, ReshapeModel<tensor::ExpandShapeOp>>(context);
    attach<tensor::CollapseShapeOp, ReshapeModel<tensor::CollapseShapeOp>>(
        context);
  });
}
