//===- Localize.cpp - every op on the shapes of one device ----------------===//
//
// Each op is rebuilt by its own buildLocal with local operands. This pass adds
// masks: if shards do not divide a reduced factor, the operand is filled with
// the identity of the reduction beyond its end, because padding may hold
// anything (0 * NaN is not 0, exp(0) is not 0). Sources need no mask for a sum:
// packages pad them with zeros, and values that a step assigns to them are
// masked with zeros here. Linear in the ops.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Entry.h"
#include "kerf/Dist/ReplacingBuilder.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Interfaces/Identity.h"
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace kerf {
#define GEN_PASS_DEF_LOCALIZE
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

class Context : public LocalContext {
public:
  Context(const OpSharding &sharding, const Mesh &mesh, Location loc)
      : sharding(sharding), mesh(mesh), loc(loc) {}

  int64_t shards(unsigned factor) const override {
    return numShards(sharding.factorAxes[factor]);
  }
  int64_t localSize(unsigned factor) const override {
    return sharding.factorBlocks[factor];
  }
  Value shardOffset(OpBuilder &builder, unsigned factor) override {
    return ShardIndexOp::create(
        builder, loc, RankedTensorType::get({}, builder.getI64Type()),
        toAxesAttr(builder.getContext(), sharding.factorAxes[factor], mesh),
        localSize(factor));
  }

private:
  const OpSharding &sharding;
  const Mesh &mesh;
  Location loc;
};

struct Localize : kerf::impl::LocalizeBase<Localize> {
  void runOnOperation() override {
    MeshAttr attribute = getMesh(getOperation());
    if (!attribute)
      return;
    meshAttr = attribute;
    mesh = attribute.toMesh();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && isPlanned(function) &&
          failed(localize(function)))
        return signalPassFailure();
  }

private:
  LogicalResult localize(func::FuncOp function) {
    Block *before = &function.getBody().front();
    Block *after = new Block;
    function.getBody().push_back(after);
    IRMapping mapping;
    SmallVector<Type> argumentTypes, resultTypes;
    for (BlockArgument argument : before->getArguments()) {
      Type type = localTypeOf(argument, getLayout(argument, mesh));
      argumentTypes.push_back(type);
      mapping.map(argument, after->addArgument(type, argument.getLoc()));
    }
    setArgAttrs(function, kGlobalType, [&](unsigned index) {
      return TypeAttr::get(before->getArgument(index).getType());
    });
    ReplacingBuilder builder(&getContext());
    builder.setInsertionPointToEnd(after);
    for (Operation &op : before->without_terminator()) {
      // Of the plan's attributes only the phase is still needed.
      builder.standFor(phaseOnly(getStep(&op)));
      if (failed(localize(builder, &op, mapping))) {
        after->erase();
        return failure();
      }
    }
    builder.standFor(StepAttr());
    Operation *terminator = before->getTerminator();
    SmallVector<Value> results;
    for (OpOperand &use : terminator->getOpOperands()) {
      results.push_back(mapping.lookup(use.get()));
      resultTypes.push_back(results.back().getType());
    }
    setResultAttrs(function, kGlobalType, [&](unsigned index) {
      return TypeAttr::get(terminator->getOperand(index).getType());
    });
    func::ReturnOp::create(builder, terminator->getLoc(), results);
    before->dropAllDefinedValueUses();
    before->erase();
    function.setType(
        FunctionType::get(&getContext(), argumentTypes, resultTypes));
    for (unsigned index = 0; index < function.getNumArguments(); ++index)
      if (auto channel = numberFrom(function, index, From::Recv))
        for (auto op : getOperation().getOps<ChannelOp>())
          if (static_cast<int64_t>(op.getNumber()) == *channel)
            op.setType(argumentTypes[index]);
    return success();
  }

  static Type localTypeOf(Value value, const Layout &layout) {
    if (!canBeCut(value.getType()))
      return value.getType();
    return localType(cast<RankedTensorType>(value.getType()), layout);
  }

  LogicalResult localize(OpBuilder &builder, Operation *op,
                         IRMapping &mapping) {
    if (auto reshard = dyn_cast<ReshardOp>(op)) {
      Layout to = getLayout(reshard.getResult(), mesh);
      auto local = ReshardOp::create(
          builder, op->getLoc(), localTypeOf(reshard.getResult(), to),
          mapping.lookup(reshard.getX()), getSharding(reshard.getX()),
          reshard.getTo(), TypeAttr::get(reshard.getType()),
          reshard.getPurposeAttr());
      mapping.map(reshard.getResult(), local.getResult());
      return success();
    }
    if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      Value x = mapping.lookup(accumulate.getX());
      Value into = accumulate.getInto();
      auto local = AccumulateOp::create(builder, op->getLoc(), x.getType(), x,
                                        into ? mapping.lookup(into) : Value());
      mapping.map(accumulate.getResult(), local.getResult());
      return success();
    }
    if (auto assign = dyn_cast<AssignOp>(op)) {
      AssignOp::create(
          builder, op->getLoc(), mapping.lookup(assign.getSource()),
          padWithZeros(builder, op->getLoc(), mapping.lookup(assign.getValue()),
                       assign.getValue()));
      return success();
    }
    auto sharding = analyzeOp(op, mesh);
    if (failed(sharding))
      return failure();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(mapping.lookup(operand));
    mask(builder, op, *sharding, operands);
    SmallVector<Type> types;
    for (auto [result, layout] : llvm::zip(op->getResults(), sharding->results))
      types.push_back(localTypeOf(result, layout));

    Operation *last =
        builder.getBlock()->empty() ? nullptr : &builder.getBlock()->back();
    auto local = buildOnParts(builder, op, *sharding, operands, types);
    if (failed(local))
      return op->emitError("cannot be built on local shapes");
    if (local->size() != types.size())
      return op->emitError("is built on local shapes with ")
             << local->size() << " results, expected " << types.size();
    // A clone has all attributes of the plan.
    for (Operation &made :
         llvm::make_range(last ? std::next(last->getIterator())
                               : builder.getBlock()->begin(),
                          builder.getBlock()->end())) {
      dropPlan(&made);
      setStep(&made, phaseOnly(getStep(op)));
    }
    for (auto [number, value] : llvm::enumerate(*local)) {
      if (!value)
        return op->emitError("is built on local shapes without result ")
               << number;
      if (value.getType() != types[number])
        return op->emitError("is built on local shapes as ")
               << value.getType() << ", expected " << types[number];
      mapping.map(op->getResult(number), value);
    }
    auto source = dyn_cast<SourceOpInterface>(op);
    if (source && source.isParameter()) {
      Operation *made = local->front().getDefiningOp();
      made->setAttr(kSharding, getSharding(op->getResult(0)));
      made->setAttr(kGlobalType, TypeAttr::get(op->getResult(0).getType()));
    }
    return success();
  }

  /// Builds the op on local shapes. If nothing of it is cut, it is cloned, so
  /// that ops whose model cannot build them on parts are no error there.
  FailureOr<SmallVector<Value>> buildOnParts(OpBuilder &builder, Operation *op,
                                             const OpSharding &sharding,
                                             ValueRange operands,
                                             TypeRange types) {
    if (llvm::all_of(sharding.factorAxes,
                     [](const AxisList &axes) { return axes.empty(); })) {
      IRMapping mapping;
      mapping.map(op->getOperands(), operands);
      return SmallVector<Value>(builder.clone(*op, mapping)->getResults());
    }
    Context context(sharding, mesh, op->getLoc());
    return buildLocalOp(op, builder, operands, types, context);
  }

  /// Fills the padding of a value that is assigned to a parameter with zeros.
  Value padWithZeros(OpBuilder &builder, Location loc, Value local,
                     Value global) {
    auto type = cast<RankedTensorType>(global.getType());
    Layout layout = getLayout(global, mesh);
    for (auto [dim, axes] : llvm::enumerate(layout.dims))
      if (layout.isUneven(dim, type.getDimSize(dim)))
        local = MaskOp::create(
            builder, loc, local.getType(), local, dim, type.getDimSize(dim),
            toAxesAttr(&getContext(), axes, mesh),
            identityOf(ReductionKind::Sum, type.getElementType()));
    return local;
  }

  void mask(OpBuilder &builder, Operation *op, const OpSharding &sharding,
            MutableArrayRef<Value> operands) {
    const ShardingRule &rule = sharding.rule;
    auto fill = [&](size_t number, size_t dim, TypedAttr value) {
      const Layout &layout = sharding.operands[number];
      int64_t size = plannedType(op->getOperand(number)).getDimSize(dim);
      if (!layout.isUneven(dim, size))
        return;
      operands[number] = MaskOp::create(
          builder, op->getLoc(), operands[number].getType(), operands[number],
          dim, size, toAxesAttr(&getContext(), layout.dims[dim], mesh), value);
    };
    for (auto [number, factors] : llvm::enumerate(rule.operands)) {
      Type type = getElementTypeOrSelf(op->getOperand(number).getType());
      auto source = dyn_cast_or_null<SourceOpInterface>(
          op->getOperand(number).getDefiningOp());
      bool zeroPadded = source && !source.isUniform();
      for (auto [dim, list] : llvm::enumerate(factors)) {
        if (list.empty())
          continue;
        const Factor &factor = rule.factors[list[0]];
        if (factor.kind == FactorKind::Reduction && !factor.masksItself &&
            !(zeroPadded && factor.reduction == ReductionKind::Sum))
          fill(number, dim, identityOf(factor.reduction, type));
      }
    }
    for (const ShardingRule::PaddingFill &padding : rule.paddingFills) {
      auto type = dyn_cast<IntegerType>(
          getElementTypeOrSelf(op->getOperand(padding.operand).getType()));
      if (!type)
        continue;
      for (size_t dim = 0; dim < sharding.operands[padding.operand].dims.size();
           ++dim)
        fill(padding.operand, dim, IntegerAttr::get(type, padding.value));
    }
  }

  MeshAttr meshAttr;
  Mesh mesh;
};

} // namespace
