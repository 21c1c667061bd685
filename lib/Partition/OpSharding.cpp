//===- OpSharding.cpp - the shardings of one op, checked ------------------===//
//
// Maps the axes of dimensions onto factors and compares the lists. Linear in
// the op's dimensions and axes.
//
//===----------------------------------------------------------------------===//
#include "kerf/Partition/OpSharding.h"

#include "kerf/Interfaces/AnyOp.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

int64_t kerf::getStage(Operation *op) { return findStage(op).value_or(0); }

int64_t kerf::getNumStages(const Mesh &mesh) {
  auto axis = mesh.find(kStageAxis);
  return axis ? mesh.axes[*axis].size : 1;
}

int64_t kerf::getVirtualStage(Operation *op, const Mesh &mesh) {
  return getChunk(op) * getNumStages(mesh) + getStage(op);
}

static FailureOr<SmallVector<Layout, 2>>
getLayouts(Operation *op, ArrayRef<ShardingAttr> shardings, TypeRange types,
           StringRef what, const Mesh &mesh) {
  if (shardings.size() != types.size()) {
    op->emitError() << "has no plan for its " << types.size() << ' ' << what;
    return failure();
  }
  SmallVector<Layout, 2> layouts;
  for (ShardingAttr sharding : shardings) {
    auto layout = sharding.toLayout(mesh);
    if (!layout) {
      op->emitError() << what << ": " << llvm::toString(layout.takeError());
      return failure();
    }
    layouts.push_back(std::move(*layout));
  }
  return layouts;
}

FailureOr<SmallVector<Layout, 2>> kerf::operandLayouts(Operation *op,
                                                       const Mesh &mesh) {
  return getLayouts(op, getOperandShardings(op), op->getOperandTypes(),
                    "operands", mesh);
}

FailureOr<SmallVector<Layout, 2>> kerf::resultLayouts(Operation *op,
                                                      const Mesh &mesh) {
  return getLayouts(op, getResultShardings(op), op->getResultTypes(), "results",
                    mesh);
}

ShardingAttr kerf::getSharding(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function =
        dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
    return function ? function.getArgAttrOfType<ShardingAttr>(
                          argument.getArgNumber(), kSharding)
                    : ShardingAttr();
  }
  auto result = cast<OpResult>(value);
  if (auto reshard = dyn_cast<ReshardOp>(result.getOwner()))
    return reshard.getTo();
  ArrayRef<ShardingAttr> shardings = getResultShardings(result.getOwner());
  return shardings.empty() ? ShardingAttr()
                           : shardings[result.getResultNumber()];
}

Layout kerf::getLayout(Value value, const Mesh &mesh) {
  return llvm::cantFail(getSharding(value).toLayout(mesh));
}

std::string kerf::checkPlanned(const Layout &layout, const Mesh &mesh,
                               ArrayRef<int64_t> shape) {
  auto isStage = [&](const AxisRef &ref) {
    return mesh.axes[ref.axis].name == kStageAxis;
  };
  auto isTime = [&](const AxisRef &ref) { return mesh.axes[ref.axis].isTime; };
  for (auto [dim, axes] : llvm::enumerate(layout.dims)) {
    if (llvm::any_of(axes, isStage))
      return "dimension " + std::to_string(dim) +
             " is cut by the stage axis \"pp\"";
    if (llvm::any_of(axes, isTime) && shape[dim] % numShards(axes) != 0)
      return "dimension " + std::to_string(dim) + " has size " +
             std::to_string(shape[dim]) + ", expected a multiple of " +
             std::to_string(numShards(axes)) +
             ": micro-batches and the devices that share each of them";
    if (llvm::any_of(axes, isTime) && layout.block(dim))
      return "dimension " + std::to_string(dim) + " has blocks of " +
             std::to_string(layout.block(dim)) +
             " but some of its axes are in time";
  }
  if (llvm::any_of(layout.partial, isStage))
    return "tensor is partial over the stage axis \"pp\"";
  if (layout.reduction != ReductionKind::Sum &&
      llvm::any_of(layout.partial, isTime))
    return "tensor is partial " +
           stringifyReductionKind(layout.reduction).str() +
           " over an axis in time, expected sum";
  return "";
}

Layout kerf::withoutTime(Layout layout, const Mesh &mesh) {
  auto isTime = [&](const AxisRef &ref) { return mesh.axes[ref.axis].isTime; };
  for (AxisList &axes : layout.dims)
    llvm::erase_if(axes, isTime);
  llvm::erase_if(layout.partial, isTime);
  layout.canonicalize();
  return layout;
}

bool kerf::variesOverTime(const Layout &layout, const Mesh &mesh) {
  return layout != withoutTime(layout, mesh);
}

bool kerf::runsOncePerStep(Operation *op) {
  return dist::runsOncePerStep(getPhase(op));
}

bool kerf::isTrainingStep(Block &main) {
  return llvm::any_of(main, [](Operation &op) {
    return isa<AccumulateOp>(op) || getPhase(&op) != Phase::Forward;
  });
}

namespace {

/// An error that is reported, or not.
class Verdict {
public:
  Verdict(Operation *op, bool quiet) {
    if (!quiet)
      diagnostic.emplace(op->emitError("plan: "));
  }
  template <typename T> Verdict &&operator<<(T &&part) && {
    if (diagnostic)
      *diagnostic << std::forward<T>(part);
    return std::move(*this);
  }
  operator LogicalResult() const { return failure(); }

private:
  std::optional<InFlightDiagnostic> diagnostic;
};

struct Analysis {
  Operation *op;
  const Mesh &mesh;
  bool quiet;
  OpSharding result;

  Verdict error() { return Verdict(op, quiet); }

  /// Puts the axes of a tensor's dimensions on the factors.
  LogicalResult mapTensor(const TensorFactors &factors, const Layout &layout,
                          RankedTensorType type, const Twine &what,
                          SmallVectorImpl<bool> &seen) {
    for (auto [dim, axes] : llvm::enumerate(layout.dims)) {
      ArrayRef<unsigned> list = factors[dim];
      if (list.empty()) {
        if (!axes.empty())
          return error() << what << ": dimension " << dim
                         << " must stay whole but is cut by "
                         << dist::toString(axes, mesh);
        continue;
      }
      const Factor &factor = result.rule.factors[list[0]];
      int64_t shards = numShards(axes);
      if (factor.kind == FactorKind::Replicated && shards > 1)
        return error() << what << ": dimension " << dim
                       << " must be replicated but is cut by "
                       << dist::toString(axes, mesh);
      // A block of the dimension must hold whole iterations of the major
      // factor.
      int64_t minor = 1;
      for (unsigned other : list.drop_front())
        minor *= result.rule.factors[other].size;
      int64_t size = type.getDimSize(dim);
      int64_t block = layout.localSize(dim, size);
      bool divides = factor.size % shards == 0;
      if (!divides &&
          (factor.mustDivide || (block % minor != 0 && !layout.block(dim))))
        return error() << what << ": dimension " << dim << " has a factor of "
                       << factor.size << ", not divisible by " << shards
                       << " parts";
      if (shards > 1 &&
          (block % minor != 0 || (factor.mustDivide && layout.block(dim))))
        return error() << what << ": dimension " << dim << " lies in blocks of "
                       << block << ", expected a multiple of " << minor
                       << (factor.mustDivide ? " that divides" : "");
      AxisList &known = result.factorAxes[list[0]];
      int64_t &knownBlock = result.factorBlocks[list[0]];
      if (seen[list[0]] && known != axes)
        return error() << what << ": dimension " << dim << " is cut by "
                       << dist::toString(axes, mesh) << ", expected "
                       << dist::toString(known, mesh)
                       << " as elsewhere in this op";
      if (seen[list[0]] && knownBlock != block / minor)
        return error() << what << ": dimension " << dim << " lies in blocks of "
                       << block << ", expected " << knownBlock * minor
                       << " as elsewhere in this op";
      known = axes;
      knownBlock = block / minor;
      seen[list[0]] = true;
      // Minor factors are not cut here, so they must not be cut anywhere.
      for (unsigned minor : list.drop_front()) {
        if (seen[minor] && !result.factorAxes[minor].empty())
          return error() << what << ": a minor part of dimension " << dim
                         << " is cut by "
                         << dist::toString(result.factorAxes[minor], mesh)
                         << " elsewhere in this op";
        seen[minor] = true;
      }
    }
    return success();
  }

  /// The axes over which the results must be partial.
  LogicalResult partialAxes(Layout &expected) {
    ReductionReach reach = getReductionReach(op);
    for (auto [number, factor] : llvm::enumerate(result.rule.factors)) {
      AxisList axes = result.factorAxes[number];
      if (factor.kind != FactorKind::Reduction || axes.empty() ||
          reach == ReductionReach::Device)
        continue;
      if (reach == ReductionReach::MicroBatch)
        llvm::erase_if(axes, [&](const AxisRef &ref) {
          return mesh.axes[ref.axis].isTime;
        });
      if (axes.empty())
        continue;
      for (const AxisRef &ref : axes)
        if (mesh.axes[ref.axis].isTime &&
            factor.reduction != ReductionKind::Sum)
          return error() << "a " << stringifyReductionKind(factor.reduction)
                         << " runs over axis \"" << mesh.axes[ref.axis].name
                         << "\", which is in time";
      if (!expected.partial.empty() && expected.reduction != factor.reduction)
        return error() << "cannot be partial with two reductions";
      expected.reduction = factor.reduction;
      expected.partial.append(axes);
    }
    SmallVector<unsigned> partialOperands;
    for (auto [number, layout] : llvm::enumerate(result.operands))
      if (layout.isPartial())
        partialOperands.push_back(number);
    if (partialOperands.empty())
      return success();
    for (unsigned operand : partialOperands) {
      const Layout &layout = result.operands[operand];
      if (layout.reduction != ReductionKind::Sum)
        return error() << "operand " << operand << " is partial "
                       << stringifyReductionKind(layout.reduction)
                       << ", expected it to be reduced first";
      if (layout.partial != result.operands[partialOperands[0]].partial)
        return error() << "operands " << partialOperands[0] << " and "
                       << operand << " are partial over different axes";
    }
    if (!llvm::is_contained(result.rule.linearGroups, partialOperands))
      return error() << "is not linear in the operands that are partial";
    if (!expected.partial.empty() && expected.reduction != ReductionKind::Sum)
      return error() << "cannot be partial with two reductions";
    expected.reduction = ReductionKind::Sum;
    expected.partial.append(result.operands[partialOperands[0]].partial);
    return success();
  }

  /// `sum {"a"}`, or `{}`.
  std::string partText(const Layout &layout) const {
    std::string axes = dist::toString(layout.partial, mesh);
    return layout.isPartial()
               ? (stringifyReductionKind(layout.reduction) + " " + axes).str()
               : axes;
  }

  LogicalResult run() {
    if (!capturedValues(op).empty())
      return error() << "has a region that uses values from outside, expected "
                        "them to be operands";
    result.rule = shardingRuleOf(op);
    if (failed(verifyShardingRule(op, result.rule)))
      return failure();
    auto operands = operandLayouts(op, mesh);
    if (failed(operands))
      return failure();
    auto results = resultLayouts(op, mesh);
    if (failed(results))
      return failure();
    result.operands = std::move(*operands);
    result.results = std::move(*results);
    result.factorAxes.resize(result.rule.factors.size());
    for (const Factor &factor : result.rule.factors)
      result.factorBlocks.push_back(factor.size);
    SmallVector<bool> seen(result.rule.factors.size(), false);
    auto check = [&](const TensorFactors &factors, const Layout &layout,
                     Type type, const Twine &what) -> LogicalResult {
      RankedTensorType tensor = plannedType(type);
      std::string text = checkPlanned(layout, mesh, tensor.getShape());
      if (!text.empty())
        return error() << what << ": " << text;
      return mapTensor(factors, layout, tensor, what, seen);
    };
    for (auto [number, layout] : llvm::enumerate(result.operands))
      if (failed(check(result.rule.operands[number], layout,
                       op->getOperand(number).getType(),
                       "operand " + Twine(number))))
        return failure();
    for (auto [number, layout] : llvm::enumerate(result.results))
      if (failed(check(result.rule.results[number], layout,
                       op->getResult(number).getType(),
                       "result " + Twine(number))))
        return failure();
    Layout expected;
    if (failed(partialAxes(expected)))
      return failure();
    AxisList all = expected.partial;
    for (auto [number, axes] : llvm::enumerate(result.factorAxes))
      if (result.rule.factors[number].kind != FactorKind::Reduction)
        all.append(axes);
    if (std::string text = checkAxes(all, mesh); !text.empty())
      return error() << text << " by two factors";
    expected.canonicalize();
    for (auto [number, layout] : llvm::enumerate(result.results))
      if (layout.partial != expected.partial ||
          (layout.isPartial() && layout.reduction != expected.reduction))
        return error() << "result " << number << " is partial "
                       << partText(layout) << ", expected "
                       << partText(expected);
    return success();
  }
};

} // namespace

FailureOr<OpSharding> kerf::analyzeOp(Operation *op, const Mesh &mesh) {
  Analysis analysis{op, mesh, /*quiet=*/false, {}};
  if (failed(analysis.run()))
    return failure();
  return std::move(analysis.result);
}

bool kerf::isConsistent(Operation *op, const Mesh &mesh) {
  return succeeded(Analysis{op, mesh, /*quiet=*/true, {}}.run());
}
