//===- Calibrate.h - this host's ranks as a machine -------------*- C++ -*-===//
#ifndef KERF_TOOLS_CALIBRATE_H
#define KERF_TOOLS_CALIBRATE_H

#include "../Options.h"

#include "kerf/Cost/Machine.h"

namespace kerf::tool {

/// Measures `ranks` thread ranks of this host; 0 threads: as the preset has.
/// `quick`: within a second or two, from fewer and smaller samples. Throws.
cost::Machine calibrateRanks(int64_t ranks, int64_t threads, bool quick,
                             bool silent);

/// Whether `kerf run` plans these options for the host as measured: a model,
/// cut over thread ranks, without --machine or --plan.
bool wantsHostMachine(const Options &options);

/// --machine for them: $KERF_HOST_MACHINE, else the file of an earlier quick
/// calibration, else that of one made now, which is kept for later commands if
/// it can be and is in `folder` if not. Says on stderr that it measures.
void takeHostMachine(Options &options, const std::string &folder);

} // namespace kerf::tool

#endif // KERF_TOOLS_CALIBRATE_H
