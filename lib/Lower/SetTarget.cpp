//===- SetTarget.cpp - sets the target of a module ------------------------===//
#include "kerf/Lower/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_SETTARGET
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
struct SetTarget : kerf::impl::SetTargetBase<SetTarget> {
  using SetTargetBase::SetTargetBase;

  void runOnOperation() override {
    getOperation()->setAttr(exec::TargetAttr::kName,
                            exec::TargetAttr::get(&getContext(), device));
  }
};
} // namespace
