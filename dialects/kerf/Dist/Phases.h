//===- Phases.h - the order of a step's phases ------------------*- C++ -*-===//
#ifndef KERF_DIST_PHASES_H
#define KERF_DIST_PHASES_H

#include "kerf/Dist/Dist.h"

namespace kerf::dist {

/// The place of a phase in a step, from 0: values flow to equal or later
/// phases. (The enum's values are in another order.)
inline int orderOf(Phase phase) {
  switch (phase) {
  case Phase::Prologue:
    return 0;
  case Phase::Forward:
    return 1;
  case Phase::BackwardInput:
    return 2;
  case Phase::BackwardWeight:
    return 3;
  case Phase::Update:
    return 4;
  }
  llvm_unreachable("bad Phase");
}

} // namespace kerf::dist

#endif // KERF_DIST_PHASES_H
