//===- JoinAlikeParts.cpp - parts of a tensor that go through the same ----===//
//
// Problem: import writes a loop over samples out (PyTorch's exporter has one
// for each EmbeddingBag, an iteration a bag). Every iteration cuts its rows
// out of a tensor and computes the same of them, and a concat puts the results
// together: no axis can cut the samples, and the ops grow with the batch.
//
// Idea: parts of one size that lie behind each other are one more dimension,
// [parts * size, ...] is [parts, size, ...]. What is computed of each part is
// computed once, along the dimensions behind the new one.
//
// Invariant: the parts differ in where they begin alone; what else is read is
// the same value for all, or an equal number.
//
//===----------------------------------------------------------------------===//
#include "../IR/PatternUtils.h"
#include "kerf/NN/Transforms/Simplify.h"

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {
/// The ops from a slice of rows to a part of a concat; of each, which operand
/// is the one before it.
struct Chain {
  SliceOp slice;
  SmallVector<std::pair<Operation *, unsigned>> ops;
};
} // namespace

/// The operand with as many elements as the result that no source makes; none
/// if there are several.
static std::optional<unsigned> onlyVariable(Operation *op) {
  std::optional<unsigned> found;
  for (OpOperand &operand : op->getOpOperands()) {
    if (isa_and_nonnull<SourceOpInterface>(operand.get().getDefiningOp()))
      continue;
    if (found || shapeOf(operand.get()) != shapeOf(op->getResult(0)))
      return std::nullopt;
    found = operand.getOperandNumber();
  }
  return found;
}

static std::optional<Chain> chainTo(Value value) {
  constexpr size_t kMost = 16;
  Chain chain;
  while (Operation *op = value.getDefiningOp()) {
    if (isPlanned(op)) // for the shapes that are there
      return std::nullopt;
    if (auto slice = dyn_cast<SliceOp>(op)) {
      chain.slice = slice;
      std::reverse(chain.ops.begin(), chain.ops.end());
      if (slice.getStrides()[0] != 1 || chain.ops.empty())
        return std::nullopt;
      return chain;
    }
    if (!value.hasOneUse() || chain.ops.size() == kMost)
      return std::nullopt;
    std::optional<unsigned> next;
    if (isa<ReshapeOp, ReduceOp>(op))
      next = 0;
    else if (isElementwise(op))
      next = onlyVariable(op);
    if (!next)
      return std::nullopt;
    chain.ops.push_back({op, *next});
    value = op->getOperand(*next);
  }
  return std::nullopt;
}

/// A float constant of one element.
static std::optional<APFloat> numberOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || !constant.getElements().isSplat() ||
      constant.getElements().getNumElements() != 1 ||
      !isa<FloatType>(constant.getElements().getElementType()))
    return std::nullopt;
  return constant.getElements().getSplatValue<APFloat>();
}

/// Whether one multiplies by the reciprocal of what the other divides by.
static bool scaleAlike(Operation *mul, Operation *div) {
  auto factor = isa<MulOp>(mul) ? numberOf(mul->getOperand(1)) : std::nullopt;
  auto divisor = isa<DivOp>(div) ? numberOf(div->getOperand(1)) : std::nullopt;
  if (!factor || !divisor)
    return false;
  APFloat one(divisor->getSemantics(), 1);
  one.divide(*divisor, APFloat::rmNearestTiesToEven);
  return &factor->getSemantics() == &one.getSemantics() &&
         factor->bitwiseIsEqual(one);
}

static bool areAlike(Operation *a, Operation *b, unsigned chained) {
  if (a->getResult(0).getType() != b->getResult(0).getType())
    return false;
  if (chained == 0 && scaleAlike(a, b))
    return true;
  if (a->getName() != b->getName() ||
      a->getAttrDictionary() != b->getAttrDictionary() ||
      a->getPropertiesAsAttribute() != b->getPropertiesAsAttribute() ||
      a->getNumOperands() != b->getNumOperands())
    return false;
  for (unsigned i = 0; i < a->getNumOperands(); ++i) {
    Value x = a->getOperand(i), y = b->getOperand(i);
    if (i == chained || x == y)
      continue;
    auto number = x.getDefiningOp<ConstantOp>(),
         other = y.getDefiningOp<ConstantOp>();
    if (!number || !other || number.getElements() != other.getElements())
      return false;
  }
  return true;
}

/// Whether `other` is what `first` is of the rows `index` parts behind it.
static bool follows(const Chain &first, const Chain &other, int64_t index) {
  SliceOp a = first.slice, b = other.slice;
  if (a.getX() != b.getX() || a.getSizes() != b.getSizes() ||
      a.getStrides() != b.getStrides() ||
      a.getStarts().drop_front() != b.getStarts().drop_front() ||
      b.getStarts()[0] != a.getStarts()[0] + index * a.getSizes()[0] ||
      first.ops.size() != other.ops.size())
    return false;
  return llvm::all_of(llvm::zip(first.ops, other.ops), [](auto pair) {
    auto [x, chained] = std::get<0>(pair);
    auto [y, same] = std::get<1>(pair);
    return chained == same && areAlike(x, y, chained);
  });
}

/// What `first` computes, of `parts` parts, in front of the others' dimensions.
static Value joined(OpBuilder &builder, Location loc, const Chain &first,
                    int64_t parts) {
  SliceOp slice = first.slice;
  Integers sizes(slice.getSizes());
  sizes[0] *= parts;
  Value value = slice.getX();
  if (ArrayRef(sizes) != shapeOf(value))
    value = SliceOp::create(builder, loc, value, slice.getStarts(), sizes,
                            slice.getStrides());
  auto withParts = [&](ArrayRef<int64_t> shape) {
    Integers all{parts};
    llvm::append_range(all, shape);
    return all;
  };
  auto reshape = [&](ArrayRef<int64_t> shape) {
    return ReshapeOp::create(builder, loc, typeOf(value).clone(shape), value);
  };
  value = reshape(withParts(slice.getSizes()));
  for (auto [op, chained] : first.ops) {
    Integers shape = withParts(shapeOf(op->getResult(0)));
    if (isa<ReshapeOp>(op)) {
      value = reshape(shape);
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      Integers dims(reduce.getDims());
      for (int64_t &dim : dims)
        ++dim;
      value = ReduceOp::create(builder, loc, value, reduce.getKind(), dims);
    } else {
      SmallVector<Value> operands(op->getOperands());
      operands[chained] = value;
      value = cloneWith(builder, op, operands, shape);
    }
  }
  return value;
}

static bool join(ConcatOp concat) {
  auto parts = int64_t(concat.getInputs().size());
  if (concat.getDim() != 0 || parts < 2)
    return false;
  std::optional<Chain> first = chainTo(concat.getInputs()[0]);
  if (!first)
    return false;
  for (auto [index, input] : llvm::enumerate(concat.getInputs())) {
    auto other = chainTo(input);
    if (!other || !follows(*first, *other, int64_t(index)))
      return false;
  }
  OpBuilder builder(concat);
  Value all = joined(builder, concat.getLoc(), *first, parts);
  Value result = ReshapeOp::create(builder, concat.getLoc(),
                                   typeOf(concat.getResult()), all);
  // What the parts were is read no more; the rewrites behind this one drop it.
  concat.getResult().replaceAllUsesWith(result);
  concat.erase();
  return true;
}

int64_t kerf::nn::joinAlikeParts(Block &block) {
  int64_t count = 0;
  for (Operation &op : llvm::make_early_inc_range(block))
    if (auto concat = dyn_cast<ConcatOp>(op))
      count += join(concat);
  return count;
}
