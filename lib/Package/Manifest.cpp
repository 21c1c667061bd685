//===- Manifest.cpp - manifest.json from a module -------------------------===//
//
// Attributes are already in the words of docs/Package.md; what is left is to
// collect them in order of their numbers and to replace symbols by numbers.
//
//===----------------------------------------------------------------------===//
#include "Manifest.h"

#include "CallEntries.h"

#include "kerf/Exec/Exec.h"
#include "kerf/rt/program.h"

#include <map>

using namespace mlir;
using namespace kerf;
namespace json = llvm::json;

static json::Value toJson(Attribute attr) {
  if (auto dict = dyn_cast<DictionaryAttr>(attr)) {
    json::Object object;
    for (NamedAttribute entry : dict)
      object[entry.getName().getValue()] = toJson(entry.getValue());
    return object;
  }
  if (auto array = dyn_cast<ArrayAttr>(attr)) {
    json::Array values;
    for (Attribute element : array)
      values.push_back(toJson(element));
    return values;
  }
  if (auto boolean = dyn_cast<BoolAttr>(attr))
    return boolean.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attr))
    return integer.getInt();
  if (auto real = dyn_cast<FloatAttr>(attr))
    return real.getValueAsDouble();
  return json::Value(cast<StringAttr>(attr).getValue().str());
}

static json::Value moduleAttr(ModuleOp module, StringRef name) {
  Attribute attr = module->getAttr(name);
  return attr ? toJson(attr) : json::Value(json::Array());
}

static json::Array parameters(ModuleOp module, const WeightPlan &weights) {
  std::map<int64_t, json::Value> entries;
  for (auto parameter : module.getOps<exec::ParameterOp>()) {
    json::Object entry = *toJson(parameter.getEntry()).getAsObject();
    entry["name"] = parameter.getName();
    if (auto source = parameter.getSource()) {
      auto stored = weights.names.find(*source);
      if (stored != weights.names.end()) {
        entry["tensor"] = stored->second;
      } else {
        entry.erase("tensor");
        auto type = cast<RankedTensorType>(
            source->getAs<TypeAttr>("stored").getValue());
        entry["external"] = json::Object{
            {"file", weights.externalOf.lookup(
                         source->getAs<IntegerAttr>("file").getInt())},
            {"offset", source->getAs<IntegerAttr>("offset").getInt()},
            {"tensor", parameter.getEntry().getAs<StringAttr>("tensor").str()},
            {"shape", json::Array(type.getShape())}};
      }
    }
    entries.emplace(parameter.getIndex(), std::move(entry));
  }
  json::Array result;
  for (auto &[index, entry] : entries)
    result.push_back(std::move(entry));
  return result;
}

static json::Array inOrder(std::map<int64_t, json::Value> &entries) {
  json::Array result;
  for (auto &[index, entry] : entries)
    result.push_back(std::move(entry));
  return result;
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

static json::Object mesh(ModuleOp module) {
  json::Object entry;
  json::Array axes;
  if (dist::MeshAttr attribute = exec::getMesh(module)) {
    dist::Mesh mesh = attribute.toMesh();
    for (const dist::MeshAxis &axis : mesh.axes) {
      json::Object item{{"name", axis.name}, {"size", axis.size}};
      if (axis.isTime)
        entry["time_axis"] = std::move(item);
      else
        axes.push_back(std::move(item));
    }
    if (mesh.find(dist::kStageAxis))
      entry["stage_axis"] = dist::kStageAxis;
  }
  entry["axes"] = std::move(axes);
  return entry;
}

static json::Array functions(ModuleOp module,
                             llvm::StringMap<int64_t> &numbers) {
  json::Array result;
  for (auto function : module.getOps<exec::FuncOp>()) {
    numbers[function.getName()] = result.size();
    json::Array ios;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      auto buffer = cast<MemRefType>(type);
      auto name = function.getArgAttrOfType<StringAttr>(i, "kerf.name");
      ios.push_back(json::Object{
          {"name", name ? name.getValue().str() : "io_" + std::to_string(i)},
          {"dtype", exec::dtypeName(buffer.getElementType())},
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

static json::Array stages(ModuleOp module,
                          const llvm::StringMap<int64_t> &numbers,
                          ArrayRef<int64_t> plannedBytes) {
  std::map<int64_t, json::Value> entries;
  for (auto stage : module.getOps<exec::StageOp>()) {
    json::Array instructions, init;
    int64_t scratch = 0;
    for (Attribute attr : stage.getInstructions()) {
      json::Object instruction;
      for (NamedAttribute entry : cast<DictionaryAttr>(attr)) {
        if (auto symbol = dyn_cast<FlatSymbolRefAttr>(entry.getValue())) {
          instruction[entry.getName().getValue()] =
              numbers.lookup(symbol.getValue());
          auto callee = module.lookupSymbol<exec::FuncOp>(symbol.getValue());
          scratch = std::max<int64_t>(scratch, *callee.getScratch());
        } else {
          instruction[entry.getName().getValue()] = toJson(entry.getValue());
        }
      }
      instructions.push_back(std::move(instruction));
    }
    for (auto function : module.getOps<exec::FuncOp>())
      if (function.getDerived() && function.getStage() == stage.getIndex())
        init.push_back(
            json::Object{{"run", numbers.lookup(function.getName())},
                         {"parameters", json::Array(*function.getDerived())}});
    entries.emplace(
        stage.getIndex(),
        json::Object{
            {"arena_bytes", static_cast<int64_t>(*stage.getArena())},
            {"scratch", json::Object{{"offset", static_cast<int64_t>(
                                                    *stage.getScratchOffset())},
                                     {"bytes", scratch}}},
            {"slots", toJson(stage.getSlots())},
            {"init", std::move(init)},
            {"instructions", std::move(instructions)}});
  }
  json::Array result;
  for (auto &[index, entry] : entries) {
    auto at = static_cast<size_t>(index);
    if (at < plannedBytes.size() && plannedBytes[at])
      (*entry.getAsObject())["planned_bytes"] = plannedBytes[at];
    result.push_back(std::move(entry));
  }
  return result;
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
  json::Array kernelList;
  for (auto &[index, entry] : kernels)
    kernelList.push_back(std::move(entry));
  json::Array external;
  for (const ExternalFile &file : weights.external)
    external.push_back(
        json::Object{{"path", file.path}, {"bytes", file.bytes}});
  llvm::StringMap<int64_t> numbers;
  json::Array functionList = functions(module, numbers);
  json::Object manifest{
      {"schema", "kerf.package/1"},
      {"name", contents.name},
      {"abi", KERF_PROGRAM_ABI_VERSION},
      {"target", target(contents)},
      {"mesh", mesh(module)},
      {"program", "program.so"},
      {"parameters", parameters(module, weights)},
      {"inputs", moduleAttr(module, "exec.inputs")},
      {"outputs", moduleAttr(module, "exec.outputs")},
      {"kernels", std::move(kernelList)},
      {"library", library(module)},
      {"collectives", collectives(module)},
      {"shard_indices", shardIndices(module)},
      {"channels", moduleAttr(module, "exec.channels")},
      {"functions", std::move(functionList)},
      {"stages", stages(module, numbers, contents.plannedBytes)}};
  if (!weights.tensors.empty())
    manifest["weights"] = "weights.safetensors";
  if (!external.empty())
    manifest["external_files"] = std::move(external);
  return manifest;
}
