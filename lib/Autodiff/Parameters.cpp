//===- Parameters.cpp - which sources are trained -------------------------===//
//
// By default every float source is trained on which the loss depends through
// floats and which is used like a parameter (Sources.h); --trainable and
// --frozen match whole names and override this. A parameter that is read
// through several views is several sources; none overlap (JoinViews.cpp).
//
//===----------------------------------------------------------------------===//
#include "ParameterPatterns.h"
#include "Sources.h"
#include "Step.h"

#include "kerf/Format/StepScalars.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/OtherNames.h"
#include "kerf/Support/DescribeType.h"
#include "kerf/Support/NamePattern.h"
#include "kerf/Support/NarrowTypes.h"
#include "kerf/Support/TensorTypes.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

#include <array>

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

StringRef kerf::autodiff::describe(KeptWhy why) {
  switch (why) {
  case KeptWhy::Frozen:
    return "frozen";
  case KeptWhy::Mask:
    return "a mask";
  case KeptWhy::Table:
    return "a table of sines and cosines, or of positions";
  case KeptWhy::Frequencies:
    return "a table of frequencies, for sines and cosines";
  case KeptWhy::Constant:
    return "a constant";
  case KeptWhy::Statistic:
    return "a statistic";
  case KeptWhy::Buffer:
    return "a buffer or a constant, as the exporter says";
  case KeptWhy::NoGradient:
    return "read by the loss, which gives it no gradient";
  case KeptWhy::NotReached:
    return "not reached by the loss";
  }
  llvm_unreachable("no such reason");
}

/// What the function of another front end does not name is called by its
/// number.
void Step::nameEnds() {
  llvm::StringSet<> taken;
  auto take = [&](StringAttr name) {
    if (name)
      taken.insert(name.getValue());
  };
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    take(main.getArgAttrOfType<StringAttr>(i, kNameAttr));
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    take(main.getResultAttrOfType<StringAttr>(i, kNameAttr));
  auto free = [&](const char *base, unsigned index) {
    std::string name = base + std::to_string(index);
    while (!taken.insert(name).second)
      name += "_";
    return ops.getStringAttr(name);
  };
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (!main.getArgAttr(i, kNameAttr))
      main.setArgAttr(i, kNameAttr, free("arg", i));
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    if (!main.getResultAttr(i, kNameAttr))
      main.setResultAttr(i, kNameAttr, free("result", i));
}

LogicalResult Step::checkNames() {
  for (BlockArgument argument : body().getArguments()) {
    auto name =
        main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (name && isStepScalar(name.getValue()))
      return refuse(name.getValue() + ": an input whose name begins with '" +
                        kStepScalarPrefix +
                        "', as those of numbers that the step is given do",
                    argument.getLoc());
  }
  return success();
}

/// One op per identity: the first one stays.
void Step::mergeSources() {
  llvm::MapVector<std::pair<Attribute, Type>, Operation *> known;
  for (Operation &op :
       llvm::make_early_inc_range(body().without_terminator())) {
    auto source = dyn_cast<SourceOpInterface>(op);
    if (!source || !source.isParameter())
      continue;
    auto key = std::pair<Attribute, Type>(op.getAttrDictionary(),
                                          op.getResult(0).getType());
    auto [entry, isNew] = known.insert({key, &op});
    if (isNew)
      continue;
    op.getResult(0).replaceAllUsesWith(entry->second->getResult(0));
    op.erase();
  }
}

Value Step::makeMutable(Value value) {
  if (auto weight = value.getDefiningOp<nn::WeightOp>()) {
    weight.setVariable(true);
    return value;
  }
  if (value.getDefiningOp<nn::StateOp>())
    return value;
  // A weight that the model makes by ConstantOfShape.
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  if (!constant || !constant.getName() || !constant.getElements().isSplat())
    return {};
  OpBuilder builder(constant);
  auto state = nn::StateOp::create(
      builder, constant.getLoc(), value.getType(), *constant.getName(),
      cast<TypedAttr>(constant.getElements().getSplatValue<Attribute>()));
  value.replaceAllUsesWith(state);
  constant.erase();
  return state;
}

void Step::makeConstant(Value source) {
  if (auto weight = source.getDefiningOp<nn::WeightOp>())
    return weight.setVariable(false);
  auto state = source.getDefiningOp<nn::StateOp>();
  OpBuilder builder(state);
  auto constant = nn::ConstantOp::create(
      builder, state.getLoc(),
      cast<ElementsAttr>(DenseElementsAttr::get(
          typeOf(source), cast<Attribute>(state.getInit()))));
  constant.setName(state.getName());
  source.replaceAllUsesWith(constant.getResult());
  state.erase();
}

llvm::DenseSet<Value> Step::reachedFromLoss(bool byGradients) {
  llvm::DenseSet<Value> reached{loss()};
  for (Operation &op : llvm::reverse(body().without_terminator())) {
    if ((byGradients && stopsGradient(&op)) ||
        !llvm::any_of(op.getResults(),
                      [&](Value value) { return reached.contains(value); }))
      continue;
    for (Value operand : op.getOperands())
      if (!byGradients || isComputedFloat(typeOf(operand).getElementType()))
        reached.insert(operand);
  }
  return reached;
}

namespace {

std::string labelOf(SourceOpInterface source) {
  std::string label = source.getSourceName().str();
  if (auto weight = dyn_cast<nn::WeightOp>(source.getOperation());
      weight && weight.getStarts()) {
    label += "@";
    for (auto [index, start] : llvm::enumerate(*weight.getStarts()))
      label += (index ? "," : "") + std::to_string(start);
  }
  return label;
}

std::string labelOf(const Parameter &parameter) { return parameter.label; }
std::string labelOf(const KeptParameter &parameter) { return parameter.name; }

} // namespace

/// Whether several layers read the parameter: nodes that do the same with it,
/// or a table and a product. (The direction and the length of a weight that is
/// normalized are read apart, too, by one layer.)
static bool isOfSeveralLayers(ArrayRef<Operation *> readers) {
  llvm::SmallDenseSet<std::pair<OperationName, Location>> nodes;
  llvm::SmallDenseMap<OperationName, int> sameKind;
  bool isTable = false, isFactor = false;
  for (Operation *reader : readers) {
    if (nodes.insert({reader->getName(), reader->getLoc()}).second &&
        ++sameKind[reader->getName()] > 1)
      return true;
    isTable |= isa<nn::GatherOp>(reader);
    isFactor |= isa<nn::MatmulOp>(reader);
  }
  return isTable && isFactor;
}

/// Exporters store equal tensors once, even if they are not tied. Nothing is
/// said of those that the model itself shares (kerf.shared).
void Step::noteShared() {
  llvm::StringSet<> shared;
  if (auto list = main->getParentOfType<ModuleOp>()->getAttrOfType<ArrayAttr>(
          kSharedAttr))
    for (auto name : list.getAsRange<StringAttr>())
      shared.insert(name.getValue());
  constexpr size_t max = 4;
  size_t count = 0;
  std::string names;
  for (const Parameter &parameter : parameters) {
    llvm::SmallSetVector<Location, 4> readers;
    SmallVector<Operation *> ops;
    // If it is rounded for products, all of them read one cast.
    for (Operation *user : parameter.value.getUsers())
      for (Operation *reader : isa<nn::CastOp>(user)
                                   ? SmallVector<Operation *>(user->getUsers())
                                   : SmallVector<Operation *>{user}) {
        readers.insert(reader->getLoc());
        ops.push_back(reader);
      }
    if (shared.contains(parameter.name) || !isOfSeveralLayers(ops) ||
        ++count > max)
      continue;
    names += (names.empty() ? "\"" : ", \"") + parameter.label + "\" (by " +
             std::to_string(readers.size()) + " nodes)";
  }
  if (count > max)
    names += " and " + std::to_string(count - max) + " more";
  // One is what models share on purpose: the table of tokens.
  if (count > 1)
    names += "; an exporter may have merged equal weights of fresh layers, as "
             "torch.onnx.export does without optimize=False, or with "
             "dynamo=False without training=TrainingMode.TRAINING";
  if (count > 0)
    notes.push_back("stored once and read in several places, so trained as "
                    "one: " +
                    names);
}

/// Notes sources that neither use nor values classify, and the flag that does.
void Step::noteUnclear() {
  auto join = [&](auto &list, auto isMeant) {
    constexpr size_t max = 4;
    size_t count = 0;
    std::string names;
    for (const auto &each : list)
      if (isMeant(each) && ++count <= max)
        names += (names.empty() ? "\"" : ", \"") + labelOf(each) + "\"";
    if (count > max)
      names += " and " + std::to_string(count - max) + " more";
    return names;
  };
  auto isUnclear = [](const auto &each) { return !each.isClear; };
  auto lacksNumbers = [](const Parameter &each) {
    return !each.absentFile.empty();
  };
  auto first = llvm::find_if(parameters, lacksNumbers);
  if (first != parameters.end())
    notes.push_back("\"" + first->absentFile +
                    "\" is absent, whose numbers tell masks and tables from "
                    "parameters: trained by use alone: " +
                    join(parameters, lacksNumbers) +
                    "; option frozen=NAME leaves one as it is");
  if (std::string names = join(parameters, isUnclear); !names.empty())
    notes.push_back("trained, though it may be a constant (its use does not "
                    "tell): " +
                    names + "; option frozen=NAME leaves it as it is");
  if (std::string names = join(kept, isUnclear); !names.empty())
    notes.push_back("taken for a constant by its name, which is an exporter's "
                    "(its use does not tell): " +
                    names + "; option trainable=+NAME trains it");
}

/// The name of the weight that a source is a copy of.
static std::optional<StringRef> originalOf(Operation *source) {
  auto name = source->getAttrOfType<StringAttr>(kCopyOfAttr);
  return name ? std::optional(name.getValue()) : std::nullopt;
}

/// One reason for all of them. 16-bit parameters are for the precision of a
/// step to make.
LogicalResult Step::refuseNotF32(ArrayRef<Value> sources) {
  constexpr size_t kNamed = 2;
  auto nameOf = [](Value source) {
    return cast<SourceOpInterface>(source.getDefiningOp())
        .getSourceName()
        .str();
  };
  std::string others;
  for (Value source : sources.drop_front().take_front(kNamed))
    others += (others.empty() ? "; nor can " : ", ") + nameOf(source);
  if (sources.size() > kNamed + 1)
    others += " and " + std::to_string(sources.size() - kNamed - 1) + " more";
  (void)refuse(nameOf(sources.front()) + ": parameter is " +
                   describeType(sources.front().getType()) +
                   ", expected f32 to train it" + others,
               sources.front().getLoc());
  Type type = typeOf(sources.front()).getElementType();
  if (type.isF16() || type.isBF16())
    note(Twine("export the model in float32 and train it with option "
               "precision=") +
         (type.isF16() ? "f16" : "bf16") +
         ": it computes in 16 bits and updates in 32");
  else if (type.isF64())
    note("export the model in float32 (model.float() in PyTorch)");
  return mlir::failure();
}

LogicalResult Step::checkTrainable() {
  for (const std::string &text : options.trainable) {
    StringRef pattern = text;
    pattern.consume_front("+");
    llvm::Regex regex = namePattern(pattern);
    auto isMeant = [&](StringRef name, const std::string &label) {
      return regex.match(name) || pattern == label;
    };
    bool trains = llvm::any_of(parameters, [&](const Parameter &each) {
      std::optional<StringRef> original =
          originalOf(each.value.getDefiningOp());
      return isMeant(each.name, each.label) ||
             (original && regex.match(*original));
    });
    auto idle = llvm::find_if(kept, [&](const KeptParameter &each) {
      return isMeant(each.name, each.name);
    });
    if (!trains && idle != kept.end())
      return request("option trainable: '" + text + "' trains nothing: '" +
                     idle->name + "' is " + describe(idle->why));
  }
  return success();
}

namespace {
/// The patterns of the options that say what is trained and how.
struct AskedFor {
  AskedFor(const AutodiffOptions &options, std::vector<OtherName> names)
      : others(std::move(names)),
        train("option trainable", textsOf(options, false), others),
        more("option trainable", textsOf(options, true), others),
        keep("option frozen", options.frozen, others),
        noDecay("option optimizer: no_decay",
                options.optimizer.noDecay.empty()
                    ? std::vector<std::string>()
                    : std::vector{options.optimizer.noDecay},
                others) {}
  std::array<Patterns *, 4> all() { return {&train, &more, &keep, &noDecay}; }

  std::vector<OtherName> others;
  Patterns train; ///< these alone
  Patterns more;  ///< "+NAME": these besides
  Patterns keep, noDecay;

private:
  static std::vector<std::string> textsOf(const AutodiffOptions &options,
                                          bool besides) {
    std::vector<std::string> texts;
    for (StringRef text : options.trainable)
      if (text.consume_front("+") == besides)
        texts.push_back(text.str());
    return texts;
  }
};

/// How patterns name a source.
struct Names {
  explicit Names(SourceOpInterface source)
      : own(source.getSourceName().str()), label(labelOf(source)),
        original(originalOf(source)) {}
  /// Every name is asked for: a pattern that matches none is an error.
  bool isIn(Patterns &patterns) const {
    bool isItself = patterns.match(own);
    if (label != own && patterns.matchPart(label))
      return true;
    return (original && patterns.match(*original)) || isItself;
  }

  std::string own, label;            ///< "w", and "w@0,64" of a part of it
  std::optional<StringRef> original; ///< of which it is a copy
};

/// Which options name a source.
struct Named {
  Named(AskedFor &asked, const Names &names)
      : alone(names.isIn(asked.train)), besides(names.isIn(asked.more)),
        frozen(names.isIn(asked.keep)),
        isOut(frozen || (!asked.train.empty() && !alone && !besides)) {}
  bool isTrained() const { return alone || besides; }

  bool alone, besides, frozen;
  bool isOut; ///< by what the options say
};
} // namespace

/// The name of the file that a weight's numbers are in, without folders.
static std::string fileOf(Value source) {
  auto weight = source.getDefiningOp<nn::WeightOp>();
  if (!weight)
    return "";
  auto files =
      weight->getParentOfType<ModuleOp>()->getAttrOfType<ArrayAttr>(kFilesAttr);
  if (!files || weight.getFile() >= files.size())
    return "";
  auto path = cast<StringAttr>(files[weight.getFile()]);
  return llvm::sys::path::filename(path.getValue()).str();
}

/// What the uses of each source say that it is: before sources are replaced by
/// mutable ones, which are other ops.
static llvm::DenseMap<Value, SourceVerdict>
verdictsOf(Step &step, const llvm::DenseSet<Value> &reached) {
  SourceAnalysis analysis(step.main);
  llvm::DenseMap<Value, SourceVerdict> verdicts;
  for (Operation &op : step.body().without_terminator())
    if (auto source = dyn_cast<SourceOpInterface>(op);
        source && source.isParameter() && reached.contains(op.getResult(0)) &&
        !step.buffers.contains(op.getResult(0)))
      verdicts[op.getResult(0)] = analysis.classify(
          &op, originalOf(&op).value_or(source.getSourceName()).str());
  return verdicts;
}

LogicalResult Step::selectParameters() {
  AskedFor asked(options, otherNames(main->getParentOfType<ModuleOp>()));
  for (Patterns *each : asked.all())
    if (failed(each->checkSyntax(*this)))
      return mlir::failure();
  llvm::DenseSet<Value> reached = reachedFromLoss(/*byGradients=*/true);
  llvm::DenseSet<Value> read = reachedFromLoss(/*byGradients=*/false);
  for (auto constant : body().getOps<nn::ConstantOp>())
    if (typeOf(constant.getResult()).getRank() == 0 &&
        !reached.contains(constant.getResult()))
      idleNumbers.push_back(nodeName(constant));
  llvm::DenseMap<Value, SourceVerdict> verdicts = verdictsOf(*this, reached);
  LogicalResult result = success();
  llvm::SmallVector<Value> notF32;
  for (Operation &op :
       llvm::make_early_inc_range(body().without_terminator())) {
    auto source = dyn_cast<SourceOpInterface>(op);
    if (!source || !source.isParameter())
      continue;
    Value value = op.getResult(0);
    if (!isComputedFloat(typeOf(value).getElementType()))
      continue;
    Names names(source);
    if (buffers.contains(value)) {
      // These stay as they are: who asks for it gets it.
      if (options.batchNorm == BatchNormMode::Frozen)
        (void)asked.keep.match(names.own);
      for (Patterns *each : {&asked.train, &asked.more, &asked.keep})
        each->noteStatistic(names.own);
      continue;
    }
    Named named(asked, names);
    SourceVerdict verdict = verdicts.lookup(value);
    std::optional<KeptWhy> why;
    if (!reached.contains(value))
      why = read.contains(value) ? KeptWhy::NoGradient : KeptWhy::NotReached;
    else if (named.isOut)
      why = KeptWhy::Frozen;
    else if (!named.isTrained() && !verdict.isParameter)
      why = verdict.why;
    if (why) {
      bool isClear = verdict.isClear || *why == KeptWhy::Frozen ||
                     *why == KeptWhy::NoGradient || *why == KeptWhy::NotReached;
      if (!names.original) // a copy is listed with its original
        kept.push_back(
            {names.label, typeOf(value).getShape().vec(), *why, isClear});
      continue;
    }
    if (!typeOf(value).getElementType().isF32()) {
      notF32.push_back(value);
      continue;
    }
    Parameter parameter;
    parameter.name = names.own;
    parameter.label = names.label;
    parameter.decayed = !names.isIn(asked.noDecay);
    parameter.isClear = verdict.isClear || named.isTrained();
    if (verdict.lacksNumbers && !named.isTrained())
      parameter.absentFile = fileOf(value);
    parameter.value = makeMutable(value);
    if (!parameter.value) {
      result = refuse(names.own + ": parameter is a literal of the graph, "
                                  "expected raw data to train it",
                      op.getLoc());
      continue;
    }
    parameters.push_back(std::move(parameter));
  }
  for (Patterns *each : asked.all())
    if (failed(each->checkUsed(*this)))
      result = mlir::failure();
  if (!notF32.empty())
    result = refuseNotF32(notF32);
  if (failed(result)) {
    // Of what is left there must be something to train.
    if (!failure.isRequest && !parameters.empty())
      note("parameters can stay as they are: option frozen=REGEX");
    return result;
  }
  noteShared();
  noteTransposes();
  noteUnclear();
  for (Patterns *each : asked.all())
    each->noteOtherNames(*this);
  if (failed(checkTrainable()))
    return mlir::failure();
  if (parameters.empty())
    return request(
        "nothing to train: the loss depends on no float parameter" +
        Twine(options.trainable.empty() && options.frozen.empty()
                  ? ""
                  : " that option trainable and option frozen leave"));
  return success();
}
