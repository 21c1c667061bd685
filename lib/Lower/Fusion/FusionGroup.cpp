//===- FusionGroup.cpp - which ops become one kernel; see FusionGroup.h ---===//
#include "FusionGroup.h"

#include "../Library/Strides.h"
#include "../OpKinds.h"
#include "../Parameters.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;

static bool isTensorOp(Operation *op) {
  return isa<nn::NNDialect>(op->getDialect());
}

namespace {
/// Exact answers, on local tensors.
class LocalAnswers : public FusionQuestions {
public:
  /// `map`: groups that are already formed, with shape ops inside kernels.
  explicit LocalAnswers(const FusionGroups *map = nullptr) : map(map) {}

  Role roleOf(Operation *op) const override {
    if (op->hasTrait<OpTrait::IsTerminator>() ||
        isa<SourceOpInterface, exec::EmptyOp>(op))
      return Role::None;
    return isTensorOp(op) && !isAlias(op) ? Role::Kernel : Role::Alone;
  }

  bool isDead(Operation *op) const override {
    return isTensorOp(op) && op->use_empty();
  }

  /// The op moves elements or is a small constant, and its only user is in a
  /// kernel.
  bool follows(Operation *op) const override {
    if (!(isShapeOp(op) || isInline(op)) || !op->getResult(0).hasOneUse())
      return false;
    Operation *user = *op->user_begin();
    if (!isTensorOp(user) || (isAtLoad(user) != isAtLoad(op) && !isInline(op)))
      return false;
    // A parameter's part of a bucket of gradients is a view: with its offset in
    // the code, no two updates would be equal kernels.
    return !isa<nn::SliceOp>(op) || !isAlias(op) || isAtLoad(op) ||
           !isReadByUpdate(op);
  }

  bool isAtLoad(Operation *op) const override {
    return op->hasAttr(exec::kAtLoad) ||
           (isa<SourceOpInterface>(op) && !isMutableSource(op));
  }

  bool isCommunication(Operation *op) const override {
    return isa<dist::CollectiveOpInterface, dist::WaitOp>(op);
  }

  bool isOfUpdate(Operation *op) const override {
    return dist::getPhase(op) == dist::Phase::Update;
  }

  std::string whyNoKernel(ArrayRef<Operation *> ops) const override {
    KernelVerdict verdict = classifyKernel(ops);
    return verdict.supported ? std::string() : verdict.reason;
  }

  /// A constant is not computed.
  bool canStay(Operation *op) const override { return !isInline(op); }

  bool canFuse(ArrayRef<Operation *> ops) const override {
    return kerf::canFuse(ops);
  }

  Value memoryOf(Value value) const override {
    while (Operation *def = value.getDefiningOp()) {
      int64_t group = map->find(def);
      if (group < 0 || map->groups[group].isKernel || !isAlias(def))
        break;
      value = def->getOperand(0);
    }
    return value;
  }

  int64_t bytesOf(Value memory) const override {
    return exec::sizeBytes(dist::tensorOf(memory.getType()));
  }

private:
  const FusionGroups *map;
};
} // namespace

FailureOr<FusionGroups> kerf::formLocalGroups(Block &block) {
  return formFusionGroups(block, LocalAnswers());
}

SmallVector<int64_t> kerf::localOrderOf(const FusionGroups &map) {
  return orderOf(map, LocalAnswers(&map));
}
