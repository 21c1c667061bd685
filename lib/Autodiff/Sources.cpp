//===- Sources.cpp - parameters, masks, tables and numbers ----------------===//
//
// See Sources.h. At worst linear in the ops for each source; walks end where a
// source is joined with data.
//
//===----------------------------------------------------------------------===//
#include "Sources.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/NN/NN.h"

#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

static int64_t numElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

static OperandRole roleOf(OpOperand &use) {
  if (auto op = dyn_cast<OperandRoleInterface>(use.getOwner()))
    return op.getOperandRole(use.getOperandNumber());
  return OperandRole::Number;
}

/// The output of a node Constant of PyTorch's older exporter.
static bool isOfConstantNode(StringRef name) {
  return llvm::Regex("^(.*/)?Constant(_[0-9]+)?_output_[0-9]+(@.*)?$")
      .match(name);
}

bool kerf::autodiff::isNamedAsConstant(StringRef name) {
  return isOfConstantNode(name) ||
         llvm::Regex("^_?(val|const|constant)_[0-9]+(@.*)?$").match(name);
}

/// As frameworks call what layers learn, and hardly ever a mask or a table.
static bool isNamedAsParameter(StringRef name) {
  return llvm::Regex("\\.(weight|bias)(@.*)?$").match(name);
}

SourceAnalysis::SourceAnalysis(func::FuncOp main)
    : main(main), reader(main->getParentOfType<ModuleOp>()) {
  auto module = main->getParentOfType<ModuleOp>();
  for (auto [key, declared] : {std::pair(kBuffersAttr, &declaredBuffers),
                               {kParametersAttr, &declaredParameters}})
    if (auto names = module->getAttrOfType<ArrayAttr>(key))
      for (auto name : names.getAsRange<StringAttr>())
        declared->insert(name.getValue());
  for (Operation &op : main.getBody().front().without_terminator())
    if (llvm::all_of(op.getOperands(), [&](Value operand) {
          return constants.contains(operand);
        }))
      constants.insert(op.result_begin(), op.result_end());
  for (Operation &op : main.getBody().front().without_terminator()) {
    auto source = dyn_cast<SourceOpInterface>(op);
    if (!source || !source.isParameter())
      continue;
    if (llvm::any_of(usesOf(op.getResult(0)), [](const Use &use) {
          return use.role == OperandRole::Factor;
        }))
      factors[numElements(op.getResult(0))].push_back(&op);
  }
}

SmallVector<SourceAnalysis::Use> SourceAnalysis::usesOf(Value source) {
  SmallVector<Use> uses;
  SmallVector<Value> work{source};
  llvm::DenseSet<Value> seen{source};
  while (!work.empty()) {
    for (OpOperand &use : work.pop_back_val().getUses()) {
      Operation *op = use.getOwner();
      if (op->getNumResults() > 0 && constants.contains(op->getResult(0))) {
        for (Value result : op->getResults())
          if (seen.insert(result).second)
            work.push_back(result);
        continue;
      }
      if (!op->hasTrait<OpTrait::IsTerminator>())
        uses.push_back({roleOf(use), op, use.getOperandNumber()});
    }
  }
  return uses;
}

/// Whether the source is a vector of frequencies, as of a rotary embedding or a
/// time step: it is multiplied, and all that depends on it are sines and
/// cosines, both of them. (A layer with a sine as its activation has no
/// cosines, and its weights are a matrix.)
bool SourceAnalysis::areFrequencies(Value source) {
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  if (llvm::count_if(shape, [](int64_t size) { return size != 1; }) != 1)
    return false;
  if (llvm::any_of(usesOf(source), [](const Use &use) {
        return use.role == OperandRole::Addend;
      }))
    return false;
  bool sines = false, cosines = false;
  SmallVector<Value> work{source};
  llvm::DenseSet<Value> seen{source};
  while (!work.empty())
    for (OpOperand &use : work.pop_back_val().getUses()) {
      switch (roleOf(use)) {
      case OperandRole::Sine:
        sines = true;
        break;
      case OperandRole::Cosine:
        cosines = true;
        break;
      case OperandRole::Through:
      case OperandRole::Learned:
      case OperandRole::Table:
      case OperandRole::Factor:
      case OperandRole::Addend:
      case OperandRole::Element:
        for (Value result : use.getOwner()->getResults())
          if (seen.insert(result).second)
            work.push_back(result);
        break;
      default:
        return false;
      }
    }
  return sines && cosines;
}

/// The op that computes a value's elements, behind ops that only move them.
static Operation *originOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         roleOf(op->getOpOperand(0)) == OperandRole::Through)
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// Whether a single number is learned: as the bias of a product of one column,
/// or as a slope, in a choice between x and slope * x (PReLU).
bool SourceAnalysis::isLearnedNumber(const Use &use) {
  if (use.role == OperandRole::Learned || use.role == OperandRole::Table)
    return true;
  if (use.op->getNumOperands() != 2)
    return false;
  Value other = use.op->getOperand(1 - use.operand);
  if (use.role == OperandRole::Addend) {
    Operation *origin = originOf(other);
    auto type = cast<RankedTensorType>(other.getType());
    return origin && origin->getNumOperands() == 2 && type.getRank() > 0 &&
           type.getShape().back() == 1 &&
           roleOf(origin->getOpOperand(0)) == OperandRole::Learned;
  }
  if (use.role != OperandRole::Factor)
    return false;
  return llvm::any_of(use.op->getUses(), [&](OpOperand &next) {
    return roleOf(next) == OperandRole::Element &&
           llvm::is_contained(next.getOwner()->getOperands(), other);
  });
}

/// Whether a vector is added to the result of a product with weights.
bool SourceAnalysis::isBias(Value source, const Use &use) {
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  if (use.role != OperandRole::Addend || use.op->getNumOperands() != 2 ||
      llvm::count_if(shape, [](int64_t size) { return size != 1; }) != 1)
    return false;
  Operation *origin = originOf(use.op->getOperand(1 - use.operand));
  return origin && llvm::any_of(origin->getOpOperands(), [&](OpOperand &each) {
           return roleOf(each) == OperandRole::Learned &&
                  constants.contains(each.get());
         });
}

SourceVerdict SourceAnalysis::classifyNumber(ArrayRef<Use> uses,
                                             StringRef name) {
  if (llvm::any_of(uses, [&](const Use &use) { return isLearnedNumber(use); }))
    return {};
  return {!isNamedAsConstant(name), KeptWhy::Constant, false};
}

bool SourceAnalysis::isTable(Operation *source, const Values &values,
                             ArrayRef<Use> uses) {
  if (values.isSinusoid())
    return true;
  bool isAdded = llvm::any_of(
      uses, [](const Use &use) { return use.role == OperandRole::Addend; });
  if (isAdded && values.isProgression())
    return true;
  // Rotary positions multiply by both; a bias beside a scale is no pair.
  bool isMultiplied = llvm::any_of(
      uses, [](const Use &use) { return use.role == OperandRole::Factor; });
  if (!isMultiplied)
    return false;
  for (Operation *other : factors[values.size()])
    if (other != source)
      if (std::optional<Values> partner = reader.read(other))
        if (values.isSinusoidWith(*partner))
          return true;
  return false;
}

SourceVerdict SourceAnalysis::classify(Operation *source, StringRef name) {
  Value value = source->getResult(0);
  StringRef whole = name.split('@').first;
  bool isDeclared = declaredParameters.contains(whole);
  SmallVector<Use> uses = usesOf(value);
  auto has = [&](OperandRole role) {
    return llvm::any_of(uses, [&](const Use &use) { return use.role == role; });
  };
  if (declaredBuffers.contains(whole))
    return {false,
            has(OperandRole::Statistic) ? KeptWhy::Statistic : KeptWhy::Buffer};
  if (!isDeclared && areFrequencies(value))
    return {false, KeptWhy::Frequencies};
  if (isOfConstantNode(name))
    return {false, KeptWhy::Constant, false};
  if (numElements(value) == 1)
    return isDeclared ? SourceVerdict() : classifyNumber(uses, name);
  bool isMatrix = cast<RankedTensorType>(value.getType()).getRank() > 1;
  if (has(OperandRole::Learned) && isMatrix)
    return {};
  if (has(OperandRole::Statistic) && !has(OperandRole::Learned))
    return {false, KeptWhy::Statistic};
  auto isBiasHere = [&](const Use &use) { return isBias(value, use); };
  std::optional<Values> values = reader.read(source);
  if (!values) {
    SourceVerdict byUse;
    byUse.lacksNumbers =
        !isDeclared && !isNamedAsParameter(name) &&
        (isNamedAsConstant(name) ||
         !(has(OperandRole::Learned) || llvm::any_of(uses, isBiasHere)));
    return byUse;
  }
  // The ones and zeros of a normalization without parameters look like
  // parameters that were just initialised; exporters name them as constants.
  if (!values->isScoreMask() && values->isUniform())
    return {!isNamedAsConstant(name), KeptWhy::Constant,
            !isNamedAsConstant(name)};
  if (has(OperandRole::Learned))
    return {};
  // A bias is learned, but for numbers that none would learn.
  if (!values->isScoreMask() && llvm::any_of(uses, isBiasHere))
    return {};
  if (values->isScoreMask() ||
      (has(OperandRole::Addend) && values->isTwoValuedMask()) ||
      (has(OperandRole::Factor) && values->isZeroOne()))
    return {false, KeptWhy::Mask};
  if (isTable(source, *values, uses))
    return {false, KeptWhy::Table};
  // A bound or an exponent with several numbers.
  bool isClear = llvm::any_of(
      uses, [](const Use &use) { return use.role != OperandRole::Number; });
  return {true, KeptWhy::Frozen, isClear};
}
