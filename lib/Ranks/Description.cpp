//===- Description.cpp - what the runtime knows of a program --------------===//
#include "Description.h"

#include "kerf/Format/Schemas.h"
#include "kerf/Support/ModelNode.h"
#include "kerf/Support/NarrowTypes.h"
#include "kerf/rt/ranks.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ranks;
namespace json = llvm::json;

/// The name of a type with whose elements the runtime can compute; empty: with
/// none. Types of 2 to 8 bits lie differently in memory in upstream's programs.
static StringRef computedName(Type type) {
  return isNarrow(type) ? StringRef() : dtypeName(type);
}

std::string kerf::ranks::movedName(Type type) {
  if (StringRef name = computedName(type); !name.empty())
    return name.str();
  if (isNarrow(type)) // a byte each, whatever their bits
    return "u8";
  int64_t bits = isa<FloatType>(type) ? type.getIntOrFloatBitWidth() : 0;
  return llvm::is_contained({16, 32, 64}, bits) ? "u" + std::to_string(bits)
                                                : "";
}

static FailureOr<std::string> moved(Operation *op, RankedTensorType type) {
  std::string name = movedName(type.getElementType());
  if (name.empty())
    return op->emitError("moves ")
           << type << ", but the runtime has no elements of type "
           << type.getElementType();
  return name;
}

static FailureOr<json::Object> placement(Operation *op, RankedTensorType global,
                                         RankedTensorType local,
                                         dist::ShardingAttr sharding) {
  FailureOr<std::string> dtype = moved(op, global);
  if (failed(dtype))
    return failure();
  json::Object entry{{"dtype", *dtype},
                     {"global_shape", json::Array(global.getShape())},
                     {"local_shape", json::Array(local.getShape())}};
  setSharding(entry, sharding, global.getRank());
  return entry;
}

FailureOr<int64_t> Description::addPart(Operation *op, RankedTensorType global,
                                        RankedTensorType local,
                                        dist::ShardingAttr sharding) {
  auto entry = placement(op, global, local, sharding);
  if (failed(entry))
    return failure();
  json::Value made = std::move(*entry);
  auto found = llvm::find(parts, made);
  if (found == parts.end()) {
    parts.push_back(std::move(made));
    return static_cast<int64_t>(parts.size()) - 1;
  }
  return found - parts.begin();
}

FailureOr<int64_t> Description::addParameter(SourceOpInterface source,
                                             int64_t stage) {
  auto local = cast<RankedTensorType>(source->getResult(0).getType());
  auto global = source->getAttrOfType<TypeAttr>(dist::kGlobalType);
  auto entry = placement(
      source, global ? cast<RankedTensorType>(global.getValue()) : local, local,
      source->getAttrOfType<dist::ShardingAttr>(dist::kSharding));
  if (failed(entry))
    return failure();
  std::string name = source.getSourceName().str();
  for (auto [number, known] : llvm::enumerate(parameters)) {
    if (known.name != name)
      continue;
    if (known.placement != *entry)
      return source.emitError("is another tensor, or other parts, than the "
                              "parameter \"")
             << name << "\" is elsewhere in the program";
    known.stages.insert(stage);
    return static_cast<int64_t>(number);
  }
  parameters.push_back({name, std::move(*entry), {stage}});
  return static_cast<int64_t>(parameters.size()) - 1;
}

/// The type as which the runtime reduces elements; empty: it cannot. Bits that
/// are bytes of 0 and 1 stay such, but for sums.
static StringRef reducedName(Type type, ReductionKind kind) {
  if (type.isInteger(1))
    return kind == ReductionKind::Sum ? "" : "u8";
  return computedName(type);
}

FailureOr<int64_t> Description::addCollective(dist::CollectiveOpInterface op) {
  RankedTensorType source = op.getSourceType();
  CollectiveKind kind = op.getKind();
  std::string name;
  if (!reduces(kind)) {
    FailureOr<std::string> any = moved(op, source);
    if (failed(any))
      return failure();
    name = *any;
  } else {
    ReductionKind reduction = op.getArguments().reduction.getValue();
    name = reducedName(source.getElementType(), reduction);
    if (name.empty())
      return op->emitOpError("reduces ")
             << source << " to the " << stringifyReductionKind(reduction)
             << ", but the runtime cannot reduce elements of type "
             << source.getElementType();
  }
  int64_t groupSize =
      dist::numShards(llvm::cantFail(dist::toAxisList(op.getGroup(), mesh)));
  json::Object entry =
      collectiveEntry(kind, op.getArguments(), op.getGroup(), source,
                      op.getResultTensorType(), groupSize, name);
  entry["group_bytes"] = op.getGroupBytes(groupSize);
  entry["node"] = modelNode(op.getLoc());
  collectives.push_back(std::move(entry));
  return static_cast<int64_t>(collectives.size()) - 1;
}

FailureOr<int64_t> Description::addChannel(dist::ChannelOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  FailureOr<std::string> dtype = moved(op, type);
  if (failed(dtype))
    return failure();
  channels.push_back(
      json::Object{{"from_stage", static_cast<int64_t>(op.getFrom())},
                   {"to_stage", static_cast<int64_t>(op.getTo())},
                   {"dtype", *dtype},
                   {"shape", json::Array(type.getShape())},
                   {"bytes", dist::sizeBytes(type)},
                   {"node", modelNode(op.getLoc())}});
  return static_cast<int64_t>(channels.size()) - 1;
}

std::string Description::text() const {
  json::Object program{{"schema", ranksSchema.text()},
                       {"abi", KERF_RANKS_ABI_VERSION},
                       {"mesh", meshEntry(meshAttr)}};
  auto set = [&](const char *key, const json::Array &list) {
    if (!list.empty())
      program[key] = json::Array(list);
  };
  set("parts", parts);
  json::Array kept;
  for (const Parameter &parameter : parameters) {
    json::Object entry = parameter.placement;
    entry["name"] = parameter.name;
    entry["stages"] = json::Array(parameter.stages);
    kept.push_back(std::move(entry));
  }
  set("parameters", kept);
  set("collectives", collectives);
  set("channels", channels);
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(program));
  return text;
}
