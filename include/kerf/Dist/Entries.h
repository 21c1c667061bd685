//===- Entries.h - kerf/Entries/Entries.h by its earlier name ---*- C++ -*-===//
//
// Installed headers stay within a MINOR version (docs/Compatibility.md); goes
// with the next.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_DIST_ENTRIES_H
#define KERF_DIST_ENTRIES_H

#include "kerf/Entries/Entries.h"

namespace kerf::dist {
using kerf::axesEntry;
using kerf::collectiveEntry;
using kerf::dtypeName;
using kerf::meshEntry;
using kerf::setSharding;
} // namespace kerf::dist

#endif // KERF_DIST_ENTRIES_H
