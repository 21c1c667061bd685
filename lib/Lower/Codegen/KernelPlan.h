//===- KernelPlan.h - loops of a fused kernel -------------------*- C++ -*-===//
//
// Problem: choose the loops of a kernel so that every element is read at an
// index that is linear in the loop variables, and find out whether the group of
// ops can be one kernel at all.
//
// Idea: start with one flat loop over the output (or over rows, and one over
// the elements of a row), walk the ops backwards with symbolic indices, and
// split a loop wherever the walk has to divide its variable. Repeat until no
// loop needs splitting. These are the fewest loops that the accesses allow, so
// contiguous dimensions stay one long loop.
//
// Invariant: `space` knows the range of every atom; for every output,
// `outputIndex` covers its elements once when all loops run. A few walks over
// the group, each linear in its ops.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_KERNELPLAN_H
#define KERF_LOWER_CODEGEN_KERNELPLAN_H

#include "IndexMaps.h"

#include "kerf/Lower/Codegen.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <set>

namespace kerf::codegen {

/// One loop; `stride` is its weight in the flat index.
struct LoopVar {
  AtomId atom;
  int64_t size, stride;
};

/// A flat range as nested loops, outermost first.
struct Flat {
  int64_t size = 1;
  llvm::SmallVector<LoopVar, 4> vars;
  Index index; ///< sum of atom * stride
  AtomId last() const { return vars.back().atom; }
};

/// A value at an index that does not change in the innermost loop.
struct Hoist {
  mlir::Value value;
  IndexVec index;
};

struct KernelPlan {
  bool supported = false;
  std::string reason;
  KernelForm form = KernelForm::Elementwise;

  llvm::SetVector<mlir::Operation *> ops;
  llvm::SetVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Value> outputs;

  IndexSpace space;
  /// Elements of the outputs, or rows.
  Flat outer;
  /// Row kernels: the loops over a row, by its number of elements.
  llvm::MapVector<int64_t, Flat> inner;
  llvm::SmallVector<mlir::Operation *> rowOps;
  /// Vectors run over the innermost loop of `outer` (always, unless rows are
  /// contiguous), or of `inner`.
  bool lanesOuter = true;
  std::vector<IndexVec> outputIndex;
  /// Row kernels: one element per element of the row, not one per row.
  llvm::SmallVector<bool> outputIsFull;

  /// Where the range of a vectorised loop must be cut so that every guard is
  /// constant within each part.
  std::map<AtomId, std::set<int64_t>> cuts;
  std::vector<Hoist> hoists;
  /// Flat indices at which each input is read.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Index, 2>> accesses;
  /// Reads that no guard can forbid: they may be done ahead of their use.
  std::vector<std::pair<mlir::Value, Index>> freeAccesses;
  bool canFail = false;
  /// Floating-point operations and bytes of the whole kernel.
  int64_t work = 0;

  /// Whether each element of the input is read only where it is written.
  bool mayShare(unsigned input, unsigned output);
  /// Whether vectors run over this atom.
  bool isVectorAtom(AtomId atom) const;
  /// The atoms of loops over rows' elements.
  llvm::SmallVector<AtomId> innerAtoms() const;
};

/// Plans the group; `outputs` empty: results used outside of it. Never fails,
/// see `supported`.
KernelPlan planKernel(llvm::ArrayRef<mlir::Operation *> ops,
                      llvm::ArrayRef<mlir::Value> outputs = {});

/// The index of a Row op's operand 0 at the current row and element.
IndexVec rowOperandIndex(mlir::Operation *op, KernelPlan &plan);

/// Whether the value is known not to be 0, as a divisor of integers.
bool isNonZeroConstant(mlir::Value value);

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_KERNELPLAN_H
