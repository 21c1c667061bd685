//===- Specs.h - options of --loss and --optimizer --------------*- C++ -*-===//
#ifndef KERF_LIB_AUTODIFF_SPECS_H
#define KERF_LIB_AUTODIFF_SPECS_H

#include "kerf/Autodiff/Autodiff.h"

namespace kerf::autodiff {

/// `key=1.5`; for a switch `key`, `key=true` or `key=false`: 1 or 0.
struct NumberOption {
  llvm::StringLiteral key;
  double usual, min, max;
  bool isSwitch = false;
};

} // namespace kerf::autodiff

#endif // KERF_LIB_AUTODIFF_SPECS_H
