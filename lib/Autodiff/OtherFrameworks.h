//===- OtherFrameworks.h - names of losses elsewhere ------------*- C++ -*-===//
//
// What other frameworks call losses, optimizers and their options. A name that
// is known is answered by what it means, not by what is spelled nearly so:
// 'mae' is no slip of 'mse'.
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_AUTODIFF_OTHERFRAMEWORKS_H
#define KERF_LIB_AUTODIFF_OTHERFRAMEWORKS_H

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace kerf::autodiff {

/// What a name means here.
struct Meant {
  llvm::StringLiteral name;        ///< empty: nothing here is that
  llvm::StringLiteral remark = ""; ///< behind the name, as it is written
};

/// Without a look at case, "_", "-" and "loss" at the end. None: not known.
std::optional<Meant> lossElsewhere(llvm::StringRef name);
std::optional<Meant> optimizerElsewhere(llvm::StringRef name);

/// An option that means the same by another name: 'lr' of 'learning_rate';
/// others stay as they are.
llvm::StringRef optimizerOptionOf(llvm::StringRef key);

/// Options that mean nearly the same; empty: none is known.
llvm::StringRef nearOptimizerOption(llvm::StringRef key);
llvm::StringRef nearLossOption(llvm::StringRef key);

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_OTHERFRAMEWORKS_H
