//===- Tensor.cpp - a tensor of the interpreter ---------------------------===//
#include "kerf/Interpret/Tensor.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace kerf::interpret;

Tensor::Tensor(ArrayRef<int64_t> shape, double fill) : shape(shape) {
  int64_t size = 1;
  for (int64_t dim : shape)
    size *= dim;
  data.assign(size, fill);
}

int64_t Tensor::offset(ArrayRef<int64_t> index) const {
  int64_t result = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    result = result * shape[dim] + index[dim];
  return result;
}

bool Tensor::contains(ArrayRef<int64_t> index) const {
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (index[dim] < 0 || index[dim] >= shape[dim])
      return false;
  return true;
}

double Tensor::broadcastAt(ArrayRef<int64_t> index) const {
  ArrayRef<int64_t> last = index.take_back(shape.size());
  int64_t result = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    result = result * shape[dim] + (shape[dim] == 1 ? 0 : last[dim]);
  return data[result];
}

void kerf::interpret::forEachIndex(
    ArrayRef<int64_t> shape,
    llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  if (llvm::is_contained(shape, 0))
    return;
  Index index(shape.size(), 0);
  while (true) {
    visit(index);
    size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return;
  }
}

Tensor kerf::interpret::fromElements(DenseElementsAttr elements) {
  Tensor result(elements.getType().getShape());
  size_t next = 0;
  if (isa<FloatType>(elements.getElementType())) {
    for (const APFloat &value : elements.getValues<APFloat>()) {
      APFloat wide = value;
      bool lossy;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      result.data[next++] = wide.convertToDouble();
    }
  } else {
    bool isBool = elements.getElementType().isInteger(1);
    for (const APInt &value : elements.getValues<APInt>())
      result.data[next++] = static_cast<double>(
          isBool ? static_cast<int64_t>(value.getBoolValue())
                 : value.getSExtValue());
  }
  return result;
}
