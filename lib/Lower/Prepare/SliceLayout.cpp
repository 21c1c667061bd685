//===- SliceLayout.cpp - how what loops read and write is stored ----------===//
//
// The steps of an unrolled loop read a product of all steps slice by slice, and
// their results are concatenated. If the dimension of steps is not the first,
// no slice and no part is contiguous: a call that adds a slice would need a
// copy first, and a part cannot be computed where it lies. A library can store
// the product with that dimension in front, for nothing; then each slice is a
// view. Parts of extent 1 are concatenated in front, and readers read the
// result with strides. Linear in the number of ops and uses.
//
//===----------------------------------------------------------------------===//
#include "Prepare.h"

#include "kerf/Dist/ReplacingBuilder.h"

#include "../OpKinds.h"

#include "kerf/Fusion/Joins.h"
#include "kerf/Support/Preconditions.h"

namespace kerf {
#define GEN_PASS_DEF_STORESLICESTOGETHER
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// The permutation that brings a dimension to the front.
static SmallVector<int64_t> toFront(int64_t dim, int64_t rank) {
  SmallVector<int64_t> perm = {dim};
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim)
      perm.push_back(d);
  return perm;
}

/// The last value of a product's epilogue: behind elementwise ops that are the
/// only readers of what is computed so far.
static Value endOfEpilogue(nn::MatmulOp product) {
  Value end = product.getResult();
  while (end.hasOneUse()) {
    Operation *user = *end.user_begin();
    if (!isElementwise(user) || user->getResult(0).getType() != end.getType())
      break;
    end = user->getResult(0);
  }
  return end;
}

/// The dimension of `x` of which each of its readers, which are slices, takes
/// one element, and all of the other dimensions. Fails if there is none.
static FailureOr<int64_t> slicedDim(Value x) {
  ArrayRef<int64_t> shape = shapeOf(x);
  int64_t dim = -1;
  for (Operation *user : x.getUsers()) {
    auto slice = dyn_cast<nn::SliceOp>(user);
    if (!slice)
      return failure();
    for (auto [d, size] : llvm::enumerate(slice.getType().getShape())) {
      if (size == shape[d])
        continue;
      if (!holds(user, Precondition::SlicesTakeOne,
                 size == 1 && (dim < 0 || dim == static_cast<int64_t>(d))))
        return failure();
      dim = d;
    }
  }
  return dim < 0 ? FailureOr<int64_t>(failure()) : dim;
}

static void storeSlicesTogether(nn::MatmulOp product) {
  Value x = endOfEpilogue(product);
  if (x.use_empty() || x.hasOneUse())
    return;
  FailureOr<int64_t> dim = slicedDim(x);
  ArrayRef<int64_t> shape = shapeOf(x);
  // Rows stay rows; slices that are contiguous already stay as they are.
  if (failed(dim) || *dim + 1 == static_cast<int64_t>(shape.size()) ||
      isOutermost(shape, *dim))
    return;
  SmallVector<int64_t> perm = toFront(*dim, shape.size());
  auto permuted = [&](ArrayRef<int64_t> dims) {
    SmallVector<int64_t> result;
    for (int64_t d : perm)
      result.push_back(dims[d]);
    return result;
  };
  SmallVector<nn::SliceOp> slices;
  for (Operation *user : x.getUsers())
    slices.push_back(cast<nn::SliceOp>(user));
  Type element = elementOf(x);
  dist::ReplacingBuilder builder(x.getDefiningOp());
  builder.setInsertionPointAfter(x.getDefiningOp());
  auto stored = nn::TransposeOp::create(
      builder, x.getLoc(), RankedTensorType::get(permuted(shape), element), x,
      builder.getDenseI64ArrayAttr(perm));
  stored->setAttr(exec::kStoredMark, builder.getUnitAttr());
  for (nn::SliceOp slice : slices) {
    builder.standFor(slice.getOperation());
    builder.setInsertionPoint(slice);
    SmallVector<int64_t> starts = permuted(slice.getStarts()),
                         sizes = permuted(slice.getType().getShape()),
                         strides = permuted(slice.getStrides());
    Value part = nn::SliceOp::create(
        builder, slice.getLoc(), RankedTensorType::get(sizes, element),
        stored.getResult(), starts, sizes, strides);
    // Moving a dimension of size 1 is a reshape.
    slice.replaceAllUsesWith(
        nn::ReshapeOp::create(builder, slice.getLoc(), slice.getType(), part)
            .getResult());
    slice.erase();
  }
}

static void storePartsTogether(nn::ConcatOp concat) {
  RankedTensorType type = concat.getResult().getType();
  int64_t dim = concat.getDim(), rank = type.getRank(),
          parts = concat.getInputs().size();
  if (!isStoredOutermost(type.getShape(), dim, parts) ||
      isComputedAtLoad(concat.getResult()) ||
      llvm::any_of(concat.getInputs(),
                   [&](Value part) { return shapeOf(part)[dim] != 1; }))
    return;
  SmallVector<int64_t> perm = toFront(dim, rank), shape, inverse(rank);
  for (auto [to, from] : llvm::enumerate(perm)) {
    shape.push_back(type.getDimSize(from));
    inverse[from] = to;
  }
  Type element = type.getElementType();
  dist::ReplacingBuilder builder(concat);
  auto whole = RankedTensorType::get(shape, element);
  shape[0] = 1;
  auto partType = RankedTensorType::get(shape, element);
  SmallVector<Value> moved;
  for (Value part : concat.getInputs()) // a dimension of size 1 moves
    moved.push_back(
        nn::ReshapeOp::create(builder, concat.getLoc(), partType, part));
  Value joined = nn::ConcatOp::create(builder, concat.getLoc(), whole, moved,
                                      builder.getI64IntegerAttr(0));
  concat.replaceAllUsesWith(
      nn::TransposeOp::create(builder, concat.getLoc(), type, joined,
                              builder.getDenseI64ArrayAttr(inverse))
          .getResult());
  concat.erase();
}

namespace {
struct StoreSlicesTogether
    : kerf::impl::StoreSlicesTogetherBase<StoreSlicesTogether> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    Block &block = getOperation().getBody().front();
    // Rewriting one erases others that stand behind it.
    SmallVector<nn::MatmulOp> products(block.getOps<nn::MatmulOp>());
    for (nn::MatmulOp product : products)
      storeSlicesTogether(product);
    SmallVector<nn::ConcatOp> concats(block.getOps<nn::ConcatOp>());
    for (nn::ConcatOp concat : concats)
      storePartsTogether(concat);
  }
};
} // namespace
