//===- Ranks.cpp - ranks of a stage in lockstep ---------------------------===//
//
// Collectives as docs/Package.md defines them, one element at a time, from the
// properties of their kinds; only padding is poisoned where a package would
// have zeros.
//
//===----------------------------------------------------------------------===//
#include "Ranks.h"

#include "kerf/Interfaces/AnyOp.h"
#include "kerf/NN/NN.h"

#include <cmath>
#include <limits>
#include <map>

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
using namespace kerf::interpret;

double kerf::interpret::poison(Type elementType) {
  if (isa<FloatType>(elementType))
    return std::numeric_limits<double>::quiet_NaN();
  return elementType.isInteger(1) ? 1 : 4e15;
}

Tensor kerf::interpret::cutPart(const Tensor &whole, const Layout &layout,
                                const Mesh &mesh, ArrayRef<int64_t> coordinates,
                                double padding) {
  Tensor part(layout.localShape(whole.shape), padding);
  size_t next = 0;
  forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
    Index global(index);
    for (size_t d = 0; d < index.size(); ++d)
      global[d] +=
          linearIndex(mesh, layout.dims[d], coordinates) * part.shape[d];
    if (whole.contains(global))
      part.data[next] = whole.at(global);
    ++next;
  });
  return part;
}

StageRanks::StageRanks(const Mesh &mesh, int64_t stage) : mesh(mesh) {
  auto axis = mesh.find(kStageAxis);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
    if (!axis || mesh.coordinates(rank)[*axis] == stage)
      ranks.push_back(rank);
}

std::vector<std::vector<size_t>>
StageRanks::groups(ArrayRef<AxisRef> axes) const {
  std::map<std::vector<int64_t>, std::vector<size_t>> byRest;
  for (size_t member = 0; member < ranks.size(); ++member) {
    auto at = mesh.coordinates(ranks[member]);
    // The coordinates without the group's digits identify the group.
    std::vector<int64_t> rest(at.begin(), at.end());
    for (const AxisRef &ref : axes) {
      int64_t weight = mesh.axes[ref.axis].size / (ref.preSize * ref.size);
      rest[ref.axis] -= at[ref.axis] / weight % ref.size * weight;
    }
    auto &group = byRest[rest];
    group.resize(numShards(axes));
    group[linearIndex(mesh, axes, at)] = member;
  }
  std::vector<std::vector<size_t>> result;
  for (auto &[rest, group] : byRest)
    result.push_back(std::move(group));
  return result;
}

static double combine(ReductionKind kind, double a, double b) {
  switch (kind) {
  case ReductionKind::Sum:
    return a + b;
  case ReductionKind::Max:
    return std::isnan(a) || a > b ? a : b;
  case ReductionKind::Min:
    return std::isnan(a) || a < b ? a : b;
  case ReductionKind::Prod:
    return a * b;
  }
  llvm_unreachable("bad ReductionKind");
}

namespace {

/// One member's view of its group while an op is evaluated.
struct Group {
  const PerRank &source;
  const std::vector<size_t> &members;
  size_t position;
  double padding;

  double read(size_t from, ArrayRef<int64_t> index) const {
    const Tensor &tensor = source[members[from]];
    return tensor.contains(index) ? tensor.at(index) : padding;
  }
  double reduce(ReductionKind kind, ArrayRef<int64_t> index) const {
    double value = read(0, index);
    for (size_t from = 1; from < members.size(); ++from)
      value = combine(kind, value, read(from, index));
    return value;
  }
  int64_t sizeOf(size_t dim) const { return source[members[0]].shape[dim]; }
};

/// Element `index` of the member's result, by the properties of the kind
/// (Format/Collectives.h).
double element(CollectiveOpInterface op, const Group &group,
               ArrayRef<int64_t> result, Index index) {
  CollectiveKind kind = op.getKind();
  CollectiveArguments arguments = op.getArguments();
  size_t from = group.position;
  if (joins(kind)) {
    int64_t dim = arguments.joinedDim(kind);
    from = index[dim] / group.sizeOf(dim);
    index[dim] %= group.sizeOf(dim);
  }
  if (cuts(kind)) {
    int64_t dim = arguments.cutDim(kind);
    index[dim] += group.position * result[dim];
  }
  if (reduces(kind))
    return group.reduce(arguments.reduction.getValue(), index);
  if (hasRoot(kind))
    from = arguments.root.getInt();
  if (hasPairs(kind)) {
    ArrayRef<int64_t> pairs = arguments.pairs;
    size_t i = 0;
    while (i < pairs.size() &&
           pairs[i + 1] != static_cast<int64_t>(group.position))
      i += 2;
    if (i == pairs.size())
      return 0;
    from = pairs[i];
  }
  return group.read(from, index);
}

} // namespace

FailureOr<PerRank> StageRanks::evaluateDist(Operation *op,
                                            const PerRank *source,
                                            int64_t microBatch) const {
  if (isa<WaitOp>(op))
    return *source;
  RankedTensorType type = tensorOf(op->getResult(0).getType());
  double padding = poison(type.getElementType());
  PerRank results(ranks.size(), Tensor(type.getShape()));
  if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
    AxisList axes = llvm::cantFail(toAxisList(collective.getGroup(), mesh));
    for (const std::vector<size_t> &members : groups(axes))
      for (size_t position = 0; position < members.size(); ++position) {
        Group group{*source, members, position, padding};
        Tensor &result = results[members[position]];
        size_t next = 0;
        forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
          result.data[next++] =
              element(collective, group, result.shape, Index(index));
        });
      }
    return results;
  }
  for (size_t member = 0; member < ranks.size(); ++member) {
    auto at = coordinates(member, microBatch);
    Tensor &result = results[member];
    auto position = [&](AxesAttr axes) {
      return linearIndex(mesh, llvm::cantFail(toAxisList(axes, mesh)), at);
    };
    size_t next = 0;
    if (auto index = dyn_cast<ShardIndexOp>(op)) {
      result.data[0] = static_cast<double>(
          position(index.getAxes()) * static_cast<int64_t>(index.getScale()));
    } else if (auto slice = dyn_cast<AllSliceOp>(op)) {
      int64_t start = position(slice.getAxes()) * result.shape[slice.getDim()];
      forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
        Index from(index);
        from[slice.getDim()] += start;
        const Tensor &x = (*source)[member];
        result.data[next++] = x.contains(from) ? x.at(from) : padding;
      });
    } else if (auto mask = dyn_cast<MaskOp>(op)) {
      int64_t start = position(mask.getAxes()) * result.shape[mask.getDim()];
      double fill = 0;
      if (auto number = dyn_cast<FloatAttr>(mask.getFill()))
        fill = number.getValueAsDouble();
      else
        fill = static_cast<double>(cast<IntegerAttr>(mask.getFill()).getInt());
      forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
        bool valid =
            start + index[mask.getDim()] < static_cast<int64_t>(mask.getSize());
        result.data[next++] = valid ? (*source)[member].at(index) : fill;
      });
    } else {
      return op->emitError("interpreter: '")
             << op->getName() << "' is not known";
    }
  }
  return results;
}

/// Weights are cut from the whole, padded with zeros as packages are.
FailureOr<PerRank> StageRanks::evaluateSource(Operation *op,
                                              const Weights &weights,
                                              const RankStates *states) const {
  auto source = cast<SourceOpInterface>(op);
  auto sharding = op->getAttrOfType<ShardingAttr>(kSharding);
  std::string key = states && source.isMutable() ? sourceKey(op) : "";
  std::optional<Tensor> whole;
  PerRank results;
  for (size_t member = 0; member < ranks.size(); ++member) {
    if (!key.empty()) {
      const auto &owned = states->ranks[ranks[member]];
      if (auto found = owned.find(key); found != owned.end()) {
        results.push_back(found->second.part);
        continue;
      }
    }
    if (!whole) {
      auto first = firstValue(op, weights);
      if (failed(first))
        return failure();
      whole = std::move(*first);
    }
    if (isa<nn::WeightOp, nn::StateOp>(op) && sharding)
      results.push_back(cutPart(*whole, llvm::cantFail(sharding.toLayout(mesh)),
                                mesh, coordinates(member, 0), 0));
    else
      results.push_back(*whole);
  }
  return results;
}

FailureOr<State> RankStates::join(ModuleOp module) const {
  Mesh mesh = getMesh(module).toMesh();
  State whole;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const auto &[key, placed] : ranks[rank]) {
      auto type = cast<RankedTensorType>(placed.globalType);
      Layout layout =
          llvm::cantFail(cast<ShardingAttr>(placed.sharding).toLayout(mesh));
      Tensor &global =
          whole.insert({key, Tensor(type.getShape(), NAN)}).first->second;
      auto at = mesh.coordinates(static_cast<int64_t>(rank), 0);
      bool same = true, padded = true;
      const Tensor &local = placed.part;
      forEachIndex(local.shape, [&](ArrayRef<int64_t> index) {
        Index place(index);
        for (size_t d = 0; d < index.size(); ++d)
          place[d] += linearIndex(mesh, layout.dims[d], at) * local.shape[d];
        double part = local.at(index);
        if (!global.contains(place)) {
          padded &= part == 0;
          return;
        }
        double &value = global.at(place);
        same &= std::isnan(value) || value == part;
        value = part;
      });
      if (!same)
        return module.emitError("interpreter: ranks hold different bits of ")
               << key;
      if (!padded)
        return module.emitError("interpreter: padding of ")
               << key << " is not zero";
    }
  return whole;
}

/// Packing and unpacking are copies of the elements in order.
static void repack(Operation *op, llvm::DenseMap<Value, PerRank> &values) {
  size_t ranks = values[op->getOperand(0)].size();
  for (Value result : op->getResults())
    values[result].assign(
        ranks, Tensor(cast<RankedTensorType>(result.getType()).getShape()));
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<double> all;
    for (Value operand : op->getOperands())
      llvm::append_range(all, values[operand][rank].data);
    auto next = all.begin();
    for (Value result : op->getResults())
      for (double &value : values[result][rank].data)
        value = *next++;
  }
}

FailureOr<std::vector<PerRank>>
StageRanks::run(func::FuncOp function, std::vector<PerRank> arguments,
                int64_t microBatch, const Weights &weights, RankStates *states,
                const Observer &observer, const Evaluator &others) const {
  llvm::DenseMap<Value, PerRank> values;
  for (auto [value, argument] :
       llvm::zip_equal(function.getArguments(), arguments))
    values[value] = std::move(argument);
  Block &block = function.getBody().front();
  for (Operation &op : block.without_terminator()) {
    if (isa<PackOp, UnpackOp>(op)) {
      repack(&op, values);
    } else if (isa<AssignOp>(op)) {
      continue; // below, when all ops have read the old value
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      PerRank sum = values[accumulate.getInto()];
      for (auto [total, x] : llvm::zip(sum, values[accumulate.getX()]))
        for (auto [a, b] : llvm::zip(total.data, x.data))
          a += b;
      values[accumulate.getResult()] = std::move(sum);
    } else if ((isa<SourceOpInterface>(op) && !others) ||
               isa_and_nonnull<DistDialect>(op.getDialect())) {
      const PerRank *source =
          op.getNumOperands() ? &values[op.getOperand(0)] : nullptr;
      auto results = isa<SourceOpInterface>(op)
                         ? evaluateSource(&op, weights, states)
                         : evaluateDist(&op, source, microBatch);
      if (failed(results))
        return failure();
      if (observer)
        observer(&op, *results);
      values[op.getResult(0)] = std::move(*results);
    } else {
      std::vector<PerRank> results(op.getNumResults());
      for (size_t member = 0; member < ranks.size(); ++member) {
        llvm::SmallVector<const Tensor *> operands;
        for (Value operand : op.getOperands())
          operands.push_back(&values[operand][member]);
        for (Value captured : capturedValues(&op))
          operands.push_back(&values[captured][member]);
        auto one = others ? others(&op, operands) : evaluate(&op, operands);
        if (failed(one))
          return failure();
        for (auto [all, mine] : llvm::zip(results, *one))
          all.push_back(std::move(mine));
      }
      for (auto [value, all] : llvm::zip(op.getResults(), results))
        values[value] = std::move(all);
    }
  }
  for (auto assign : block.getOps<AssignOp>()) {
    Operation *source = assign.getSource().getDefiningOp();
    if (!states)
      return assign.emitError("interpreter: needs states to assign to");
    for (size_t member = 0; member < ranks.size(); ++member)
      states->ranks[ranks[member]][sourceKey(source)] = {
          source->getAttr(kSharding),
          source->getAttrOfType<TypeAttr>(kGlobalType).getValue(),
          values[assign.getValue()][member]};
  }
  std::vector<PerRank> outputs;
  for (Value value : block.getTerminator()->getOperands())
    outputs.push_back(values[value]);
  return outputs;
}
