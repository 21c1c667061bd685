//===- Program.h - what a program of ranks says of itself -------*- C++ -*-===//
//
// The description that kerf-call-runtime leaves in a module: the mesh, how the
// tensors of the program's boundary are cut, what its ranks exchange. Entries
// are those of manifest.json (docs/Runtime.md, Ranks of other compilers).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_RANKS_PROGRAM_H
#define KERF_RUNTIME_RANKS_PROGRAM_H

#include "../comm/Comm.h"

#include <algorithm>

namespace kerf::rt {

/// A tensor that the host holds whole, and how it is cut.
struct BoundaryPart {
  kerf_dtype_t dtype = KERF_F32;
  Shape globalShape, localShape;
  Sharding sharding;
};

/// What ranks keep from run to run.
struct RanksParameter : BoundaryPart {
  std::string name;
  std::vector<int64_t> stages; ///< whose ranks keep it
  bool isIn(int64_t stage) const {
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  }
};

struct RanksProgram {
  Mesh mesh;
  std::vector<BoundaryPart> parts;
  std::vector<RanksParameter> parameters;
  std::vector<CollectiveDesc> collectives;
  std::vector<ChannelDesc> channels;
};

/// Throws KERF_BAD_PACKAGE naming the entry that is wrong, or
/// KERF_OTHER_VERSION.
RanksProgram parseRanksProgram(const char *text);

} // namespace kerf::rt

#endif // KERF_RUNTIME_RANKS_PROGRAM_H
