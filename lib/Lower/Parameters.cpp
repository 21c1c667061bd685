//===- Parameters.cpp - the parameters of a package -----------------------===//
//
// See Parameters.h.
//
//===----------------------------------------------------------------------===//
#include "Parameters.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/NN/NN.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kerf;

/// Null for a sharding that cuts nothing.
static dist::ShardingAttr shardingOf(Operation *op) {
  auto sharding = op->getAttrOfType<dist::ShardingAttr>(dist::kSharding);
  bool cuts = sharding && (!sharding.getBlocks().empty() ||
                           llvm::any_of(sharding.getDims(), [](auto axes) {
                             return !axes.getAxes().empty();
                           }));
  return cuts ? sharding : dist::ShardingAttr();
}

bool kerf::isMutableSource(Operation *op) {
  auto source = dyn_cast_or_null<SourceOpInterface>(op);
  return source && source.isMutable();
}

std::string kerf::mutableIdentity(Operation *op) {
  std::string identity =
      cast<SourceOpInterface>(op).getSourceName().str() + "[";
  if (auto weight = dyn_cast<nn::WeightOp>(op);
      weight && weight.getStartsAttr())
    for (int64_t start : weight.getStartsAttr().asArrayRef())
      identity += std::to_string(start) + ",";
  return identity;
}

static MemRefType bufferType(RankedTensorType type) {
  return MemRefType::get(type.getShape(), type.getElementType());
}

int64_t ParameterTable::get(Operation *op, int64_t stage, bool libraryOnly,
                            bool inInit) {
  MLIRContext *context = op->getContext();
  auto local = cast<RankedTensorType>(op->getResult(0).getType());
  Parameter parameter(op->getLoc(), bufferType(local));
  if (auto attr = op->getAttrOfType<TypeAttr>(dist::kGlobalType);
      attr && attr.getValue() != local)
    parameter.global = attr;
  parameter.sharding = shardingOf(op);
  auto weight = dyn_cast<nn::WeightOp>(op);
  if (weight) {
    parameter.name = weight.getName().str();
    parameter.source = exec::FileRangeAttr::get(
        context, weight.getFile(), weight.getOffset(), weight.getLength(),
        cast<RankedTensorType>(weight.getStored()));
    if (weight.getStarts()) {
      parameter.starts = weight.getStartsAttr();
      SmallVector<std::string> starts;
      for (int64_t start : weight.getStartsAttr().asArrayRef())
        starts.push_back(std::to_string(start));
      parameter.name += "[" + llvm::join(starts, ",") + "]";
      parameter.tensor = weight.getNameAttr();
    }
  } else if (auto state = dyn_cast<nn::StateOp>(op)) {
    parameter.name = state.getName().str();
    parameter.source = state.getInit();
  } else {
    auto constant = cast<nn::ConstantOp>(op);
    DenseElementsAttr elements = constant.getElements();
    parameter.name = constant.getName().value_or("").str();
    parameter.source = elements;
    if (elements.isSplat())
      parameter.source = elements.getSplatValue<Attribute>();
  }
  auto orUnit = [&](Attribute attribute) {
    return attribute ? attribute : UnitAttr::get(context);
  };
  Attribute key = ArrayAttr::get(
      context, {TypeAttr::get(parameter.type), orUnit(parameter.global),
                orUnit(parameter.starts), orUnit(parameter.sharding),
                parameter.source, StringAttr::get(context, parameter.name)});
  if (isMutableSource(op)) {
    parameter.isMutable = true;
    libraryOnly = false;
    Attribute &known = mutableContent[mutableIdentity(op)];
    if (known && known != key) {
      failed = true;
      op->emitError("mutable source \"")
          << parameter.name << "\" is used in two shapes or shardings";
    }
    known = key;
  }
  auto [it, added] = byContent.insert({key, parameters.size()});
  if (added) {
    if (parameter.name.empty())
      parameter.name = "constant_" + std::to_string(numConstants++);
    parameters.push_back(std::move(parameter));
  }
  Parameter &known = parameters[it->second];
  known.stages.insert(stage);
  known.libraryOnly &= libraryOnly;
  known.initOnly &= inInit && !isMutableSource(op);
  if (!inInit) {
    known.stepsOf.insert(stage);
    known.isPackedBySteps &= libraryOnly;
  } else if (!libraryOnly) {
    known.readAtLoad.insert(stage);
  }
  return it->second;
}

int64_t ParameterTable::addDerived(StringRef name, RankedTensorType type,
                                   int64_t stage) {
  Parameter parameter(module.getLoc(), bufferType(type));
  parameter.name = name.str();
  parameter.source = exec::DerivedAttr::get(module.getContext());
  parameter.stages = {stage};
  parameter.initOnly = false;
  parameters.push_back(std::move(parameter));
  return parameters.size() - 1;
}

void ParameterTable::use(int64_t index, bool libraryOnly) {
  parameters[index].libraryOnly &= libraryOnly;
}

void ParameterTable::separateInits() {
  llvm::DenseMap<std::pair<int64_t, int64_t>, int64_t> numberAtLoad;
  for (int64_t index = 0, end = parameters.size(); index < end; ++index) {
    Parameter &parameter = parameters[index];
    if (parameter.isMutable || parameter.stepsOf.empty() ||
        parameter.stepsOf.size() == parameter.stages.size())
      continue;
    Parameter atLoad = parameter;
    for (int64_t stage : parameter.stepsOf)
      atLoad.stages.erase(stage);
    atLoad.initOnly = true;
    atLoad.libraryOnly = false;
    for (int64_t stage : atLoad.stages)
      numberAtLoad[{index, stage}] = static_cast<int64_t>(parameters.size());
    parameter.stages = parameter.stepsOf;
    parameter.libraryOnly =
        parameter.isPackedBySteps &&
        llvm::none_of(parameter.stepsOf, [&](int64_t stage) {
          return parameter.readAtLoad.count(stage);
        });
    parameters.push_back(std::move(atLoad));
  }
  for (auto function : module.getOps<exec::FuncOp>())
    function.walk([&](exec::ParamOp use) {
      auto number =
          numberAtLoad.find({static_cast<int64_t>(use.getIndex()),
                             static_cast<int64_t>(function.getStage())});
      if (number != numberAtLoad.end())
        use.setIndex(number->second);
    });
}

void ParameterTable::emit(OpBuilder &builder, int64_t numStages) {
  auto mark = [&](bool set) {
    return set ? builder.getUnitAttr() : UnitAttr();
  };
  for (auto [index, parameter] : llvm::enumerate(parameters)) {
    DenseI64ArrayAttr stages;
    if (static_cast<int64_t>(parameter.stages.size()) < numStages ||
        isa<exec::DerivedAttr>(parameter.source))
      stages = builder.getDenseI64ArrayAttr(SmallVector<int64_t>(
          parameter.stages.begin(), parameter.stages.end()));
    exec::ParameterOp::create(
        builder, parameter.loc, builder.getI64IntegerAttr(index),
        builder.getStringAttr(parameter.name), TypeAttr::get(parameter.type),
        parameter.source, parameter.tensor, parameter.global, parameter.starts,
        parameter.sharding, stages, mark(parameter.libraryOnly),
        mark(!parameter.libraryOnly && parameter.initOnly),
        mark(parameter.isMutable));
  }
}
