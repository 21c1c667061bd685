//===- Linalg.cpp - rules and costs of linalg ops -------------------------===//
//
// A structured op is a loop nest: its loops are the factors, its indexing maps
// say which loop indexes which dimension, and its iterator types what is
// reduced. A loop that indexes a dimension together with others (a window of a
// convolution) is never cut.
//
// The destination of a reduction is added to the result. Where devices each
// compute a partial sum, it must count once: all but the first of them take
// the identity of the reduction instead (buildLocal), unless it is known to be
// that already.
//
//===----------------------------------------------------------------------===//
#include "Attach.h"
#include "Body.h"

#include "kerf/Interfaces/Capture.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

namespace {

/// Masking operands by 0 masks the products, so the op needs no change. With
/// zero points, which are further inputs, products of 0 are none.
bool addsProducts(linalg::LinalgOp op) {
  return op.getNumDpsInputs() == 2 && (linalg::isaContractionOpInterface(op) ||
                                       linalg::isaConvolutionOpInterface(op));
}

bool isPlannable(linalg::LinalgOp op) {
  return op.hasPureTensorSemantics() && !op.hasDynamicShape() &&
         llvm::all_of(op->getResultTypes(), canBeCut);
}

ShardingRule structuredRule(linalg::LinalgOp op) {
  if (!isPlannable(op))
    return replicatedShardingRule(op);
  ShardingRule rule;
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  for (auto [size, iterator] : llvm::zip(sizes, iterators))
    rule.addFactor(size, iterator == utils::IteratorType::parallel
                             ? FactorKind::Parallel
                             : FactorKind::Reduction);
  SmallVector<bool> isWhole(sizes.size(), false);
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    TensorFactors dims(plannedType(operand.get()).getRank());
    bool isCuttable = canBeCut(operand.get().getType());
    SmallVector<bool> isHere(sizes.size(), false);
    for (auto [dim, index] : llvm::enumerate(map.getResults())) {
      auto loop = dyn_cast<AffineDimExpr>(index);
      if (loop && isCuttable && !isHere[loop.getPosition()] &&
          plannedType(operand.get()).getDimSize(dim) ==
              sizes[loop.getPosition()]) {
        isHere[loop.getPosition()] = true;
        dims[dim].push_back(loop.getPosition());
        continue;
      }
      index.walk([&](AffineExpr part) {
        if (auto loop = dyn_cast<AffineDimExpr>(part))
          isWhole[loop.getPosition()] = true;
      });
    }
    rule.operands.push_back(std::move(dims));
  }
  for (OpOperand &init : op.getDpsInitsMutable())
    rule.results.push_back(rule.operands[init.getOperandNumber()]);

  std::optional<ReductionKind> kind;
  bool isKnown = true;
  for (unsigned init = 0; init < rule.results.size(); ++init) {
    std::optional<Combiner> combiner = combinerOf(op, init);
    isKnown &= combiner && kind.value_or(combiner->kind) == combiner->kind;
    if (combiner)
      kind = combiner->kind;
  }
  bool canFail = mayFail(*op.getBlock()), masks = !addsProducts(op);
  for (auto [loop, factor] : llvm::enumerate(rule.factors)) {
    auto isIn = [loop = loop](const TensorFactors &dims) {
      return llvm::any_of(dims, [&](const DimFactors &list) {
        return llvm::is_contained(list, unsigned(loop));
      });
    };
    bool isReduced = factor.kind == FactorKind::Reduction;
    bool fits = isReduced ? isKnown && llvm::none_of(rule.results, isIn)
                          : llvm::all_of(rule.results, isIn);
    if (isWhole[loop] || !fits) {
      factor.kind = FactorKind::Replicated;
      continue;
    }
    factor.mustDivide = canFail;
    if (isReduced) {
      factor.reduction = *kind;
      factor.masksItself = masks;
    }
  }
  addLinearGroups(op, rule);
  return rule;
}

/// Builds a structured op on local shapes.
class LocalBuilder {
public:
  LocalBuilder(linalg::LinalgOp global, OpBuilder &builder,
               LocalContext &context)
      : global(global), builder(builder), context(context) {}

  SmallVector<Value> build(ValueRange operands, TypeRange types) {
    SmallVector<Value> mine(operands);
    for (unsigned init = 0; init < global.getNumDpsInits(); ++init) {
      Value &value = mine[global.getNumDpsInputs() + init];
      value = countOnce(init, value);
    }
    auto local =
        cast<linalg::LinalgOp>(cloneLocal(global, builder, mine, types));
    SmallVector<unsigned> padded;
    for (unsigned loop = 0; loop < global.getNumLoops(); ++loop)
      if (isCutSum(loop) && rule().factors[loop].masksItself &&
          context.shards(loop) * context.localSize(loop) !=
              rule().factors[loop].size)
        padded.push_back(loop);
    if (!padded.empty())
      local = mask(local, padded);
    local = addOffsets(local);
    return SmallVector<Value>(local->getResults());
  }

private:
  /// The rule, made where it is asked for: an op of which no loop is cut needs
  /// none.
  const ShardingRule &rule() {
    if (!ownRule)
      ownRule = structuredRule(global);
    return *ownRule;
  }

  /// Whether devices combine their parts of what a loop reduces. Loops are the
  /// factors of the rule, in order.
  bool isCutSum(unsigned loop) {
    return isPlannable(global) && context.shards(loop) > 1 &&
           rule().factors[loop].kind == FactorKind::Reduction;
  }

  /// The destination on the first device of those that share a sum, its
  /// identity on the others.
  Value countOnce(unsigned init, Value value) {
    std::optional<Combiner> combiner = combinerOf(global, init);
    if (!combiner || isIdentity(global.getDpsInits()[init], combiner->kind) ||
        (combiner->kind != ReductionKind::Sum &&
         combiner->kind != ReductionKind::Prod))
      return value;
    Location loc = global.getLoc();
    Value isFirst;
    for (unsigned loop = 0; loop < global.getNumLoops(); ++loop) {
      if (!isCutSum(loop))
        continue;
      Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
      Value here = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                         offsetOf(loop), zero);
      isFirst =
          isFirst
              ? arith::AndIOp::create(builder, loc, isFirst, here).getResult()
              : here;
    }
    if (!isFirst)
      return value;
    auto type = cast<RankedTensorType>(value.getType());
    Value identity = arith::ConstantOp::create(
        builder, loc,
        SplatElementsAttr::get(
            type,
            Attribute(identityOf(combiner->kind, type.getElementType()))));
    return arith::SelectOp::create(builder, loc, isFirst, value, identity);
  }

  /// The first global index of a loop on this device.
  Value offsetOf(unsigned loop) {
    Value &known = offsets[loop];
    if (!known) {
      Value tensor = context.shardOffset(builder, loop);
      Value number = tensor::ExtractOp::create(builder, global.getLoc(), tensor,
                                               ValueRange());
      known = arith::IndexCastOp::create(builder, global.getLoc(),
                                         builder.getIndexType(), number);
    }
    return known;
  }

  /// As linalg.generic: the body of a named op is not printed, and what is
  /// changed in it would be lost.
  linalg::LinalgOp withOwnBody(linalg::LinalgOp local) {
    if (isa<linalg::GenericOp>(local))
      return local;
    IRRewriter rewriter(builder.getContext());
    rewriter.setInsertionPoint(local);
    return cast<linalg::LinalgOp>(
        linalg::generalizeNamedOp(rewriter, local)->getOperation());
  }

  /// Iterations past the end of a loop add the identity. Before addOffsets.
  linalg::LinalgOp mask(linalg::LinalgOp local, ArrayRef<unsigned> padded) {
    local = withOwnBody(local);
    Location loc = local.getLoc();
    auto inside = OpBuilder::atBlockBegin(local.getBlock());
    Value isInside;
    for (unsigned loop : padded) {
      Value index = linalg::IndexOp::create(inside, loc, loop);
      Value size = arith::ConstantIndexOp::create(inside, loc,
                                                  rule().factors[loop].size);
      // The index becomes a global one with all others (addOffsets).
      Value here = arith::CmpIOp::create(inside, loc, arith::CmpIPredicate::ult,
                                         index, size);
      isInside =
          isInside
              ? arith::AndIOp::create(inside, loc, isInside, here).getResult()
              : here;
    }
    for (unsigned init = 0; init < local.getNumDpsInits(); ++init) {
      Combiner combiner = *combinerOf(local, init);
      inside.setInsertionPoint(combiner.op);
      Value value = combiner.value->get();
      Value identity = arith::ConstantOp::create(
          inside, loc, identityOf(combiner.kind, value.getType()));
      combiner.value->set(
          arith::SelectOp::create(inside, loc, isInside, value, identity));
    }
    return local;
  }

  /// Indices that the body reads are global ones.
  linalg::LinalgOp addOffsets(linalg::LinalgOp local) {
    if (llvm::any_of(local.getBlock()->getOps<linalg::IndexOp>(),
                     [&](linalg::IndexOp index) {
                       return context.shards(index.getDim()) > 1;
                     }))
      local = withOwnBody(local);
    for (auto index : llvm::make_early_inc_range(
             local.getBlock()->getOps<linalg::IndexOp>())) {
      unsigned loop = index.getDim();
      if (context.shards(loop) == 1)
        continue;
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(local);
      offsets.erase(loop);
      Value offset = offsetOf(loop);
      builder.setInsertionPointAfter(index);
      auto sum = arith::AddIOp::create(builder, index.getLoc(), index, offset);
      index.getResult().replaceAllUsesExcept(sum, sum);
    }
    return local;
  }

  linalg::LinalgOp global;
  std::optional<ShardingRule> ownRule;
  OpBuilder &builder;
  LocalContext &context;
  DenseMap<unsigned, Value> offsets;
};

template <typename Op>
struct StructuredModel
    : ShardingRuleInterface::ExternalModel<StructuredModel<Op>, Op> {
  ShardingRule getShardingRule(Operation *op) const {
    return structuredRule(cast<linalg::LinalgOp>(op));
  }
  FailureOr<SmallVector<Value>> buildLocal(Operation *op, OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &context) const {
    return LocalBuilder(cast<linalg::LinalgOp>(op), builder, context)
        .build(operands, types);
  }
};

struct StructuredWork {
  /// Iterations times the operations of the body.
  static int64_t flops(Operation *op, ArrayRef<RankedTensorType> operands,
                       ArrayRef<RankedTensorType>) {
    auto linalgOp = cast<linalg::LinalgOp>(op);
    int64_t each = 0;
    for (Operation &inner : linalgOp.getBlock()->without_terminator())
      each += flopsPerElement(&inner);
    if (!isPlannable(linalgOp))
      return 0;
    // Of a loop that indexes no dimension alone (a window) its whole range.
    constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
    SmallVector<int64_t> sizes(linalgOp.getNumLoops(), kUnknown);
    for (auto [operand, type] : llvm::zip(op->getOpOperands(), operands)) {
      AffineMap map = linalgOp.getMatchingIndexingMap(&operand);
      for (auto [dim, index] : llvm::enumerate(map.getResults()))
        if (auto loop = dyn_cast<AffineDimExpr>(index);
            loop && dim < static_cast<size_t>(type.getRank()))
          sizes[loop.getPosition()] =
              std::min(sizes[loop.getPosition()], type.getDimSize(dim));
    }
    if (llvm::is_contained(sizes, kUnknown))
      for (auto [size, whole] :
           llvm::zip(sizes, linalgOp.getStaticLoopRanges()))
        size = std::min(size, whole);
    int64_t total = each;
    for (int64_t size : sizes)
      total = multiplySaturated(total, size);
    return total;
  }
  static CostClass costClass(Operation *op) {
    auto linalgOp = cast<linalg::LinalgOp>(op);
    if (linalg::isaContractionOpInterface(linalgOp))
      return CostClass::Matmul;
    if (linalg::isaConvolutionOpInterface(linalgOp))
      return CostClass::Convolution;
    return linalgOp.getNumReductionLoops() ? CostClass::Row
                                           : CostClass::Elementwise;
  }
};

/// Rows are normalised whole.
struct SoftmaxModel : ClonedModel<SoftmaxModel, linalg::SoftmaxOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto softmax = cast<linalg::SoftmaxOp>(op);
    if (op->getNumResults() != 1 || !canBeCut(op->getResult(0).getType()))
      return replicatedShardingRule(op);
    ShardingRule rule;
    TensorFactors dims;
    for (auto [dim, size] :
         llvm::enumerate(plannedType(op->getResult(0)).getShape()))
      dims.push_back(dim == softmax.getDimension()
                         ? DimFactors{}
                         : DimFactors{rule.addFactor(size)});
    rule.operands.assign(2, dims);
    rule.results.assign(1, dims);
    return rule;
  }
};

struct SoftmaxWork {
  static int64_t flops(Operation *, ArrayRef<RankedTensorType>,
                       ArrayRef<RankedTensorType> results) {
    // As nn.softmax: maximum, difference, exponential, sum, quotient.
    constexpr int64_t kEach = 20;
    return results.empty()
               ? 0
               : multiplySaturated(results[0].getNumElements(), kEach);
  }
  static CostClass costClass(Operation *) { return CostClass::Row; }
};

/// Packing into tiles that divide the tensor splits dimensions as a reshape
/// does; whole tiles can be cut.
template <typename Op> ShardingRule packingRule(Op op, bool packs) {
  if (op->getNumResults() != 1 || !op.getInnerTiles().empty() ||
      !canBeCut(op.getSource().getType()) ||
      !canBeCut(op->getResult(0).getType()))
    return replicatedShardingRule(op);
  Value source = op.getSource(), result = op->getResult(0);
  Value unpacked = packs ? source : result, packed = packs ? result : source;
  ShardingRule rule;
  ArrayRef<int64_t> shape = plannedType(unpacked).getShape();
  TensorFactors plain(shape.size()), tiled;
  SmallVector<DimFactors> inner;
  SmallVector<int64_t> tiles(op.getStaticInnerTiles());
  SmallVector<int64_t> tileOf(shape.size(), 1);
  for (auto [dim, tile] : llvm::zip(op.getInnerDimsPos(), tiles))
    tileOf[dim] = tile;
  SmallVector<DimFactors> outer;
  SmallVector<unsigned> minorOf(shape.size());
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (size % tileOf[dim] != 0)
      return replicatedShardingRule(op);
    unsigned major = rule.addFactor(size / tileOf[dim]);
    plain[dim].push_back(major);
    outer.push_back({major});
    if (tileOf[dim] != 1) {
      minorOf[dim] = rule.addFactor(tileOf[dim]);
      plain[dim].push_back(minorOf[dim]);
    }
  }
  ArrayRef<int64_t> order = op.getOuterDimsPerm();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    tiled.push_back(outer[order.empty() ? dim : order[dim]]);
  for (auto [dim, tile] : llvm::zip(op.getInnerDimsPos(), tiles))
    tiled.push_back(tile == 1 ? DimFactors{} : DimFactors{minorOf[dim]});
  if (static_cast<int64_t>(tiled.size()) != plannedType(packed).getRank())
    return replicatedShardingRule(op);
  const TensorFactors &from = packs ? plain : tiled,
                      &to = packs ? tiled : plain;
  // Source, destination, and a padding value or sizes that are no tensors.
  rule.operands = {from, to};
  rule.operands.resize(op->getNumOperands());
  rule.results = {to};
  rule.linearGroups.push_back({0});
  return rule;
}

template <typename Op, bool Packs>
struct PackingModel : ClonedModel<PackingModel<Op, Packs>, Op> {
  ShardingRule getShardingRule(Operation *op) const {
    return packingRule(cast<Op>(op), Packs);
  }
};

/// What a body uses from outside becomes an input that all iterations read, if
/// it is a number.
template <typename Op>
struct CaptureModel : CaptureInterface::ExternalModel<CaptureModel<Op>, Op> {
  Operation *buildWithOperands(Operation *op, OpBuilder &builder,
                               ValueRange captured) const {
    SmallVector<Value> numbers;
    for (Value value : captured)
      if (value.getType().isIntOrIndexOrFloat())
        numbers.push_back(value);
    if (numbers.empty())
      return nullptr;
    auto old = cast<linalg::LinalgOp>(op);
    SmallVector<Value> inputs = old.getDpsInputs();
    SmallVector<AffineMap> maps = old.getIndexingMapsArray();
    auto whole = AffineMap::get(old.getNumLoops(), 0, op->getContext());
    maps.insert(maps.begin() + old.getNumDpsInputs(), numbers.size(), whole);
    unsigned first = inputs.size();
    inputs.append(numbers);
    auto made = linalg::GenericOp::create(
        builder, op->getLoc(), op->getResultTypes(), inputs, old.getDpsInits(),
        maps, old.getIteratorTypesArray());
    for (NamedAttribute attribute : op->getDiscardableAttrs())
      made->setAttr(attribute.getName(), attribute.getValue());
    made.getRegion().takeBody(op->getRegion(0));
    Block &body = made.getRegion().front();
    for (auto [index, number] : llvm::enumerate(numbers)) {
      Value inside =
          body.insertArgument(first + index, number.getType(), op->getLoc());
      replaceAllUsesInRegionWith(number, inside, made.getRegion());
    }
    return made;
  }
};

struct CopyWork {
  static int64_t flops(Operation *, ArrayRef<RankedTensorType>,
                       ArrayRef<RankedTensorType>) {
    return 0;
  }
  static CostClass costClass(Operation *) { return CostClass::Elementwise; }
};

template <typename... Ops> void attachStructured(MLIRContext *context) {
  (Ops::template attachInterface<StructuredModel<Ops>,
                                 CostModel<StructuredWork, Ops>>(*context),
   ...);
}

} // namespace

void kerf::models::attachLinalg(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    // What local forms are built of.
    context->loadDialect<arith::ArithDialect, tensor::TensorDialect>();
    attachStructured<
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
        >(context);
    linalg::GenericOp::attachInterface<CaptureModel<linalg::GenericOp>>(
        *context);
    linalg::MapOp::attachInterface<CaptureModel<linalg::MapOp>>(*context);
    linalg::ReduceOp::attachInterface<CaptureModel<linalg::ReduceOp>>(*context);
    linalg::SoftmaxOp::attachInterface<
        SoftmaxModel, CostModel<SoftmaxWork, linalg::SoftmaxOp>>(*context);
    linalg::PackOp::attachInterface<PackingModel<linalg::PackOp, true>,
                                    CostModel<CopyWork, linalg::PackOp>>(
        *context);
    linalg::UnPackOp::attachInterface<PackingModel<linalg::UnPackOp, false>,
                                      CostModel<CopyWork, linalg::UnPackOp>>(
        *context);
  });
}
