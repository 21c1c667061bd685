//===- Ranks.h - ranks of a stage in lockstep -------------------*- C++ -*-===//
#ifndef KERF_LIB_INTERPRET_RANKS_H
#define KERF_LIB_INTERPRET_RANKS_H

#include "Evaluate.h"

#include "kerf/Dist/Dist.h"

namespace kerf::interpret {

/// One tensor per rank of a stage, in the order of the ranks.
using PerRank = std::vector<Tensor>;

/// The content of padding: NaN, or a number that is out of range for every
/// index.
double poison(mlir::Type elementType);

/// A rank's part of `whole` under `layout`; `padding` past the end.
Tensor cutPart(const Tensor &whole, const dist::Layout &layout,
               const dist::Mesh &mesh, llvm::ArrayRef<int64_t> coordinates,
               double padding);

/// All ranks of one stage, which run the same functions. Ops are evaluated for
/// all ranks before the next op, so collectives see every rank's operand.
class StageRanks {
public:
  StageRanks(const dist::Mesh &mesh, int64_t stage);

  size_t size() const { return ranks.size(); }
  llvm::SmallVector<int64_t, 4> coordinates(size_t rank,
                                            int64_t microBatch) const {
    return mesh.coordinates(ranks[rank], microBatch);
  }
  /// Runs `function` on local tensors. Later functions see the values that it
  /// assigns.
  mlir::FailureOr<std::vector<PerRank>>
  run(mlir::func::FuncOp function, std::vector<PerRank> arguments,
      int64_t microBatch, const Weights &weights, RankStates *states,
      const Observer &observer, const Evaluator &others) const;

private:
  mlir::FailureOr<PerRank> evaluateDist(mlir::Operation *op,
                                        const PerRank *source,
                                        int64_t microBatch) const;
  mlir::FailureOr<PerRank> evaluateSource(mlir::Operation *op,
                                          const Weights &weights,
                                          const RankStates *states) const;
  /// Members (indices into `ranks`) of each group, by position.
  std::vector<std::vector<size_t>>
  groups(llvm::ArrayRef<dist::AxisRef> axes) const;

  const dist::Mesh &mesh;
  std::vector<int64_t> ranks;
};

} // namespace kerf::interpret

#endif // KERF_LIB_INTERPRET_RANKS_H
