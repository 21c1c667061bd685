//===- Entries.h - dist as JSON that the runtime reads ----------*- C++ -*-===//
//
// Meshes, shardings and collectives in the format of manifest.json
// (docs/Package.md), which the description of a program of ranks has as well
// (docs/Runtime.md). Both write these with the functions here; the dialects
// know no JSON.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_ENTRIES_ENTRIES_H
#define KERF_ENTRIES_ENTRIES_H

#include "kerf/Dist/Dist.h"

#include "llvm/Support/JSON.h"

namespace kerf {

/// The runtime's name of an element type ("f32"); empty if it has none. Signed
/// unless the type says otherwise.
llvm::StringRef dtypeName(mlir::Type elementType);

/// Axes by name and size; the runtime knows one axis in time.
llvm::json::Object meshEntry(dist::MeshAttr mesh);
/// A list of axes, major to minor.
llvm::json::Array axesEntry(dist::AxesAttr axes);
/// Adds `sharding`, one list of axes per dimension, and `blocks` if a dimension
/// has larger blocks than ceiling size. Null: none are cut.
void setSharding(llvm::json::Object &entry, dist::ShardingAttr sharding,
                 int64_t rank);

/// What kind of collective an op of this dialect or of exec is and what it is
/// given. Without its bytes and names.
llvm::json::Object collectiveEntry(CollectiveKind kind,
                                   const dist::CollectiveArguments &arguments,
                                   dist::AxesAttr axes, mlir::ShapedType source,
                                   mlir::ShapedType result, int64_t groupSize,
                                   llvm::StringRef dtype);

} // namespace kerf

#endif // KERF_ENTRIES_ENTRIES_H
