//===- Manifest.cpp - manifest.json from a module -------------------------===//
//
// Writes the ops of exec in the format of docs/Package.md: entries in the order
// of their numbers, symbols replaced by numbers.
//
//===----------------------------------------------------------------------===//
#include "Manifest.h"

#include "CallEntries.h"

#include "kerf/Entries/Entries.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Format/Schemas.h"
#include "kerf/Interfaces/Bounded.h"
#include "kerf/Support/NarrowTypes.h"
#include "kerf/rt/program.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace kerf;
namespace json = llvm::json;

static json::Array inOrder(std::map<int64_t, json::Value> &entries) {
  json::Array result;
  for (auto &[index, entry] : entries)
    result.push_back(std::move(entry));
  return result;
}

/// A number, a boolean, the code of a number of 2 to 8 bits, or the name of a
/// value that JSON has no number for.
static json::Value splat(TypedAttr value) {
  if (isNarrow(value.getType()))
    return static_cast<int64_t>(codeOf(value));
  if (auto real = dyn_cast<FloatAttr>(value)) {
    APFloat number = real.getValue();
    if (number.isNaN())
      return "nan";
    if (number.isInfinity())
      return number.isNegative() ? "-inf" : "inf";
    return real.getValueAsDouble();
  }
  auto integer = cast<IntegerAttr>(value);
  if (integer.getType().isInteger(1))
    return integer.getValue().getBoolValue();
  return integer.getType().isUnsignedInteger()
             ? static_cast<int64_t>(integer.getValue().getZExtValue())
             : integer.getValue().getSExtValue();
}

/// Where the bytes are, of which global tensor they are a part, and how that is
/// cut.
static void setSource(json::Object &entry, exec::ParameterOp parameter,
                      const WeightPlan &weights) {
  Attribute source = parameter.getSource();
  RankedTensorType global = parameter.getGlobalType();
  entry["global_shape"] = json::Array(global.getShape());
  setSharding(entry, parameter.getSharding().value_or(dist::ShardingAttr()),
              global.getRank());
  if (parameter.getStarts())
    entry["view"] =
        json::Object{{"starts", json::Array(*parameter.getStarts())},
                     {"sizes", json::Array(global.getShape())}};
  if (auto stored = weights.names.find(source); stored != weights.names.end())
    entry["tensor"] = stored->second;
  else if (auto range = dyn_cast<exec::FileRangeAttr>(source))
    entry["external"] =
        json::Object{{"file", weights.externalOf.lookup(range.getFile())},
                     {"offset", range.getOffset()},
                     {"tensor", parameter.getTensorName()},
                     {"shape", json::Array(range.getStored().getShape())}};
  else
    entry["splat"] = splat(cast<TypedAttr>(source));
}

static json::Array parameters(ModuleOp module, const WeightPlan &weights) {
  std::map<int64_t, json::Value> entries;
  for (auto parameter : module.getOps<exec::ParameterOp>()) {
    auto local = cast<MemRefType>(parameter.getType());
    json::Object entry{{"name", parameter.getName()},
                       {"dtype", dtypeName(local.getElementType())},
                       {"local_shape", json::Array(local.getShape())}};
    if (parameter.isDerived())
      entry["derived"] = true;
    else
      setSource(entry, parameter, weights);
    if (parameter.getStages())
      entry["stages"] = json::Array(*parameter.getStages());
    if (parameter.getIsMutable())
      entry["mutable"] = true;
    if (parameter.getLibraryOnly())
      entry["library_only"] = true;
    if (parameter.getInitOnly())
      entry["init_only"] = true;
    entries.emplace(parameter.getIndex(), std::move(entry));
  }
  return inOrder(entries);
}

template <typename Op> static json::Object boundary(Op op) {
  auto global = cast<RankedTensorType>(op.getGlobal()),
       local = cast<RankedTensorType>(op.getLocal());
  json::Object entry{{"name", op.getName()},
                     {"dtype", dtypeName(global.getElementType())},
                     {"global_shape", json::Array(global.getShape())},
                     {"local_shape", json::Array(local.getShape())}};
  setSharding(entry, op.getSharding().value_or(dist::ShardingAttr()),
              global.getRank());
  return entry;
}

static json::Array inputs(ModuleOp module) {
  std::map<int64_t, json::Value> entries;
  for (auto input : module.getOps<exec::ModelInputOp>()) {
    json::Object entry = boundary(input);
    if (input.getRange())
      entry["range"] = json::Array(*input.getRange());
    entries.emplace(input.getIndex(), std::move(entry));
  }
  return inOrder(entries);
}

static json::Array outputs(ModuleOp module) {
  std::map<int64_t, json::Value> entries;
  for (auto output : module.getOps<exec::ModelOutputOp>()) {
    json::Object entry = boundary(output);
    if (auto pairs = output->getAttrOfType<ArrayAttr>(kBoundedAttr)) {
      auto at = [&](size_t i) { return cast<IntegerAttr>(pairs[i]).getInt(); };
      json::Array bounded;
      for (size_t i = 0; i < pairs.size(); i += 2)
        bounded.push_back(json::Object{{"dim", at(i)}, {"length", at(i + 1)}});
      entry["bounded"] = std::move(bounded);
    }
    if (output->hasAttr(kLengthAttr))
      entry["length"] = true;
    entries.emplace(output.getIndex(), std::move(entry));
  }
  return inOrder(entries);
}

static json::Array channels(ModuleOp module) {
  std::map<int64_t, json::Value> entries;
  for (auto channel : module.getOps<exec::ChannelOp>()) {
    auto type = cast<MemRefType>(channel.getType());
    entries.emplace(
        channel.getNumber(),
        json::Object{
            {"from_stage", static_cast<int64_t>(channel.getFrom())},
            {"to_stage", static_cast<int64_t>(channel.getTo())},
            {"dtype", dtypeName(type.getElementType())},
            {"shape", json::Array(type.getShape())},
            {"bytes", exec::sizeBytes(type)},
            {"tensor", channel.getNode()},
            {"node", channel.getNode()},
            {"purpose", stringifyPurpose(channel.getPurpose().getValue())},
            {"phase", stringifyPhase(channel.getPhase())}});
  }
  return inOrder(entries);
}

static json::Array library(ModuleOp module) {
  std::map<int64_t, json::Value> entries;
  module.walk([&](exec::LibraryCallInterface call) {
    entries.emplace(call.getIndex(), libraryEntry(call));
  });
  return inOrder(entries);
}

static json::Array collectives(ModuleOp module) {
  std::map<int64_t, json::Value> entries;
  module.walk([&](Operation *op) {
    if (auto call = dyn_cast<exec::CollectiveOp>(op))
      entries.emplace(call.getIndex(), collectiveEntry(call));
    if (auto call = dyn_cast<exec::CollectiveStartOp>(op))
      entries.emplace(call.getIndex(), collectiveEntry(call));
  });
  return inOrder(entries);
}

static json::Array shardIndices(ModuleOp module) {
  std::map<int64_t, json::Value> entries;
  module.walk([&](exec::ShardIndexOp op) {
    entries.emplace(op.getIndex(), axesEntry(op.getAxes()));
  });
  return inOrder(entries);
}

static json::Array functions(ModuleOp module,
                             llvm::StringMap<int64_t> &numbers) {
  json::Array result;
  llvm::StringSet<> bodies; // which the program calls itself
  module.walk([&](exec::LoopOp loop) { bodies.insert(loop.getBody()); });
  for (auto function : module.getOps<exec::FuncOp>()) {
    if (bodies.contains(function.getName()))
      continue;
    numbers[function.getName()] = result.size();
    json::Array ios;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      auto buffer = cast<MemRefType>(type);
      auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr);
      ios.push_back(json::Object{
          {"name", name ? name.getValue().str() : "io_" + std::to_string(i)},
          {"dtype", dtypeName(buffer.getElementType())},
          {"shape", json::Array(buffer.getShape())}});
    }
    result.push_back(json::Object{
        {"symbol", function.getName()},
        {"scratch_bytes", static_cast<int64_t>(*function.getScratch())},
        {"num_arguments", static_cast<int64_t>(function.getNumInputs())},
        {"ios", std::move(ios)}});
  }
  return result;
}

namespace {
/// Slots and instructions of a stage; functions are named by their numbers.
class StageEntry {
public:
  StageEntry(exec::StageOp stage, const llvm::StringMap<int64_t> &numbers) {
    for (Operation &op : stage.getBody().front())
      llvm::TypeSwitch<Operation *>(&op)
          .Case<exec::SlotOp>([&](exec::SlotOp slot) { addSlot(slot); })
          .Case<exec::InputOp>([&](exec::InputOp input) {
            json::Object &entry = add("input", input.getIndex(), input);
            if (auto sharding = input.getSharding())
              setSharding(entry, *sharding,
                          input.getSlot().getType().getRank());
          })
          .Case<exec::OutputOp>([&](exec::OutputOp output) {
            add("output", output.getIndex(), output);
          })
          .Case<exec::SendOp>(
              [&](exec::SendOp send) { add("send", send.getChannel(), send); })
          .Case<exec::RecvOp>(
              [&](exec::RecvOp recv) { add("recv", recv.getChannel(), recv); })
          .Case<exec::ZeroOp>([&](exec::ZeroOp zero) {
            instructions.push_back(
                json::Object{{"zero", numberOf.lookup(zero.getSlot())}});
          })
          .Case<exec::RunOp>([&](exec::RunOp run) {
            json::Array used;
            for (Value slot : run.getSlots())
              used.push_back(numberOf.lookup(slot));
            instructions.push_back(json::Object{
                {"run", numbers.lookup(run.getCallee())},
                {"slots", std::move(used)},
                {"micro_batch", static_cast<int64_t>(run.getMicroBatch())}});
          });
  }

  json::Array slots, instructions;

private:
  void addSlot(exec::SlotOp slot) {
    numberOf[slot.getResult()] = slots.size();
    slots.push_back(
        json::Object{{"name", slot.getName()},
                     {"bytes", exec::sizeBytes(slot.getResult().getType())},
                     {"offset", static_cast<int64_t>(*slot.getOffset())}});
  }

  /// An instruction that uses one slot.
  template <typename Op>
  json::Object &add(StringRef key, uint64_t number, Op op) {
    instructions.push_back(json::Object{
        {key, static_cast<int64_t>(number)},
        {"slot", numberOf.lookup(op.getSlot())},
        {"micro_batch", static_cast<int64_t>(op.getMicroBatch())}});
    return *instructions.back().getAsObject();
  }

  llvm::DenseMap<Value, int64_t> numberOf;
};
} // namespace

static json::Array stages(ModuleOp module,
                          const llvm::StringMap<int64_t> &numbers,
                          ArrayRef<int64_t> plannedBytes) {
  std::map<int64_t, json::Value> entries;
  for (auto stage : module.getOps<exec::StageOp>()) {
    int64_t scratch = 0;
    for (auto run : stage.getBody().getOps<exec::RunOp>()) {
      auto callee = module.lookupSymbol<exec::FuncOp>(run.getCallee());
      scratch = std::max<int64_t>(scratch, *callee.getScratch());
    }
    json::Array init;
    for (auto function : module.getOps<exec::FuncOp>())
      if (function.getDerived() && function.getStage() == stage.getIndex())
        init.push_back(
            json::Object{{"run", numbers.lookup(function.getName())},
                         {"parameters", json::Array(*function.getDerived())}});
    StageEntry body(stage, numbers);
    json::Object entry{
        {"arena_bytes", static_cast<int64_t>(*stage.getArena())},
        {"scratch", json::Object{{"offset", 0}, {"bytes", scratch}}},
        {"slots", std::move(body.slots)},
        {"init", std::move(init)},
        {"instructions", std::move(body.instructions)}};
    size_t at = stage.getIndex();
    if (at < plannedBytes.size() && plannedBytes[at])
      entry["planned_bytes"] = plannedBytes[at];
    entries.emplace(stage.getIndex(), std::move(entry));
  }
  return inOrder(entries);
}

std::string kerf::cubinName(StringRef arch) {
  return ("kernels." + arch + ".cubin").str();
}

static json::Object target(const PackageContents &contents) {
  json::Object result{{"device", contents.cuda ? "cuda" : "cpu"},
                      {"cpu", contents.cpu},
                      {"features", json::Array(contents.features)}};
  if (!contents.precision.empty())
    result["precision"] = contents.precision;
  if (!contents.cuda)
    return result;
  json::Array cubins;
  for (const auto &[arch, bytes] : contents.cuda->cubins)
    cubins.push_back(json::Object{{"arch", arch}, {"file", cubinName(arch)}});
  result["host_kernels"] = contents.cuda->hostKernels;
  result["cuda"] = json::Object{{"ptx", kPtxName},
                                {"ptx_version", contents.cuda->ptxVersion},
                                {"ptx_arch", contents.cuda->ptxArch},
                                {"cubins", std::move(cubins)}};
  return result;
}

json::Object kerf::buildManifest(ModuleOp module,
                                 const PackageContents &contents,
                                 const WeightPlan &weights) {
  std::map<int64_t, json::Value> kernels;
  for (auto kernel : module.getOps<exec::KernelOp>()) {
    json::Object entry{{"name", kernel.getName()}, {"node", kernel.getNode()}};
    if (auto phase = kernel.getPhase())
      entry["phase"] = stringifyPhase(*phase);
    if (exec::GpuKernelAttr gpu = kernel.getCudaAttr())
      entry["cuda"] = gpuEntry(gpu, /*isKernel=*/true);
    kernels.emplace(kernel.getIndex(), std::move(entry));
  }
  json::Array external;
  for (const ExternalFile &file : weights.external)
    external.push_back(
        json::Object{{"path", file.path}, {"bytes", file.bytes}});
  llvm::StringMap<int64_t> numbers;
  json::Array functionList = functions(module, numbers);
  json::Object manifest{
      {"schema", packageSchema.text()},
      {"name", contents.name},
      {"abi", KERF_PROGRAM_ABI_VERSION},
      {"target", target(contents)},
      {"mesh", meshEntry(exec::getMesh(module))},
      {"program", "program.so"},
      {"parameters", parameters(module, weights)},
      {"inputs", inputs(module)},
      {"outputs", outputs(module)},
      {"kernels", inOrder(kernels)},
      {"library", library(module)},
      {"collectives", collectives(module)},
      {"shard_indices", shardIndices(module)},
      {"channels", channels(module)},
      {"functions", std::move(functionList)},
      {"stages", stages(module, numbers, contents.plannedBytes)}};
  if (!weights.tensors.empty())
    manifest["weights"] = "weights.safetensors";
  if (!external.empty())
    manifest["external_files"] = std::move(external);
  return manifest;
}
