//===- Space.h - disk space that a run needs --------------------*- C++ -*-===//
//
// A run of days must not find out at its end that its model does not fit. Sizes
// are known before the first step: they are compared with the free space of
// each file system, and with the largest file that the process may write. Other
// programs may still fill the disk: Trainer.cpp handles that.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_SPACE_H
#define KERF_RT_TRAIN_SPACE_H

#include "Weights.h"
#include "kerf/rt/train.h"

namespace kerf::rt {

/// Throws KERF_INVALID_ARGUMENT with the bytes that are needed and those that
/// are there. File systems that do not say are taken as large enough.
void requireSpace(const TrainOptions &options, const Weights &weights);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_SPACE_H
