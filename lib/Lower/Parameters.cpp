//===- Parameters.cpp - the parameters of a package -----------------------===//
//
// See Parameters.h.
//
//===----------------------------------------------------------------------===//
#include "Parameters.h"

#include "Dict.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/NN/NN.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kerf;

ArrayAttr kerf::axesEntry(MLIRContext *context, Attribute axes) {
  SmallVector<Attribute> list;
  for (dist::AxisAttr axis : cast<dist::AxesAttr>(axes).getAxes()) {
    Dict entry(context);
    entry.set("axis", axis.getName());
    if (!axis.isWhole())
      entry.set("pre_size", axis.getPreSize()).set("size", axis.getSize());
    list.push_back(entry.get());
  }
  return ArrayAttr::get(context, list);
}

ArrayAttr kerf::shardingEntry(Operation *op, Attribute attr, int64_t rank) {
  MLIRContext *context = op->getContext();
  SmallVector<Attribute> dims(rank, ArrayAttr::get(context, {}));
  if (auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr))
    for (auto [d, axes] : llvm::enumerate(sharding.getDims()))
      dims[d] = axesEntry(context, axes);
  return ArrayAttr::get(context, dims);
}

ArrayRef<int64_t> kerf::blocksOf(Attribute attr) {
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
  return sharding ? sharding.getBlocks() : ArrayRef<int64_t>();
}

/// A splat as JSON has it: a number, a boolean, or the name of a value that
/// JSON has no number for.
static Attribute splatEntry(MLIRContext *context, Attribute value) {
  Builder builder(context);
  if (auto real = dyn_cast<FloatAttr>(value)) {
    APFloat number = real.getValue();
    if (number.isNaN())
      return builder.getStringAttr("nan");
    if (number.isInfinity())
      return builder.getStringAttr(number.isNegative() ? "-inf" : "inf");
    return builder.getF64FloatAttr(real.getValueAsDouble());
  }
  auto integer = cast<IntegerAttr>(value);
  if (integer.getType().isInteger(1))
    return builder.getBoolAttr(integer.getValue().getBoolValue());
  return builder.getI64IntegerAttr(integer.getType().isUnsignedInteger()
                                       ? integer.getValue().getZExtValue()
                                       : integer.getValue().getSExtValue());
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
  RankedTensorType global = local;
  if (auto attr = op->getAttrOfType<TypeAttr>(dist::kGlobalType))
    global = cast<RankedTensorType>(attr.getValue());
  Dict entry(context), source(context);
  entry.set("dtype", exec::dtypeName(local.getElementType()))
      .set("global_shape", global.getShape())
      .set("local_shape", local.getShape())
      .set("sharding",
           shardingEntry(op, op->getAttr(dist::kSharding), global.getRank()));
  if (ArrayRef blocks = blocksOf(op->getAttr(dist::kSharding)); !blocks.empty())
    entry.set("blocks", blocks);
  std::string name;
  auto weight = dyn_cast<nn::WeightOp>(op);
  if (weight) {
    name = weight.getName().str();
    auto stored = cast<RankedTensorType>(weight.getStored());
    if (weight.getStarts()) {
      entry.set("view", Dict(context)
                            .set("starts", *weight.getStarts())
                            .set("sizes", global.getShape())
                            .get());
      SmallVector<std::string> starts;
      for (int64_t start : weight.getStartsAttr().asArrayRef())
        starts.push_back(std::to_string(start));
      name += "[" + llvm::join(starts, ",") + "]";
    }
    entry.set("tensor", weight.getName());
    source.set("file", weight.getFileAttr())
        .set("offset", weight.getOffsetAttr())
        .set("length", weight.getLengthAttr())
        .set("stored", TypeAttr::get(stored));
  } else if (auto state = dyn_cast<nn::StateOp>(op)) {
    name = state.getName().str();
    entry.set("splat", splatEntry(context, state.getInit()));
  } else {
    auto constant = cast<nn::ConstantOp>(op);
    DenseElementsAttr elements = constant.getElements();
    name = constant.getName().value_or("").str();
    if (elements.isSplat()) {
      entry.set("splat",
                splatEntry(context, elements.getSplatValue<Attribute>()));
    } else {
      entry.set("tensor", "");
      source.set("data", elements);
    }
  }
  Attribute key =
      ArrayAttr::get(context, {entry.get(), source.get(),
                               StringAttr::get(context, weight ? "" : name)});
  if (isMutableSource(op)) {
    entry.set("mutable", true);
    libraryOnly = false;
    Attribute &known = mutableContent[mutableIdentity(op)];
    if (known && known != key) {
      failed = true;
      op->emitError("mutable source \"")
          << name << "\" is used in two shapes or shardings";
    }
    known = key;
  }
  auto [it, added] = byContent.insert({key, parameters.size()});
  if (added) {
    if (name.empty())
      name = "constant_" + std::to_string(numConstants++);
    DictionaryAttr sourceAttr = source.get();
    if (!weight && !sourceAttr.empty())
      entry.set("tensor", StringRef(name));
    parameters.push_back({name,
                          op->getLoc(),
                          entry.get(),
                          sourceAttr.empty() ? DictionaryAttr() : sourceAttr,
                          bufferType(local),
                          {},
                          true,
                          true});
  }
  Parameter &parameter = parameters[it->second];
  parameter.stages.insert(stage);
  parameter.libraryOnly &= libraryOnly;
  parameter.initOnly &= inInit && !isMutableSource(op);
  return it->second;
}

int64_t ParameterTable::addDerived(StringRef name, RankedTensorType type,
                                   int64_t stage) {
  DictionaryAttr entry =
      Dict(module.getContext())
          .set("derived", true)
          .set("dtype", exec::dtypeName(type.getElementType()))
          .set("local_shape", type.getShape())
          .get();
  parameters.push_back({name.str(),
                        module.getLoc(),
                        entry,
                        DictionaryAttr(),
                        bufferType(type),
                        {stage},
                        true,
                        false});
  return parameters.size() - 1;
}

void ParameterTable::use(int64_t index, bool libraryOnly) {
  parameters[index].libraryOnly &= libraryOnly;
}

void ParameterTable::emit(OpBuilder &builder, int64_t numStages) {
  for (auto [index, parameter] : llvm::enumerate(parameters)) {
    Dict entry(builder.getContext());
    for (NamedAttribute attribute : parameter.entry)
      entry.set(attribute.getName(), attribute.getValue());
    if (static_cast<int64_t>(parameter.stages.size()) < numStages ||
        entry.get().contains("derived"))
      entry.set("stages", SmallVector<int64_t>(parameter.stages.begin(),
                                               parameter.stages.end()));
    if (parameter.libraryOnly)
      entry.set("library_only", true);
    else if (parameter.initOnly)
      entry.set("init_only", true);
    exec::ParameterOp::create(
        builder, parameter.loc, builder.getI64IntegerAttr(index),
        builder.getStringAttr(parameter.name), entry.get(),
        TypeAttr::get(parameter.type), parameter.source);
  }
}
