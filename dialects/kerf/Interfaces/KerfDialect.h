//===- KerfDialect.h - what phases tell each other --------------*- C++ -*-===//
//
// Names of the dialect's attributes; KerfDialect.td says what each means.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_KERFDIALECT_H
#define KERF_INTERFACES_KERFDIALECT_H

#include "mlir/IR/Dialect.h"

namespace kerf {

inline constexpr llvm::StringLiteral kNameAttr = "kerf.name";
inline constexpr llvm::StringLiteral kBatchDimAttr = "kerf.batch_dim";
inline constexpr llvm::StringLiteral kRangeAttr = "kerf.range";
inline constexpr llvm::StringLiteral kSampleRangeAttr = "kerf.sample_range";
inline constexpr llvm::StringLiteral kIgnoreIndexAttr = "kerf.ignore_index";
inline constexpr llvm::StringLiteral kParameterAttr = "kerf.parameter";
inline constexpr llvm::StringLiteral kFilesAttr = "kerf.files";
inline constexpr llvm::StringLiteral kBuffersAttr = "kerf.buffers";
inline constexpr llvm::StringLiteral kParametersAttr = "kerf.parameters";
inline constexpr llvm::StringLiteral kSharedAttr = "kerf.shared";
inline constexpr llvm::StringLiteral kOtherNamesAttr = "kerf.other_names";
inline constexpr llvm::StringLiteral kCopyOfAttr = "kerf.copy_of";
inline constexpr llvm::StringLiteral kNoGradientAttr = "kerf.no_gradient";

} // namespace kerf

#include "kerf/Interfaces/KerfDialect.h.inc"

#endif // KERF_INTERFACES_KERFDIALECT_H
