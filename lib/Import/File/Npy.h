//===- Npy.h - constants given on the command line --------------*- C++ -*-===//
//
// `@FILE.npy` is a NumPy array of version 1 to 3 in C order, little-endian;
// anything else is a list of numbers, `1,2,3`, or one number.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_FILE_NPY_H
#define KERF_LIB_IMPORT_FILE_NPY_H

#include "kerf/Import/Import.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace kerf::onnx_import {

/// Null on failure with the reason. `expected` is the element type of bytes of
/// which the file does not say what they are.
mlir::DenseElementsAttr readNpy(mlir::MLIRContext *context,
                                llvm::StringRef path, mlir::Type expected,
                                std::string &error);

/// A constant of this element type; integers of a file may be narrower. One
/// number is a tensor of rank 0 if `isScalar`, else of rank 1. Null on failure
/// with the reason.
mlir::DenseElementsAttr parseConstant(mlir::MLIRContext *context,
                                      llvm::StringRef text, mlir::Type element,
                                      bool isScalar, std::string &error);

/// Why `value`, made from `text`, is none of the input, whose open sizes are
/// bound; empty: it is.
std::string misfitOf(mlir::DenseElementsAttr value, llvm::StringRef text,
                     const ModelValue &input);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_FILE_NPY_H
