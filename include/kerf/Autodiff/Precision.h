//===- Precision.h - the type of the arithmetic -----------------*- C++ -*-===//
//
// Problem: --precision asks for products in a narrower type than the model's
// float32, in training and in inference, and values should be sent in the type
// in which they are used.
//
// Idea: casts in the IR, before it is differentiated or planned. Operands of
// matrix products, convolutions and attention are rounded, once per value; the
// result has the narrow type and is cast back to float32, in which all other
// ops compute. Rows that are looked up in a float32 table are sent in the
// narrow type: they get two transfer casts, there and back (TransferCast.h),
// which lowering removes if nothing is sent between them. Linear in the number
// of ops.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_AUTODIFF_PRECISION_H
#define KERF_AUTODIFF_PRECISION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <string>

namespace kerf::autodiff {

enum class Precision {
  F32,
  TF32, ///< float32, except that products on GPUs round operands to 10 bits
  BF16,
  F16,
};

/// "f32", "tf32", "bf16", "f16".
llvm::StringRef toString(Precision precision);
/// The same; "fp32" is "f32" and "fp16" "f16".
std::optional<Precision> parsePrecision(llvm::StringRef text);

/// The type to which operands of products are rounded; null: to none.
mlir::Type narrowType(mlir::MLIRContext *context, Precision precision);

/// Ops are built with `builder`, so that its listener sees them.
void lowerPrecision(mlir::func::FuncOp function, Precision precision,
                    mlir::OpBuilder &builder);

} // namespace kerf::autodiff

#endif // KERF_AUTODIFF_PRECISION_H
