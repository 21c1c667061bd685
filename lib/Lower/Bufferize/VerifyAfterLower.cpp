//===- VerifyAfterLower.cpp - what packaging relies on --------------------===//
#include "Lives.h"

#include "kerf/Lower/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_VERIFYAFTERLOWER
#include "kerf/Lower/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Entries of one kind are numbered 0, 1, ... without gaps.
static LogicalResult checkDense(ModuleOp module, StringRef what,
                                SmallVector<int64_t> indices) {
  llvm::sort(indices);
  for (auto [i, index] : llvm::enumerate(indices))
    if (index != static_cast<int64_t>(i))
      return module.emitError("numbers of ")
             << what << " are not 0 to " << indices.size() - 1;
  return success();
}

/// What is read as it is must not be dropped once the library has packed it;
/// parameters are those of the function's stage.
static LogicalResult checkParameters(ModuleOp module) {
  llvm::DenseMap<int64_t, exec::ParameterOp> parameters;
  for (auto parameter : module.getOps<exec::ParameterOp>())
    parameters[parameter.getIndex()] = parameter;
  for (auto function : module.getOps<exec::FuncOp>())
    for (auto param : function.getOps<exec::ParamOp>()) {
      exec::ParameterOp parameter = parameters.lookup(param.getIndex());
      if (!parameter)
        continue; // of a function by itself
      if (parameter.getLibraryOnly())
        return param.emitError("reads parameter ")
               << param.getIndex() << ", which is library_only";
      auto stages = parameter.getStages();
      if (stages && !llvm::is_contained(
                        *stages, static_cast<int64_t>(function.getStage())))
        return param.emitError("reads parameter ")
               << param.getIndex() << ", which stage " << function.getStage()
               << " does not hold";
    }
  return success();
}

/// No two outputs of a kernel share bytes: neither would be what it should.
static LogicalResult checkOutputs(exec::LaunchOp launch) {
  struct Bytes {
    Value base;
    int64_t begin, end;
  };
  SmallVector<Bytes> written;
  for (Value output : launch.getOutputs()) {
    Bytes own{output, 0, exec::sizeBytes(cast<MemRefType>(output.getType()))};
    while (auto view = own.base.getDefiningOp<exec::ViewOp>())
      own = {view.getSource(),
             own.begin + static_cast<int64_t>(view.getByteOffset()),
             own.end + static_cast<int64_t>(view.getByteOffset())};
    for (auto [number, other] : llvm::enumerate(written))
      if (other.base == own.base && other.begin < own.end &&
          own.begin < other.end)
        return launch.emitError("writes outputs ")
               << number << " and " << written.size() << " to the same bytes";
    written.push_back(own);
  }
  return success();
}

static LogicalResult verifyLowered(ModuleOp module) {
  SmallVector<int64_t> kernels, library, collectives, parameters;
  for (Operation &op : *module.getBody()) {
    if (!isa<exec::ExecDialect>(op.getDialect()))
      return op.emitError("is left after lowering: ") << op.getName();
    if (auto kernel = dyn_cast<exec::KernelOp>(op))
      kernels.push_back(kernel.getIndex());
    if (auto parameter = dyn_cast<exec::ParameterOp>(op))
      parameters.push_back(parameter.getIndex());
    auto function = dyn_cast<exec::FuncOp>(op);
    if (!function)
      continue;
    if (!function.getScratch())
      return function.emitError("has no planned scratch");
    for (Operation &call : function.getBody().front()) {
      if (auto launch = dyn_cast<exec::LaunchOp>(call);
          launch && failed(checkOutputs(launch)))
        return failure();
      if (auto entry = dyn_cast<exec::LibraryCallInterface>(call))
        library.push_back(entry.getIndex());
      if (auto entry = dyn_cast<exec::CollectiveOp>(call))
        collectives.push_back(entry.getIndex());
      if (auto entry = dyn_cast<exec::CollectiveStartOp>(call))
        collectives.push_back(entry.getIndex());
    }
    Lives lives(function);
    SmallVector<ArenaBuffer> buffers;
    ArenaPlan plan;
    plan.totalBytes = *function.getScratch();
    for (auto &[value, buffer] : lives.buffers) {
      buffers.push_back(buffer);
      plan.offsets.push_back(*value.getDefiningOp<exec::ArenaOp>().getOffset());
    }
    std::string wrong = checkArena(buffers, plan, exec::bufferAlignment);
    if (!wrong.empty())
      return function.emitError("") << wrong;
  }
  if (failed(checkDense(module, "kernels", kernels)) ||
      failed(checkDense(module, "library calls", library)) ||
      failed(checkDense(module, "collectives", collectives)) ||
      failed(checkDense(module, "parameters", parameters)) ||
      failed(checkParameters(module)))
    return failure();
  return success();
}

namespace {
struct VerifyAfterLower : kerf::impl::VerifyAfterLowerBase<VerifyAfterLower> {
  void runOnOperation() override {
    if (failed(verifyLowered(getOperation())))
      signalPassFailure();
  }
};
} // namespace
