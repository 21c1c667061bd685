//===- HostTensor.cpp - between attributes and numbers --------------------===//
//
// f32, f64 and i64 have direct ways; other types go through APFloat and APInt.
//
//===----------------------------------------------------------------------===//
#include "HostTensor.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

template <typename T, typename Convert, typename Out>
static void read(DenseElementsAttr attr, bool splat, Out &out,
                 Convert convert) {
  if (splat) {
    out.push_back(convert(attr.getSplatValue<T>()));
    return;
  }
  out.reserve(attr.getNumElements());
  for (T value : attr.getValues<T>())
    out.push_back(convert(value));
}

HostTensor kerf::nn::decode(DenseElementsAttr attr) {
  HostTensor tensor;
  tensor.type = cast<RankedTensorType>(attr.getType());
  tensor.splat = attr.isSplat();
  Type element = tensor.type.getElementType();
  if (element.isF32()) {
    read<float>(attr, tensor.splat, tensor.floats,
                [](float value) { return double(value); });
  } else if (element.isF64()) {
    read<double>(attr, tensor.splat, tensor.floats,
                 [](double value) { return value; });
  } else if (isa<FloatType>(element)) {
    read<APFloat>(attr, tensor.splat, tensor.floats, [](APFloat value) {
      bool lost;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      return value.convertToDouble();
    });
  } else {
    bool zeroExtend = element.isUnsignedInteger() || element.isInteger(1);
    read<APInt>(attr, tensor.splat, tensor.integers,
                [zeroExtend](const APInt &value) {
                  return zeroExtend ? int64_t(value.getZExtValue())
                                    : value.getSExtValue();
                });
  }
  return tensor;
}

DenseElementsAttr kerf::nn::encode(const HostTensor &tensor) {
  Type element = tensor.type.getElementType();
  if (element.isF32()) {
    std::vector<float> values(tensor.floats.begin(), tensor.floats.end());
    return DenseElementsAttr::get(tensor.type, ArrayRef<float>(values));
  }
  if (element.isF64())
    return DenseElementsAttr::get(tensor.type, ArrayRef<double>(tensor.floats));
  if (auto floatType = dyn_cast<FloatType>(element)) {
    std::vector<APFloat> values;
    for (double number : tensor.floats) {
      if (isa<Float4E2M1FNType>(element)) // has neither infinity nor NaN
        number = std::isnan(number) ? -0.0 : std::clamp(number, -6.0, 6.0);
      APFloat value(number);
      bool lost;
      value.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &lost);
      values.push_back(value);
    }
    return DenseElementsAttr::get(tensor.type, ArrayRef<APFloat>(values));
  }
  if (element.isSignlessInteger(64))
    return DenseElementsAttr::get(tensor.type,
                                  ArrayRef<int64_t>(tensor.integers));
  unsigned width = element.getIntOrFloatBitWidth();
  std::vector<APInt> values;
  values.reserve(tensor.integers.size());
  for (int64_t number : tensor.integers)
    values.push_back(APInt(64, uint64_t(number)).trunc(width));
  return DenseElementsAttr::get(tensor.type, ArrayRef<APInt>(values));
}
