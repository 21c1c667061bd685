//===- Description.h - what the runtime knows of a program ------*- C++ -*-===//
//
// Collects the entries to which calls refer by number, and writes them as the
// text that kerf_ranks_create reads.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_RANKS_DESCRIPTION_H
#define KERF_LIB_RANKS_DESCRIPTION_H

#include "kerf/Entries/Entries.h"

#include <set>

namespace kerf::ranks {

/// The runtime's name of the elements of a tensor that only moves: numbers
/// whose type it does not know are moved as integers of their width. Empty if
/// there are none of that width.
std::string movedName(mlir::Type elementType);

class Description {
public:
  explicit Description(dist::MeshAttr mesh)
      : meshAttr(mesh), mesh(mesh.toMesh()) {}

  /// The number of a part of the boundary; equal ones share it. Fails with an
  /// error at `op` where the runtime has no such elements.
  mlir::FailureOr<int64_t> addPart(mlir::Operation *op,
                                   mlir::RankedTensorType global,
                                   mlir::RankedTensorType local,
                                   dist::ShardingAttr sharding);
  /// The number of a parameter that a function of `stage` reads or assigns:
  /// `source` on local shapes, as partition leaves it. Fails with an error
  /// where two sources of one name are not the same tensor.
  mlir::FailureOr<int64_t> addParameter(SourceOpInterface source,
                                        int64_t stage);
  mlir::FailureOr<int64_t> addCollective(dist::CollectiveOpInterface op);
  /// Channels keep their order in the module.
  mlir::FailureOr<int64_t> addChannel(dist::ChannelOp op);

  std::string text() const;

  dist::MeshAttr meshAttr;
  dist::Mesh mesh;

private:
  struct Parameter {
    std::string name;
    llvm::json::Object placement;
    std::set<int64_t> stages;
  };

  std::vector<Parameter> parameters;
  llvm::json::Array parts, collectives, channels;
};

} // namespace kerf::ranks

#endif // KERF_LIB_RANKS_DESCRIPTION_H
