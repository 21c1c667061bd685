//===- VerifyIR.h - the verifier as a pass ----------------------*- C++ -*-===//
//
// Phases of a compilation have up to thirty small passes, and MLIR's verifier
// behind each of them takes longer than they do. So it runs once, behind the
// last of a phase; kerf-opt, and what replays a reproducer, run it behind each.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PIPELINES_VERIFYIR_H
#define KERF_PIPELINES_VERIFYIR_H

#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf {

std::unique_ptr<mlir::Pass> createVerifyIR();
void registerVerifyIR();

} // namespace kerf

#endif // KERF_PIPELINES_VERIFYIR_H
