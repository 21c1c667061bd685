//===- Simplify.cpp - nn functions as lowering wants them -----------------===//
//
// See Simplify.h. All steps are linear in the number of ops.
//
//===----------------------------------------------------------------------===//
#include "Simplify.h"

#include "kerf/Lower/Lower.h"

#include "Library.h"
#include "Parameters.h"
#include "Units.h"

#include "kerf/NN/NN.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static nn::ConstantOp makeSplat(OpBuilder &builder, Location loc,
                                RankedTensorType type, double value) {
  auto element = FloatAttr::get(cast<FloatType>(type.getElementType()), value);
  return nn::ConstantOp::create(
      builder, loc, cast<ElementsAttr>(DenseElementsAttr::get(type, element)));
}

//===----------------------------------------------------------------------===//
// Splats
//===----------------------------------------------------------------------===//

static std::optional<double> evaluate(Operation *op, ArrayRef<double> x) {
  return llvm::TypeSwitch<Operation *, std::optional<double>>(op)
      .Case<nn::NegOp>([&](auto) { return -x[0]; })
      .Case<nn::SqrtOp>([&](auto) { return std::sqrt(x[0]); })
      .Case<nn::RsqrtOp>([&](auto) { return 1 / std::sqrt(x[0]); })
      .Case<nn::ReciprocalOp>([&](auto) { return 1 / x[0]; })
      .Case<nn::AddOp>([&](auto) { return x[0] + x[1]; })
      .Case<nn::SubOp>([&](auto) { return x[0] - x[1]; })
      .Case<nn::MulOp>([&](auto) { return x[0] * x[1]; })
      .Case<nn::DivOp>([&](auto) { return x[0] / x[1]; })
      .Case<nn::PowOp>([&](auto) { return std::pow(x[0], x[1]); })
      .Case<nn::CastOp, nn::BroadcastOp, nn::ReshapeOp, nn::TransposeOp,
            nn::SliceOp>([&](auto) { return x[0]; })
      .Default([](Operation *) { return std::nullopt; });
}

void kerf::foldSplats(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (op.getNumResults() != 1 || op.getNumOperands() == 0)
      continue;
    auto type = dyn_cast<RankedTensorType>(op.getResult(0).getType());
    if (!type || !type.getElementType().isF32())
      continue;
    SmallVector<double> operands;
    for (Value operand : op.getOperands()) {
      auto constant = operand.getDefiningOp<nn::ConstantOp>();
      if (!constant || constant.getName() ||
          !constant.getElements().isSplat() ||
          !typeOf(operand).getElementType().isF32())
        break;
      operands.push_back(
          constant.getElements().getSplatValue<APFloat>().convertToDouble());
    }
    if (operands.size() != op.getNumOperands())
      continue;
    if (auto value = evaluate(&op, operands)) {
      builder.setInsertionPoint(&op);
      op.replaceAllUsesWith(makeSplat(builder, op.getLoc(), type, *value));
      op.erase();
    }
  }
}

//===----------------------------------------------------------------------===//
// Batch norm
//===----------------------------------------------------------------------===//

/// Whether a value depends on parameters alone that no step changes.
static bool isParameter(Value value) {
  SmallVector<Value> stack = {value};
  for (int steps = 0; !stack.empty(); ++steps) {
    Operation *op = stack.pop_back_val().getDefiningOp();
    if (!op || !isa<nn::NNDialect>(op->getDialect()) || steps > 32 ||
        isMutableSource(op))
      return false;
    llvm::append_range(stack, op->getOperands());
  }
  return true;
}

/// `value` as one element per channel, if that is what it is.
static Value perChannel(OpBuilder &builder, Value value, int64_t channels) {
  RankedTensorType type = typeOf(value);
  if (type.getRank() == 0 || type.getNumElements() != channels ||
      type.getShape().back() != channels)
    return {};
  if (type.getRank() == 1)
    return value;
  return nn::ReshapeOp::create(
      builder, value.getLoc(),
      RankedTensorType::get({channels}, type.getElementType()), value);
}

void kerf::foldBatchNorms(func::FuncOp function) {
  SmallVector<nn::BatchNormOp> norms(
      function.getBody().front().getOps<nn::BatchNormOp>());
  OpBuilder builder(function.getContext());
  for (nn::BatchNormOp norm : norms) {
    builder.setInsertionPoint(norm);
    Location loc = norm.getLoc();
    RankedTensorType type = typeOf(norm.getScale());
    int64_t channels = type.getNumElements();
    Value epsilon =
        makeSplat(builder, loc, type, norm.getEpsilon().convertToDouble());
    Value scale = nn::MulOp::create(
        builder, loc, norm.getScale(),
        nn::RsqrtOp::create(
            builder, loc,
            nn::AddOp::create(builder, loc, norm.getVariance(), epsilon)));
    Value shift = nn::SubOp::create(
        builder, loc, norm.getBias(),
        nn::MulOp::create(builder, loc, norm.getMean(), scale));
    Value x = norm.getX();
    // What was added to the convolution is scaled, too.
    Value added;
    if (auto add = x.getDefiningOp<nn::AddOp>(); add && x.hasOneUse())
      for (int i : {0, 1}) {
        Value other = add->getOperand(1 - i);
        if (add->getOperand(i).getDefiningOp<nn::ConvOp>() &&
            isParameter(other) && isParameter(scale))
          if (Value channelwise = perChannel(builder, other, channels)) {
            added = channelwise;
            x = add->getOperand(i);
            break;
          }
      }
    // Under --precision the weights are rounded and the result is widened.
    auto widened = x.getDefiningOp<nn::CastOp>();
    if (widened && x.hasOneUse() && widened.getX().hasOneUse())
      x = widened.getX();
    auto conv = x.getDefiningOp<nn::ConvOp>();
    Value plain = conv ? conv.getWeights() : Value();
    auto rounded = conv ? plain.getDefiningOp<nn::CastOp>() : nn::CastOp();
    if (rounded)
      plain = rounded.getX();
    if (conv && x.hasOneUse() && isParameter(plain) && isParameter(scale) &&
        typeOf(plain).getElementType() == type.getElementType()) {
      SmallVector<int64_t> shape(typeOf(conv.getWeights()).getRank(), 1);
      shape[0] = channels;
      Value factor = nn::ReshapeOp::create(
          builder, loc, RankedTensorType::get(shape, type.getElementType()),
          scale);
      Value weights = nn::MulOp::create(builder, loc, plain, factor);
      if (rounded)
        weights = nn::CastOp::create(builder, loc, rounded.getType(), weights);
      if (added)
        shift = nn::AddOp::create(
            builder, loc, nn::MulOp::create(builder, loc, added, scale), shift);
      auto folded = cast<nn::ConvOp>(builder.clone(*conv));
      folded.getWeightsMutable().assign(weights);
      Value product = folded.getResult();
      if (product.getType() != norm.getType())
        product = nn::CastOp::create(builder, loc, norm.getType(), product);
      Value result = nn::AddOp::create(builder, loc, product, shift);
      norm.getResult().replaceAllUsesWith(result);
    } else {
      Value scaled = nn::MulOp::create(builder, loc, norm.getX(), scale);
      Value result = nn::AddOp::create(builder, loc, scaled, shift);
      norm.getResult().replaceAllUsesWith(result);
    }
    norm.erase();
  }
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// The matmul that a value reaches through shape ops of one use each.
static nn::MatmulOp reachedMatmul(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (auto matmul = dyn_cast<nn::MatmulOp>(user))
      return matmul;
    if (!isShapeOp(user))
      break;
    value = user->getResult(0);
  }
  return {};
}

void kerf::moveScalars(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (auto pow = dyn_cast<nn::PowOp>(op)) {
      auto exponent = splatValue(pow.getRhs());
      if (exponent && (*exponent == 2 || *exponent == 3) &&
          pow.getLhs().getType() == pow.getResult().getType()) {
        builder.setInsertionPoint(pow);
        Value x = pow.getLhs();
        Value product = nn::MulOp::create(builder, pow.getLoc(), x, x);
        if (*exponent == 3)
          product = nn::MulOp::create(builder, pow.getLoc(), product, x);
        pow.getResult().replaceAllUsesWith(product);
        pow.erase();
      }
      continue;
    }
    bool isMul = isa<nn::MulOp>(op), isDiv = isa<nn::DivOp>(op);
    if (!isMul && !isDiv)
      continue;
    Value result = op.getResult(0);
    unsigned scalar = 1;
    auto factor = splatValue(op.getOperand(1));
    if (!factor && isMul)
      factor = splatValue(op.getOperand(scalar = 0));
    if (!factor || !std::isfinite(*factor) || *factor == 0 ||
        op.getOperand(1 - scalar).getType() != result.getType())
      continue;
    nn::MatmulOp matmul = reachedMatmul(result);
    // Of a product with weights the bias comes next, and the factor costs
    // nothing in the kernel in front of it.
    if (!matmul || !typeOf(result).getElementType().isF32() ||
        isParameter(matmul.getLhs()) || isParameter(matmul.getRhs()))
      continue;
    result.replaceAllUsesWith(op.getOperand(1 - scalar));
    builder.setInsertionPointAfter(matmul);
    Value constant = makeSplat(builder, op.getLoc(),
                               RankedTensorType::get({}, builder.getF32Type()),
                               isDiv ? 1 / *factor : *factor);
    auto scaled =
        nn::MulOp::create(builder, op.getLoc(), matmul.getResult(), constant);
    matmul.getResult().replaceAllUsesExcept(scaled.getResult(), scaled);
    op.erase();
  }
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// The same for a GPU, where blocks of 32 columns are shared by the threads of
/// one multiprocessor: as many parts as keep all of them busy, if each has
/// something to add up.
static int64_t numPartsForGpu(int64_t count, int64_t columns) {
  constexpr int64_t wanted = 264 * 32, least = 1 << 16, shortest = 32;
  if (columns >= wanted || count * columns < least)
    return 1;
  int64_t target =
      std::min<int64_t>(llvm::divideCeil(wanted, columns), count / shortest);
  // A single column is a row of parts, each of which fills a block.
  if (columns == 1)
    target = std::min<int64_t>(target, 1024);
  for (int64_t parts = target; parts <= 4 * target && parts * 8 <= count;
       ++parts)
    if (parts > 1 && count % parts == 0)
      return parts;
  for (int64_t parts = target; parts >= 8; --parts)
    if (count % parts == 0)
      return parts;
  return 1;
}

/// Into how many parts `count` elements of `columns` columns are cut; 1: none.
static int64_t numParts(int64_t count, int64_t columns) {
  constexpr int64_t columnsOfATask = 64, tasks = 8, least = 1 << 17;
  if (columns >= tasks * columnsOfATask || count * columns < least)
    return 1;
  for (int64_t parts = 64; parts >= tasks; --parts)
    if (count % parts == 0)
      return parts;
  return 1;
}

void kerf::splitReductions(func::FuncOp function) {
  OpBuilder builder(function.getContext());
  bool gpu = function->getParentOp()->hasAttr(kGpuAttr);
  SmallVector<nn::ReduceOp> reductions(
      function.getBody().front().getOps<nn::ReduceOp>());
  for (nn::ReduceOp reduce : reductions) {
    RankedTensorType from = typeOf(reduce.getX()), to = reduce.getType();
    ArrayRef<int64_t> dims = reduce.getDims();
    bool leading = isa<FloatType>(from.getElementType());
    for (auto [i, dim] : llvm::enumerate(dims))
      leading &= dim == static_cast<int64_t>(i);
    if (!leading || to.getNumElements() == 0)
      continue;
    int64_t columns = to.getNumElements();
    int64_t count = from.getNumElements() / columns;
    int64_t parts =
        gpu ? numPartsForGpu(count, columns) : numParts(count, columns);
    if (parts == 1)
      continue;
    builder.setInsertionPoint(reduce);
    Location loc = reduce.getLoc();
    auto type = [&](ArrayRef<int64_t> shape) {
      return RankedTensorType::get(shape, from.getElementType());
    };
    auto reduceDim = [&](Value x, int64_t dim, RankedTensorType result) {
      return nn::ReduceOp::create(builder, loc, result, x, reduce.getKindAttr(),
                                  builder.getDenseI64ArrayAttr({dim}));
    };
    Value x = nn::ReshapeOp::create(
        builder, loc, type({parts, count / parts, columns}), reduce.getX());
    x = reduceDim(x, 1, type({parts, columns}));
    x = reduceDim(x, 0, type({columns}));
    if (x.getType() != to)
      x = nn::ReshapeOp::create(builder, loc, to, x);
    reduce.getResult().replaceAllUsesWith(x);
    reduce.erase();
  }
}

//===----------------------------------------------------------------------===//
// Order and dead code
//===----------------------------------------------------------------------===//

/// From 16 bits to 32; not of a product that the library widens.
static bool isWidening(Operation *op) {
  auto cast = dyn_cast<nn::CastOp>(op);
  if (!cast)
    return false;
  Operation *from = cast.getX().getDefiningOp();
  if (isa_and_nonnull<nn::MatmulOp, nn::ConvOp, nn::ConvInputGradientOp,
                      nn::ConvWeightGradientOp>(from) &&
      !from->hasAttr(kStoredAttr))
    return false;
  return typeOf(cast.getX()).getElementTypeBitWidth() == 16 &&
         isa<FloatType>(typeOf(cast.getX()).getElementType()) &&
         typeOf(cast.getResult()).getElementType().isF32();
}

/// As far as can be known before units are formed.
static bool becomesKernel(Operation *op) {
  return isa<nn::NNDialect>(op->getDialect()) &&
         !isa<nn::MatmulOp, nn::ConvOp, nn::ConvInputGradientOp,
              nn::ConvWeightGradientOp, nn::AttentionOp,
              nn::AttentionGradientOp, nn::ScatterAddOp>(op);
}

void kerf::sinkShapeOps(func::FuncOp function) {
  bool gpu = function->getParentOp()->hasAttr(kGpuAttr);
  SmallVector<Operation *> ops;
  // The block numbers its ops anew after insertions: linear for each of them.
  // What stands in front of an op that it was copied for has that op's number.
  DenseMap<Operation *, std::pair<int64_t, int64_t>> place;
  int64_t last = 0, copies = 0;
  for (Operation &op : function.getBody().front()) {
    place[&op] = {last++, std::numeric_limits<int64_t>::max()};
    bool moves = isShapeOp(&op) && !op.hasAttr(kStoredAttr);
    if (moves || isInline(&op) || (gpu && isWidening(&op)))
      ops.push_back(&op);
  }
  OpBuilder builder(function.getContext());
  for (Operation *op : llvm::reverse(ops)) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getResult(0).getUses())
      uses.push_back(&use);
    // Uses are listed in an order that depends on history.
    llvm::sort(uses, [&](OpOperand *a, OpOperand *b) {
      if (a->getOwner() != b->getOwner())
        return place.lookup(a->getOwner()) < place.lookup(b->getOwner());
      return a->getOperandNumber() < b->getOperandNumber();
    });
    // Only kernels can take a widening in.
    bool stays = isa<nn::CastOp>(op) && llvm::any_of(uses, [](OpOperand *use) {
                   return !becomesKernel(use->getOwner());
                 });
    for (auto [i, use] : llvm::enumerate(uses)) {
      Operation *own = op;
      if (stays && !becomesKernel(use->getOwner()))
        continue;
      if (stays || i > 0) {
        builder.setInsertionPoint(use->getOwner());
        own = builder.clone(*op);
        use->set(own->getResult(0));
      } else {
        op->moveBefore(use->getOwner());
      }
      place[own] = {place.lookup(use->getOwner()).first, copies++};
    }
  }
}

void kerf::eraseDeadOps(func::FuncOp function) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}
