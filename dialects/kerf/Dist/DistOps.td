//===- DistOps.td - all ops of the dist dialect ------------*- tablegen -*-===//
#ifndef KERF_DIST_OPS_TD
#define KERF_DIST_OPS_TD

include "kerf/Dist/DistBase.td"
include "kerf/Dist/DistDecisions.td"
include "kerf/Dist/DistPlacement.td"
include "kerf/Dist/DistCollectives.td"
include "kerf/Dist/DistSchedule.td"
include "kerf/Dist/DistTraining.td"

#endif // KERF_DIST_OPS_TD
