//===- PatternUtils.cpp - questions that rewrites share -------------------===//
//
// See the header. Grouping walks both shapes at once and closes a group when
// the products agree: linear in the ranks.
//
//===----------------------------------------------------------------------===//
#include "PatternUtils.h"

#include "kerf/Interfaces/Placement.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

bool kerf::nn::isElementwise(Operation *op) {
  return op && op->hasTrait<ByElement>();
}

bool kerf::nn::isPlanned(Operation *op) {
  const PlacementInterface *placement = getPlacement(op);
  return placement && placement->isPlanned(op);
}

std::optional<double> kerf::nn::splatOf(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getX();
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || constant.getName() || !constant.getElements().isSplat())
    return std::nullopt;
  DenseElementsAttr elements = constant.getElements();
  if (auto type = dyn_cast<FloatType>(elements.getElementType())) {
    APFloat number = elements.getSplatValue<APFloat>();
    bool lost;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return number.convertToDouble();
  }
  return double(elements.getSplatValue<APInt>().getSExtValue());
}

bool kerf::nn::isSplatOf(Value value, double number, double tolerance) {
  auto splat = splatOf(value);
  return splat && std::fabs(*splat - number) <=
                      tolerance * std::max(1e-30, std::fabs(number));
}

bool kerf::nn::isSource(Value value) {
  return isa_and_nonnull<WeightOp, ConstantOp>(value.getDefiningOp());
}

static SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result;
  for (int64_t size : shape)
    if (size != 1)
      result.push_back(size);
  return result;
}

Value kerf::nn::behindUnitReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    if (withoutOnes(shapeOf(reshape.getX())) != withoutOnes(shapeOf(value)))
      break;
    value = reshape.getX();
  }
  return value;
}

std::optional<SmallVector<ReshapeGroup>>
kerf::nn::reshapeGroups(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<ReshapeGroup> groups;
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0))
    return std::nullopt;
  int64_t i = 0, j = 0;
  auto fromRank = int64_t(from.size()), toRank = int64_t(to.size());
  while (i < fromRank || j < toRank) {
    ReshapeGroup group{i, i, j, j};
    int64_t left = 1, right = 1;
    // At least one dimension of each side, if there is one.
    if (i < fromRank)
      left = from[i++];
    if (j < toRank)
      right = to[j++];
    while (left != right) {
      if (left < right) {
        if (i == fromRank)
          return std::nullopt;
        left *= from[i++];
      } else {
        if (j == toRank)
          return std::nullopt;
        right *= to[j++];
      }
    }
    group.fromEnd = i;
    group.toEnd = j;
    // A side without dimensions left takes the other's trailing ones.
    if ((group.from == i || group.to == j) && !groups.empty()) {
      groups.back().fromEnd = i;
      groups.back().toEnd = j;
    } else {
      groups.push_back(group);
    }
  }
  return groups;
}

Value kerf::nn::makeReshape(OpBuilder &builder, Location loc, Value x,
                            ArrayRef<int64_t> shape) {
  if (shapeOf(x) == shape)
    return x;
  return ReshapeOp::create(builder, loc, typeOf(x).clone(shape), x);
}

Value kerf::nn::makeTranspose(OpBuilder &builder, Location loc, Value x,
                              ArrayRef<int64_t> perm) {
  if (llvm::is_sorted(perm))
    return x;
  return TransposeOp::create(builder, loc, x, perm);
}

SmallVector<int64_t> kerf::nn::inversePermutation(ArrayRef<int64_t> perm) {
  SmallVector<int64_t> inverse(perm.size());
  for (auto [to, from] : llvm::enumerate(perm))
    inverse[from] = int64_t(to);
  return inverse;
}

Value kerf::nn::cloneWith(OpBuilder &builder, Operation *op,
                          ValueRange operands, ArrayRef<int64_t> shape) {
  IRMapping mapping;
  mapping.map(op->getOperands(), operands);
  // Operands that occur twice map to the last; set all of them.
  Operation *copy = builder.clone(*op, mapping);
  copy->setOperands(operands);
  copy->getResult(0).setType(typeOf(op->getResult(0)).clone(shape));
  return copy->getResult(0);
}
