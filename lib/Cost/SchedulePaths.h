//===- SchedulePaths.h - the paths of a schedule, and their means -*- C++ -*-=//
//
// Problem: the largest share s such that a pipelined step takes at least s
// times what all stages together work on one micro-batch, however this work is
// divided over chunks, and over forward and backward.
//
// Idea: a step takes as long as the longest path through its instructions, each
// of which waits for the one before it in its stage's list and for the one
// whose result it reads. A path has a factor for each item, a chunk forward or
// backward: how often it goes through it. If in a mean of paths every factor is
// at least s, s is such a share; by duality the best mean gives the largest. It
// is the solution of a linear program with a column for each path, which the
// simplex method finds without listing them: it asks for the path that is
// longest if items take as long as their prices (column generation). Prices are
// smoothed, since those of early steps say little (Wentges 1997).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_COST_SCHEDULEPATHS_H
#define KERF_LIB_COST_SCHEDULEPATHS_H

#include "kerf/Cost/Schedule.h"

namespace kerf::cost {

/// The share of 1F1B or the interleaved schedule. What is looked at is limited;
/// the mean that is known then gives a share as well, if not the largest. A
/// step of the search is O(instructions + (stages chunks)^2), and there are
/// some tens for each chunk.
double shareOfPaths(ScheduleKind kind, int64_t stages, int64_t microBatches,
                    int64_t chunks);

} // namespace kerf::cost

#endif // KERF_LIB_COST_SCHEDULEPATHS_H
