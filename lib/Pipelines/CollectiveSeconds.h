//===- CollectiveSeconds.h - predicted times of collectives -----*- C++ -*-===//
#ifndef KERF_LIB_PIPELINES_COLLECTIVESECONDS_H
#define KERF_LIB_PIPELINES_COLLECTIVESECONDS_H

#include "kerf/Collectives/Accounting.h"
#include "kerf/Collectives/Passes.h"
#include "kerf/Cost/Machine.h"

namespace kerf {

/// Sets CollectiveRecord::seconds by the machine's cost model.
void addSeconds(CommunicationReport &report, mlir::ModuleOp module,
                const cost::Machine &machine);

/// How the collectives phase should bucket the gradients of a module on this
/// machine (cost::bucketRule); the default if there are no gradients.
CollectivesOptions collectivesOptions(mlir::ModuleOp module,
                                      const cost::Machine &machine);

} // namespace kerf

#endif // KERF_LIB_PIPELINES_COLLECTIVESECONDS_H
