//===- Layouts.h - interned layouts and candidate meshes --------*- C++ -*-===//
//
// A search looks at the same few layouts very often, so they are interned: a
// Layout is stored once and then named by a number.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_LAYOUTS_H
#define KERF_LIB_PLAN_MODEL_LAYOUTS_H

#include "kerf/Cost/StepShares.h"
#include "kerf/Dist/Layout.h"
#include "kerf/Interfaces/AnyOp.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

#include <deque>
#include <unordered_map>

namespace kerf::plan {

/// What a mesh axis may shard.
enum class AxisRole {
  Batch,    ///< batch dimensions only: "dp"
  NonBatch, ///< any other dimension: "tp"
  Free,     ///< anything: axes of an automatic mesh
  Fixed,    ///< nothing by choice: stages and time
};

/// A number of chunks of the model in each stage, and what a step that has it
/// takes at least (stepWeights()).
struct ChunkChoice {
  int64_t number = 1;
  cost::StepShares weights;
};

/// One mesh to plan for.
struct MeshCandidate {
  dist::Mesh mesh;
  llvm::SmallVector<AxisRole> roles; ///< one per axis of the mesh
  int64_t stages = 1;
  int64_t microBatches = 1;
  /// How many chunks of the model a stage may hold, fewest first; which number
  /// it is is for the cut to say. Several are of the interleaved schedule, for
  /// which the micro-batches are a multiple of the stages.
  llvm::SmallVector<ChunkChoice> chunks = {ChunkChoice()};
  /// Whether it is several in any case.
  bool isInterleaved() const { return chunks.front().number > 1; }
  std::optional<unsigned> stageAxis, timeAxis;
  /// Devices inside a stage.
  int64_t devicesPerStage() const { return mesh.numRanks() / stages; }
};

using LayoutId = uint32_t;

class LayoutTable {
public:
  LayoutId intern(const dist::Layout &layout) {
    auto [it, isNew] = ids.try_emplace(layout, LayoutId(layouts.size()));
    if (isNew)
      layouts.push_back(layout);
    return it->second;
  }
  const dist::Layout &operator[](LayoutId id) const { return layouts[id]; }

private:
  struct Hash {
    size_t operator()(const dist::Layout &layout) const {
      return hash_value(layout);
    }
  };
  std::unordered_map<dist::Layout, LayoutId, Hash> ids;
  std::deque<dist::Layout> layouts;
};

/// The type of a value; what is no tensor is taken for one number.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return plannedType(value);
}

/// One device's part of a tensor.
inline mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                        const dist::Layout &layout) {
  return type.clone(layout.localShape(type.getShape()));
}

inline int64_t elementBytes(mlir::RankedTensorType type) {
  return (type.getElementTypeBitWidth() + 7) / 8;
}
inline int64_t sizeBytes(mlir::RankedTensorType type) {
  return type.getNumElements() * elementBytes(type);
}

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_LAYOUTS_H
