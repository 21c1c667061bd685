//===- Casts.h - casts that undo each other ---------------------*- C++ -*-===//
//
// Problem: a value is rounded for the way to another device and wide again
// behind it, or widened between two ops of 16 bits. Where nothing happens in
// between, neither cast is computed: lowering takes them away, and planning
// must know which values then never are in memory.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUSION_CASTS_H
#define KERF_FUSION_CASTS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace kerf {

/// Whether the op changes the type of floats and does nothing else.
bool isFloatCast(mlir::Operation *op);

/// What makes an operand, as seen from a cast behind it.
enum class Between {
  Barrier, ///< nothing to look through, not even a cast
  Maker,   ///< an op that computes something, perhaps a cast
  Move,    ///< elements in another order, from the first operand
  Nothing, ///< the same as the first operand
};

struct UndoneCast {
  mlir::Operation *first;                     ///< the cast that is undone
  llvm::SmallVector<mlir::Operation *> moves; ///< between the two, last first
};

/// The cast that `cast` undoes, so that what that one reads has the type of
/// `cast`, and no digit less: it widened, or rounded for the way alone and
/// nothing moves. `between` may put another operand in the
/// place of one that shows the same, behind casts that are known to be undone.
/// O(ops in between).
std::optional<UndoneCast>
findUndoneCast(mlir::Operation *cast,
               llvm::function_ref<Between(mlir::OpOperand *&)> between);

} // namespace kerf

#endif // KERF_FUSION_CASTS_H
