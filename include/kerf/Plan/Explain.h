//===- Explain.h - what each choice of one op would cost --------*- C++ -*-===//
//
// Why is this op cut so? The answer of a search is a cost: that of the best
// plan in which the op is cut in another way. For each choice that the op has
// on the mesh of the plan found, all others are forbidden in its Problem, which
// is solved again; the cost, the bound and the memory are those of that search,
// never a local difference. What is kept of the plan is its candidate: mesh,
// number of stages and of micro-batches, ZeRO and recomputation. Where the
// stages are cut is decided anew for each choice.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_EXPLAIN_H
#define KERF_PLAN_EXPLAIN_H

#include "kerf/Plan/Plan.h"

namespace kerf::plan {

/// An op, by the name of its first result in plan.json; an input, by its own.
struct OpName {
  std::string name;
  std::string op;    ///< "nn.matmul"; "input"
  std::string phase; ///< of a training step; else empty
};

/// One way to cut the op, and the best plan in which it is cut so.
struct ExplainedChoice {
  /// Shardings of what it reads and of what it makes, as plan.json has them.
  std::vector<std::string> operands, results;
  bool isChosen = false; ///< by the plan found, whose figures these are then
  /// The result of a search in which the op has no other choice. Its cost is
  /// known unless it has a reason; its memory is predicted.
  CandidateSummary plan;
  /// Bytes that a device sends in a step to move what the op reads and makes. A
  /// move that several ops share counts in full for each of them.
  int64_t ownBytes = 0;
  /// If it is proven that no plan with this choice fits in memory: bytes that
  /// every such plan needs at least. 0: unknown.
  int64_t minMemory = 0;
};

struct Explanation {
  OpName op;
  std::vector<std::string> reads, makes; ///< names of values
  std::vector<OpName> alike;             ///< others of the same node
  std::vector<ExplainedChoice> choices;  ///< best first
};

/// Why `name` means no value of the function of `module`, which has no plan
/// yet; empty if it means one. Names are those of plan.json and of outputs. If
/// a node of the model became several ops, its name means the op that computes
/// most, and `NAME#1` the first. The number behind # is not checked here, since
/// planning adds ops.
std::string checkExplained(mlir::ModuleOp module, llvm::StringRef name);

} // namespace kerf::plan

#endif // KERF_PLAN_EXPLAIN_H
