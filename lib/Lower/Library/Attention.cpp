//===- Attention.cpp - attention as a library call ------------------------===//
//
// Queries, keys and values are read, and results written, in place: strides
// express how heads are moved, provided that elements of a head are neighbours
// and rows begin at multiples of 16 bytes of bf16, which is what kernels load
// at once. Other operands are first copied into rows.
//
//===----------------------------------------------------------------------===//
#include "LibraryCall.h"

#include "../OpKinds.h"

#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

using namespace mlir;
using namespace kerf;

/// Whether rows are contiguous and begin where loads of eight elements may.
static bool hasRows(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                    int64_t offset) {
  if ((strides.back() != 1 && sizes.back() != 1) || offset % 8 != 0)
    return false;
  for (size_t d = 0; d + 1 < sizes.size(); ++d)
    if (sizes[d] > 1 && (strides[d] == 0 || strides[d] % 8 != 0))
      return false;
  return true;
}

static StridedView denseView(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return {value, 0, Dims(shape), denseStrides(shape)};
}

static StridedView rowsOperand(LibraryCall &call, Value value) {
  StridedView view = composeView(value);
  if (!hasRows(view.sizes, view.strides, view.offset))
    view = denseView(value);
  takeOperandChain(call, value, view.base);
  return view;
}

/// Dense elements (statistics).
static StridedView plainOperand(LibraryCall &call, Value value) {
  StridedView view = composeView(value);
  if (view.offset != 0 || view.strides != denseStrides(view.sizes))
    view = denseView(value);
  takeOperandChain(call, value, view.base);
  return view;
}

/// The mask over the scores' shape, with strides of 0 where it broadcasts.
static StridedView biasOperand(LibraryCall &call, Value value,
                               ArrayRef<int64_t> scores) {
  StridedView view = composeView(value);
  if (view.strides.back() != 1 || view.sizes.back() != scores.back())
    view = denseView(value);
  takeOperandChain(call, value, view.base);
  for (auto [size, stride] : llvm::zip(view.sizes, view.strides))
    if (size == 1)
      stride = 0;
  return broadcastView(std::move(view), scores);
}

/// Follows a result through reshapes and transposes that strides can express.
static StridedView resultView(LibraryCall &call, Value result, Value &stored) {
  ArrayRef<int64_t> shape = shapeOf(result);
  StridedView view = denseView(result);
  SmallVector<Operation *> chain;
  size_t used = 0;
  stored = result;
  for (Value end = result; end.hasOneUse();) {
    Operation *user = *end.user_begin();
    if (!isa<nn::ReshapeOp, nn::TransposeOp>(user))
      break;
    chain.push_back(user);
    end = user->getResult(0);
    auto strides = pullBack(chain, denseStrides(shapeOf(end)));
    // A last reshape is left to its reader, which sees a view.
    if (!strides || !hasRows(shape, *strides, 0) || !isa<nn::TransposeOp>(user))
      continue;
    used = chain.size();
    stored = end;
    view.strides = *strides;
  }
  call.ops.append(chain.begin(), chain.begin() + used);
  return view;
}

template <typename Op> static LibraryCall select(Op op) {
  LibraryCall call;
  call.anchor = op;
  ArrayRef<int64_t> q = shapeOf(op.getQ());
  Dims scores{q[0], q[1], q[2], shapeOf(op.getK())[2]};
  call.lhs = rowsOperand(call, op.getQ());
  call.rhs = rowsOperand(call, op.getK());
  auto add = [&](StridedView view) {
    call.moreOperands.push_back(std::move(view));
  };
  add(rowsOperand(call, op.getV()));
  if constexpr (std::is_same_v<Op, nn::AttentionGradientOp>) {
    add(rowsOperand(call, op.getResult()));
    add(plainOperand(call, op.getStats()));
    add(rowsOperand(call, op.getDy()));
  }
  if (op.getBias())
    add(biasOperand(call, op.getBias(), scores));
  call.ops.push_back(op);
  call.dst = resultView(call, op->getResult(0), call.result);
  for (OpResult result : llvm::drop_begin(op->getResults())) {
    LibraryCall::Result more;
    if (std::is_same_v<Op, nn::AttentionOp>) {
      more.value = result;
      more.view = denseView(result);
    } else {
      more.view = resultView(call, result, more.value);
    }
    call.moreResults.push_back(std::move(more));
  }
  call.inputType = op.getQ().getType().getElementType();
  call.resultType = call.inputType;
  return call;
}

std::optional<LibraryCall> kerf::selectAttention(Operation *op) {
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  if (!type.getElementType().isF32() && !type.getElementType().isBF16() &&
      !type.getElementType().isF16())
    return std::nullopt;
  for (Value value : op->getOperands())
    if (llvm::is_contained(shapeOf(value), 0))
      return std::nullopt;
  if (auto forward = dyn_cast<nn::AttentionOp>(op))
    return select(forward);
  return select(cast<nn::AttentionGradientOp>(op));
}
