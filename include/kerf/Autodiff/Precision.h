//===- Precision.h - the type of the arithmetic -----------------*- C++ -*-===//
//
// Problem: --precision asks for products in a narrower type than the model's
// float32, in training and in inference, and communication should carry no more
// than what is computed with.
//
// Idea: casts in the IR, before anything is differentiated or planned. Operands
// of matrix products, convolutions and attention are rounded, once per value;
// products are summed in float32 and go on in float32, as do all other ops.
// Rows that are looked up in a float32 table travel in the narrow type: a cast
// there and back
// (`as_made`), which lowering takes away where nothing travels between the two.
// Linear in the number of ops.
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
  TF32, ///< float32 but for products of GPUs, which round to 10 bits
  BF16,
  F16,
};

/// "f32", "tf32", "bf16", "f16".
llvm::StringRef toString(Precision precision);
/// The same; "fp16" is "f16".
std::optional<Precision> parsePrecision(llvm::StringRef text);

/// The type to which operands of products are rounded; null: to none.
mlir::Type narrowType(mlir::MLIRContext *context, Precision precision);

/// Ops are made with `builder`, whose listener sees them.
void lowerPrecision(mlir::func::FuncOp function, Precision precision,
                    mlir::OpBuilder &builder);

} // namespace kerf::autodiff

#endif // KERF_AUTODIFF_PRECISION_H
