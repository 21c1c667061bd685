//===- SplitProjections.cpp - fused products taken apart ------------------===//
//
// Problem: q, k and v are slices of one product. If devices hold blocks of its
// columns, these blocks straddle q, k and v, and a cut by heads must move them.
//
// Idea: a slice of a product is a product with a slice of the weight. First it
// is checked, op by op from the slices to the arguments, whether the slice can
// be taken of the operands instead (rises); then each slice is built from
// slices of the arguments (slice). Each value in between has one reader, so
// nothing is computed twice. An argument of which only n equal slices are read
// then gets a dimension of size n.
//
// Linear in the ops between slices and arguments, times the slices.
//
//===----------------------------------------------------------------------===//
#include "kerf/Models/Passes.h"

#include "Body.h"
#include "Constants.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Interfaces/KerfDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>

namespace kerf::models {
#define GEN_PASS_DEF_SPLITPROJECTIONS
#include "kerf/Models/Passes.h.inc"
} // namespace kerf::models

using namespace mlir;
using namespace kerf;
using namespace kerf::models;

namespace {

/// Elements of one dimension of a value: all of the others.
struct Part {
  int64_t dim, offset, size;
};

int64_t sizeOf(Value value, int64_t dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

/// None of a slice of several dimensions, or with strides.
std::optional<Part> partOf(tensor::ExtractSliceOp slice) {
  if (!canBeCut(slice.getSourceType()) || !canBeCut(slice.getType()))
    return std::nullopt;
  std::optional<Part> part;
  for (int64_t dim = 0; dim < slice.getSourceType().getRank(); ++dim) {
    int64_t size = slice.getStaticSizes()[dim];
    if (slice.getStaticStrides()[dim] != 1 ||
        ShapedType::isDynamic(slice.getStaticOffsets()[dim]) ||
        ShapedType::isDynamic(size))
      return std::nullopt;
    if (size == sizeOf(slice.getSource(), dim))
      continue;
    if (part)
      return std::nullopt;
    part = Part{dim, slice.getStaticOffsets()[dim], size};
  }
  return part;
}

/// The dimension that all users slice into parts of one size, which tile it;
/// none if there is any other user, or one in a region.
std::optional<Part> equalParts(Value value) {
  std::optional<Part> all;
  for (Operation *user : value.getUsers()) {
    auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
    std::optional<Part> part = slice ? partOf(slice) : std::nullopt;
    if (!part || user->getBlock() != value.getParentBlock() ||
        part->offset % part->size != 0 ||
        sizeOf(value, part->dim) % part->size != 0 ||
        (all && (all->dim != part->dim || all->size != part->size)))
      return std::nullopt;
    all = part;
  }
  return all;
}

/// In the order of the program.
SmallVector<tensor::ExtractSliceOp> slicesOf(Value value) {
  SmallVector<tensor::ExtractSliceOp> slices;
  for (Operation *user : value.getUsers())
    slices.push_back(cast<tensor::ExtractSliceOp>(user));
  llvm::sort(slices, [](Operation *a, Operation *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  return slices;
}

SmallVector<OpFoldResult> allOf(OpBuilder &builder, ArrayRef<int64_t> numbers) {
  return getAsIndexOpFoldResult(builder.getContext(), numbers);
}

RankedTensorType typeOf(Value value, Part part) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[part.dim] = part.size;
  return type.clone(shape);
}

/// Operands of an op that the dimension of its result indexes, each with its
/// own dimension; none if slicing the result is not slicing these.
using Indexed = SmallVector<std::pair<unsigned, int64_t>>;

std::optional<Indexed> indexedBy(linalg::LinalgOp op, int64_t dim) {
  if (!op.hasPureTensorSemantics() || op.hasDynamicShape() ||
      op->getNumResults() != 1 || op.getNumDpsInits() != 1)
    return std::nullopt;
  AffineMap out = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  auto loop = dyn_cast<AffineDimExpr>(out.getResult(dim));
  if (!loop || !out.isProjectedPermutation())
    return std::nullopt;
  for (auto index : op.getBlock()->getOps<linalg::IndexOp>())
    if (index.getDim() == loop.getPosition())
      return std::nullopt;
  Indexed indexed;
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [position, index] : llvm::enumerate(map.getResults())) {
      if (index == loop)
        indexed.push_back({operand.getOperandNumber(), position});
      else if (index.isFunctionOfDim(loop.getPosition()))
        return std::nullopt;
    }
  }
  // An operand that the loop indexes twice has a diagonal.
  for (size_t i = 1; i < indexed.size(); ++i)
    if (indexed[i].first == indexed[i - 1].first)
      return std::nullopt;
  return indexed;
}

/// As above, for any op other than a reshape past which a slice can be moved.
std::optional<Indexed> indexedBy(Operation *op, int64_t dim) {
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return indexedBy(structured, dim);
  if (op->getNumResults() != 1 || !OpTrait::hasElementwiseMappableTraits(op))
    return std::nullopt;
  Indexed indexed;
  for (OpOperand &operand : op->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()))
      indexed.push_back({operand.getOperandNumber(), dim});
  return indexed;
}

/// The part of what an expand_shape reads for a part of what it gives, with
/// which nothing but dimensions of size 1 is further out in its group.
std::optional<Part> partOfSource(tensor::ExpandShapeOp op, Part part) {
  for (auto [dim, group] : llvm::enumerate(op.getReassociationIndices())) {
    if (!llvm::is_contained(group, part.dim))
      continue;
    int64_t inner = 1;
    for (int64_t each : group) {
      if (each < part.dim && sizeOf(op.getResult(), each) != 1)
        return std::nullopt;
      if (each > part.dim)
        inner *= sizeOf(op.getResult(), each);
    }
    return Part{static_cast<int64_t>(dim), part.offset * inner,
                part.size * inner};
  }
  return std::nullopt;
}

/// What can be made in any size where it is wanted.
bool isMade(Value value) {
  Operation *def = value.getDefiningOp();
  auto source = dyn_cast_or_null<SourceOpInterface>(def);
  return isa_and_nonnull<linalg::FillOp>(def) ||
         (source && !source.isParameter());
}

class Splitter {
public:
  explicit Splitter(func::FuncOp function) : function(function) {}

  void run() {
    SmallVector<Value> sliced;
    for (Operation &op : function.getBody().front())
      for (Value value : op.getResults())
        if (std::optional<Part> part = equalParts(value);
            part && !isMade(value) && rises(value, *part))
          sliced.push_back(value);
    for (Value value : sliced)
      split(value);
    if (!sliced.empty())
      for (Operation &op : llvm::make_early_inc_range(
               llvm::reverse(function.getBody().front())))
        if (isOpTriviallyDead(&op))
          op.erase();
    for (BlockArgument argument : function.getArguments())
      countParts(argument);
    SmallVector<Type> inputs(function.getBody().getArgumentTypes());
    function.setFunctionType(FunctionType::get(function.getContext(), inputs,
                                               function.getResultTypes()));
  }

private:
  /// Whether slices of a value, like this one, get to arguments.
  bool rises(Value value, Part part) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return canBeCut(value.getType()) && mayChange(argument);
    Operation *def = value.getDefiningOp();
    auto isRead = [&](Value operand, Part next) {
      return operand.hasOneUse() && rises(operand, next);
    };
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(def)) {
      std::optional<Part> next = partOfSource(expand, part);
      return next && canBeCut(expand.getSrcType()) &&
             isRead(expand.getSrc(), *next);
    }
    std::optional<Indexed> indexed = indexedBy(def, part.dim);
    bool doRise = false;
    for (auto [operand, dim] : indexed.value_or(Indexed())) {
      Value next = def->getOperand(operand);
      if (isMade(next))
        continue;
      if (!isRead(next, {dim, part.offset, part.size}))
        return false;
      doRise = true;
    }
    return doRise;
  }

  void split(Value value) {
    std::map<int64_t, Value> made; // by offset
    OpBuilder builder(value.getDefiningOp());
    for (tensor::ExtractSliceOp old : slicesOf(value)) {
      Part part = *partOf(old);
      Value &slice = made[part.offset];
      if (!slice)
        slice = this->slice(builder, value, part);
      Value result = slice;
      if (old.getType() != slice.getType())
        result = tensor::ExtractSliceOp::create(
            builder, old.getLoc(), old.getType(), slice,
            allOf(builder,
                  SmallVector<int64_t>(old.getSourceType().getRank(), 0)),
            allOf(builder, old.getStaticSizes()), old.getMixedStrides());
      old.replaceAllUsesWith(result);
      old.erase();
    }
  }

  /// Builds a part of a value.
  Value slice(OpBuilder &builder, Value value, Part part) {
    Operation *def = value.getDefiningOp();
    RankedTensorType type = typeOf(value, part);
    if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(def)) {
      Value source =
          slice(builder, expand.getSrc(), *partOfSource(expand, part));
      return tensor::ExpandShapeOp::create(builder, def->getLoc(), type, source,
                                           expand.getReassociationIndices());
    }
    DenseElementsAttr elements = def ? elementsOf(def) : DenseElementsAttr();
    if (elements && elements.isSplat() && isa<arith::ConstantOp>(def))
      return arith::ConstantOp::create(builder, def->getLoc(),
                                       elements.resizeSplat(type));
    if (isa_and_nonnull<tensor::EmptyOp>(def))
      return tensor::EmptyOp::create(builder, def->getLoc(), type.getShape(),
                                     type.getElementType());
    std::optional<Indexed> indexed;
    if (def && (!isMade(value) || isa<linalg::FillOp>(def)))
      indexed = indexedBy(def, part.dim);
    if (!indexed) {
      SmallVector<int64_t> offsets(type.getRank(), 0),
          strides(type.getRank(), 1);
      offsets[part.dim] = part.offset;
      return tensor::ExtractSliceOp::create(
          builder, value.getLoc(), type, value, allOf(builder, offsets),
          allOf(builder, type.getShape()), allOf(builder, strides));
    }
    SmallVector<Value> operands(def->getOperands());
    for (auto [operand, dim] : *indexed)
      operands[operand] =
          slice(builder, operands[operand], {dim, part.offset, part.size});
    return cloneLocal(def, builder, operands, type)->getResult(0);
  }

  bool mayChange(BlockArgument argument) {
    unsigned number = argument.getArgNumber();
    return !function.getArgAttr(number, dist::kSharding) &&
           !function.getArgAttr(number, kBatchDimAttr);
  }

  /// [64, 48] that is read in three slices of 16 becomes [64, 3, 16].
  void countParts(BlockArgument argument) {
    std::optional<Part> part = equalParts(argument);
    if (!part || !mayChange(argument))
      return;
    auto type = cast<RankedTensorType>(argument.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[part->dim] /= part->size;
    shape.insert(shape.begin() + part->dim + 1, part->size);
    SmallVector<tensor::ExtractSliceOp> slices = slicesOf(argument);
    argument.setType(type.clone(shape));
    for (tensor::ExtractSliceOp old : slices) {
      SmallVector<int64_t> offsets(shape.size(), 0), strides(shape.size(), 1),
          sizes(shape);
      offsets[part->dim] = old.getStaticOffsets()[part->dim] / part->size;
      sizes[part->dim] = 1;
      OpBuilder builder(old);
      Value slice = tensor::ExtractSliceOp::create(
          builder, old.getLoc(), old.getType(), argument,
          allOf(builder, offsets), allOf(builder, sizes),
          allOf(builder, strides));
      old.replaceAllUsesWith(slice);
      old.erase();
    }
  }

  func::FuncOp function;
};

struct SplitProjections : models::impl::SplitProjectionsBase<SplitProjections> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPublic() && llvm::hasSingleElement(function.getBody()) &&
          SymbolTable::symbolKnownUseEmpty(function, getOperation()))
        Splitter(function).run();
  }
};

} // namespace
