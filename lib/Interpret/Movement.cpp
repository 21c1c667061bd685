//===- Movement.cpp - ops that move elements, and sources -----------------===//
#include "Evaluate.h"

#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

namespace {

Tensor transpose(nn::TransposeOp op, Operands operands) {
  Tensor result(resultShape(op));
  size_t next = 0;
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    Index from(index.size());
    for (size_t d = 0; d < index.size(); ++d)
      from[op.getPerm()[d]] = index[d];
    result.data[next++] = operands[0]->at(from);
  });
  return result;
}

Tensor concat(nn::ConcatOp op, Operands operands) {
  Tensor result(resultShape(op));
  int64_t start = 0;
  for (const Tensor *operand : operands) {
    forEachIndex(operand->shape, [&](ArrayRef<int64_t> index) {
      Index to(index);
      to[op.getDim()] += start;
      result.at(to) = operand->at(index);
    });
    start += operand->shape[op.getDim()];
  }
  return result;
}

Tensor slice(nn::SliceOp op, Operands operands) {
  Tensor result(resultShape(op));
  size_t next = 0;
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    Index from(index);
    for (size_t d = 0; d < index.size(); ++d)
      from[d] = op.getStarts()[d] + index[d] * op.getStrides()[d];
    result.data[next++] = operands[0]->at(from);
  });
  return result;
}

Tensor pad(nn::PadOp op, Operands operands) {
  double value = 0;
  if (auto number = dyn_cast<FloatAttr>(op.getValue()))
    value = number.getValueAsDouble();
  else if (auto number = dyn_cast<IntegerAttr>(op.getValue()))
    value = static_cast<double>(number.getInt());
  Tensor result(resultShape(op), value);
  forEachIndex(operands[0]->shape, [&](ArrayRef<int64_t> index) {
    Index to(index);
    for (size_t d = 0; d < index.size(); ++d)
      to[d] += op.getLow()[d];
    result.at(to) = operands[0]->at(index);
  });
  return result;
}

Tensor gather(nn::GatherOp op, Operands operands) {
  Tensor result(resultShape(op));
  size_t dim = op.getDim(), shared = op.getBatched() ? dim : 0;
  size_t numIndexDims = operands[1]->shape.size() - shared;
  size_t next = 0;
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    double picked =
        operands[1]->at(index.slice(dim - shared, shared + numIndexDims));
    int64_t size = operands[0]->shape[dim];
    if (!op.getPartial() && picked < 0)
      picked += static_cast<double>(size);
    Index from(index.take_front(dim));
    bool held = picked >= 0 && picked < static_cast<double>(size);
    from.push_back(held ? static_cast<int64_t>(picked) : 0);
    llvm::append_range(from, index.drop_front(dim + numIndexDims));
    result.data[next++] = held ? operands[0]->at(from) : 0;
  });
  return result;
}

double updated(nn::ScatterKind kind, double x, double update) {
  switch (kind) {
  case nn::ScatterKind::Set:
    return update;
  case nn::ScatterKind::Add:
    return x + update;
  case nn::ScatterKind::Mul:
    return x * update;
  case nn::ScatterKind::Min:
    return std::isnan(x) || x < update ? x : update;
  case nn::ScatterKind::Max:
    return std::isnan(x) || x > update ? x : update;
  }
  llvm_unreachable("bad ScatterKind");
}

Tensor scatter(nn::ScatterOp op, Operands operands) {
  const Tensor &indices = *operands[1], &updates = *operands[2];
  Tensor result = *operands[0];
  size_t numIndexDims = indices.shape.size();
  forEachIndex(updates.shape, [&](ArrayRef<int64_t> index) {
    double row = indices.at(index.take_front(numIndexDims));
    if (auto to = scatterTarget(op, result, row, index, numIndexDims)) {
      double &x = result.at(*to);
      x = updated(op.getKind(), x, updates.at(index));
    }
  });
  return result;
}

} // namespace

MaybeTensor kerf::interpret::evaluateMovement(Operation *op,
                                              Operands operands) {
  if (auto it = dyn_cast<nn::ConstantOp>(op))
    return fromElements(it.getElements());
  if (auto it = dyn_cast<nn::IotaOp>(op)) {
    Tensor result(resultShape(op));
    size_t next = 0;
    forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      result.data[next++] = static_cast<double>(index[it.getDim()]);
    });
    return result;
  }
  if (isa<nn::ReshapeOp>(op)) {
    Tensor result = *operands[0];
    result.shape.assign(resultShape(op).begin(), resultShape(op).end());
    return result;
  }
  if (isa<nn::BroadcastOp>(op)) {
    Tensor result(resultShape(op));
    size_t next = 0;
    forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
      result.data[next++] = operands[0]->broadcastAt(index);
    });
    return result;
  }
  if (auto it = dyn_cast<nn::TransposeOp>(op))
    return transpose(it, operands);
  if (auto it = dyn_cast<nn::ConcatOp>(op))
    return concat(it, operands);
  if (auto it = dyn_cast<nn::SliceOp>(op))
    return slice(it, operands);
  if (auto it = dyn_cast<nn::PadOp>(op))
    return pad(it, operands);
  if (auto it = dyn_cast<nn::GatherOp>(op))
    return gather(it, operands);
  if (auto it = dyn_cast<nn::ScatterOp>(op))
    return scatter(it, operands);
  return std::nullopt;
}
