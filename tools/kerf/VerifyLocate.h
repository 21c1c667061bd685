//===- VerifyLocate.h - finds the first wrong value -------------*- C++ -*-===//
#ifndef KERF_TOOLS_VERIFYLOCATE_H
#define KERF_TOOLS_VERIFYLOCATE_H

#include "VerifyReference.h"

namespace kerf::tool {

/// The first value in program order that differs.
struct FirstDifference {
  std::string value;                ///< "Add_3 (nn.add)"; empty: none found
  Difference difference;            ///< there
  std::vector<std::string> remarks; ///< explanations, or why there is no value
};

/// Searches the first wrong value of a program that differs from its reference:
/// values are made outputs and compared with those of the model run op by op
/// (docs/Verification.md).
FirstDifference locate(const Options &options, const Program &judged,
                       const Reference &reference);

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYLOCATE_H
