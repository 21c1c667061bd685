//===- Body.cpp - what a linalg body does with its operands ---------------===//
//
// Whether a body is linear in a set of its operands is found by one pass over
// it: each value is 0, fixed (it depends on no operand of the set), linear, or
// anything else. Sets are tried one by one; linalg ops have few operands.
//
//===----------------------------------------------------------------------===//
#include "Body.h"

#include "kerf/Dist/Dist.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

/// maxnumf and minnumf are missing: they drop NaN, and a maximum over devices
/// keeps it.
static std::optional<ReductionKind> kindOf(Operation *op) {
  if (isa<arith::AddFOp, arith::AddIOp>(op))
    return ReductionKind::Sum;
  if (isa<arith::MulFOp, arith::MulIOp>(op))
    return ReductionKind::Prod;
  if (isa<arith::MaximumFOp, arith::MaxSIOp>(op))
    return ReductionKind::Max;
  if (isa<arith::MinimumFOp, arith::MinSIOp>(op))
    return ReductionKind::Min;
  return std::nullopt;
}

std::optional<Combiner> kerf::models::combinerOf(linalg::LinalgOp op,
                                                 unsigned init) {
  Block &body = *op.getBlock();
  BlockArgument accumulator = op.getRegionOutputArgs()[init];
  if (!accumulator.hasOneUse())
    return std::nullopt;
  OpOperand &use = *accumulator.use_begin();
  Operation *combine = use.getOwner();
  // An i1 is a truth value; sums of it are none of ours.
  if (combine->getBlock() != &body || combine->getNumOperands() != 2 ||
      combine->getNumResults() != 1 || !combine->hasOneUse() ||
      combine->getResult(0).getType().isInteger(1) ||
      body.getTerminator()->getOperand(init) != combine->getResult(0))
    return std::nullopt;
  std::optional<ReductionKind> kind = kindOf(combine);
  if (!kind)
    return std::nullopt;
  OpOperand &value = combine->getOpOperand(1 - use.getOperandNumber());
  return Combiner{*kind, combine, &value};
}

static bool isValue(Attribute attr, TypedAttr wanted) {
  if (auto number = dyn_cast_or_null<FloatAttr>(attr)) {
    auto other = dyn_cast<FloatAttr>(wanted);
    return other &&
           number.getValue().compare(other.getValue()) == APFloat::cmpEqual;
  }
  return attr == wanted;
}

static Value withoutReshards(Value tensor) {
  while (auto reshard = tensor.getDefiningOp<dist::ReshardOp>())
    tensor = reshard.getX();
  return tensor;
}

bool kerf::models::isConstantIdentity(Value tensor, ReductionKind kind) {
  tensor = withoutReshards(tensor);
  Type element = getElementTypeOrSelf(tensor);
  Attribute constant;
  if (!element.isIntOrFloat() || !matchPattern(tensor, m_Constant(&constant)))
    return false;
  auto splat = dyn_cast<SplatElementsAttr>(constant);
  return splat &&
         isValue(splat.getSplatValue<Attribute>(), identityOf(kind, element));
}

bool kerf::models::isIdentity(Value tensor, ReductionKind kind) {
  if (isConstantIdentity(tensor, kind))
    return true;
  auto fill = withoutReshards(tensor).getDefiningOp<linalg::FillOp>();
  Attribute constant;
  return fill && matchPattern(fill.getInputs()[0], m_Constant(&constant)) &&
         isValue(constant, identityOf(kind, fill.getInputs()[0].getType()));
}

namespace {

enum class Part { Zero, Fixed, Linear, Other };

/// In which operands together a body is linear. Sets of operands are tried one
/// after the other, so what does not depend on the set is found out once.
class LinearityOf {
public:
  /// `isZero`: of each argument of the body, whether it is known to be 0.
  LinearityOf(Block &body, ArrayRef<bool> isZero) : body(body), isZero(isZero) {
    llvm::SmallDenseMap<Value, unsigned, 16> slotOf;
    for (Value argument : body.getArguments())
      slotOf[argument] = slotOf.size();
    parts.resize(slotOf.size());
    for (Operation &inner : body) {
      Step step{&inner, constantOf(&inner), {}, parts.size()};
      for (Value operand : inner.getOperands()) {
        auto slot = slotOf.find(operand);
        step.operands.push_back(slot == slotOf.end() ? kOutside : slot->second);
      }
      for (Value result : inner.getResults())
        slotOf[result] = parts.size();
      parts.push_back(Part::Fixed); // shared by all results
      steps.push_back(std::move(step));
    }
  }

  bool isLinearIn(ArrayRef<unsigned> group) {
    multipliers.clear();
    divisors.clear();
    for (auto [argument, zero] : llvm::enumerate(isZero))
      parts[argument] = zero ? Part::Zero : Part::Fixed;
    for (unsigned operand : group)
      parts[operand] = Part::Linear;
    for (const Step &step : ArrayRef(steps).drop_back())
      parts[step.slot] = step.constant ? *step.constant : partOf(step);
    return llvm::all_of(
        body.getTerminator()->getOpOperands(), [&](OpOperand &out) {
          return of(steps.back(), out.getOperandNumber()) == Part::Linear &&
                 !out.get().getType().isInteger(1);
        });
  }

  /// Of the group that was asked for last.
  llvm::SmallDenseSet<unsigned> multipliers, divisors;

private:
  static constexpr unsigned kOutside = ~0u;
  struct Step {
    Operation *op;
    std::optional<Part> constant; ///< what a constant is
    SmallVector<unsigned, 2> operands;
    size_t slot; ///< of its results
  };

  static std::optional<Part> constantOf(Operation *inner) {
    Attribute constant;
    if (inner->getNumResults() != 1 ||
        !matchPattern(inner->getResult(0), m_Constant(&constant)))
      return std::nullopt;
    Type type = inner->getResult(0).getType();
    return type.isIntOrFloat() &&
                   isValue(constant, identityOf(ReductionKind::Sum, type))
               ? Part::Zero
               : Part::Fixed;
  }

  /// What is used from outside of the body depends on no operand.
  Part of(const Step &step, unsigned operand) const {
    unsigned slot = step.operands[operand];
    return slot == kOutside ? Part::Fixed : parts[slot];
  }

  /// A factor about which something is known: an operand, which is noted, or a
  /// constant that is `isFine`.
  bool isKnown(Value value, llvm::SmallDenseSet<unsigned> &operands,
               llvm::function_ref<bool(const APFloat &)> isFine) {
    if (!isa<FloatType>(value.getType()))
      return true;
    while (auto wide = value.getDefiningOp<arith::ExtFOp>())
      value = wide.getIn();
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      operands.insert(argument.getArgNumber());
      return true;
    }
    APFloat constant(0.0);
    return matchPattern(value, m_ConstantFloat(&constant)) && isFine(constant);
  }

  Part sum(Part a, Part b) {
    if (a == Part::Zero || b == Part::Zero)
      return a == Part::Zero ? b : a;
    return a == b ? a : Part::Other;
  }

  Part partOf(const Step &step) {
    Operation *inner = step.op;
    SmallVector<Part, 4> x;
    for (unsigned operand = 0; operand < step.operands.size(); ++operand)
      x.push_back(of(step, operand));
    if (llvm::is_contained(x, Part::Other) || inner->getNumRegions() != 0)
      return Part::Other;
    if (!llvm::is_contained(x, Part::Linear))
      return isa<arith::AddFOp, arith::AddIOp>(inner) ? sum(x[0], x[1])
                                                      : Part::Fixed;
    if (isa<arith::AddFOp, arith::AddIOp, arith::SubFOp, arith::SubIOp>(inner))
      return sum(x[0], x[1]);
    if (isa<arith::MulFOp, arith::MulIOp>(inner)) {
      if (x[0] == x[1])
        return Part::Other;
      Value other = inner->getOperand(x[0] == Part::Linear ? 1 : 0);
      auto isFinite = [](const APFloat &number) { return number.isFinite(); };
      return isKnown(other, multipliers, isFinite) ? Part::Linear : Part::Other;
    }
    if (isa<arith::DivFOp>(inner) && x[1] != Part::Linear) {
      auto isNonZero = [](const APFloat &number) { return number.isNonZero(); };
      return isKnown(inner->getOperand(1), divisors, isNonZero) ? Part::Linear
                                                                : Part::Other;
    }
    if (isa<arith::NegFOp, arith::ExtFOp>(inner))
      return x[0];
    if (isa<arith::SelectOp>(inner) && x[0] != Part::Linear) {
      auto isLinear = [](Part part) {
        return part == Part::Linear || part == Part::Zero;
      };
      return isLinear(x[1]) && isLinear(x[2]) ? Part::Linear : Part::Other;
    }
    return Part::Other;
  }

  Block &body;
  ArrayRef<bool> isZero;
  SmallVector<Step, 4> steps; ///< of the body, in its order
  SmallVector<Part, 8> parts; ///< of arguments, then of each step's results
};

} // namespace

void kerf::models::addLinearGroups(linalg::LinalgOp op, ShardingRule &rule) {
  // Sets of more operands than this are not tried: there are 2^n.
  constexpr unsigned kMaxOperands = 6;
  unsigned numOperands = op->getNumOperands();
  if (numOperands > kMaxOperands)
    return;
  // A body that is linear in an element is not in the tensor if iterations are
  // combined by anything but a sum: x[0] x[1] x[2] is a product of sums.
  SmallVector<Value> inits(op.getDpsInits());
  bool isReduced = op.getNumReductionLoops() > 0;
  for (unsigned init = 0; isReduced && init < inits.size(); ++init) {
    std::optional<Combiner> combiner = combinerOf(op, init);
    if (!combiner || combiner->kind != ReductionKind::Sum)
      return;
  }
  Block &body = *op.getBlock();
  SmallVector<bool> isZero(numOperands, false), isUsed;
  for (auto [argument, init] :
       llvm::zip(MutableArrayRef(isZero).take_back(inits.size()), inits))
    argument = isConstantIdentity(init, ReductionKind::Sum);
  for (auto [operand, argument] :
       llvm::zip(op->getOperands(), body.getArguments()))
    isUsed.push_back(canBeCut(operand.getType()) && !argument.use_empty());
  llvm::SmallDenseSet<unsigned> multipliers, divisors;
  LinearityOf linearity(body, isZero);
  for (unsigned set = 1; set < (1u << numOperands); ++set) {
    SmallVector<unsigned> group;
    for (unsigned operand = 0; operand < numOperands; ++operand)
      if (set >> operand & 1)
        group.push_back(operand);
    if (!llvm::all_of(group, [&](unsigned operand) { return isUsed[operand]; }))
      continue;
    if (!linearity.isLinearIn(group))
      continue;
    rule.linearGroups.push_back(std::move(group));
    multipliers.insert_range(linearity.multipliers);
    divisors.insert_range(linearity.divisors);
  }
  rule.multipliers.assign(multipliers.begin(), multipliers.end());
  rule.divisors.assign(divisors.begin(), divisors.end());
  llvm::sort(rule.multipliers);
  llvm::sort(rule.divisors);
}

bool kerf::models::mayFail(Block &body) {
  return llvm::any_of(body.without_terminator(), [](Operation &op) {
    return op.getNumRegions() != 0 || !isPure(&op) ||
           isa<arith::RemSIOp, arith::RemUIOp>(op);
  });
}
