//===- RecogniseAttention.cpp - attention found in its parts --------------===//
//
// Starts at a product with a softmax along the keys and goes upwards: masks
// that are added or selected, one factor, the product of queries and keys.
// Queries, keys and values become [batch, heads, length, size], through any
// grouping and reshapes; keys that were repeated for their group of heads are
// taken unrepeated. Nothing matches if another op reads a value that would no
// longer be computed (probabilities), or if there is dropout. Each op is
// visited once per product that reads it.
//
// Masks: a hidden position is one whose score is at most kHidden. Such masks
// are as good as -inf beside scores that softmax can tell apart, and where they
// are the lower triangle the op is `causal` and reads none. All others become
// the bias, bounded from below, and NaN in rows that -inf hides altogether, as
// their softmax is. Where scores are f16, whose lowest number does not drown
// every score, constants that hide a whole row by more do not match.
//
//===----------------------------------------------------------------------===//
#include "../Gradients/GradientBuilder.h"
#include "../IR/PatternUtils.h"
#include "kerf/NN/Transforms/Simplify.h"
#include "kerf/Support/Preconditions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

using Integers = SmallVector<int64_t>;

static constexpr double kHidden = -1e4;

namespace {

/// A mask and the shape of the scores that it is added to.
struct Mask {
  Value value;             ///< added; or, with a condition,
  Value condition;         ///< hides where it does not hold,
  double hidden = 0;       ///< by this score,
  bool whereHolds = false; ///< hides where it holds
  Integers scores;
};

class Matcher {
public:
  Matcher(const AttentionForms &forms, DenseMap<Attribute, bool> &triangles)
      : forms(forms), triangles(triangles) {}

  bool match(MatmulOp product) {
    second = product;
    return !second.getTransposeLhs() && matchProbabilities() && matchScores() &&
           matchShapes() && fits();
  }
  void replace();

private:
  bool matchProbabilities();
  bool matchScores();
  bool matchMask(Operation *op, Value &next);
  bool addMask(Mask mask);
  bool matchShapes();
  bool fits();
  bool isTriangle(Value mask, bool condition, bool whereHolds);
  bool losesRow(const Mask &mask);
  /// What hides a position, finite in the type of the scores.
  double lowest() {
    bool isHalf = typeOf(softmax.getX()).getElementType().isF16();
    return isHalf ? std::max(forms.lowest, -6e4) : forms.lowest;
  }
  Value makeBias(GradientBuilder &b, const Mask &mask);
  std::optional<Integers> biasShape(ArrayRef<int64_t> mask,
                                    ArrayRef<int64_t> scores) const;

  const AttentionForms &forms;
  DenseMap<Attribute, bool> &triangles;
  MatmulOp second, first;
  SoftmaxOp softmax;
  SmallVector<Mask> masks;
  bool causal = false, guarded = false, scaled = false;
  double scale = 1;
  /// [batch, heads] as found in a reshape.
  std::optional<Integers> split;
  int64_t batch = 0, heads = 0, keyHeads = 0;
  Value query, key, value;
};

bool isFloatCast(Operation *op) {
  auto cast = dyn_cast_or_null<CastOp>(op);
  return cast && isa<FloatType>(typeOf(cast.getX()).getElementType()) &&
         isa<FloatType>(typeOf(cast.getResult()).getElementType());
}

/// A reshape of the dimensions before the last two.
bool keepsRows(Operation *op) {
  auto reshape = dyn_cast_or_null<ReshapeOp>(op);
  return reshape && rankOf(reshape.getX()) > 2 &&
         rankOf(reshape.getResult()) > 2 &&
         shapeOf(reshape.getX()).take_back(2) ==
             shapeOf(reshape.getResult()).take_back(2);
}

/// Whether the value is scores: a few ops behind a product.
bool isScores(Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse() || depth > 8)
    return false;
  if (isa<MatmulOp>(op))
    return true;
  if (isa<MulOp, DivOp, AddOp, CastOp, ReshapeOp>(op))
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return isScores(operand, depth + 1);
    });
  if (isa<SelectOp>(op))
    return isScores(op->getOperand(1), depth + 1) ||
           isScores(op->getOperand(2), depth + 1);
  return false;
}

/// Whether a float may depend on a trained parameter.
bool isLearned(Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!isa<FloatType>(typeOf(value).getElementType()) || !op)
    return false;
  if (isa<WeightOp, StateOp>(op) || depth > 32)
    return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return isLearned(operand, depth + 1);
  });
}

bool Matcher::matchProbabilities() {
  Value p = second.getLhs();
  while (p.hasOneUse() &&
         (keepsRows(p.getDefiningOp()) || isFloatCast(p.getDefiningOp())))
    p = p.getDefiningOp()->getOperand(0);
  // ONNX: rows whose positions are all masked give zero.
  if (auto select = p.getDefiningOp<SelectOp>()) {
    auto isNaN = select.getOperand(0).getDefiningOp<IsNaNOp>();
    Value inner = select.getOperand(2);
    if (!isNaN || !p.hasOneUse() || !isNaN->hasOneUse() ||
        isNaN.getX() != inner || !isSplatOf(select.getOperand(1), 0) ||
        !inner.hasNUses(2))
      return false;
    guarded = true;
    p = inner;
  }
  softmax = p.getDefiningOp<SoftmaxOp>();
  return softmax && (guarded || p.hasOneUse()) &&
         holds(softmax, Precondition::SoftmaxAlongKeys,
               static_cast<int64_t>(softmax.getDim()) + 1 == rankOf(p));
}

bool Matcher::matchScores() {
  Value x = softmax.getX();
  for (int steps = 0; steps < 16; ++steps) {
    Operation *op = x.getDefiningOp();
    if (!op || !x.hasOneUse())
      return false;
    if (rankOf(x) == 4)
      split = Integers(shapeOf(x).take_front(2));
    if ((first = dyn_cast<MatmulOp>(op)))
      // A fully masked row gives NaN, which the guard turns into 0. The call's
      // finite bias makes no NaN, so guard and mask together do not match.
      return !first.getTransposeLhs() &&
             holds(softmax, Precondition::GuardSeesNaN,
                   !guarded || masks.empty());
    if (isFloatCast(op) || keepsRows(op)) {
      x = op->getOperand(0);
      continue;
    }
    if (isa<MulOp, DivOp>(op)) {
      bool right = splatOf(op->getOperand(1)).has_value();
      auto number = splatOf(op->getOperand(right ? 1 : 0));
      Value other = op->getOperand(right ? 0 : 1);
      if (!number || other.getType() != x.getType() ||
          (isa<DivOp>(op) && (!right || *number == 0)))
        return false;
      scale *= isa<DivOp>(op) ? 1 / *number : *number;
      scaled = true;
      x = other;
      continue;
    }
    // A mask added before the factor would have to be scaled as well.
    if (!holds(softmax, Precondition::MaskBehindFactor, !scaled) ||
        !matchMask(op, x))
      return false;
  }
  return false;
}

bool Matcher::matchMask(Operation *op, Value &next) {
  Integers scores(shapeOf(op->getResult(0)));
  auto goOn = [&](Value scoresOperand) {
    next = scoresOperand;
    return typeOf(scoresOperand).getShape() == ArrayRef(scores);
  };
  if (auto add = dyn_cast<AddOp>(op)) {
    bool right = !isScores(add.getLhs());
    Value mask = right ? add.getLhs() : add.getRhs();
    return isScores(right ? add.getRhs() : add.getLhs()) &&
           addMask({mask, {}, 0, false, scores}) &&
           goOn(right ? add.getRhs() : add.getLhs());
  }
  auto select = dyn_cast<SelectOp>(op);
  if (!select)
    return false;
  for (bool whereHolds : {false, true}) {
    auto number = splatOf(select.getOperand(whereHolds ? 1 : 2));
    Value rest = select.getOperand(whereHolds ? 2 : 1);
    // The number becomes a bias that is added to the score, so it must be so
    // negative that the score no longer matters.
    if (number && holds(softmax, Precondition::HiddenDrowns, *number <= -1e9) &&
        isScores(rest))
      return addMask({{}, select.getOperand(0), *number, whereHolds, scores}) &&
             goOn(rest);
  }
  return false;
}

static Value behindBroadcasts(Value mask) {
  while (isa_and_nonnull<BroadcastOp>(mask.getDefiningOp()) ||
         behindUnitReshapes(mask) != mask)
    mask = isa<BroadcastOp>(mask.getDefiningOp())
               ? mask.getDefiningOp()->getOperand(0)
               : behindUnitReshapes(mask);
  return mask;
}

/// Whether a constant mask hides a whole row by numbers that the bias's type
/// cannot hold. Added to scores, such a number swallows them, so the softmax of
/// the row is uniform. Raised to `lowest`, the lowest number of the type, it
/// would not, and the softmax would be that of the scores.
bool Matcher::losesRow(const Mask &mask) {
  bool condition = mask.condition != nullptr;
  Value from = behindBroadcasts(condition ? mask.condition : mask.value);
  auto constant = from.getDefiningOp<ConstantOp>();
  if (!constant || typeOf(from).getNumElements() == 0)
    return false;
  // A number that drowns every score leaves such a row the same everywhere.
  if (lowest() <= -1e9)
    return false;
  DenseElementsAttr elements = constant.getElements();
  int64_t columns = rankOf(from) ? shapeOf(from).back() : 1, at = 0;
  bool whole = true, found = false;
  auto look = [&](bool isHidden) {
    whole &= isHidden;
    if (++at % columns == 0) {
      found |= whole;
      whole = true;
    }
  };
  if (condition)
    for (bool holds : elements.getValues<bool>())
      look(holds == mask.whereHolds);
  else
    for (APFloat number : elements.getValues<APFloat>()) {
      bool lost;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                     &lost);
      look(number.convertToDouble() < lowest());
    }
  return found;
}

/// One element per score of one head, hidden exactly where key > query.
bool Matcher::isTriangle(Value mask, bool condition, bool whereHolds) {
  mask = behindBroadcasts(mask);
  auto constant = mask.getDefiningOp<ConstantOp>();
  if (!constant || constant.getName() || rankOf(mask) < 2)
    return false;
  ArrayRef<int64_t> shape = shapeOf(mask);
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (typeOf(mask).getNumElements() != rows * columns || rows < 2 ||
      columns < 2)
    return false;
  DenseElementsAttr elements = constant.getElements();
  if (elements.isSplat())
    return false;
  int64_t at = 0;
  auto matches = [&](bool hidden, bool visible) {
    bool expected = at % columns > at / columns;
    ++at;
    return expected ? hidden : visible;
  };
  if (condition)
    return llvm::all_of(elements.getValues<bool>(), [&](bool holds) {
      return matches(holds == whereHolds, holds != whereHolds);
    });
  auto [known, isNew] = triangles.try_emplace(elements, false);
  if (!isNew)
    return known->second;
  if (elements.getElementType().isF32())
    known->second =
        llvm::all_of(elements.getValues<float>(), [&](float number) {
          return matches(number <= kHidden, number == 0);
        });
  else
    known->second =
        llvm::all_of(elements.getValues<APFloat>(), [&](APFloat number) {
          bool lost;
          number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                         &lost);
          return matches(number.convertToDouble() <= kHidden, number.isZero());
        });
  return known->second;
}

bool Matcher::addMask(Mask mask) {
  bool condition = mask.condition != nullptr;
  Value from = condition ? mask.condition : mask.value;
  if (holds(softmax, Precondition::MaskIsTriangle,
            isTriangle(from, condition, mask.whereHolds))) {
    causal = true;
    return true;
  }
  if (rankOf(from) > static_cast<int64_t>(mask.scores.size()) ||
      (forms.training && !condition && isLearned(from)) || losesRow(mask))
    return false;
  masks.push_back(std::move(mask));
  return true;
}

/// `x` before it was repeated along dimension 1, or `x`.
Value behindRepeat(Value x) {
  auto reshape = x.getDefiningOp<ReshapeOp>();
  auto broadcast =
      reshape ? reshape.getX().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!broadcast || rankOf(x) != 4 || rankOf(broadcast.getResult()) != 5 ||
      rankOf(broadcast.getX()) != 5)
    return x;
  ArrayRef<int64_t> from = shapeOf(broadcast.getX()),
                    to = shapeOf(broadcast.getResult());
  Integers repeated(from);
  repeated[2] = to[2];
  if (from[2] != 1 || ArrayRef(repeated) != to || from[0] != shapeOf(x)[0] ||
      from.take_back(2) != shapeOf(x).take_back(2))
    return x;
  return broadcast.getX();
}

/// The factor in front of reshapes and transposes of queries, which is removed.
Value withoutFactor(OpBuilder &builder, Value x, double &scale) {
  SmallVector<Operation *> chain;
  Value base = x;
  while (base.hasOneUse() &&
         isa_and_nonnull<ReshapeOp, TransposeOp>(base.getDefiningOp())) {
    chain.push_back(base.getDefiningOp());
    base = chain.back()->getOperand(0);
  }
  Operation *op = base.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op) || !base.hasOneUse())
    return x;
  auto number = splatOf(op->getOperand(1));
  Value plain = op->getOperand(0);
  if (!number && isa<MulOp>(op)) {
    number = splatOf(op->getOperand(0));
    plain = op->getOperand(1);
  }
  if (!number || *number == 0 || plain.getType() != base.getType())
    return x;
  scale *= isa<DivOp>(op) ? 1 / *number : *number;
  for (Operation *step : llvm::reverse(chain))
    plain = cloneWith(builder, step, plain, shapeOf(step->getResult(0)));
  return plain;
}

bool Matcher::matchShapes() {
  query = first.getLhs();
  key = first.getRhs();
  value = second.getRhs();
  int64_t rank = rankOf(query);
  if (rank < 3 || rank > 5 || rankOf(key) != rank || rankOf(value) != rank)
    return false;
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key), v = shapeOf(value);
  auto sameFront = [&](int64_t count) {
    return q.take_front(count) == k.take_front(count) &&
           k.take_front(count) == v.take_front(count);
  };
  if (rank == 3) {
    if (!sameFront(1))
      return false;
    bool known = split && (*split)[0] * (*split)[1] == q[0];
    batch = known ? (*split)[0] : q[0];
    heads = keyHeads = known ? (*split)[1] : 1;
  } else if (rank == 4) {
    if (!sameFront(1) || k[1] != v[1] || (k[1] != q[1] && k[1] != 1))
      return false;
    batch = q[0];
    heads = q[1];
    Value plainKey = behindRepeat(key), plainValue = behindRepeat(value);
    if (plainKey != key && plainValue != value &&
        shapeOf(plainKey)[1] == shapeOf(plainValue)[1] &&
        q[1] % shapeOf(plainKey)[1] == 0) {
      key = plainKey;
      value = plainValue;
    }
    keyHeads = shapeOf(key)[1];
  } else {
    // Groups of heads that share keys, as a dimension.
    if (!sameFront(2) || k[2] != v[2] || (k[2] != 1 && k[2] != q[2]))
      return false;
    batch = q[0];
    heads = q[1] * q[2];
    keyHeads = k[1] * k[2];
  }
  return llvm::all_of(masks, [&](const Mask &mask) {
    return biasShape(shapeOf(mask.condition ? mask.condition : mask.value),
                     mask.scores)
        .has_value();
  });
}

/// The shape of a mask over [batch, heads, queries, keys], given the shape that
/// it broadcasts to.
std::optional<Integers> Matcher::biasShape(ArrayRef<int64_t> mask,
                                           ArrayRef<int64_t> scores) const {
  Integers padded(scores.size() - mask.size(), 1);
  llvm::append_range(padded, mask);
  ArrayRef<int64_t> front = ArrayRef(padded).drop_back(2);
  ArrayRef<int64_t> whole = scores.drop_back(2);
  int64_t count = 1;
  for (int64_t size : front)
    count *= size;
  Integers shape(2, 1);
  if (front.size() == 2 && whole[0] == batch && whole[1] == heads) {
    shape.assign(front.begin(), front.end());
  } else if (front == whole) {
    shape = {batch, heads};
  } else if (!front.empty() && front[0] == batch && count == batch &&
             whole[0] == batch) {
    shape[0] = batch;
  } else if (count != 1) {
    return std::nullopt;
  }
  shape.append(padded.end() - 2, padded.end());
  return shape;
}

bool Matcher::fits() {
  Type element = typeOf(query).getElementType();
  int64_t size = shapeOf(query).back();
  ArrayRef<int64_t> v = shapeOf(second.getRhs());
  int64_t out = v[v.size() - (second.getTransposeRhs() ? 2 : 1)];
  auto isSize = [&](int64_t n) {
    return n > 0 && n % forms.headMultiple == 0 && n <= forms.maxHead;
  };
  return (element.isBF16() || element.isF16() ||
          (forms.wide && element.isF32())) &&
         typeOf(key).getElementType() == element &&
         typeOf(value).getElementType() == element && isSize(size) &&
         isSize(out) && typeOf(second.getResult()).getNumElements() > 0 &&
         shapeOf(softmax.getX()).back() > 0;
}

/// Whether a mask may hold -inf.
static bool mayBeInfinite(Value mask) {
  mask = behindBroadcasts(mask);
  if (auto weight = mask.getDefiningOp<WeightOp>())
    return weight.getInfinite();
  auto constant = mask.getDefiningOp<ConstantOp>();
  return !constant || llvm::any_of(constant.getElements().getValues<APFloat>(),
                                   [](const APFloat &number) {
                                     return number.isInfinity();
                                   });
}

/// `bias`, and NaN in rows of which all of `scores` is `bottom`: a softmax of
/// -inf alone has no value.
static Value markHiddenRows(GradientBuilder &b, Value bias, Value scores,
                            double bottom) {
  if (rankOf(scores) == 0)
    return bias;
  Integers shape(shapeOf(scores));
  shape.back() = 1;
  Value row =
      b.reshape(b.reduce(scores, ReduceKind::Max, {rankOf(scores) - 1}), shape);
  double nan = std::numeric_limits<double>::quiet_NaN();
  return b.select(b.equal(row, b.number(bottom, row)), b.number(nan, bias),
                  bias);
}

Value Matcher::makeBias(GradientBuilder &b, const Mask &mask) {
  Value bias = mask.value;
  Type element = typeOf(query).getElementType();
  if (mask.condition) {
    auto scalar = RankedTensorType::get({}, element);
    auto number = [&](double x) {
      return b.make<ConstantOp>(DenseElementsAttr::get(
          scalar, OpBuilder(softmax).getFloatAttr(element, x)));
    };
    Value hidden = number(lowest()), seen = number(0);
    bias = mask.whereHolds ? b.select(mask.condition, hidden, seen)
                           : b.select(mask.condition, seen, hidden);
    if (std::isinf(mask.hidden))
      bias = markHiddenRows(b, bias, bias, lowest());
  } else {
    bias = b.make<MaxOp>(bias, b.number(lowest(), bias));
    if (mayBeInfinite(mask.value))
      bias = markHiddenRows(b, bias, mask.value,
                            -std::numeric_limits<double>::infinity());
  }
  bias = b.reshape(bias, *biasShape(shapeOf(bias), mask.scores));
  if (typeOf(bias).getElementType() != element)
    bias = b.make<CastOp>(typeOf(bias).clone(element), bias);
  return bias;
}

void Matcher::replace() {
  OpBuilder builder(second);
  GradientBuilder b(builder, softmax.getLoc());
  auto whole = [&](Value x, int64_t headCount, bool transposed) {
    // [batch.., rows, columns], the columns being the size of a head.
    if (transposed) {
      Integers perm;
      for (int64_t d = 0; d < rankOf(x); ++d)
        perm.push_back(d);
      std::swap(perm[perm.size() - 2], perm.back());
      x = b.transpose(x, perm);
    }
    ArrayRef<int64_t> shape = shapeOf(x);
    return b.reshape(x,
                     {batch, headCount, shape[shape.size() - 2], shape.back()});
  };
  query = withoutFactor(builder, query, scale);
  key = withoutFactor(builder, key, scale);
  Value q = whole(query, heads, false);
  Value k = whole(key, keyHeads, !first.getTransposeRhs());
  Value v = whole(value, keyHeads, second.getTransposeRhs());
  Value bias;
  for (const Mask &mask : masks) {
    Value one = makeBias(b, mask);
    bias = bias ? b.add(bias, one) : one;
  }
  auto attention = AttentionOp::create(
      builder, softmax.getLoc(), q, k, v, bias, builder.getF64FloatAttr(scale),
      causal ? builder.getUnitAttr() : UnitAttr());
  second.replaceAllUsesWith(
      b.reshape(attention.getResult(), shapeOf(second.getResult())));
}

} // namespace

int64_t kerf::nn::recogniseAttention(Block &block,
                                     const AttentionForms &forms) {
  int64_t count = 0;
  DenseMap<Attribute, bool> triangles;
  for (Operation &op : llvm::make_early_inc_range(block))
    if (auto product = dyn_cast<MatmulOp>(op); product && !isPlanned(&op)) {
      Matcher matcher(forms, triangles);
      if (!matcher.match(product))
        continue;
      matcher.replace();
      ++count;
    }
  if (count)
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  return count;
}
