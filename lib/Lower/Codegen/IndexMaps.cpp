//===- IndexMaps.cpp - where an op reads its operands ---------------------===//
#include "IndexMaps.h"

#include "kerf/NN/NN.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kerf::codegen {

OpKind kindOf(Operation *op) {
  if (op->getNumResults() != 1)
    return OpKind::Unsupported;
  return TypeSwitch<Operation *, OpKind>(op)
      .Case<nn::ReshapeOp, nn::TransposeOp, nn::BroadcastOp, nn::SliceOp>(
          [](auto) { return OpKind::Shape; })
      .Case<nn::PadOp>([](auto) { return OpKind::Pad; })
      .Case<nn::ConcatOp>([](auto) { return OpKind::Concat; })
      .Case<nn::ConstantOp>([](auto) { return OpKind::Constant; })
      .Case<nn::IotaOp>([](auto) { return OpKind::Iota; })
      .Case<nn::GatherOp>([](auto) { return OpKind::Gather; })
      .Case<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::LayerNormOp, nn::RMSNormOp,
            nn::ReduceOp, nn::ArgReduceOp>([](auto) { return OpKind::Row; })
      .Case<nn::MaxPoolOp, nn::AvgPoolOp, nn::LRNOp>(
          [](auto) { return OpKind::Window; })
      .Case<nn::MatmulOp, nn::ConvOp>([](auto) { return OpKind::Contraction; })
      .Case<nn::NegOp, nn::AbsOp, nn::SignOp, nn::ExpOp, nn::LogOp, nn::SqrtOp,
            nn::RsqrtOp, nn::ReciprocalOp, nn::ErfOp, nn::TanhOp, nn::SigmoidOp,
            nn::SinOp, nn::CosOp, nn::FloorOp, nn::CeilOp, nn::RoundOp,
            nn::ReluOp, nn::NotOp, nn::GeluOp, nn::IsNaNOp, nn::CastOp,
            nn::AddOp, nn::SubOp, nn::MulOp, nn::DivOp, nn::ModOp, nn::RemOp,
            nn::PowOp, nn::MaxOp, nn::MinOp, nn::AndOp, nn::OrOp, nn::XorOp,
            nn::EqualOp, nn::LessOp, nn::LessEqualOp, nn::SelectOp,
            nn::BatchNormOp, nn::PhiloxOp>(
          [](auto) { return OpKind::Elementwise; })
      .Default([](auto) { return OpKind::Unsupported; });
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
  case OpKind::Elementwise:
    for (OpOperand &operand : op->getOpOperands())
      uses.push_back({operand.getOperandNumber(),
                      broadcastIndex(index, shapeOf(operand.get())),
                      {}});
    break;
  case OpKind::Shape:
    uses.push_back({0, shapeIndex(op, index, space), {}});
    break;
  case OpKind::Pad: {
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
  case OpKind::Concat: {
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
  int64_t rank = shapeOf(op->getOperand(0)).size();
  SmallVector<int64_t> dims;
  TypeSwitch<Operation *>(op)
      .Case<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::ArgReduceOp>(
          [&](auto row) { dims.push_back(row.getDim()); })
      .Case<nn::LayerNormOp, nn::RMSNormOp>([&](auto row) {
        for (int64_t dim = row.getDim(); dim < rank; ++dim)
          dims.push_back(dim);
      })
      .Case<nn::ReduceOp>([&](nn::ReduceOp row) {
        dims.append(row.getDims().begin(), row.getDims().end());
      });
  return dims;
}

bool keepsRowDims(Operation *op) {
  return !isa<nn::ReduceOp, nn::ArgReduceOp>(op);
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
