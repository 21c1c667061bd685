//===- PlanJson.cpp - shardings of all values, out and back in ------------===//
//
// The "values" of plan.json: for each value its sharding, the sharding in which
// several uses share it or those for which the passes of a micro-batch gather
// it, those of the operands of the op that makes it, and the stage. Read back,
// edited or not, they give the same attributes that planning writes. But
// for what the plan makes of the step (GivenStep.h), everything is checked
// before anything is changed.
//
//===----------------------------------------------------------------------===//
#include "../EntryFunction.h"
#include "../Model/Terminator.h"
#include "../WriteBack.h"
#include "GivenStep.h"
#include "OtherName.h"
#include "PriceGiven.h"
#include "PureCuts.h"
#include "ShardingText.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Format/Schemas.h"
#include "kerf/Format/StepScalars.h"

#include "mlir/AsmParser/AsmParser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;
namespace json = llvm::json;

/// All keys of a plan.json: those that are read here, and those that are only
/// for people and other tools.
static constexpr StringRef kPlanKeys[] = {"schema",    "mesh",
                                          "mesh_axes", "devices",
                                          "schedule",  "values",
                                          "precision", "gradient_dtype",
                                          "goal",      "model",
                                          "machine",   "stages",
                                          "objective", "runners_up",
                                          "pure_cuts", "memory",
                                          "time",      "communication",
                                          "zero",      "recompute",
                                          "in_parts",  "planning_seconds"};

/// What gradients are clipped by, as autodiff names it.
static constexpr const char *kGradientNorm = kGradientNormOutput;

namespace {

class Reader {
public:
  Reader(ModuleOp module, func::FuncOp function, const json::Value &plan,
         Zero zero, std::string &message)
      : module(module), function(function), plan(plan), message(message),
        names(namesOf(function, plan)), rules(function),
        batch(function, {}, rules), zero(function, zero) {}

  LogicalResult run(const PlanOptions &options, PlanResult &result);

private:
  LogicalResult fail(const Twine &text) {
    message = text.str();
    return failure();
  }
  LogicalResult readKnown(const Twine &where, const json::Object &object,
                          ArrayRef<StringRef> known);
  LogicalResult readMesh();
  LogicalResult checkChunks(int64_t microBatches);
  FailureOr<dist::ShardingAttr> readSharding(StringRef name,
                                             std::optional<StringRef> text,
                                             ArrayRef<int64_t> shape);
  LogicalResult checkEntry(StringRef name, const json::Object &entry,
                           size_t rank);
  std::string otherNorm() const;
  std::string otherModel() const;
  static ValueNames namesOf(func::FuncOp function, const json::Value &plan);
  LogicalResult readValue(const json::Object &entry);
  void placeConstant(Operation *op);
  LogicalResult readGathered(StringRef name, Value value,
                             const json::Object &entry);
  LogicalResult checkParts(Operation *op);
  PlanResult price(const PlanOptions &options);
  void write();

  ModuleOp module;
  func::FuncOp function;
  const json::Value &plan;
  std::string &message;
  ValueNames names;
  OpRules rules;
  BatchAnalysis batch;
  ZeroParts zero;
  dist::Mesh mesh;
  dist::MeshAttr meshAttr;
  cost::ScheduleKind schedule = cost::ScheduleKind::OneFOneB;
  int64_t chunks = 1;
  struct OpPlan {
    SmallVector<dist::ShardingAttr> operands, results;
    std::optional<int64_t> stage;
    int64_t chunk = 0;
  };
  llvm::MapVector<Operation *, OpPlan> ops;
  llvm::MapVector<Value, dist::ShardingAttr> arguments, shared;
  llvm::MapVector<std::pair<Value, int>, dist::ShardingAttr> gathered;
  SmallVector<dist::ShardingAttr> outputs;
  llvm::StringSet<> listed;
};

} // namespace

/// A key that is not known may be one of these, misspelt: the plan would be
/// another one than its author thinks.
LogicalResult Reader::readKnown(const Twine &where, const json::Object &object,
                                ArrayRef<StringRef> known) {
  SmallVector<StringRef> unknown;
  for (const auto &[key, value] : object)
    if (!is_contained(known, StringRef(key)))
      unknown.push_back(key);
  if (unknown.empty())
    return success();
  return fail(where + "unknown key \"" + *llvm::min_element(unknown) +
              "\", expected one of " + llvm::join(known, ", "));
}

/// Several chunks are of an interleaved schedule, and that of several chunks.
LogicalResult Reader::checkChunks(int64_t microBatches) {
  bool isInterleaved = schedule == cost::ScheduleKind::Interleaved;
  if (chunks < 1 || (chunks > 1) != isInterleaved)
    return fail("schedule: chunks is " + Twine(chunks) + ", expected " +
                (isInterleaved ? "at least 2" : "1, unless it is interleaved"));
  auto axis = mesh.find(dist::kStageAxis);
  if (isInterleaved && (!axis || microBatches % mesh.axes[*axis].size != 0 ||
                        !batch.isTraining()))
    return fail("schedule: is interleaved, expected a step that trains on "
                "stages, with a multiple of them as micro-batches");
  return success();
}

LogicalResult Reader::readMesh() {
  const json::Object *root = plan.getAsObject();
  StringRef schema = root ? root->getString("schema").value_or("") : "";
  if (std::string wrong = schemaMismatch(planSchema, schema); !wrong.empty())
    return fail("schema " + wrong);
  if (failed(readKnown("", *root, kPlanKeys)))
    return failure();
  const json::Object *axes = root->getObject("mesh");
  if (!axes)
    return fail("mesh: missing");
  // JSON objects have no order: "axes" has, "mesh" is for people.
  const json::Array *order = root->getArray("mesh_axes");
  if (!order)
    return fail("mesh_axes: missing");
  for (const json::Value &axis : *order) {
    std::optional<StringRef> name = axis.getAsString();
    std::optional<int64_t> size = name ? axes->getInteger(*name) : std::nullopt;
    if (!size || *size < 1)
      return fail("mesh: no size of at least 1 for \"" + name.value_or("?") +
                  "\", an axis of mesh_axes");
    if (*size > 1)
      mesh.axes.push_back({name->str(), *size, false});
  }
  if (std::string wrong = dist::checkMesh(mesh); !wrong.empty())
    return fail("mesh: " + wrong);
  if (std::optional<int64_t> devices = root->getInteger("devices");
      devices && *devices != mesh.numRanks())
    return fail("mesh: degrees multiply to " + Twine(mesh.numRanks()) +
                ", expected " + Twine(*devices) + " devices");
  int64_t micro = 1;
  if (const json::Object *given = root->getObject("schedule")) {
    if (failed(
            readKnown("schedule: ", *given,
                      {"kind", "micro_batches", "chunks", "bubble_fraction"})))
      return failure();
    chunks = given->getInteger("chunks").value_or(1);
    micro = given->getInteger("micro_batches").value_or(1);
    StringRef kind = given->getString("kind").value_or("");
    std::optional<cost::ScheduleKind> known = cost::parseScheduleKind(kind);
    if (known && *known != cost::ScheduleKind::Forward)
      schedule = *known;
    else if (batch.isTraining() && !kind.empty() && kind != "none")
      return fail("schedule: kind is \"" + kind +
                  "\", expected gpipe, 1f1b or interleaved");
  }
  if (micro < 1)
    return fail("schedule: micro_batches is " + Twine(micro));
  if (int64_t samples = batch.batchSize(); samples > 0 && samples % micro != 0)
    return fail("schedule: micro_batches is " + Twine(micro) +
                ", which does not divide the batch of " + Twine(samples));
  if (failed(checkChunks(micro)))
    return failure();
  if (micro > 1)
    mesh.axes.push_back({"mb", micro, true});
  if (std::string wrong = dist::checkMesh(mesh); !wrong.empty())
    return fail("schedule: " + wrong);
  meshAttr = dist::MeshAttr::get(module.getContext(), mesh);
  return success();
}

/// That one of plan and step clips gradients and the other does not.
std::string Reader::otherNorm() const {
  const json::Array *values = plan.getAsObject()->getArray("values");
  bool isPlanned =
      values && llvm::any_of(*values, [](const json::Value &value) {
        const json::Object *entry = value.getAsObject();
        return entry && entry->getString("name") == StringRef(kGradientNorm);
      });
  if (!batch.isTraining() || isPlanned == bool(names.find(kGradientNorm)))
    return "";
  return (Twine("; it is a plan of a step ") +
          (isPlanned ? "with" : "without") +
          " the norm of all gradients, which option clip-norm asks for, and "
          "this one is " +
          (isPlanned ? "without it" : "with it"))
      .str();
}

/// Why a plan names other values than the model has.
std::string Reader::otherModel() const {
  std::string norm = otherNorm();
  return !norm.empty()
             ? norm
             : "; it is a plan of another model, or of other sizes, another "
               "loss, optimizer or form of this one (as fused attention is), "
               "or one "
               "that was made without the file of the weights";
}

FailureOr<dist::ShardingAttr>
Reader::readSharding(StringRef name, std::optional<StringRef> text,
                     ArrayRef<int64_t> shape) {
  if (!text)
    return fail("values: '" + name + "' has no sharding");
  // Parse errors are reported here, with the value's name, not by the parser.
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  Attribute attr = parseAttribute(("#dist.sharding<" + *text + ">").str(),
                                  module.getContext());
  auto sharding = dyn_cast_if_present<dist::ShardingAttr>(attr);
  if (!sharding)
    return fail("values: '" + name + "': '" + *text +
                "' is not a sharding, expected as '{\"tp\"}, {}'");
  llvm::Expected<dist::Layout> layout = sharding.toLayout(mesh);
  if (!layout)
    return fail("values: '" + name +
                "': " + llvm::toString(layout.takeError()));
  if (layout->dims.size() != shape.size())
    return fail("values: '" + name + "' has " + Twine(layout->dims.size()) +
                " dimensions in the plan and " + Twine(shape.size()) +
                " in the model" + otherModel());
  std::string wrong = dist::checkLayout(*layout, mesh, shape.size());
  if (wrong.empty())
    wrong = dist::checkBlocks(*layout, shape);
  if (!wrong.empty())
    return fail("values: '" + name + "': " + wrong);
  return sharding;
}

/// What each pass gathers of a parameter in parts.
LogicalResult Reader::readGathered(StringRef name, Value value,
                                   const json::Object &entry) {
  const json::Value *given = entry.get("gathered");
  if (!given)
    return success();
  const json::Object *layouts = given->getAsObject();
  if (!layouts || !zero.isGatheredPerPass(value))
    return fail("values: '" + name + "': gathered is of passes that gather " +
                "parameters (zero is 3)");
  if (failed(
          readKnown("values: '" + name + "': gathered: ", *layouts,
                    {nameOf(StepPass::Forward), nameOf(StepPass::Backward)})))
    return failure();
  for (StepPass pass : kPasses) {
    std::optional<StringRef> text = layouts->getString(nameOf(pass));
    if (!text)
      continue;
    auto attr = readSharding(name, text, tensorType(value).getShape());
    if (failed(attr))
      return failure();
    gathered[{value, static_cast<int>(pass)}] = *attr;
  }
  return success();
}

/// Each value has one entry, and each key of it the right type. The sizes of
/// `shape` may differ from the model's: a plan also serves for another batch.
LogicalResult Reader::checkEntry(StringRef name, const json::Object &entry,
                                 size_t rank) {
  auto isSize = [](const json::Value &value) {
    return value.getAsInteger().value_or(-1) >= 0;
  };
  if (!listed.insert(name).second)
    return fail("values: '" + name + "' is listed twice");
  const json::Array *sizes = entry.getArray("shape");
  if (entry.get("shape") && !(sizes && llvm::all_of(*sizes, isSize)))
    return fail("values: '" + name + "': shape is no list of sizes");
  if (sizes && sizes->size() != rank)
    return fail("values: '" + name + "' has " + Twine(sizes->size()) +
                " dimensions in the plan and " + Twine(rank) + " in the model" +
                otherModel());
  for (StringRef key : {"sharding", "shared"})
    if (entry.get(key) && !entry.getString(key))
      return fail("values: '" + name + "': " + key + " is no text");
  if (entry.get("operands") && !entry.getObject("operands"))
    return fail("values: '" + name + "': operands are no object");
  if (const json::Value *chunk = entry.get("chunk")) {
    std::optional<int64_t> number = chunk->getAsInteger();
    if (!number || *number < 0 || *number >= chunks)
      return fail("values: '" + name + "': chunk is none of " + Twine(chunks));
  }
  const json::Value *stage = entry.get("stage");
  if (!stage || stage->getAsNull())
    return success();
  auto axis = mesh.find(dist::kStageAxis);
  int64_t stages = axis ? mesh.axes[*axis].size : 1;
  std::optional<int64_t> number = stage->getAsInteger();
  if (!number || *number < 0 || *number >= stages)
    return fail("values: '" + name + "': stage is none of " + Twine(stages));
  return success();
}

static int64_t rankOf(const json::Object &entry) {
  const json::Array *sizes = entry.getArray("shape");
  return sizes ? static_cast<int64_t>(sizes->size()) : -1;
}

/// As the plan was written: see ValueNames::Constants.
ValueNames Reader::namesOf(func::FuncOp function, const json::Value &plan) {
  const json::Object *root = plan.getAsObject();
  const json::Array *values = root ? root->getArray("values") : nullptr;
  auto knowsAll = [&](const ValueNames &names) {
    return !values || llvm::all_of(*values, [&](const json::Value &value) {
      const json::Object *entry = value.getAsObject();
      StringRef name = entry ? entry->getString("name").value_or("") : "";
      return names.find(name) || name.starts_with("output:") ||
             ValueNames::isOfConstant(name);
    });
  };
  ValueNames apart(function);
  if (knowsAll(apart))
    return apart;
  ValueNames together(function, ValueNames::Constants::Together);
  return knowsAll(together) ? together : apart;
}

/// A constant that the plan does not know, having been made for other sizes, is
/// whole on every device, in the first stage that uses it.
void Reader::placeConstant(Operation *op) {
  OpPlan &own = ops[op];
  for (Value result : op->getResults())
    own.results.push_back(
        dist::ShardingAttr::get(module.getContext(), meshAttr,
                                dist::Layout(tensorType(result).getRank())));
  for (Operation *user : op->getUsers()) {
    auto found = ops.find(user);
    if (found == ops.end() || !found->second.stage)
      continue;
    std::pair<int64_t, int64_t> place = {found->second.chunk,
                                         *found->second.stage};
    if (!own.stage || place < std::pair(own.chunk, *own.stage))
      std::tie(own.chunk, own.stage) = place;
  }
}

LogicalResult Reader::readValue(const json::Object &entry) {
  std::optional<StringRef> name = entry.getString("name");
  if (!name)
    return fail("values: an entry has no name");
  if (failed(readKnown("values: '" + *name + "': ", entry,
                       {"name", "shape", "sharding", "shared", "gathered",
                        "operands", "stage", "chunk"})))
    return failure();
  if (name->starts_with("output:")) {
    size_t index = outputs.size();
    if (index >= function.getNumResults() ||
        *name != "output:" + std::to_string(index))
      return fail("values: unexpected '" + *name + "'");
    auto type = plannedType(function.getResultTypes()[index]);
    if (failed(checkEntry(*name, entry, type.getRank())))
      return failure();
    auto attr =
        readSharding(*name, entry.getString("sharding"), type.getShape());
    if (failed(attr))
      return failure();
    outputs.push_back(*attr);
    return success();
  }
  Value value = names.find(*name);
  // Which constants there are differs between sizes: see placeConstant().
  if (ValueNames::isOfConstant(*name) &&
      (!value || rankOf(entry) != tensorType(value).getRank()))
    return success();
  if (!value)
    return fail("values: the model has no value '" + *name + "'" +
                otherModel());
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  if (failed(checkEntry(*name, entry, shape.size())))
    return failure();
  auto own = readSharding(*name, entry.getString("sharding"), shape);
  if (failed(own))
    return failure();
  if (std::optional<StringRef> text = entry.getString("shared")) {
    auto attr = readSharding(*name, text, shape);
    if (failed(attr))
      return failure();
    shared[value] = *attr;
  }
  if (failed(readGathered(*name, value, entry)))
    return failure();
  auto result = dyn_cast<OpResult>(value);
  if (!result) {
    arguments[value] = *own;
    return success();
  }
  OpPlan &op = ops[result.getOwner()];
  op.results.push_back(*own);
  if (result.getResultNumber() > 0)
    return success();
  op.stage = entry.getInteger("stage");
  op.chunk = entry.getInteger("chunk").value_or(0);
  const json::Object *operands = entry.getObject("operands");
  for (OpOperand &operand : result.getOwner()->getOpOperands()) {
    std::string key = std::to_string(operand.getOperandNumber());
    auto type = tensorType(operand.get());
    auto attr =
        readSharding(*name, operands ? operands->getString(key) : std::nullopt,
                     type.getShape());
    if (failed(attr))
      return failure();
    op.operands.push_back(*attr);
  }
  return success();
}

/// A plan that was edited or made elsewhere may not let partial sums of devices
/// pass where a search does not: the program would give NaN where the model
/// gives infinity.
LogicalResult Reader::checkParts(Operation *op) {
  if (batch.closedGroups(op).empty())
    return success();
  SmallVector<unsigned> parts;
  for (auto [number, attr] : llvm::enumerate(ops[op].operands))
    if (llvm::any_of(llvm::cantFail(attr.toLayout(mesh)).partial,
                     [&](const dist::AxisRef &over) {
                       return !mesh.axes[over.axis].isTime;
                     }))
      parts.push_back(number);
  const ShardingRule &rule = rules.of(op);
  for (unsigned group : batch.closedGroups(op))
    if (ArrayRef(rule.linearGroups[group]) == ArrayRef(parts))
      return fail("values: '" + names[op->getResult(0)] + "' " +
                  (rule.isLinearInTime
                       ? "chooses of a partial sum, which devices add up in "
                         "front of it"
                       : "multiplies a partial sum by what may be infinite, or "
                         "divides it by what may be 0"));
  return success();
}

void Reader::write() {
  dist::createMesh(module, meshAttr);
  dist::setArgAttrs(function, dist::kSharding, [&](unsigned index) {
    return arguments.lookup(function.getArgument(index));
  });
  dist::setResultAttrs(function, dist::kSharding, [&](unsigned index) {
    return index < outputs.size() ? outputs[index] : dist::ShardingAttr();
  });
  for (auto &[op, plan] : ops) {
    dist::setOperandShardings(op, plan.operands);
    dist::setResultShardings(op, plan.results);
    if (plan.stage && mesh.find("pp"))
      dist::setStage(op, *plan.stage, plan.chunk);
  }
  // An assignment is in the stage of the op that makes the value.
  for (auto assign : function.getBody().front().getOps<dist::AssignOp>()) {
    Operation *source = assign.getSource().getDefiningOp();
    dist::ShardingAttr stored = ops[source].results[0];
    dist::setOperandShardings(assign, {stored, stored});
    if (Operation *def = assign.getValue().getDefiningOp())
      dist::setStageOf(assign, def);
  }
  auto made = [&](Value value) {
    return arguments.contains(value)
               ? arguments[value]
               : ops[value.getDefiningOp()]
                     .results[cast<OpResult>(value).getResultNumber()];
  };
  for (auto &[value, to] : shared) {
    SharedReshard move{value, made(value), to, std::nullopt, std::nullopt};
    if (batch.isTraining())
      move.phase = sharedPhase(batch, value);
    insertSharedReshards(move);
  }
  for (auto &[key, to] : gathered) {
    auto [value, pass] = key;
    insertSharedReshards(
        passReshard(value, static_cast<StepPass>(pass), made(value), to, zero));
  }
  if (batch.isTraining())
    setScheduleKind(module, schedule, chunks);
}

PlanResult Reader::price(const PlanOptions &options) {
  auto layoutOf = [&](dist::ShardingAttr attr) {
    return llvm::cantFail(attr.toLayout(mesh));
  };
  auto made = [&](Value value) {
    auto result = dyn_cast<OpResult>(value);
    return layoutOf(
        result ? ops[result.getOwner()].results[result.getResultNumber()]
               : arguments[value]);
  };
  auto sharedLayout = [&](Value value) {
    auto found = shared.find(value);
    return found == shared.end() ? made(value) : layoutOf(found->second);
  };
  auto gatheredLayout = [&](Value value, StepPass pass) {
    auto found = gathered.find({value, static_cast<int>(pass)});
    return found == gathered.end() ? made(value) : layoutOf(found->second);
  };
  auto operand = [&](OpOperand &use) {
    unsigned index = use.getOperandNumber();
    if (isTerminator(use.getOwner()))
      return layoutOf(outputs[index]);
    return layoutOf(ops[use.getOwner()].operands[index]);
  };
  // An assignment is in the stage of the op that makes the value.
  auto axis = mesh.find(dist::kStageAxis);
  int64_t stages = axis ? mesh.axes[*axis].size : 1;
  auto place = [&](Operation *op) -> int64_t {
    if (auto assign = dyn_cast<dist::AssignOp>(op))
      op = assign.getValue().getDefiningOp();
    if (!op || !ops[op].stage)
      return -1;
    return ops[op].chunk * stages + *ops[op].stage;
  };
  PlanOptions own = options;
  own.devices = mesh.numRanks();
  own.zero = zero.getZero();
  own.schedule.reset();
  own.chunks.reset();
  if (batch.isTraining())
    own.schedule = schedule;
  if (chunks > 1)
    own.chunks = chunks;
  return priceGiven(function,
                    {mesh, made, sharedLayout, gatheredLayout, operand, place},
                    own);
}

LogicalResult Reader::run(const PlanOptions &options, PlanResult &result) {
  if (failed(readMesh()))
    return failure();
  const json::Array *values = plan.getAsObject()->getArray("values");
  if (!values)
    return fail("values: missing");
  for (const json::Value &value : *values) {
    const json::Object *entry = value.getAsObject();
    if (!entry)
      return fail("values: an entry is not an object");
    if (failed(readValue(*entry)))
      return failure();
  }
  for (BlockArgument argument : function.getArguments())
    if (!arguments.contains(argument))
      return fail("values: input '" + names[argument] + "' is missing");
  for (Operation &op : function.getBody().front())
    if (isUnnamedConstant(&op) && !ops.contains(&op))
      placeConstant(&op);
    else if (op.getNumResults() &&
             ops[&op].results.size() != op.getNumResults())
      return fail("values: '" + names[op.getResult(0)] + "' is missing" +
                  otherNorm());
  for (Operation &op : function.getBody().front())
    if (op.getNumResults() && failed(checkParts(&op)))
      return failure();
  if (outputs.size() != function.getNumResults())
    return fail("values: " + Twine(outputs.size()) + " outputs, expected " +
                Twine(function.getNumResults()));
  result = price(options);
  write();
  return success();
}

LogicalResult kerf::plan::applyPlanJson(ModuleOp module,
                                        const json::Value &plan,
                                        const PlanOptions &options,
                                        PlanResult &result,
                                        std::string &message) {
  func::FuncOp function = entryToPlan(module);
  if (!function)
    return failure();
  FailureOr<Zero> zero = makeStepOf(plan, function, message);
  if (failed(zero))
    return failure();
  json::Value own = withNamesOf(function, plan);
  return Reader(module, function, own, *zero, message).run(options, result);
}
