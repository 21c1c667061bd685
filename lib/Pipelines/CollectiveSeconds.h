//===- CollectiveSeconds.h - predicted time of what is sent -----*- C++ -*-===//
#ifndef KERF_LIB_PIPELINES_COLLECTIVESECONDS_H
#define KERF_LIB_PIPELINES_COLLECTIVESECONDS_H

#include "kerf/Collectives/Accounting.h"
#include "kerf/Cost/Machine.h"

namespace kerf {

/// Fills CollectiveRecord::seconds by the machine's model.
void addSeconds(CommunicationReport &report, mlir::ModuleOp module,
                const cost::Machine &machine);

/// How large a bucket of gradients is worth sending on this machine, for the
/// groups over which the module's gradients are summed; 0 without gradients.
int64_t gradientBucketBytes(mlir::ModuleOp module,
                            const cost::Machine &machine);

} // namespace kerf

#endif // KERF_LIB_PIPELINES_COLLECTIVESECONDS_H
