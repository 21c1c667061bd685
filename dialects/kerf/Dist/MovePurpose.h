//===- MovePurpose.h - what a move is for -----------------------*- C++ -*-===//
#ifndef KERF_DIST_MOVEPURPOSE_H
#define KERF_DIST_MOVEPURPOSE_H

#include "kerf/Dist/Dist.h"

namespace kerf::dist {

/// What a user states of the values that it reads: its own purpose, but for
/// statistics, since what these are taken of is none. Null: nothing.
PurposeAttr purposeOfOperands(mlir::Operation *user);

/// The purpose of bringing a value to another layout: what its producer or, if
/// that states none, its user states of it; else gradient behind the backward
/// pass of weights, and parameter for a parameter, a copy of it in another
/// type, and what is assigned to it. Null: an activation. `producer` is null
/// for an argument, `user` for a layout that several uses share.
PurposeAttr movePurpose(mlir::Operation *producer, mlir::Operation *user);

} // namespace kerf::dist

#endif // KERF_DIST_MOVEPURPOSE_H
