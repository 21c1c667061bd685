//===- Loops.cpp - checks, rule, local form and cost of nn.loop -----------===//
//
// Problem: a loop is one op to all phases, and its body may be cut as any ops.
//
// Idea: its rule is that of its body (BodyRule.h): what is carried is one value
// in all iterations, and the condition, which has no dimensions, is the same on
// every device.
//
// Linear in the body, that of nested loops once for each level.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interfaces/BodyRule.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static bool hasTypes(ValueRange values, TypeRange types) {
  return llvm::equal(values.getTypes(), types);
}

LogicalResult LoopOp::verify() {
  if (getTrip().getType().getRank() != 0 ||
      getCondition().getType().getRank() != 0)
    return emitOpError("trip is ")
           << getTrip().getType() << " and the condition "
           << getCondition().getType() << ", expected no dimensions";
  Block &body = getBlock();
  // loop C1
  SmallVector<Type> inputs{getTrip().getType()};
  llvm::append_range(inputs, getInits().getTypes());
  llvm::append_range(inputs, getCaptures().getTypes());
  if (!hasTypes(body.getArguments(), inputs))
    return emitOpError("body takes (")
           << body.getArgumentTypes() << "), expected (" << inputs << ")";
  // loop C2
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield)
    return emitOpError("body must end in nn.yield");
  if (yield.getValues().size() < 1 + getInits().size() ||
      yield.getValues()[0].getType() != getCondition().getType() ||
      !hasTypes(getNextCarried(), getInits().getTypes()))
    return yield.emitOpError("yields (")
           << yield.getOperandTypes()
           << "), expected a condition and carried values ("
           << getInits().getTypes() << ")";
  // loop C3
  int64_t limit = static_cast<int64_t>(getLimit().value_or(0));
  if (limit < 0)
    return emitOpError("has a limit of ") << limit;
  if (!getStacked().empty() && !getLimit())
    return emitOpError("stacks tensors without a limit");
  SmallVector<Type> results(getInits().getTypes());
  for (Value stacked : getStacked()) {
    auto type = cast<RankedTensorType>(stacked.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.begin(), limit);
    results.push_back(type.clone(shape));
  }
  if (!hasTypes(getResults(), results) ||
      getCount().getType() != getTrip().getType())
    return emitOpError("gives (")
           << getResultTypes() << "), expected a count and (" << results << ")";
  // loop C4
  for (Operation &op : body.without_terminator()) {
    if (!isPure(&op))
      return op.emitOpError("has side effects, or stands in no loop");
    auto source = dyn_cast<SourceOpInterface>(op);
    if (source && (source.isParameter() || source.isMutable()))
      return op.emitOpError("stands in a loop, which captures parameters");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// What can be cut
//===----------------------------------------------------------------------===//

namespace {

DimClasses classesOf(LoopOp loop) {
  DimClasses classes;
  for (Value argument : loop.getBlock().getArguments())
    classes.add(argument);
  for (Operation &op : loop.getBlock().without_terminator()) {
    // Devices would have to know which part of a constant is theirs.
    auto source = dyn_cast<SourceOpInterface>(op);
    classes.visit(&op, shardingRuleOf(&op),
                  /*needsAll=*/source && !source.isUniform());
  }
  for (auto [carried, next] :
       llvm::zip_equal(loop.getCarried(), loop.getNextCarried()))
    classes.unite(carried, next);
  classes.finish();
  return classes;
}

struct LoopRule : BodyRule {
  explicit LoopRule(LoopOp loop) {
    classes = classesOf(loop);
    rule.operands.resize(2); // the trip count and the condition are numbers
    rule.results.resize(1);
    for (Value value : loop.getCarried())
      rule.operands.push_back(factorsOf(value));
    for (Value value : loop.getCaptured())
      rule.operands.push_back(factorsOf(value));
    for (Value value : loop.getNextCarried())
      rule.results.push_back(factorsOf(value));
    for (Value value : loop.getStacked()) {
      TensorFactors stack{DimFactors()};
      llvm::append_range(stack, factorsOf(value));
      rule.results.push_back(stack);
    }
    dropUnused();
  }

private:
  TensorFactors factorsOf(Value value) {
    TensorFactors tensor(plannedType(value).getRank());
    for (auto [dim, list] : llvm::enumerate(tensor))
      if (std::optional<unsigned> found = classes.find(value, dim))
        list = {addFactor(*found, value, dim)};
    return tensor;
  }

  /// What is cut in no result would be read by nothing that is kept.
  void dropUnused() {
    SmallVector<bool> isUsed(rule.factors.size(), false);
    for (const TensorFactors &tensor : rule.results)
      for (const DimFactors &list : tensor)
        for (unsigned factor : list)
          isUsed[factor] = true;
    for (auto [factor, used] : llvm::zip_equal(rule.factors, isUsed))
      if (!used)
        factor.kind = FactorKind::Replicated;
  }
};

} // namespace

ShardingRule LoopOp::getShardingRule() { return LoopRule(*this).rule; }

FailureOr<SmallVector<Value>> LoopOp::buildLocal(OpBuilder &builder,
                                                 ValueRange operands,
                                                 TypeRange resultTypes,
                                                 LocalContext &context) {
  LoopRule rule(*this);
  auto localType = [&](Value value) { return rule.localType(value, context); };
  auto zero = [](OpBuilder &builder) -> Value {
    auto type = RankedTensorType::get({}, builder.getI64Type());
    return ConstantOp::create(builder, builder.getUnknownLoc(),
                              DenseElementsAttr::get(type, int64_t(0)));
  };
  OperationState state(getLoc(), getOperationName());
  state.addOperands(operands);
  state.addTypes(resultTypes);
  state.addAttributes((*this)->getAttrs());
  Region *region = state.addRegion();
  Block &body = getBlock();
  Block *local = new Block;
  region->push_back(local);
  IRMapping mapping;
  for (BlockArgument argument : body.getArguments())
    mapping.map(argument,
                local->addArgument(localType(argument), argument.getLoc()));
  OpBuilder inside(getContext());
  inside.setInsertionPointToEnd(local);
  for (Operation &op : body.without_terminator()) {
    ShardingRule own = shardingRuleOf(&op);
    BodyContext inner(&op, own, rule, context, zero);
    SmallVector<Value> inputs;
    for (Value operand : op.getOperands())
      inputs.push_back(mapping.lookup(operand));
    SmallVector<Type> types;
    for (Value result : op.getResults())
      types.push_back(localType(result));
    auto results = buildLocalOp(&op, inside, inputs, types, inner);
    if (failed(results))
      return failure();
    mapping.map(op.getResults(), *results);
  }
  inside.clone(*body.getTerminator(), mapping);
  return SmallVector<Value>(builder.create(state)->getResults());
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

/// Iterations for which a loop is planned: as many as are known, at most, or
/// some.
static int64_t expectedIterations(LoopOp loop) {
  constexpr int64_t kUnknown = 16;
  int64_t known = static_cast<int64_t>(loop.getLimit().value_or(INT64_MAX));
  if (auto trip = loop.getTrip().getDefiningOp<ConstantOp>())
    known = std::min(known, trip.getElements().getValues<int64_t>()[0]);
  constexpr int64_t kEndless = int64_t(1) << 31; // nothing bounds them
  return known >= kEndless ? kUnknown : std::max<int64_t>(known, 0);
}

/// Visits the ops of the body with their types where operands have these.
static void forEachLocal(
    LoopOp loop, ArrayRef<RankedTensorType> operands,
    llvm::function_ref<void(OpCostInterface, ArrayRef<RankedTensorType>,
                            ArrayRef<RankedTensorType>)>
        visit) {
  DimClasses classes = classesOf(loop);
  DenseMap<unsigned, int64_t> sizes;
  for (auto [argument, type] :
       llvm::zip_equal(loop.getBlock().getArguments().drop_front(1),
                       operands.drop_front(2)))
    for (auto [dim, size] : llvm::enumerate(type.getShape()))
      if (auto found = classes.find(argument, dim))
        sizes[*found] = size;
  auto localTypes = [&](ValueRange values) {
    SmallVector<RankedTensorType> types;
    for (Value value : values) {
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape(type.getShape());
      for (auto [dim, size] : llvm::enumerate(shape))
        if (auto found = classes.find(value, dim); found && sizes.count(*found))
          size = sizes.lookup(*found);
      types.push_back(type.clone(shape));
    }
    return types;
  };
  for (Operation &op : loop.getBlock().without_terminator())
    if (auto cost = dyn_cast<OpCostInterface>(op))
      visit(cost, localTypes(op.getOperands()), localTypes(op.getResults()));
}

int64_t LoopOp::getFlops(ArrayRef<RankedTensorType> operands,
                         ArrayRef<RankedTensorType>) {
  int64_t flops = 0;
  forEachLocal(*this, operands, [&](OpCostInterface op, auto in, auto out) {
    flops += op.getFlops(in, out);
  });
  int64_t total;
  return llvm::MulOverflow(flops, expectedIterations(*this), total)
             ? int64_t(1) << 60
             : total;
}

int64_t LoopOp::getBytesTouched(ArrayRef<RankedTensorType> operands,
                                ArrayRef<RankedTensorType>) {
  int64_t bytes = 0;
  forEachLocal(*this, operands, [&](OpCostInterface op, auto in, auto out) {
    bytes += op.getBytesTouched(in, out);
  });
  int64_t total;
  return llvm::MulOverflow(bytes, expectedIterations(*this), total)
             ? int64_t(1) << 60
             : total;
}

/// That of the op with most work.
CostClass LoopOp::getCostClass() {
  CostClass result = CostClass::Row;
  int64_t most = -1;
  auto types = [](ValueRange values) {
    return llvm::map_to_vector(values, [](Value value) {
      return cast<RankedTensorType>(value.getType());
    });
  };
  for (Operation &op : getBlock().without_terminator())
    if (auto cost = dyn_cast<OpCostInterface>(op)) {
      CostClass kind = cost.getCostClass();
      int64_t flops =
          cost.getFlops(types(op.getOperands()), types(op.getResults()));
      if (flops > most &&
          (kind == CostClass::Matmul || kind == CostClass::Convolution ||
           kind == CostClass::Row)) {
        most = flops;
        result = kind;
      }
    }
  return result;
}

LibraryWork LoopOp::getLibraryWork() { return LibraryWork::None; }
