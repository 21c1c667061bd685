//===- IndexMaps.cpp - where an op reads its operands ---------------------===//
#include "IndexMaps.h"

#include "kerf/NN/NN.h"

using namespace mlir;

namespace kerf::codegen {

KernelKind kindOf(Operation *op) {
  auto kernel = dyn_cast<nn::KernelInterface>(op);
  return kernel && op->getNumResults() == 1 ? kernel.getKernelKind()
                                            : KernelKind::Unsupported;
}

IndexVec broadcastIndex(ArrayRef<Index> index, ArrayRef<int64_t> shape) {
  IndexVec result(shape.size());
  size_t skip = index.size() - shape.size();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] != 1)
      result[dim] = index[skip + dim];
  return result;
}

static IndexVec shapeIndex(Operation *op, ArrayRef<Index> index,
                           IndexSpace &space) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  if (isa<nn::ReshapeOp>(op)) {
    Index flat = space.linearize(index, shapeOf(op->getResult(0)));
    return space.delinearize(flat, shape);
  }
  if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    IndexVec result(shape.size());
    for (auto [to, from] : llvm::enumerate(transpose.getPerm()))
      result[from] = index[to];
    return result;
  }
  if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    IndexVec result;
    for (auto [i, start, stride] :
         llvm::zip_equal(index, slice.getStarts(), slice.getStrides()))
      result.push_back(space.add(space.scale(i, stride), Index(start)));
    return result;
  }
  return broadcastIndex(index, shape);
}

SmallVector<OperandUse, 3> operandUses(Operation *op, ArrayRef<Index> index,
                                       IndexSpace &space) {
  SmallVector<OperandUse, 3> uses;
  switch (kindOf(op)) {
  case KernelKind::Elementwise:
    for (OpOperand &operand : op->getOpOperands())
      uses.push_back({operand.getOperandNumber(),
                      broadcastIndex(index, shapeOf(operand.get())),
                      {}});
    break;
  case KernelKind::Shape:
    uses.push_back({0, shapeIndex(op, index, space), {}});
    break;
  case KernelKind::Pad: {
    auto pad = cast<nn::PadOp>(op);
    OperandUse use{0, {}, {}};
    for (auto [i, low, high, size] : llvm::zip_equal(
             index, pad.getLow(), pad.getHigh(), shapeOf(op->getOperand(0)))) {
      use.index.push_back(space.add(i, Index(-low)));
      if (low || high)
        use.guards.push_back({i, low, low + size});
    }
    uses.push_back(std::move(use));
    break;
  }
  case KernelKind::Concat: {
    int64_t dim = cast<nn::ConcatOp>(op).getDim(), start = 0;
    for (OpOperand &operand : op->getOpOperands()) {
      int64_t size = shapeOf(operand.get())[dim];
      if (!size)
        continue;
      OperandUse use{operand.getOperandNumber(), IndexVec(index), {}};
      use.index[dim] = space.add(index[dim], Index(-start));
      use.guards.push_back({index[dim], start, start + size});
      start += size;
      uses.push_back(std::move(use));
    }
    break;
  }
  default:
    break;
  }
  return uses;
}

SmallVector<int64_t> rowDims(Operation *op) {
  return cast<nn::RowInterface>(op).getRowDims();
}

bool keepsRowDims(Operation *op) {
  return cast<nn::RowInterface>(op).keepsRowDims();
}

SmallVector<int64_t> outerShape(Operation *op) {
  SmallVector<int64_t> dims = rowDims(op), shape;
  for (auto [dim, size] : llvm::enumerate(shapeOf(op->getOperand(0))))
    if (!llvm::is_contained(dims, dim))
      shape.push_back(size);
  return shape;
}

SmallVector<int64_t> innerShape(Operation *op) {
  SmallVector<int64_t> shape;
  for (int64_t dim : rowDims(op))
    shape.push_back(shapeOf(op->getOperand(0))[dim]);
  return shape;
}

IndexVec joinRowIndex(Operation *op, ArrayRef<Index> outer,
                      ArrayRef<Index> inner) {
  SmallVector<int64_t> dims = rowDims(op);
  IndexVec index;
  const Index *nextOuter = outer.begin(), *nextInner = inner.begin();
  for (size_t dim = 0; dim < outer.size() + inner.size(); ++dim)
    index.push_back(llvm::is_contained(dims, dim) ? *nextInner++
                                                  : *nextOuter++);
  return index;
}

} // namespace kerf::codegen
