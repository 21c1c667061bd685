//===- Entries.cpp - dist as JSON that the runtime reads ------------------===//
#include "kerf/Entries/Entries.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;
namespace json = llvm::json;

StringRef kerf::dtypeName(Type type) {
  if (type.isF32())
    return "f32";
  if (type.isF64())
    return "f64";
  if (type.isF16())
    return "f16";
  if (type.isBF16())
    return "bf16";
  if (isa<Float8E4M3FNType>(type))
    return "f8e4m3fn";
  if (isa<Float8E4M3FNUZType>(type))
    return "f8e4m3fnuz";
  if (isa<Float8E5M2Type>(type))
    return "f8e5m2";
  if (isa<Float8E5M2FNUZType>(type))
    return "f8e5m2fnuz";
  if (isa<Float8E8M0FNUType>(type))
    return "f8e8m0fnu";
  if (isa<Float4E2M1FNType>(type))
    return "f4e2m1fn";
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return "";
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1:
    return "bool";
  case 2:
    return isUnsigned ? "u2" : "i2";
  case 4:
    return isUnsigned ? "u4" : "i4";
  case 8:
    return isUnsigned ? "u8" : "i8";
  case 16:
    return isUnsigned ? "u16" : "i16";
  case 32:
    return isUnsigned ? "u32" : "i32";
  case 64:
    return isUnsigned ? "u64" : "i64";
  default:
    return "";
  }
}

json::Object kerf::meshEntry(MeshAttr attribute) {
  json::Object entry;
  json::Array axes;
  if (attribute) {
    Mesh mesh = attribute.toMesh();
    for (const MeshAxis &axis : mesh.axes) {
      json::Object item{{"name", axis.name}, {"size", axis.size}};
      if (axis.isTime)
        entry["time_axis"] = std::move(item);
      else
        axes.push_back(std::move(item));
    }
    if (mesh.find(kStageAxis))
      entry["stage_axis"] = kStageAxis;
  }
  entry["axes"] = std::move(axes);
  return entry;
}

json::Array kerf::axesEntry(AxesAttr axes) {
  json::Array list;
  for (AxisAttr axis : axes.getAxes()) {
    json::Object entry{{"axis", axis.getName()}};
    if (!axis.isWhole()) {
      entry["pre_size"] = axis.getPreSize();
      entry["size"] = axis.getSize();
    }
    list.push_back(std::move(entry));
  }
  return list;
}

void kerf::setSharding(json::Object &entry, ShardingAttr sharding,
                       int64_t rank) {
  json::Array dims;
  for (int64_t d = 0; d < rank; ++d)
    dims.push_back(sharding ? axesEntry(sharding.getDims()[d]) : json::Array());
  entry["sharding"] = std::move(dims);
  if (sharding && !sharding.getBlocks().empty())
    entry["blocks"] = json::Array(sharding.getBlocks());
}

json::Object kerf::collectiveEntry(CollectiveKind kind,
                                   const CollectiveArguments &arguments,
                                   AxesAttr axes, ShapedType source,
                                   ShapedType result, int64_t groupSize,
                                   StringRef dtype) {
  json::Object entry{{"kind", StringRef(collectiveName(kind))},
                     {"dtype", dtype.str()},
                     {"axes", axesEntry(axes)},
                     {"src_shape", json::Array(source.getShape())},
                     {"dst_shape", json::Array(result.getShape())}};
  if (arguments.reduction)
    entry["reduction"] = stringifyReductionKind(arguments.reduction.getValue());
  if (arguments.root)
    entry["root"] = arguments.root.getInt();
  // Parts that are larger than ceiling size are listed.
  auto setPart = [&](const char *key, ShapedType part, ShapedType whole,
                     int64_t dim) {
    int64_t size = part.getDimSize(dim);
    if (size != localSize(whole.getDimSize(dim), groupSize))
      entry[key] = size;
  };
  if (arguments.dim) {
    int64_t dim = arguments.dim.getInt();
    entry["dim"] = dim;
    setPart("part", joins(kind) ? source : result,
            joins(kind) ? result : source, dim);
  }
  if (arguments.split) {
    int64_t split = arguments.split.getInt();
    int64_t concat = arguments.concat.getInt();
    entry["split_dim"] = split;
    entry["concat_dim"] = concat;
    setPart("part", result, source, split);
    setPart("concat_part", source, result, concat);
  }
  if (arguments.pairs) {
    ArrayRef<int64_t> flat = arguments.pairs.asArrayRef();
    json::Array pairs;
    for (size_t i = 0; i + 1 < flat.size(); i += 2)
      pairs.push_back(json::Array(flat.slice(i, 2)));
    entry["pairs"] = std::move(pairs);
  }
  return entry;
}
