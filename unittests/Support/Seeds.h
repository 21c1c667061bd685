//===- Seeds.h - random tests over a range of seeds -------------*- C++ -*-===//
//
// A random test draws everything from its seed, runs a fixed range of them, and
// runs one alone where the environment's KERF_SEED names it: what a failure
// prints is what repeats it.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_SUPPORT_SEEDS_H
#define KERF_UNITTESTS_SUPPORT_SEEDS_H

#include "kerf/Pipelines/Register.h"

#include "mlir/IR/MLIRContext.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

namespace kerf::test {

/// A context of one thread with every dialect of Kerf loaded.
struct LoadedContext {
  LoadedContext()
      : context(registry(), mlir::MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
  }
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry result;
    registerDialects(result);
    return result;
  }
  mlir::MLIRContext context;
};

/// `all` with KERF_FULL, which ./check --full sets, otherwise `some`.
inline unsigned seedsOf(unsigned all, unsigned some) {
  return std::getenv("KERF_FULL") ? all : some;
}

/// Calls run(seed) for `count` seeds from `first`, or for KERF_SEED alone, up
/// to the first fatal failure. True if all seeds ran: only then do counts of
/// what was covered mean anything.
template <typename Run>
bool forEachSeed(unsigned first, unsigned count, Run run) {
  bool single = false;
  if (const char *given = std::getenv("KERF_SEED")) {
    first = std::atoi(given);
    count = 1;
    single = true;
  }
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("KERF_SEED=" + std::to_string(seed));
    run(seed);
    if (::testing::Test::HasFatalFailure())
      return false;
  }
  return !single;
}

} // namespace kerf::test

#endif // KERF_UNITTESTS_SUPPORT_SEEDS_H
