//===- Exposure.cpp - values of a model as results of it ------------------===//
#include "kerf/Pipelines/Exposure.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;

std::vector<Value> kerf::computedValues(ModuleOp module) {
  std::vector<Value> values;
  if (auto main = dist::findEntry(module))
    for (Operation &op : main.getBody().front().without_terminator())
      if (!isa<SourceOpInterface>(op) &&
          !isa<dist::DistDialect>(op.getDialect()))
        llvm::append_range(values, op.getResults());
  return values;
}

static std::string nodeOf(Operation *op) {
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  return name ? name.getName().str() : "";
}

std::string kerf::describeValue(Value value) {
  Operation *op = value.getDefiningOp();
  std::string node = nodeOf(op), kind = op->getName().getStringRef().str();
  return node.empty() ? kind : node + " (" + kind + ")";
}

std::vector<std::string> kerf::describeValues(ArrayRef<Value> values) {
  std::vector<std::string> result;
  for (Value value : values) {
    llvm::raw_string_ostream stream(result.emplace_back(describeValue(value)));
    stream << " " << value.getType();
  }
  return result;
}

std::vector<size_t> kerf::exposeValues(ModuleOp planned,
                                       ArrayRef<Value> values) {
  auto main = dist::findEntry(planned);
  dist::MeshAttr meshAttr = dist::getMesh(planned);
  dist::Mesh mesh = meshAttr.toMesh();
  Operation *terminator = main.getBody().front().getTerminator();
  MLIRContext *context = planned.getContext();
  std::vector<size_t> exposed;
  for (auto [number, value] : llvm::enumerate(values)) {
    ArrayRef<dist::ShardingAttr> results;
    if (value)
      results = dist::getResultShardings(value.getDefiningOp());
    if (results.empty())
      continue;
    dist::Layout layout = llvm::cantFail(
        results[cast<OpResult>(value).getResultNumber()].toLayout(mesh));
    if (llvm::any_of(layout.partial, [&](const dist::AxisRef &axis) {
          return mesh.axes[axis.axis].isTime;
        }))
      continue;
    layout.partial.clear();
    NamedAttrList attributes;
    attributes.set(dist::kSharding,
                   dist::ShardingAttr::get(context, meshAttr, layout));
    attributes.set(kNameAttr,
                   StringAttr::get(context, "value:" + Twine(number)));
    unsigned index = main.getNumResults();
    if (failed(main.insertResult(index, value.getType(),
                                 attributes.getDictionary(context))))
      continue;
    terminator->insertOperands(index, value);
    exposed.push_back(number);
  }
  return exposed;
}

std::pair<Value, Value>
kerf::damageValue(ModuleOp module, StringRef node,
                  llvm::function_ref<double(Value)> amount) {
  Operation *damaged = nullptr;
  for (Value value : computedValues(module))
    if (nodeOf(value.getDefiningOp()) == node &&
        isa<FloatType>(getElementTypeOrSelf(value.getType())))
      damaged = value.getDefiningOp();
  if (!damaged)
    return {};
  Value value = damaged->getResult(0);
  auto type = cast<RankedTensorType>(value.getType());
  double added = amount(value);
  OpBuilder builder(damaged->getContext());
  builder.setInsertionPointAfter(damaged);
  auto one = nn::ConstantOp::create(
      builder, damaged->getLoc(),
      DenseElementsAttr::get(
          RankedTensorType::get({}, type.getElementType()),
          builder.getFloatAttr(type.getElementType(), added).getValue()));
  Operation *wrong = nn::AddOp::create(builder, damaged->getLoc(), value, one);
  wrong->setDiscardableAttrs(damaged->getDiscardableAttrDictionary());
  value.replaceAllUsesExcept(wrong->getResult(0), wrong);
  return {value, wrong->getResult(0)};
}

bool kerf::leaveUpdateOut(ModuleOp module, StringRef parameter) {
  auto main = dist::findEntry(module);
  bool found = false;
  auto leaveOut = [&](auto op) {
    auto source = op.getW().template getDefiningOp<SourceOpInterface>();
    if (!source || source.getSourceName() != parameter)
      return;
    OpBuilder builder(op);
    auto zero = nn::ConstantOp::create(
        builder, op.getLoc(),
        DenseElementsAttr::get(cast<RankedTensorType>(op.getLr().getType()),
                               0.0f));
    op.getLrMutable().assign(zero.getResult());
    found = true;
  };
  main.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<nn::SGDUpdateOp, nn::AdamUpdateOp, nn::AdagradUpdateOp,
              nn::RMSPropUpdateOp>(leaveOut);
  });
  return found;
}
