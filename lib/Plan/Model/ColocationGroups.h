//===- ColocationGroups.h - what stays in one stage -------------*- C++ -*-===//
//
// A colocation group is a set of ops that must be in one stage (those of one
// colocation; a single op where there is none); stages are contiguous runs of
// groups. A value that is used outside of its maker's stage is sent by that
// stage, once to each other stage that uses it. `sentFrom` counts it once:
// exact if all users outside lie in one stage, and never too much, as the
// dynamic program over cuts and the bounds on all cuts require.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_PLAN_MODEL_COLOCATIONGROUPS_H
#define KERF_LIB_PLAN_MODEL_COLOCATIONGROUPS_H

#include "Graph.h"

namespace kerf::plan {

/// The colocation groups of a function, in order. Sources and the return are
/// in none.
std::vector<llvm::SmallVector<mlir::Operation *>>
colocationGroupsOf(mlir::func::FuncOp function);

/// Whether plans need not divide the work evenly: the user fixed the whole mesh
/// or set anyShareOfWork.
bool isWorkWaived(const PlanOptions &options);

/// Operations of one op in a step if one device computed all of it.
int64_t wholeFlops(mlir::Operation *op);

/// A value that colocation groups `first` to `last` use or make.
struct Crossing {
  size_t maker, first, last;
  double bytes; ///< of one rank and step, each time it is sent
};

class Crossings {
public:
  explicit Crossings(size_t groups) : byMaker(groups) {}
  void add(const Crossing &crossing) {
    if (crossing.first < crossing.last)
      byMaker[crossing.maker].push_back(crossing);
  }
  /// For each begin < end the bytes that stage [begin, end) sends.
  /// O(crossings).
  std::vector<double> sentFrom(size_t end) const;

private:
  std::vector<std::vector<Crossing>> byMaker;
};

/// First and last group that uses or makes `value`, which `maker` makes.
template <typename GroupOf>
Crossing crossingOf(mlir::Value value, size_t maker, double bytes,
                    const GroupOf &groupOf) {
  Crossing crossing{maker, maker, maker, bytes};
  for (mlir::Operation *user : value.getUsers())
    if (auto found = groupOf.find(user); found != groupOf.end()) {
      crossing.first = std::min<size_t>(crossing.first, found->second);
      crossing.last = std::max<size_t>(crossing.last, found->second);
    }
  return crossing;
}

} // namespace kerf::plan

#endif // KERF_LIB_PLAN_MODEL_COLOCATIONGROUPS_H
