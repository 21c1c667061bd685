//===- Determinant.cpp - by elimination with pivots -----------------------===//
//
// Det of the last two dimensions, for any number of matrices: in each step the
// row whose first element is the largest goes to the front, and what makes that
// column 0 is subtracted from the others. The number of steps is the size of a
// matrix, so each is written out.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"
#include "Indexing.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

/// One step of [count, n, n]: `factor` is what it contributes, [count].
static Value eliminate(Node &node, Value matrices, Value &factor) {
  int64_t count = shapeOf(matrices)[0], n = shapeOf(matrices)[1];
  Type element = elementOf(matrices);
  Value zero = node.scalar(0, element), one = node.scalar(1, element);
  Value column = node.reshape(node.slice(matrices, 2, 0, 1), {count, n});
  Value place = node.make<ArgReduceOp>({node.make<AbsOp>({column})},
                                       {node.i64("dim", 1)});
  place = node.reshape(place, {count, 1});
  Value pivotRow = gatherRows(node, matrices, place, 1); // [count, 1, n]
  Value pivot = node.reshape(node.slice(pivotRow, 2, 0, 1), {count});
  Value isFirst = node.make<EqualOp>(
      {node.reshape(place, {count}), node.scalar(0, elementOf(place))});
  Value sign = node.select(isFirst, one, node.scalar(-1, element));
  factor = node.mul(pivot, sign);
  if (n == 1 || !factor)
    return {};
  // The first row goes to the place of that with the pivot.
  Value isPivot = node.make<EqualOp>({place, node.iota(n, elementOf(place))});
  Value others = node.select(node.reshape(isPivot, {count, n, 1}),
                             node.slice(matrices, 1, 0, 1), matrices);
  others = node.slice(others, 1, 1, n - 1);
  Value divisor = node.select(node.make<EqualOp>({pivot, zero}), one, pivot);
  Value ratio = node.div(node.slice(others, 2, 0, 1),
                         node.reshape(divisor, {count, 1, 1}));
  return node.sub(node.slice(others, 2, 1, n - 1),
                  node.mul(ratio, node.slice(pivotRow, 2, 1, n - 1)));
}

static LogicalResult det(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  if (rankOf(x) < 2 || shapeOf(x).back() != shapeOf(x)[rankOf(x) - 2])
    return node.error("expected square matrices");
  int64_t n = shapeOf(x).back();
  constexpr int64_t kMost = 64;
  if (n > kMost)
    return node.unsupported("operator Det of matrices of more than 64 rows");
  SmallVector<int64_t> shape(shapeOf(x).drop_back(2));
  Type element = elementOf(x);
  if (n == 0 || typeOf(x).getNumElements() == 0)
    return node.set(node.splat(shape, 1, element));
  Type wide = element.isF64() ? element : node.ops.getF32Type();
  Value rest =
      node.reshape(node.cast(x, wide), {llvm::product_of(shape), n, n});
  Value product;
  for (int64_t step = 0; step < n; ++step) {
    Value factor;
    rest = eliminate(node, rest, factor);
    if (!factor || (!rest && step + 1 < n))
      return node.fail();
    product = product ? node.mul(product, factor) : factor;
  }
  return node.set(node.cast(node.reshape(product, shape), element));
}

void kerf::onnx_import::addDeterminant(HandlerTable &table) {
  table.add("Det", 11, det);
}
