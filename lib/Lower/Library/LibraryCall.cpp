//===- LibraryCall.cpp - library calls and what they take in --------------===//
//
// See LibraryCall.h.
//
//===----------------------------------------------------------------------===//
#include "LibraryCall.h"

#include "../OpKinds.h"
#include "Epilogue.h"

#include "kerf/NN/NN.h"
#include "kerf/Support/Preconditions.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kerf;

std::optional<double> kerf::splatValue(Value value) {
  SmallVector<nn::CastOp> casts;
  while (isShapeOp(value.getDefiningOp()) ||
         isa_and_nonnull<nn::CastOp>(value.getDefiningOp())) {
    if (auto cast = value.getDefiningOp<nn::CastOp>())
      casts.push_back(cast);
    value = value.getDefiningOp()->getOperand(0);
  }
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  if (!constant)
    return std::nullopt;
  DenseElementsAttr elements = constant.getElements();
  if (!elements.isSplat() || !isa<FloatType>(elements.getElementType()))
    return std::nullopt;
  auto number = elements.getSplatValue<APFloat>();
  auto convert = [&](const llvm::fltSemantics &semantics) {
    bool lost;
    number.convert(semantics, APFloat::rmNearestTiesToEven, &lost);
  };
  for (nn::CastOp cast : llvm::reverse(casts)) {
    auto type = dyn_cast<FloatType>(elementOf(cast.getResult()));
    if (!type)
      return std::nullopt;
    convert(type.getFloatSemantics());
  }
  convert(APFloat::IEEEdouble());
  return number.convertToDouble();
}

void kerf::takeOperandChain(LibraryCall &call, Value operand, Value base) {
  while (operand != base && operand.hasOneUse() &&
         isShapeOp(operand.getDefiningOp())) {
    call.ops.push_back(operand.getDefiningOp());
    operand = operand.getDefiningOp()->getOperand(0);
  }
}

/// Whether each dimension steps over all of those with a smaller stride. The
/// library takes views that do not (every third of four rows: strides of 12 and
/// 16) for views whose elements share memory.
static bool isNested(const StridedView &view) {
  SmallVector<std::pair<int64_t, int64_t>> dims; // stride, size
  for (auto [stride, size] : llvm::zip_equal(view.strides, view.sizes))
    if (size > 1 && stride != 0)
      dims.push_back({stride, size});
  llvm::sort(dims);
  for (size_t d = 1; d < dims.size(); ++d)
    if (dims[d].first < dims[d - 1].first * dims[d - 1].second)
      return false;
  return dims.empty() || dims.front().first > 0;
}

/// Whether rows or columns have stride 1, which is what the library can pack.
static bool isMatrix(const StridedView &view) {
  if (!isNested(view))
    return false;
  size_t rank = view.sizes.size();
  auto ok = [&](size_t unit, size_t other) {
    return (view.strides[unit] == 1 || view.sizes[unit] == 1) &&
           (view.sizes[other] == 1 || view.strides[other] >= view.sizes[unit]);
  };
  return ok(rank - 1, rank - 2) || ok(rank - 2, rank - 1);
}

/// An operand as [batch.., rows, columns]; stored densely first if it is no
/// matrix of strides, or if no view of it is wanted.
static StridedView matrixOperand(nn::MatmulOp op, Value value, bool transposed,
                                 ArrayRef<int64_t> batch,
                                 bool materialised = false) {
  StridedView view = composeView(value);
  size_t rank = view.sizes.size();
  if (transposed) {
    std::swap(view.sizes[rank - 1], view.sizes[rank - 2]);
    std::swap(view.strides[rank - 1], view.strides[rank - 2]);
  }
  if (materialised ||
      !holds(op, Precondition::OperandIsMatrix, isMatrix(view))) {
    view.base = value;
    view.offset = 0;
    ArrayRef<int64_t> shape = shapeOf(value);
    view.sizes.assign(shape.begin(), shape.end());
    view.strides = denseStrides(shape);
    if (transposed) {
      std::swap(view.sizes[rank - 1], view.sizes[rank - 2]);
      std::swap(view.strides[rank - 1], view.strides[rank - 2]);
    }
  }
  Dims shape(batch);
  shape.append(view.sizes.end() - 2, view.sizes.end());
  return broadcastView(std::move(view), shape);
}

/// Dimensions of size 1 get the strides of a dense row: the library rejects a
/// stride smaller than a row, even where the stride does not matter.
static void tidyUnitDims(StridedView &view) {
  for (int64_t d = static_cast<int64_t>(view.sizes.size()) - 1; d >= 0; --d)
    if (view.sizes[d] == 1)
      view.strides[d] = d + 1 == static_cast<int64_t>(view.sizes.size())
                            ? 1
                            : view.sizes[d + 1] * view.strides[d + 1];
}

static std::optional<LibraryCall> selectMatmul(nn::MatmulOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  LibraryCall call;
  call.anchor = op;
  call.result = op.getResult();
  call.batch.assign(shape.begin(), shape.end() - 2);
  call.lhs = matrixOperand(op, op.getLhs(), op.getTransposeLhs(), call.batch);
  call.rhs = matrixOperand(op, op.getRhs(), op.getTransposeRhs(), call.batch);
  // The libraries need each batch dimension to vary in at least one operand.
  for (size_t d = 0; d < call.batch.size(); ++d)
    if (!holds(op, Precondition::BatchMoves,
               call.batch[d] == 1 || call.lhs.strides[d] != 0 ||
                   call.rhs.strides[d] != 0)) {
      // From the right, without the matrix.
      size_t behind = shape.size() - d;
      ArrayRef<int64_t> own = shapeOf(op.getLhs());
      bool isLhs = own.size() >= behind && own[own.size() - behind] > 1;
      (isLhs ? call.lhs : call.rhs) =
          matrixOperand(op, isLhs ? op.getLhs() : op.getRhs(),
                        isLhs ? op.getTransposeLhs() : op.getTransposeRhs(),
                        call.batch, /*materialised=*/true);
    }
  call.m = shape[shape.size() - 2];
  call.n = shape.back();
  call.k = call.lhs.sizes.back();
  if (call.m == 0 || call.n == 0 || call.k == 0 || llvm::is_contained(shape, 0))
    return std::nullopt;
  takeOperandChain(call, op.getLhs(), call.lhs.base);
  takeOperandChain(call, op.getRhs(), call.rhs.base);
  call.ops.push_back(op);
  SmallVector<Operation *> chain = fuseEpilogue(call, shape);
  call.dst.sizes.assign(shape.begin(), shape.end());
  call.dst.strides = *pullBack(chain, denseStrides(shapeOf(call.result)));
  mergeDims(call);
  if (call.batch.size() > 4)
    return std::nullopt;
  for (StridedView *view : {&call.lhs, &call.rhs, &call.dst})
    tidyUnitDims(*view);
  return call;
}

/// An operand as dense elements; stored densely first if it is a view.
static StridedView denseOperand(LibraryCall &call, Value value) {
  StridedView view = composeView(value);
  if (!holds(call.anchor, Precondition::OperandIsDense,
             view.offset == 0 && view.strides == denseStrides(view.sizes))) {
    view.base = value;
    view.offset = 0;
    view.strides = denseStrides(view.sizes);
  }
  takeOperandChain(call, value, view.base);
  return view;
}

/// Calls whose operands are all dense and that take in no other op.
static std::optional<LibraryCall> selectPlain(Operation *op) {
  LibraryCall call;
  call.anchor = op;
  call.result = op->getResult(0);
  for (Value value : op->getOperands())
    if (llvm::is_contained(shapeOf(value), 0))
      return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(call.result);
  if (llvm::is_contained(shape, 0))
    return std::nullopt;
  call.lhs = denseOperand(call, op->getOperand(0));
  if (op->getNumOperands() > 1)
    call.rhs = denseOperand(call, op->getOperand(1));
  for (Value more :
       op->getOperands().drop_front(std::min(2u, op->getNumOperands())))
    call.moreOperands.push_back(denseOperand(call, more));
  call.ops.push_back(op);
  // A 16-bit result that is cast to f32 is stored in f32, without the rounding.
  if (call.result.hasOneUse() && isHalf(elementOf(call.result)) &&
      !op->hasAttr(exec::kStoredMark))
    if (auto cast = dyn_cast<nn::CastOp>(*call.result.user_begin());
        cast && elementOf(cast.getResult()).isF32()) {
      call.ops.push_back(cast);
      call.result = cast.getResult();
    }
  // Rows are added to another gradient of the same table.
  if (cast<OpCostInterface>(op).getLibraryWork() == LibraryWork::Sum &&
      call.result.hasOneUse())
    if (auto add = dyn_cast<nn::AddOp>(*call.result.user_begin())) {
      Value other = add->getOperand(add->getOperand(0) == call.result ? 1 : 0);
      if (other != call.result && other.getType() == call.result.getType()) {
        call.base = denseOperand(call, other);
        if (isAccumulator(other))
          call.accumulator = other;
        call.ops.push_back(add);
        call.result = add.getResult();
      }
    }
  shape = shapeOf(call.result);
  call.dst.sizes.assign(shape.begin(), shape.end());
  call.dst.strides = denseStrides(shape);
  return call;
}

static std::optional<LibraryCall> selectConv(nn::ConvOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  if (llvm::is_contained(shape, 0))
    return std::nullopt;
  LibraryCall call;
  call.anchor = op;
  call.result = op.getResult();
  call.n = shape.back();
  call.lhs = denseOperand(call, op.getX());
  call.rhs = denseOperand(call, op.getWeights());
  call.ops.push_back(op);
  SmallVector<Operation *> chain = fuseEpilogue(call, shape);
  call.dst.sizes.assign(shape.begin(), shape.end());
  call.dst.strides = *pullBack(chain, denseStrides(shapeOf(call.result)));
  return call;
}

std::optional<LibraryCall> kerf::selectLibraryCall(Operation *op) {
  auto costed = dyn_cast<OpCostInterface>(op);
  if (!costed || !isLibraryCall(costed.getLibraryWork()))
    return std::nullopt;
  if (isa<nn::AttentionOp, nn::AttentionGradientOp>(op))
    return selectAttention(op);
  auto type = op->getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(op->getResult(0).getType())
                  : RankedTensorType();
  if (!type)
    return std::nullopt;
  Type element = type.getElementType();
  std::optional<LibraryCall> call;
  // The library of GPUs knows f16; what this CPU's is asked is widened before.
  if (auto matmul = dyn_cast<nn::MatmulOp>(op))
    call = selectMatmul(matmul);
  else if (auto conv = dyn_cast<nn::ConvOp>(op))
    call = selectConv(conv);
  else
    call = selectPlain(op);
  if (call) {
    call->inputType = element;
    call->resultType =
        cast<RankedTensorType>(call->result.getType()).getElementType();
  }
  return call;
}
