//===- PadProducts.cpp - rows that begin where 16 bytes do ----------------===//
//
// Problem: with a vocabulary of 50,257 tokens, rows of scores begin at any
// multiple of 2 bytes. The fast products of GPUs, and kernels, read 16 bytes at
// a time; libraries use slow products for other rows, for a third of GPT-2's
// arithmetic.
//
// Idea: such a product is computed with up to seven additional columns, from a
// weight with additional rows of zeros, and the ops behind it work on wide rows
// as well. Elementwise ops and reductions include the additional elements; for
// a reduction they are set to its identity, for a product that sums over them
// to zero. Any other op reads a slice.
//
// Invariant: the function computes the same. Additional elements reach no
// reduction and no product unmasked: a gradient may be infinite there.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"
#include "kerf/Support/Preconditions.h"

#include "../OpKinds.h"

#include <limits>

namespace kerf {
#define GEN_PASS_DEF_PADPRODUCTS
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

static int64_t lastSize(Value value) {
  RankedTensorType type = typeOf(value);
  return type.getRank() == 0 ? 1 : type.getShape().back();
}

static RankedTensorType withLast(RankedTensorType type, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = size;
  return type.clone(shape);
}

namespace {
class Padding {
public:
  /// Rows of a multiple of `unit` elements are fast.
  Padding(func::FuncOp function, int64_t unit)
      : block(function.getBody().front()), builder(function.getContext()),
        unit(unit) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      builder.setInsertionPoint(&op);
      if (auto matmul = dyn_cast<nn::MatmulOp>(op))
        pad(matmul);
      else if (auto reduce = dyn_cast<nn::ReduceOp>(op))
        pad(reduce);
    }
  }

private:
  /// The op that new ops replace: they belong to the same part of the step.
  template <typename Origin> Location from(Origin origin) {
    builder.standFor(origin);
    return getLoc(origin);
  }
  static Location getLoc(Value value) { return value.getLoc(); }
  static Location getLoc(Operation *op) { return op->getLoc(); }

  Value splat(Location loc, RankedTensorType type, double value) {
    auto element =
        FloatAttr::get(cast<FloatType>(type.getElementType()), value);
    return nn::ConstantOp::create(
        builder, loc,
        cast<ElementsAttr>(DenseElementsAttr::get(type, element)));
  }

  /// `value` with rows of padded(size) elements, the additional ones undefined.
  /// Null if some op cannot be widened.
  Value widen(Value value, int64_t size) {
    if (auto it = known.find(value); it != known.end())
      return it->second;
    Operation *op = value.getDefiningOp();
    RankedTensorType type = withLast(typeOf(value), padded(size));
    Value wide;
    if (isa_and_nonnull<nn::IotaOp>(op) && type.getRank() == 1) {
      OperationState state(from(op), op->getName(), {}, type, op->getAttrs());
      wide = builder.create(state)->getResult(0);
    } else if (auto constant = dyn_cast_or_null<nn::ConstantOp>(op)) {
      if (constant.getElements().isSplat())
        wide = nn::ConstantOp::create(
            builder, from(op),
            cast<ElementsAttr>(DenseElementsAttr::get(
                type, constant.getElements().getSplatValue<Attribute>())));
    } else if ((isElementwise(op) && holds(op, Precondition::PaddingCannotFail,
                                           !nn::dividesIntegers(op))) ||
               isa_and_nonnull<nn::BroadcastOp>(op) ||
               (isa_and_nonnull<nn::ReshapeOp>(op) &&
                holds(op, Precondition::PaddedStaysLast,
                      lastSize(op->getOperand(0)) == size))) {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands()) {
        bool isRow = lastSize(operand) == size;
        Value each = isRow ? widen(operand, size) : operand;
        if (!each || (!isRow && lastSize(operand) != 1))
          return known[value] = {};
        operands.push_back(each);
      }
      OperationState state(from(op), op->getName(), operands, type,
                           op->getAttrs());
      wide = builder.create(state)->getResult(0);
    }
    return known[value] = wide;
  }

  /// Whether rows of `value` come from a product that was padded.
  bool isWide(Value value, int64_t size) {
    SmallVector<Value> stack;
    DenseSet<Value> seen;
    if (!slices.empty())
      stack.push_back(value);
    while (!stack.empty()) {
      Value next = stack.pop_back_val();
      if (slices.contains(next))
        return true;
      Operation *op = next.getDefiningOp();
      if (!seen.insert(next).second ||
          !(isElementwise(op) || isa_and_nonnull<nn::ReshapeOp>(op)))
        continue;
      for (Value operand : op->getOperands())
        if (lastSize(operand) == size)
          stack.push_back(operand);
    }
    return false;
  }

  /// `wide` with `rest` behind the first `size` elements of each row.
  Value masked(Value wide, int64_t size, double rest) {
    Location loc = from(wide);
    RankedTensorType type = typeOf(wide);
    auto index =
        RankedTensorType::get({type.getShape().back()}, builder.getI64Type());
    Value column =
        nn::IotaOp::create(builder, loc, index, builder.getI64IntegerAttr(0));
    Value end = nn::ConstantOp::create(
        builder, loc,
        cast<ElementsAttr>(DenseElementsAttr::get(
            RankedTensorType::get({}, builder.getI64Type()),
            builder.getI64IntegerAttr(size))));
    Value inside = nn::LessOp::create(
        builder, loc, index.clone(builder.getI1Type()), column, end);
    Value other =
        splat(loc, RankedTensorType::get({}, type.getElementType()), rest);
    return nn::SelectOp::create(builder, loc, type, inside, wide, other);
  }

  void pad(nn::ReduceOp reduce) {
    Value x = reduce.getX();
    RankedTensorType type = typeOf(x);
    int64_t last = type.getRank() - 1;
    bool sum = reduce.getKind() == nn::ReduceKind::Sum;
    if (!holds(reduce, Precondition::PaddingIsNeutral,
               sum || reduce.getKind() == nn::ReduceKind::Max) ||
        !isa<FloatType>(type.getElementType()) ||
        !llvm::is_contained(reduce.getDims(), last))
      return;
    int64_t size = type.getShape().back();
    if (!isWide(x, size))
      return;
    Value wide = widen(x, size);
    if (wide)
      reduce.getXMutable().set(masked(
          wide, size, sum ? 0 : -std::numeric_limits<double>::infinity()));
  }

  /// Wide rows whose additional elements are zero; made once per value.
  Value zeroBehind(Value value, int64_t size) {
    if (Value found = zeroed.lookup(value))
      return found;
    auto reshape = value.getDefiningOp<nn::ReshapeOp>();
    Value result;
    if (reshape && lastSize(reshape.getX()) == size) {
      Value inner = zeroBehind(reshape.getX(), size);
      if (inner)
        result = nn::ReshapeOp::create(
            builder, from(value), withLast(typeOf(value), padded(size)), inner);
    } else if (Value wide = widen(value, size)) {
      result = masked(wide, size, 0);
    }
    return zeroed[value] = result;
  }

  /// An operand of a product with zeros behind its rows, or with rows of zeros.
  Value operand(Value value, bool rows, bool elements) {
    if (!rows && !elements)
      return value;
    int64_t size = lastSize(value);
    if (elements && !rows && isWide(value, size))
      if (Value wide = zeroBehind(value, size))
        return wide;
    // A kernel's result is stored that way; another value would be copied.
    if (!isElementwise(value.getDefiningOp()))
      return {};
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> low(type.getRank(), 0), high = low,
                                                 shape(type.getShape());
    auto extend = [&](int64_t dim) {
      high[dim] = padded(shape[dim]) - shape[dim];
      shape[dim] += high[dim];
    };
    if (rows)
      extend(type.getRank() - 2);
    if (elements)
      extend(type.getRank() - 1);
    return nn::PadOp::create(builder, from(value), type.clone(shape), value,
                             builder.getDenseI64ArrayAttr(low),
                             builder.getDenseI64ArrayAttr(high),
                             builder.getFloatAttr(type.getElementType(), 0));
  }

  /// A product that is not padded reads what others read padded, where that is
  /// made: a second copy without the additional elements would be as large.
  void readWide(nn::MatmulOp op) {
    int64_t size = lastSize(op.getLhs());
    Value wide =
        isWide(op.getLhs(), size) ? zeroBehind(op.getLhs(), size) : Value();
    if (wide)
      op.getLhsMutable().set(sliced(wide, typeOf(op.getLhs()), op));
  }

  /// The first elements of `wide` that are a tensor of `type`.
  Value sliced(Value wide, RankedTensorType type, nn::MatmulOp op) {
    SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
    return nn::SliceOp::create(builder, from(op.getOperation()), type, wide,
                               builder.getDenseI64ArrayAttr(starts),
                               builder.getDenseI64ArrayAttr(type.getShape()),
                               builder.getDenseI64ArrayAttr(strides));
  }

  void pad(nn::MatmulOp op) {
    RankedTensorType type = typeOf(op.getResult());
    bool lhsTransposed = op.getTransposeLhs(),
         rhsTransposed = op.getTransposeRhs();
    ArrayRef<int64_t> lhs = typeOf(op.getLhs()).getShape(),
                      rhs = typeOf(op.getRhs()).getShape();
    if (type.getElementTypeBitWidth() != 16 || rhs.size() != 2 ||
        (lhsTransposed && lhs.size() != 2))
      return;
    // The result is stored in 16 bits, or its only reader widens it.
    Operation *widened = nullptr;
    if (!op->hasAttr(exec::kStoredMark) && op->hasOneUse())
      widened = dyn_cast<nn::CastOp>(*op->user_begin());
    bool stored = op->hasAttr(exec::kStoredMark);
    // Few columns: rows are too short to matter.
    auto odd = [this](int64_t size) {
      return size > 2 * unit && size % unit != 0;
    };
    int64_t m = type.getShape()[type.getRank() - 2], n = type.getShape().back();
    int64_t k = rhs[rhsTransposed ? 1 : 0];
    // A product that is widened for a bias addition keeps its n, unless marked.
    bool biased = widened && widened->hasOneUse() &&
                  isa<nn::AddOp>(*widened->user_begin());
    bool padN = odd(n) && (stored || (!rhsTransposed && !biased));
    bool padK = odd(k) && (!lhsTransposed || rhsTransposed);
    bool padM = odd(m) && lhsTransposed;
    bool grows = padN || padM;
    if (!(grows || padK))
      return;
    if (grows && !stored && !widened) {
      if (padM)
        readWide(op);
      return;
    }
    Value left = operand(op.getLhs(), lhsTransposed ? padK : false,
                         lhsTransposed ? padM : padK);
    Value right = left ? operand(op.getRhs(), rhsTransposed ? padN : padK,
                                 rhsTransposed ? padK : padN)
                       : Value();
    if (!right)
      return;
    SmallVector<int64_t> shape(type.getShape());
    if (padM)
      shape[shape.size() - 2] = padded(m);
    if (padN)
      shape.back() = padded(n);
    Value product = nn::MatmulOp::create(
        builder, from(op.getOperation()), type.clone(shape), left, right,
        op.getTransposeLhsAttr(), op.getTransposeRhsAttr());
    product.getDefiningOp()->setDiscardableAttrs(
        op->getDiscardableAttrDictionary());
    if (!grows) {
      op->replaceAllUsesWith(product.getDefiningOp());
      return;
    }
    Operation *replaced = op;
    if (widened) {
      builder.standFor(widened);
      Operation *wide = builder.clone(*widened);
      wide->setOperand(0, product);
      product = wide->getResult(0);
      product.setType(typeOf(widened->getResult(0)).clone(shape));
      replaced = widened;
    }
    Value slice = sliced(product, typeOf(replaced->getResult(0)), op);
    if (holds(op, Precondition::OnlyRowsGrow, !padM)) {
      slices.insert(slice);
      known[slice] = product;
    }
    replaced->getResult(0).replaceAllUsesWith(slice);
  }

  int64_t padded(int64_t size) const {
    return llvm::divideCeil(size, unit) * unit;
  }

  Block &block;
  dist::ReplacingBuilder builder;
  int64_t unit;
  DenseMap<Value, Value> known, zeroed; ///< wide rows; null: there are none
  DenseSet<Value> slices;               ///< of padded products
};
} // namespace

namespace {
struct PadProducts : kerf::impl::PadProductsBase<PadProducts> {
  void runOnOperation() override {
    constexpr int64_t bytes = 2; // of an element
    int64_t unit = exec::TargetAttr::of(getOperation()).getRowBytes() / bytes;
    if (unit > 1 && !getOperation().isExternal())
      Padding(getOperation(), unit).run();
  }
};
} // namespace
