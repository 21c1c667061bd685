//===- Meshes.h - the mesh shapes that are tried ----------------*- C++ -*-===//
//
// Which meshes a search looks at: for each number of stages that divides the
// devices, each number of micro-batches that the batch allows, and the rest of
// the devices on one free axis or on two (training: batch and non-batch). What
// the user fixes stays fixed. The set is what the certificate is about, so it
// is also put in words.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_MESHES_H
#define KERF_LIB_PLAN_MODEL_MESHES_H

#include "Layouts.h"

#include "kerf/Plan/Plan.h"

namespace kerf::plan {

/// Up to so many micro-batches of one stage all that divide the batch are
/// tried; of more, doublings.
inline constexpr int64_t kMaxAccumulations = 32;

struct MeshSet {
  std::vector<MeshCandidate> candidates;
  /// One stage, several micro-batches: less of the batch is in memory at a
  /// time, for the same work and at least the same traffic. Tried while the
  /// memory limit makes fewer micro-batches cost more. Fewer first.
  std::vector<MeshCandidate> accumulations;
  /// Several stages, more micro-batches: less of the batch is under way at a
  /// time. Tried where nothing else fits. Fewer first.
  std::vector<MeshCandidate> further;
  /// For plan.json, behind how many meshes were tried.
  std::string description;
  std::string error; ///< why the request is impossible, or empty
};

/// Whether any mesh of a request can have an axis of data parallelism.
bool mayCutData(const PlanOptions &options);

inline constexpr size_t kAnyGroups = std::numeric_limits<size_t>::max();

/// The numbers of chunks that a stage may hold when the model is cut into
/// `stages` stages. Only a training step whose objective is time may have
/// several: they take less time, but hold and send more. There are never more
/// chunks than the model has colocation groups. The result has at least one
/// number.
llvm::SmallVector<ChunkChoice> chunkChoices(const PlanOptions &options,
                                            bool isTraining, int64_t stages,
                                            int64_t microBatches,
                                            size_t numGroups);

/// What is known of a function before any mesh is.
struct MeshRequest {
  int64_t batchSize = 1;
  /// The batch can be followed through the whole function; `whyNot` names what
  /// ends it.
  bool canMicroBatch = false;
  std::string whyNot;
  bool isTraining = false;
  size_t numGroups = 1; ///< colocation groups (ColocationGroups.h)
};

MeshSet enumerateMeshes(const PlanOptions &options, const MeshRequest &request);

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_MESHES_H
