//===- Identity.cpp - neutral elements of reductions ----------------------===//
#include "kerf/Interfaces/Identity.h"

#include "kerf/Support/NarrowTypes.h"

using namespace mlir;
using namespace kerf;

TypedAttr kerf::identityOf(ReductionKind kind, Type type) {
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
    if (isNarrow(type)) // is not reduced: some code
      return FloatAttr::get(
          type, APFloat(semantics, APInt::getZero(floatType.getWidth())));
    switch (kind) {
    case ReductionKind::Sum:
      return FloatAttr::get(type, APFloat::getZero(semantics));
    case ReductionKind::Prod:
      return FloatAttr::get(type, APFloat(semantics, 1));
    case ReductionKind::Max:
      return FloatAttr::get(type, APFloat::getInf(semantics, true));
    case ReductionKind::Min:
      return FloatAttr::get(type, APFloat::getInf(semantics));
    }
  }
  unsigned width = type.getIntOrFloatBitWidth();
  // i1 is a truth value, not a signed number.
  bool isSigned = width > 1 && !type.isUnsignedInteger();
  switch (kind) {
  case ReductionKind::Sum:
    return IntegerAttr::get(type, APInt::getZero(width));
  case ReductionKind::Prod:
    return IntegerAttr::get(type, APInt(width, 1));
  case ReductionKind::Max:
    return IntegerAttr::get(type, isSigned ? APInt::getSignedMinValue(width)
                                           : APInt::getMinValue(width));
  case ReductionKind::Min:
    return IntegerAttr::get(type, isSigned ? APInt::getSignedMaxValue(width)
                                           : APInt::getMaxValue(width));
  }
  llvm_unreachable("bad ReductionKind");
}
