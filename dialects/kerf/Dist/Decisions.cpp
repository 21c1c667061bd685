//===- Decisions.cpp - dist.plan, dist.step, attributes of functions ------===//
//
// The attributes' text, and the only code that reads and writes them by name.
// An attribute without content is removed, so that equal decisions have one
// form.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Dist.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {

/// `<key = value, ..., flag>`, in any order, each key once.
class FieldsParser {
public:
  FieldsParser(AsmParser &parser, std::initializer_list<StringRef> keys)
      : parser(parser), keys(keys) {}

  /// `field` parses the text behind a key, including the equals sign if there
  /// is one.
  ParseResult run(function_ref<ParseResult(StringRef key)> field) {
    llvm::SmallDenseSet<StringRef, 4> seen;
    return parser.parseCommaSeparatedList(
        AsmParser::Delimiter::LessGreater, [&]() -> ParseResult {
          StringRef key;
          SMLoc loc = parser.getCurrentLocation();
          if (parser.parseKeyword(&key))
            return failure();
          if (!llvm::is_contained(keys, key))
            return parser.emitError(loc, "unknown '")
                   << key << "', expected one of " << llvm::join(keys, ", ");
          if (!seen.insert(key).second)
            return parser.emitError(loc, "'") << key << "' stands twice";
          return field(key);
        });
  }

private:
  AsmParser &parser;
  SmallVector<StringRef, 4> keys;
};

template <typename Enum>
ParseResult parseEnum(AsmParser &parser, Enum &value,
                      std::optional<Enum> (*symbolize)(StringRef),
                      StringRef what) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Enum> found = symbolize(word);
  if (!found)
    return parser.emitError(loc, "unknown ") << what << " '" << word << "'";
  value = *found;
  return success();
}

ParseResult parseShardings(AsmParser &parser,
                           SmallVectorImpl<ShardingAttr> &list) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseAttribute(list.emplace_back());
  });
}

ParseResult parseNumbers(AsmParser &parser, SmallVectorImpl<int64_t> &list) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(list.emplace_back());
  });
}

/// Prints a list in angle brackets, with commas between its members.
class FieldsPrinter {
public:
  explicit FieldsPrinter(AsmPrinter &printer) : printer(printer) {
    printer << '<';
  }
  ~FieldsPrinter() { printer << '>'; }

  AsmPrinter &next(StringRef key) {
    return printer << (std::exchange(first, false) ? "" : ", ") << key;
  }
  template <typename List, typename Print>
  void list(StringRef key, const List &values, Print print) {
    if (values.empty())
      return;
    next(key) << '[';
    llvm::interleaveComma(values, printer, print);
    printer << ']';
  }

private:
  AsmPrinter &printer;
  bool first = true;
};

} // namespace

Attribute PlanAttr::parse(AsmParser &parser, Type) {
  SmallVector<ShardingAttr> operands, results;
  std::optional<int64_t> stage;
  int64_t chunk = 0;
  SMLoc loc = parser.getCurrentLocation();
  auto error = [&] { return parser.emitError(loc); };
  FieldsParser fields(parser, {"operands", "results", "stage", "chunk"});
  if (fields.run([&](StringRef key) -> ParseResult {
        if (parser.parseEqual())
          return failure();
        if (key == "stage")
          return parser.parseInteger(stage.emplace());
        if (key == "chunk")
          return parser.parseInteger(chunk);
        return parseShardings(parser, key == "operands" ? operands : results);
      }))
    return {};
  return getChecked(function_ref<InFlightDiagnostic()>(error),
                    parser.getContext(), ArrayRef(operands), ArrayRef(results),
                    stage, chunk);
}

void PlanAttr::print(AsmPrinter &printer) const {
  FieldsPrinter fields(printer);
  auto print = [&](ShardingAttr sharding) { printer.printAttribute(sharding); };
  fields.list("operands = ", getOperands(), print);
  fields.list("results = ", getResults(), print);
  if (getStage())
    fields.next("stage = ") << *getStage();
  if (getChunk())
    fields.next("chunk = ") << getChunk();
}

LogicalResult PlanAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<ShardingAttr> operands,
                               ArrayRef<ShardingAttr> results,
                               std::optional<int64_t> stage, int64_t chunk) {
  // plan C4
  if (chunk < 0)
    return emitError() << "chunk is " << chunk << ", expected at least 0";
  if (chunk && !stage)
    return emitError() << "chunk " << chunk << " of no stage";
  // plan C1
  if (operands.empty() && results.empty() && !stage)
    return emitError() << "a plan that decides nothing";
  // plan C2
  if (stage && *stage < 0)
    return emitError() << "stage is " << *stage << ", expected at least 0";
  return success();
}

/// `<phase, colocation number, purpose, loss, recomputed>`, of which all but
/// the phase may be left out.
Attribute StepAttr::parse(AsmParser &parser, Type) {
  Phase phase = Phase::Forward;
  std::optional<int64_t> colocation;
  std::optional<Purpose> purpose;
  bool loss = false, recomputed = false;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parseEnum<Phase>(parser, phase, symbolizePhase, "phase"))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    bool isLast = loss || recomputed;
    if (!colocation && !purpose && !isLast &&
        succeeded(parser.parseOptionalKeyword("colocation"))) {
      if (parser.parseInteger(colocation.emplace()))
        return {};
    } else if (!isLast && succeeded(parser.parseOptionalKeyword("loss"))) {
      loss = true;
    } else if (!isLast &&
               succeeded(parser.parseOptionalKeyword("recomputed"))) {
      recomputed = true;
    } else if (purpose || isLast) {
      parser.emitError(loc, "expected colocation, purpose and loss or "
                            "recomputed once each, in this order");
      return {};
    } else if (parseEnum<Purpose>(parser, purpose.emplace(), symbolizePurpose,
                                  "purpose")) {
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    phase, colocation, purpose, loss, recomputed);
}

void StepAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyPhase(getPhase());
  if (getColocation())
    printer << ", colocation " << *getColocation();
  if (getPurpose())
    printer << ", " << stringifyPurpose(*getPurpose());
  printer << (getLoss() ? ", loss" : "")
          << (getRecomputed() ? ", recomputed>" : ">");
}

LogicalResult StepAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               Phase phase, std::optional<int64_t> colocation,
                               std::optional<Purpose> purpose, bool loss,
                               bool recomputed) {
  // step C1
  if (phase == Phase::Forward && !colocation && !purpose && !loss)
    return emitError() << "a step that says nothing: forward goes without";
  // step C2
  if (colocation && *colocation < 0)
    return emitError() << "colocation is " << *colocation
                       << ", expected at least 0";
  // step C3
  if (loss && phase != Phase::Forward)
    return emitError() << "an op of the loss is in phase "
                       << stringifyPhase(phase) << ", expected forward";
  // step C4
  if (recomputed && phase != Phase::BackwardInput)
    return emitError() << "an op that is recomputed is in phase "
                       << stringifyPhase(phase) << ", expected backward_input";
  return success();
}

Attribute PartAttr::parse(AsmParser &parser, Type) {
  Phase phase = Phase::Forward;
  int64_t stage = 0, chunk = 0;
  SMLoc loc = parser.getCurrentLocation();
  FieldsParser fields(parser, {"stage", "chunk", "phase"});
  if (fields.run([&](StringRef key) -> ParseResult {
        if (parser.parseEqual())
          return failure();
        if (key == "phase")
          return parseEnum<Phase>(parser, phase, symbolizePhase, key);
        return parser.parseInteger(key == "stage" ? stage : chunk);
      }))
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    stage, chunk, phase);
}

void PartAttr::print(AsmPrinter &printer) const {
  FieldsPrinter fields(printer);
  fields.next("stage = ") << getStage();
  if (getChunk())
    fields.next("chunk = ") << getChunk();
  fields.next("phase = ") << stringifyPhase(getPhase());
}

LogicalResult PartAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t stage, int64_t chunk, Phase) {
  // part C1
  if (stage < 0)
    return emitError() << "stage is " << stage << ", expected at least 0";
  // part C2
  if (chunk < 0)
    return emitError() << "chunk is " << chunk << ", expected at least 0";
  return success();
}

Attribute FromAttr::parse(AsmParser &parser, Type) {
  From kind = From::Input;
  int64_t number = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parseEnum<From>(parser, kind, symbolizeFrom, "origin") ||
      parser.parseInteger(number) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    kind, number);
}

void FromAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyFrom(getKind()) << ' ' << getNumber() << '>';
}

LogicalResult FromAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               From kind, int64_t number) {
  // from C1
  if (number < 0)
    return emitError() << stringifyFrom(kind) << " is " << number
                       << ", expected at least 0";
  return success();
}

Attribute ToAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> output, send, keep;
  SMLoc loc = parser.getCurrentLocation();
  auto error = [&] { return parser.emitError(loc); };
  FieldsParser fields(parser, {"output", "send", "keep"});
  if (fields.run([&](StringRef key) {
        return parseNumbers(parser, key == "output" ? output
                                    : key == "send" ? send
                                                    : keep);
      }))
    return {};
  return getChecked(function_ref<InFlightDiagnostic()>(error),
                    parser.getContext(), ArrayRef(output), ArrayRef(send),
                    ArrayRef(keep));
}

void ToAttr::print(AsmPrinter &printer) const {
  FieldsPrinter fields(printer);
  auto print = [&](int64_t number) { printer << number; };
  fields.list("output ", getOutput(), print);
  fields.list("send ", getSend(), print);
  fields.list("keep ", getKeep(), print);
}

LogicalResult ToAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                             ArrayRef<int64_t> output, ArrayRef<int64_t> send,
                             ArrayRef<int64_t> keep) {
  // to C1
  if (output.empty() && send.empty() && keep.empty())
    return emitError() << "a result that goes nowhere";
  return success();
}

//===----------------------------------------------------------------------===//
// dist.plan
//===----------------------------------------------------------------------===//

/// Asked of every op many times. What is decided is never among the properties
/// of an op, whose names some dialects compare one by one.
template <typename T> static T decisionOf(Operation *op, StringRef name) {
  return dyn_cast_or_null<T>(op->getDiscardableAttr(name));
}

static PlanAttr planOf(Operation *op) {
  return decisionOf<PlanAttr>(op, kPlan);
}

static void setPlan(Operation *op, ArrayRef<ShardingAttr> operands,
                    ArrayRef<ShardingAttr> results,
                    std::optional<int64_t> stage, int64_t chunk) {
  if (operands.empty() && results.empty() && !stage)
    op->removeDiscardableAttr(kPlan);
  else
    op->setDiscardableAttr(kPlan,
                           PlanAttr::get(op->getContext(), operands, results,
                                         stage, stage ? chunk : 0));
}

ArrayRef<ShardingAttr> dist::getOperandShardings(Operation *op) {
  PlanAttr plan = planOf(op);
  return plan ? plan.getOperands() : ArrayRef<ShardingAttr>();
}

ArrayRef<ShardingAttr> dist::getResultShardings(Operation *op) {
  PlanAttr plan = planOf(op);
  return plan ? plan.getResults() : ArrayRef<ShardingAttr>();
}

void dist::setOperandShardings(Operation *op,
                               ArrayRef<ShardingAttr> shardings) {
  setPlan(op, shardings, getResultShardings(op), findStage(op), getChunk(op));
}

void dist::setResultShardings(Operation *op, ArrayRef<ShardingAttr> shardings) {
  setPlan(op, getOperandShardings(op), shardings, findStage(op), getChunk(op));
}

std::optional<int64_t> dist::findStage(Operation *op) {
  if (PlanAttr plan = planOf(op))
    return plan.getStage();
  if (PartAttr part = getPart(op))
    return part.getStage();
  return std::nullopt;
}

int64_t dist::getChunk(Operation *op) {
  if (PlanAttr plan = planOf(op))
    return plan.getChunk();
  PartAttr part = getPart(op);
  return part ? part.getChunk() : 0;
}

void dist::setStage(Operation *op, std::optional<int64_t> stage,
                    int64_t chunk) {
  setPlan(op, getOperandShardings(op), getResultShardings(op), stage, chunk);
}

void dist::setStageOf(Operation *op, Operation *other) {
  setStage(op, findStage(other), getChunk(other));
}

void dist::dropPlan(Operation *op) { op->removeDiscardableAttr(kPlan); }

//===----------------------------------------------------------------------===//
// dist.step
//===----------------------------------------------------------------------===//

namespace {
/// A dist.step that is changed field by field; the destructor writes it.
struct StepFields {
  explicit StepFields(Operation *op) : op(op) {
    if (StepAttr step = getStep(op)) {
      phase = step.getPhase();
      colocation = step.getColocation();
      purpose = step.getPurpose();
      loss = step.getLoss();
      recomputed = step.getRecomputed();
    }
  }
  ~StepFields() {
    loss &= phase == Phase::Forward;
    recomputed &= phase == Phase::BackwardInput;
    bool nothing = phase == Phase::Forward && !colocation && !purpose && !loss;
    setStep(op, nothing ? StepAttr()
                        : StepAttr::get(op->getContext(), phase, colocation,
                                        purpose, loss, recomputed));
  }

  Operation *op;
  Phase phase = Phase::Forward;
  std::optional<int64_t> colocation;
  std::optional<Purpose> purpose;
  bool loss = false, recomputed = false;
};
} // namespace

StepAttr dist::getStep(Operation *op) {
  return decisionOf<StepAttr>(op, kStep);
}

void dist::setStep(Operation *op, StepAttr step) {
  if (step)
    op->setDiscardableAttr(kStep, step);
  else
    op->removeDiscardableAttr(kStep);
}

StepAttr dist::phaseOnly(StepAttr step) {
  if (!step || step.getPhase() == Phase::Forward)
    return {};
  return StepAttr::get(step.getContext(), step.getPhase(), std::nullopt,
                       std::nullopt, false, step.getRecomputed());
}

Phase dist::getPhase(Operation *op) {
  if (StepAttr step = getStep(op))
    return step.getPhase();
  PartAttr part = getPart(op);
  return part ? part.getPhase() : Phase::Forward;
}

void dist::setPhase(Operation *op, Phase phase) {
  StepFields fields(op);
  fields.phase = phase;
}

std::optional<int64_t> dist::getColocation(Operation *op) {
  StepAttr step = getStep(op);
  return step ? step.getColocation() : std::nullopt;
}

void dist::setColocation(Operation *op, std::optional<int64_t> colocation) {
  StepFields fields(op);
  fields.colocation = colocation;
}

PurposeAttr dist::getPurpose(Operation *op) {
  StepAttr step = getStep(op);
  return step && step.getPurpose()
             ? PurposeAttr::get(op->getContext(), *step.getPurpose())
             : PurposeAttr();
}

void dist::setPurpose(Operation *op, std::optional<Purpose> purpose) {
  StepFields fields(op);
  fields.purpose = purpose;
}

bool dist::isOfLoss(Operation *op) {
  StepAttr step = getStep(op);
  return step && step.getLoss();
}

void dist::setOfLoss(Operation *op, bool isOfLoss) {
  StepFields fields(op);
  fields.loss = isOfLoss;
}

bool dist::isRecomputed(Operation *op) {
  StepAttr step = getStep(op);
  return step && step.getRecomputed();
}

void dist::setRecomputed(Operation *op) {
  StepFields fields(op);
  fields.phase = Phase::BackwardInput;
  fields.recomputed = true;
}

ReductionReach dist::getReductionReach(Operation *op) {
  auto reach = decisionOf<ReductionReachAttr>(op, kLocalReduction);
  return reach ? reach.getValue() : ReductionReach::Batch;
}

//===----------------------------------------------------------------------===//
// Functions of stages
//===----------------------------------------------------------------------===//

PartAttr dist::getPart(Operation *function) {
  return decisionOf<PartAttr>(function, kPart);
}

void dist::setPart(Operation *function, int64_t stage, Phase phase,
                   int64_t chunk) {
  function->setDiscardableAttr(
      kPart, PartAttr::get(function->getContext(), stage, chunk, phase));
}

std::optional<int64_t> dist::numberFrom(FunctionOpInterface function,
                                        unsigned index, From kind) {
  auto from = function.getArgAttrOfType<FromAttr>(index, kFrom);
  return from && from.getKind() == kind ? std::optional(from.getNumber())
                                        : std::nullopt;
}

static ToAttr toOf(FunctionOpInterface function, unsigned index) {
  return function.getResultAttrOfType<ToAttr>(index, kTo);
}

ArrayRef<int64_t> dist::outputsOf(FunctionOpInterface function,
                                  unsigned index) {
  ToAttr to = toOf(function, index);
  return to ? to.getOutput() : ArrayRef<int64_t>();
}

ArrayRef<int64_t> dist::sendsOf(FunctionOpInterface function, unsigned index) {
  ToAttr to = toOf(function, index);
  return to ? to.getSend() : ArrayRef<int64_t>();
}

ArrayRef<int64_t> dist::keepsOf(FunctionOpInterface function, unsigned index) {
  ToAttr to = toOf(function, index);
  return to ? to.getKeep() : ArrayRef<int64_t>();
}
