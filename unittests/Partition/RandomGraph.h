//===- RandomGraph.h - random functions and random legal plans --*- C++ -*-===//
//
// Property tests of partitioning: a function of a handful of ops with small,
// mostly indivisible shapes; and a plan for it that is drawn from the sharding
// rules alone, without the planner.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_PARTITION_RANDOMGRAPH_H
#define KERF_UNITTESTS_PARTITION_RANDOMGRAPH_H

#include "kerf/Dist/Layout.h"
#include "kerf/Interpret/Interpret.h"

#include <random>

namespace kerf::test {

using Random = std::mt19937;

/// Uniform in [0, n).
inline int64_t draw(Random &random, int64_t n) {
  return static_cast<int64_t>(random() % n);
}
inline bool chance(Random &random, int percent) {
  return draw(random, 100) < percent;
}

inline std::string textOf(mlir::Operation *op) {
  std::string text;
  llvm::raw_string_ostream(text) << *op;
  return text;
}

/// A module with a function @main of about `numOps` ops.
mlir::OwningOpRef<mlir::ModuleOp> makeGraph(mlir::MLIRContext *context,
                                            Random &random, int numOps);

/// Inputs and weights for such a module; weights depend on their name
/// and the salt alone.
std::vector<interpret::Tensor> makeInputs(mlir::func::FuncOp main,
                                          Random &random);
interpret::Weights makeWeights(unsigned salt = 0);

/// A mesh with 1, 2, 4, 6 or 8 ranks, perhaps with stages and micro-batches.
dist::Mesh makeMesh(Random &random);

/// Annotates @main and adds the mesh. Micro-batches are dropped from `mesh` if
/// the function is not exact under them. Where the module says so (dist.chunks)
/// stages hold several chunks, unless there are no micro-batches for them.
void makePlan(mlir::ModuleOp module, dist::Mesh mesh, Random &random);

/// Gives a mesh with stages micro-batches for an interleaved schedule. Returns
/// how many chunks a stage is to hold.
int64_t makeInterleaved(dist::Mesh &mesh, Random &random);
/// Says so in the module, for makePlan().
void setInterleaved(mlir::ModuleOp module, int64_t chunks);

} // namespace kerf::test

#endif // KERF_UNITTESTS_PARTITION_RANDOMGRAPH_H
