//===- GivenStep.cpp - the step that a given plan is of -------------------===//
#include "GivenStep.h"

#include "../Zero/ZeroParts.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Plan/Recompute.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
namespace json = llvm::json;

static bool isTrainingStep(func::FuncOp function) {
  return llvm::any_of(function.getOps<dist::AssignOp>(), [](dist::AssignOp op) {
    return dist::getPhase(op) == dist::Phase::Update;
  });
}

/// A plan is of a step that trains, or of inference.
static LogicalResult checkGoal(const json::Value &plan, func::FuncOp function,
                               std::string &message) {
  const json::Object *root = plan.getAsObject();
  std::optional<StringRef> goal = root ? root->getString("goal") : std::nullopt;
  bool trains = isTrainingStep(function);
  if (!goal || (*goal == "train") == trains)
    return success();
  message = trains ? "is a plan of inference, expected one of a step that "
                     "trains (option train plans one)"
                   : "is a plan of a step that trains, expected one of "
                     "inference (option train makes a step)";
  return failure();
}

/// Computes the blocks again that the plan names by a value in each.
static LogicalResult recomputeAsIn(const json::Value &plan,
                                   func::FuncOp function,
                                   std::string &message) {
  const json::Object *root = plan.getAsObject();
  const json::Value *list = root ? root->get("recompute") : nullptr;
  if (!list)
    return success();
  const json::Array *entries = list->getAsArray();
  if (!entries) {
    message = "recompute: is no list of blocks";
    return failure();
  }
  std::vector<std::string> firsts;
  for (const json::Value &entry : *entries) {
    const json::Object *block = entry.getAsObject();
    std::optional<StringRef> first =
        block ? block->getString("first") : std::nullopt;
    if (!first) {
      message = "recompute: a block has no value \"first\"";
      return failure();
    }
    firsts.push_back(first->str());
  }
  if (firsts.empty())
    return success();
  std::string unknown;
  FailureOr<std::vector<size_t>> blocks = blocksOf(function, firsts, unknown);
  if (failed(blocks)) {
    message = "recompute: no block of the model begins with '" + unknown + "'";
    return failure();
  }
  recomputeBlocks(function, *blocks);
  return success();
}

/// The plan's "zero", from 0 to 3; none: 0.
static FailureOr<Zero> zeroOf(const json::Value &plan, std::string &message) {
  const json::Object *root = plan.getAsObject();
  const json::Value *given = root ? root->get("zero") : nullptr;
  if (!given)
    return Zero::None;
  std::optional<int64_t> number = given->getAsInteger();
  if (number && *number >= 0 && *number < int64_t(std::size(kZeros)))
    return kZeros[*number];
  message = "zero: expected 0, 1, 2 or 3";
  return failure();
}

FailureOr<Zero> kerf::plan::makeStepOf(const json::Value &plan,
                                       func::FuncOp function,
                                       std::string &message) {
  if (failed(checkGoal(plan, function, message)))
    return failure();
  FailureOr<Zero> zero = zeroOf(plan, message);
  if (failed(zero))
    return failure();
  if (*zero != Zero::None && !isTrainingStep(function)) {
    message = "zero: expected 0, the plan is of inference, which has neither "
              "gradients nor states";
    return failure();
  }
  if (failed(recomputeAsIn(plan, function, message)))
    return failure();
  (void)roundInPrologue(function, *zero);
  return zero;
}
