//===- StageUnits.h - what stages are cut from, and what crosses -*- C++
//-*-===//
//
// What must stay together (the ops of one colocation; an op where there
// is none) is a unit; stages are contiguous runs of units. A value that a unit
// outside of its maker's stage uses is sent by that stage, once to each other
// stage that uses it. `sentFrom` counts it once, which is exact where all of
// those lie in one stage and never too much: what dynamic programming over the
// cuts and the bounds on all cuts are made of.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_STAGEUNITS_H
#define KERF_LIB_PLAN_MODEL_STAGEUNITS_H

#include "Graph.h"

namespace kerf::plan {

/// The units of a function, in order. Sources and the return are in none.
std::vector<llvm::SmallVector<mlir::Operation *>>
unitsOf(mlir::func::FuncOp function);

/// Whether plans need not divide the work: a mesh that was asked for.
bool isWorkWaived(const PlanOptions &options);

/// What one device would do alone in a step, in operations: of one op.
int64_t wholeFlops(mlir::Operation *op);

/// A value that units `first` to `last` use or make.
struct Crossing {
  size_t maker, first, last;
  double bytes; ///< of one rank and step, each time it is sent
};

class Crossings {
public:
  explicit Crossings(size_t units) : byMaker(units) {}
  void add(const Crossing &crossing) {
    if (crossing.first < crossing.last)
      byMaker[crossing.maker].push_back(crossing);
  }
  /// For each begin < end what the stage [begin, end) sends. O(crossings).
  std::vector<double> sentFrom(size_t end) const;

private:
  std::vector<std::vector<Crossing>> byMaker;
};

/// First and last unit that uses or makes `value`, which `maker` makes.
template <typename UnitOf>
Crossing crossingOf(mlir::Value value, size_t maker, double bytes,
                    const UnitOf &unitOf) {
  Crossing crossing{maker, maker, maker, bytes};
  for (mlir::Operation *user : value.getUsers())
    if (auto found = unitOf.find(user); found != unitOf.end()) {
      crossing.first = std::min<size_t>(crossing.first, found->second);
      crossing.last = std::max<size_t>(crossing.last, found->second);
    }
  return crossing;
}

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_STAGEUNITS_H
