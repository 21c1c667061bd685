//===- Forms.h - what would be taken instead of an operator -----*- C++ -*-===//
#ifndef KERF_LIB_IMPORT_FORMS_H
#define KERF_LIB_IMPORT_FORMS_H

#include "llvm/ADT/StringRef.h"

namespace kerf::onnx_import {

/// The form in which what an operator without a handler does is taken; empty
/// where there is none.
llvm::StringRef formInstead(llvm::StringRef opType);

/// The element types that are taken.
inline constexpr llvm::StringLiteral kTypesTaken =
    "float, double, float16, bfloat16, bool, integers and floats of 4 and 8 "
    "bits are taken";

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_FORMS_H
