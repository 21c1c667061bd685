//===- NarrowNumbers.h - codes of 2 to 8 bits as numbers --------*- C++ -*-===//
//
// From the definitions of the types, by arithmetic on doubles: nothing here is
// shared with what compiled programs do.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_INTERPRET_NARROWNUMBERS_H
#define KERF_LIB_INTERPRET_NARROWNUMBERS_H

#include "mlir/IR/BuiltinTypes.h"

namespace kerf::interpret {

/// The number that a code of a narrow type (Support/NarrowTypes.h) stands for.
double narrowNumber(uint8_t code, mlir::Type element);
/// The code of a number that the type has.
uint8_t narrowCode(double number, mlir::Type element);
/// The nearest number of a narrow type of floats, as nn.cast gives it.
double roundToNarrow(double value, mlir::Type element);

/// The nearest number of `digits` significant bits that is a multiple of
/// 2^lowest; infinity past `max`.
double nearest(double value, int digits, int lowest, double max);

} // namespace kerf::interpret

#endif // KERF_LIB_INTERPRET_NARROWNUMBERS_H
