//===- NNOps.td - all ops of the nn dialect ---------------*- tablegen -*-===//
#ifndef KERF_NN_OPS_TD
#define KERF_NN_OPS_TD

include "kerf/NN/NNBase.td"
include "kerf/NN/NNSources.td"
include "kerf/NN/NNElementwise.td"
include "kerf/NN/NNShape.td"
include "kerf/NN/NNContractions.td"
include "kerf/NN/NNRows.td"
include "kerf/NN/NNGradients.td"
include "kerf/NN/NNAttention.td"
include "kerf/NN/NNUpdates.td"
include "kerf/NN/NNControl.td"

#endif // KERF_NN_OPS_TD
