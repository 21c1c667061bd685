//===- FailPass.h - a pass that fails, for tests ----------------*- C++ -*-===//
//
// The driver's behaviour when a pass has a bug (exit code 70, a reproducer that
// replays) can only be tested with a pass that always fails.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PIPELINES_FAILPASS_H
#define KERF_PIPELINES_FAILPASS_H

#include "mlir/Pass/Pass.h"

#include <memory>

namespace kerf {

/// "test-fail": emits an error at the module and fails.
std::unique_ptr<mlir::Pass> createFailPass();
void registerFailPass();

} // namespace kerf

#endif // KERF_PIPELINES_FAILPASS_H
