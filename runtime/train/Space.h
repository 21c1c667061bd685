//===- Space.h - room on the disk for what a run writes ---------*- C++ -*-===//
//
// A run of days must not find at its end that its model does not fit. Sizes are
// known before the first step: they are held against what is free, per file
// system, and against the largest file that the process may write. What others
// write meanwhile nobody knows: Trainer.cpp says what happens then.
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
