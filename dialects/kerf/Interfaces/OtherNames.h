//===- OtherNames.h - names that a weight is not stored under ---*- C++ -*-===//
//
// A weight that several modules share is stored under the name of one of them
// (lm_head.weight), and users know it by the other, too (wte.weight). Import
// notes the others where the file says which modules read it
// (`kerf.other_names`); messages name the one that counts.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_OTHERNAMES_H
#define KERF_INTERFACES_OTHERNAMES_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <utility>
#include <vector>

namespace kerf {

/// The other name, and the one that the weight is stored under.
using OtherName = std::pair<std::string, std::string>;

std::vector<OtherName> otherNames(mlir::ModuleOp module);

/// `'wte.weight' is stored as 'lm_head.weight'` for a pattern that matches the
/// first and not the second; else empty.
std::string storedAs(llvm::ArrayRef<OtherName> names, llvm::StringRef pattern);

} // namespace kerf

#endif // KERF_INTERFACES_OTHERNAMES_H
