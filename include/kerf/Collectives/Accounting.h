//===- Accounting.h - the bytes of a partitioned program --------*- C++ -*-===//
//
// Every collective and transfer of the final IR with the bytes that it moves:
// the `communication` section of plan.json. Computed from the ops that are
// executed, not from the planner's prediction; the runtime must count the same
// numbers.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_COLLECTIVES_ACCOUNTING_H
#define KERF_COLLECTIVES_ACCOUNTING_H

#include "kerf/Format/Collectives.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <string>
#include <vector>

namespace kerf {

struct CollectiveRecord {
  std::optional<CollectiveKind> kind; ///< none: a send on a channel
  std::string node;   ///< name in the location: the op whose value moves
  std::string tensor; ///< the same, until values have names of their own
  /// Values that are packed into the buffer, of which `tensor` is the first.
  int64_t numTensors = 1;
  /// As `kerf run` names them: "tp", "x:(1)2".
  std::vector<std::string> axes;
  int64_t stage = 0;       ///< of the sender, for a send
  int64_t groupSize = 1;   ///< 2 for a send
  int64_t numGroups = 1;   ///< groups (or pairs) that do the same at once
  int64_t bufferBytes = 0; ///< S of the cost model
  /// Of one group in one execution; exact.
  int64_t groupBytes = 0;
  /// Of the busiest rank of a group in one execution.
  int64_t bytesPerRank = 0;
  int64_t count = 1; ///< executions per step: micro-batches
  std::string phase = "forward";
  std::string purpose = "activation";
  double seconds = 0; ///< of one execution; set by addSeconds()

  /// "all_reduce", ..., or "send".
  llvm::StringRef op() const { return kind ? collectiveName(*kind) : "send"; }
};

struct CommunicationReport {
  std::vector<CollectiveRecord> collectives; ///< in program order
  /// The largest sum over collectives of any rank.
  int64_t bytesPerRank = 0;
  /// Sum over all ranks.
  int64_t totalBytes = 0;
  /// How `bytesPerRank` divides by axis and purpose; several axes are joined by
  /// "+".
  std::map<std::string, int64_t> byAxis, byPurpose;
};

/// `module` is partitioned (docs/Partition.md). Fails with an error on an op
/// whose axes are not in the mesh. Linear in the ops.
mlir::FailureOr<CommunicationReport>
accountCommunication(mlir::ModuleOp module);

/// The `communication` object of plan.json (schema kerf.plan/1).
llvm::json::Object toJson(const CommunicationReport &report);

/// Name of the op in a location: that of the innermost NameLoc, else empty.
std::string nodeName(mlir::Location loc);

} // namespace kerf

#endif // KERF_COLLECTIVES_ACCOUNTING_H
