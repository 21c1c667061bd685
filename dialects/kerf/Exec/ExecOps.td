//===- ExecOps.td - all ops of the exec dialect ------------*- tablegen -*-===//
#ifndef KERF_EXEC_OPS_TD
#define KERF_EXEC_OPS_TD

include "kerf/Exec/ExecBase.td"
include "kerf/Exec/ExecTarget.td"
include "kerf/Exec/ExecProgram.td"
include "kerf/Exec/ExecStages.td"
include "kerf/Exec/ExecCalls.td"
include "kerf/Exec/ExecLibrary.td"
include "kerf/Exec/ExecGroups.td"

#endif // KERF_EXEC_OPS_TD
