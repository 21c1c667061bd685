//===- Offers.h - what a product could do beside ----------------*- C++ -*-===//
#ifndef KERF_LIB_LOWER_OFFERS_H
#define KERF_LIB_LOWER_OFFERS_H

#include "Recompute.h"

namespace kerf {

/// The units of a function and what comes before what.
struct UnitGraph {
  UnitMap map;
  llvm::ArrayRef<int64_t> live; ///< of the units, those that are not empty
  llvm::SmallVectorImpl<llvm::SmallVector<int64_t>> &successors;
  llvm::SmallVectorImpl<int64_t> &waiting; ///< how many come before each

  /// Whether a path leads from a unit to another of a set.
  bool isReachable(int64_t from, const llvm::DenseSet<int64_t> &to) const;
  void addEdge(int64_t from, int64_t to) const {
    successors[from].push_back(to);
    ++waiting[to];
  }
};

/// For GPUs: notes on products which sums of a kernel their library could write
/// as well (Unit::offer), and adds to the graph that what reads these sums
/// comes behind both; see Offers.cpp.
void offerSums(const UnitGraph &graph,
               llvm::ArrayRef<Destination> destinations);

/// For GPUs: notes on products whose result a kernel keeps where that of a
/// product with ReLU is positive that their library could do it (Unit::mask);
/// see Masks.cpp.
void offerMasks(const UnitGraph &graph,
                llvm::ArrayRef<Destination> destinations);

/// A change of precision that keeps the range: none to or from float16.
bool isRounding(mlir::Operation *op);

} // namespace kerf

#endif // KERF_LIB_LOWER_OFFERS_H
