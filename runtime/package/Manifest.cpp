//===- Manifest.cpp - manifest.json to structs ----------------------------===//
//
// One function per kind of entry, in the order of docs/Package.md. Checks that
// concern one entry are here; those that concern several are in
// ManifestCheck.cpp.
//
//===----------------------------------------------------------------------===//
#include "Manifest.h"

#include "ManifestCuda.h"
#include "ManifestLibrary.h"
#include "kerf/Format/Schemas.h"
#include "kerf/rt/program.h"

#include <cmath>
#include <limits>

using namespace kerf::rt;

namespace {
constexpr int64_t maxRanks = 4096;
constexpr int64_t maxDims = 12;
// No rank count has so many factors.
constexpr size_t maxAxes = 64;

Shape parseShape(const JsonReader &in, kerf_dtype_t dtype) {
  Shape shape = in.shape();
  if (static_cast<int64_t>(shape.size()) > maxDims)
    in.fail(cat("has ", shape.size(), " dimensions, at most ", maxDims));
  in.located([&] { return numBytes(shape, dtype); });
  return shape;
}

Mesh::Axis parseMeshAxis(const JsonReader &in) {
  return {in["name"].string(), in["size"].integer(1, 1 << 20)};
}

Mesh parseMesh(const JsonReader &in) {
  Mesh mesh;
  mesh.axes = in.list<Mesh::Axis>("axes", parseMeshAxis);
  if (mesh.axes.size() > maxAxes)
    in.fail(cat("has ", mesh.axes.size(), " axes, at most ", maxAxes));
  if (in.has("time_axis")) {
    mesh.hasTimeAxis = true;
    mesh.timeAxis = parseMeshAxis(in["time_axis"]);
  }
  std::string stage = in.stringOr("stage_axis", "");
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const std::string &name = mesh.axes[i].name;
    for (size_t j = 0; j < i; ++j)
      if (mesh.axes[j].name == name)
        in.fail("axis \"" + name + "\" is there twice");
    if (mesh.hasTimeAxis && mesh.timeAxis.name == name)
      in.fail("time axis \"" + name + "\" is also a mesh axis");
    if (name == stage)
      mesh.stageAxis = static_cast<int>(i);
  }
  if (!stage.empty() && mesh.stageAxis < 0)
    in.fail("stage axis \"" + stage + "\" is not an axis of the mesh");
  if (in.located([&] { return mesh.numRanks(); }) > maxRanks)
    in.fail(cat("has more than ", maxRanks, " ranks"));
  return mesh;
}

AxisRef parseAxisRef(const JsonReader &in, const Mesh &mesh, bool allowTime) {
  std::string name = in["axis"].string();
  AxisRef ref;
  int64_t full = 0;
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].name == name) {
      ref.axis = static_cast<int>(i);
      full = mesh.axes[i].size;
    }
  if (mesh.hasTimeAxis && mesh.timeAxis.name == name) {
    if (!allowTime)
      in.fail("the time axis \"" + name + "\" cannot stand here");
    ref.axis = Mesh::timeAxisIndex;
    full = mesh.timeAxis.size;
  }
  if (full == 0)
    in.fail("\"" + name + "\" is not an axis of the mesh");
  int64_t preSize = in.integerOr("pre_size", 1, full, 1);
  ref.size = in.integerOr("size", 1, full, full / preSize);
  if (full % (preSize * ref.size) != 0)
    in.fail(cat("sub-axis (", preSize, ")", ref.size,
                " does not divide axis \"", name, "\" of size ", full));
  ref.weight = full / (preSize * ref.size);
  return ref;
}

AxisList parseAxes(const JsonReader &in, const Mesh &mesh, bool allowTime) {
  AxisList list;
  if (in.size() > maxAxes)
    in.fail(cat("has ", in.size(), " axes, at most ", maxAxes));
  for (size_t i = 0, n = in.size(); i < n; ++i)
    list.push_back(parseAxisRef(in[i], mesh, allowTime));
  AxisList spatial;
  for (const AxisRef &ref : list)
    if (ref.axis != Mesh::timeAxisIndex)
      spatial.push_back(ref);
  in.located([&] { return mesh.group(0, spatial); });
  return list;
}

// Blocks of a dimension, where they are larger than ceil(size / n).
int64_t parseBlock(const JsonReader &in, const AxisList &axes, int64_t size) {
  int64_t block = in.size64(), min = ceilDiv(size, Mesh::sizeOf(axes));
  if (block == 0)
    return 0;
  for (const AxisRef &ref : axes)
    if (ref.axis == Mesh::timeAxisIndex)
      in.fail("the dimension is cut in time");
  if (block <= min || block >= size)
    in.fail(cat("is ", block, ", expected more than ", min, " and less than ",
                size, ", or 0"));
  return block;
}

// `in` has "sharding" and perhaps "blocks".
Sharding parseSharding(const JsonReader &in, const Mesh &mesh,
                       const Shape &global, bool allowTime) {
  JsonReader dims = in["sharding"];
  size_t rank = global.size();
  if (dims.size() != rank)
    dims.fail(cat("has ", dims.size(), " dimensions, the tensor has ", rank));
  Sharding sharding;
  AxisList all;
  for (size_t d = 0; d < rank; ++d) {
    sharding.push_back({parseAxes(dims[d], mesh, allowTime)});
    for (const AxisRef &ref : sharding.back().axes)
      if (ref.axis != Mesh::timeAxisIndex)
        all.push_back(ref);
  }
  dims.located([&] { return mesh.group(0, all); });
  if (in.has("blocks")) {
    JsonReader blocks = in["blocks"];
    if (blocks.size() != rank)
      blocks.fail(
          cat("has ", blocks.size(), " dimensions, the tensor has ", rank));
    for (size_t d = 0; d < rank; ++d)
      sharding[d].block = parseBlock(blocks[d], sharding[d].axes, global[d]);
  }
  return sharding;
}

// global_shape, sharding, blocks and local_shape, which follows from them.
template <typename T>
void parsePlacement(const JsonReader &in, const Mesh &mesh, bool allowTime,
                    T &out) {
  out.dtype = in["dtype"].dtype();
  out.globalShape = parseShape(in["global_shape"], out.dtype);
  out.sharding = parseSharding(in, mesh, out.globalShape, allowTime);
  out.localShape =
      in.located([&] { return localShape(out.sharding, out.globalShape); });
  if (in.has("local_shape") && in["local_shape"].shape() != out.localShape)
    in["local_shape"].fail(cat("is ", shapeString(in["local_shape"].shape()),
                               ", the sharding gives ",
                               shapeString(out.localShape)));
}

double parseSplat(const JsonReader &in) {
  if (in.raw().is_boolean())
    return in.raw().get<bool>();
  if (in.raw().is_string()) {
    std::string text = in.string();
    double inf = std::numeric_limits<double>::infinity();
    if (text == "inf" || text == "-inf")
      return text == "inf" ? inf : -inf;
    if (text == "nan")
      return std::nan("");
  }
  return in.number();
}

// Computed at load: no global shape, every rank has its own.
void parseDerived(const JsonReader &in, Parameter &p) {
  p.source = Parameter::Derived;
  p.dtype = in["dtype"].dtype();
  p.globalShape = p.localShape = parseShape(in["local_shape"], p.dtype);
  p.sharding.resize(p.localShape.size());
  if (p.stages.size() != 1)
    in.fail("a derived parameter has exactly one stage");
}

void parseExternal(const JsonReader &in, const Manifest &m, Parameter &p) {
  p.source = Parameter::External;
  p.externalFile =
      in["file"].integer(0, static_cast<int64_t>(m.externalFiles.size()) - 1);
  p.externalOffset = in["offset"].size64();
  p.tensor = in.stringOr("tensor", p.name);
  p.externalShape = parseShape(in["shape"], p.dtype);
  int64_t end = in.located([&] {
    return addChecked(p.externalOffset, numBytes(p.externalShape, p.dtype));
  });
  const ExternalFile &file = m.externalFiles[p.externalFile];
  if (end > file.bytes)
    in.fail(cat("ends at ", end, ", past ", file.path, " of ", file.bytes,
                " bytes"));
}

void parseSeeded(const JsonReader &in, Parameter &p) {
  p.source = Parameter::Seeded;
  p.seeded.seed = static_cast<uint64_t>(in["seed"].size64());
  p.tensor = in.stringOr("stored", p.name);
  p.externalShape = in.has("stored_shape")
                        ? parseShape(in["stored_shape"], p.dtype)
                        : p.globalShape;
  std::string kind = in.stringOr("distribution", "uniform");
  p.seeded.normal = kind == "normal";
  if (!p.seeded.normal && kind != "uniform")
    in["distribution"].fail("expected normal or uniform");
  p.seeded.first =
      in.numberOr(p.seeded.normal ? "mean" : "low", p.seeded.normal ? 0 : -1);
  p.seeded.second = in.numberOr(p.seeded.normal ? "std" : "high", 1);
  if (p.dtype != KERF_F32 && p.dtype != KERF_F64 && p.dtype != KERF_F16 &&
      p.dtype != KERF_BF16)
    in["seed"].fail("only floating-point parameters can be drawn");
}

Parameter parseParameter(const JsonReader &in, const Manifest &m) {
  Parameter p;
  p.name = in["name"].string();
  p.stages = in.list<int64_t>("stages", [&](const JsonReader &s) {
    return s.integer(0, m.mesh.numStages() - 1);
  });
  p.libraryOnly = in.has("library_only") && in["library_only"].boolean();
  p.initOnly = in.has("init_only") && in["init_only"].boolean();
  bool derived = in.has("derived") && in["derived"].boolean();
  if (in.has("tensor") + in.has("external") + in.has("splat") + in.has("seed") +
          derived !=
      1)
    in.fail("expected exactly one of \"tensor\", \"external\", \"splat\", "
            "\"seed\" and \"derived\"");
  if (derived) {
    parseDerived(in, p);
    return p;
  }
  parsePlacement(in, m.mesh, /*allowTime=*/false, p);
  if (in.has("tensor")) {
    p.source = Parameter::Tensor;
    p.tensor = in["tensor"].string();
  } else if (in.has("external")) {
    parseExternal(in["external"], m, p);
  } else if (in.has("seed")) {
    parseSeeded(in, p);
  } else {
    p.source = Parameter::Splat;
    p.splat = parseSplat(in["splat"]);
  }
  p.isMutable = in.has("mutable") && in["mutable"].boolean();
  if (p.isMutable && (p.libraryOnly || p.initOnly))
    in.fail("a mutable parameter cannot be library_only or init_only");
  if (in.has("view")) {
    p.hasView = true;
    p.viewStarts = in["view"]["starts"].shape();
    if (in["view"]["sizes"].shape() != p.globalShape)
      in["view"]["sizes"].fail("differs from global_shape");
    if (p.viewStarts.size() != p.globalShape.size())
      in["view"]["starts"].fail("has another rank than sizes");
  }
  return p;
}

GlobalTensor parseGlobal(const JsonReader &in, const Mesh &mesh) {
  GlobalTensor t;
  t.name = in["name"].string();
  parsePlacement(in, mesh, /*allowTime=*/true, t);
  if (in.has("range")) {
    if (in["range"].size() != 2)
      in["range"].fail("expected [low, high]");
    t.rangeLow = in["range"][size_t(0)].integer(-JsonReader::maxInteger,
                                                JsonReader::maxInteger);
    t.rangeHigh =
        in["range"][size_t(1)].integer(t.rangeLow + 1, JsonReader::maxInteger);
  }
  return t;
}

CollectiveDesc parseCollective(const JsonReader &in, const Mesh &mesh) {
  CollectiveDesc c;
  if (auto kind = kerf::parseCollectiveKind(in["kind"].string()))
    c.kind = *kind;
  else
    in["kind"].fail("unknown collective \"" + in["kind"].string() + "\"");
  c.dtype = in["dtype"].dtype();
  c.axes = parseAxes(in["axes"], mesh, /*allowTime=*/false);
  c.srcShape = parseShape(in["src_shape"], c.dtype);
  c.dstShape = parseShape(in["dst_shape"], c.dtype);
  if (c.reduces() && !parseReduction(in["reduction"].string(), c.reduction))
    in["reduction"].fail("unknown reduction \"" + in["reduction"].string() +
                         "\"");
  if (hasOneDim(c.kind))
    c.dim = in["dim"].integer(0, maxDims);
  if (hasTwoDims(c.kind)) {
    c.dim = in["split_dim"].integer(0, maxDims);
    c.concatDim = in["concat_dim"].integer(0, maxDims);
    c.concatPart = in.integerOr("concat_part", 0, JsonReader::maxInteger, 0);
  }
  c.part = in.integerOr("part", 0, JsonReader::maxInteger, 0);
  if (hasRoot(c.kind))
    c.root = in["root"].integer(0, maxRanks);
  if (hasPairs(c.kind))
    c.pairs =
        in.list<std::pair<int64_t, int64_t>>("pairs", [](const JsonReader &p) {
          if (p.size() != 2)
            p.fail("expected [from, to]");
          return std::make_pair(p[size_t(0)].integer(0, maxRanks),
                                p[size_t(1)].integer(0, maxRanks));
        });
  c.plannedGroupBytes = in["group_bytes"].size64();
  c.tensor = in.stringOr("tensor", "");
  c.node = in.stringOr("node", "");
  c.purpose = in.stringOr("purpose", "activation");
  c.phase = in.stringOr("phase", "forward");
  in.located([&] { checkCollective(c, Mesh::sizeOf(c.axes)); });
  return c;
}

ChannelDesc parseChannel(const JsonReader &in, const Mesh &mesh) {
  ChannelDesc c;
  c.fromStage = in["from_stage"].integer(0, mesh.numStages() - 1);
  c.toStage = in["to_stage"].integer(0, mesh.numStages() - 1);
  if (c.fromStage == c.toStage)
    in.fail("joins a stage with itself");
  c.dtype = in["dtype"].dtype();
  c.shape = parseShape(in["shape"], c.dtype);
  c.plannedBytes = in["bytes"].size64();
  c.tensor = in.stringOr("tensor", "");
  c.node = in.stringOr("node", "");
  c.purpose = in.stringOr("purpose", "activation");
  c.phase = in.stringOr("phase", "forward");
  return c;
}

FunctionDesc parseFunction(const JsonReader &in) {
  FunctionDesc f;
  f.symbol = in["symbol"].string();
  f.scratchBytes = in["scratch_bytes"].size64();
  f.ios = in.list<FunctionDesc::Io>("ios", [](const JsonReader &io) {
    FunctionDesc::Io result;
    result.name = io.stringOr("name", "");
    result.dtype = io["dtype"].dtype();
    result.shape = parseShape(io["shape"], result.dtype);
    return result;
  });
  f.numArguments =
      in["num_arguments"].integer(0, static_cast<int64_t>(f.ios.size()));
  return f;
}

Instruction parseInstruction(const JsonReader &in, const Manifest &m) {
  Instruction i;
  struct {
    const char *key;
    Instruction::Op op;
    size_t count;
  } ops[] = {{"input", Instruction::Input, m.inputs.size()},
             {"run", Instruction::Run, m.functions.size()},
             {"send", Instruction::Send, m.channels.size()},
             {"recv", Instruction::Recv, m.channels.size()},
             {"output", Instruction::Output, m.outputs.size()},
             {"zero", Instruction::Zero, size_t(1) << 40}};
  int found = 0;
  for (auto &op : ops)
    if (in.has(op.key)) {
      ++found;
      i.op = op.op;
      i.index = in[op.key].integer(0, static_cast<int64_t>(op.count) - 1);
    }
  if (found != 1)
    in.fail("expected exactly one of input, run, send, recv, output, zero");
  i.microBatch =
      in.integerOr("micro_batch", 0, m.mesh.numMicroBatches() - 1, 0);
  if (i.op == Instruction::Input) {
    const GlobalTensor &t = m.inputs[i.index];
    i.sharding = in.has("sharding") ? parseSharding(in, m.mesh, t.globalShape,
                                                    /*allowTime=*/true)
                                    : t.sharding;
    i.localShape =
        in.located([&] { return localShape(i.sharding, t.globalShape); });
  }
  if (i.op == Instruction::Run)
    i.slots = in["slots"].shape();
  else if (i.op == Instruction::Zero)
    i.slots = {i.index};
  else
    i.slots = {in["slot"].size64()};
  return i;
}

StageDesc parseStage(const JsonReader &in, const Manifest &m) {
  StageDesc s;
  s.arenaBytes = in["arena_bytes"].size64();
  if (in.has("scratch")) {
    s.scratchOffset = in["scratch"]["offset"].size64();
    s.scratchBytes = in["scratch"]["bytes"].size64();
  }
  s.plannedBytes = in.integerOr("planned_bytes", 0, JsonReader::maxInteger, 0);
  s.init = in.list<InitCall>("init", [&](const JsonReader &call) {
    InitCall result;
    result.function =
        call["run"].integer(0, static_cast<int64_t>(m.functions.size()) - 1);
    result.parameters =
        call.list<int64_t>("parameters", [&](const JsonReader &p) {
          return p.integer(0, static_cast<int64_t>(m.parameters.size()) - 1);
        });
    return result;
  });
  s.slots = in.list<Slot>("slots", [](const JsonReader &slot) {
    return Slot{slot.stringOr("name", ""), slot["offset"].size64(),
                slot["bytes"].size64()};
  });
  s.instructions =
      in.list<Instruction>("instructions", [&](const JsonReader &i) {
        return parseInstruction(i, m);
      });
  return s;
}

void parseVersions(const JsonReader &in, Manifest &m) {
  std::string schema = in["schema"].string();
  std::string wrong = kerf::schemaMismatch(kerf::packageSchema, schema);
  if (!wrong.empty() && kerf::matchSchema(kerf::packageSchema, schema) ==
                            kerf::SchemaMatch::OtherVersion)
    throw Error(KERF_OTHER_VERSION, in["schema"].where() + ": " + wrong);
  if (!wrong.empty())
    in["schema"].fail(wrong);
  m.abi = in["abi"].integer(1, JsonReader::maxInteger);
  if (m.abi > KERF_PROGRAM_ABI_VERSION)
    throw Error(KERF_OTHER_VERSION,
                cat(in["abi"].where(), ": is ", m.abi, ", newer than ",
                    KERF_PROGRAM_ABI_VERSION, ", up to which this Kerf reads: ",
                    kerf::packageSchema.remedy,
                    ", or use the Kerf that wrote it"));
}

void parseTop(const JsonReader &in, Manifest &m) {
  parseVersions(in, m);
  m.name = in.stringOr("name", "");
  if (in.has("target")) {
    JsonReader target = in["target"];
    if (target.has("host_kernels")) // program.so says it for each kernel
      target["host_kernels"].boolean();
    std::string device = target.stringOr("device", "cpu");
    if (device == "cuda")
      parseCudaTarget(target, m);
    else if (device != "cpu")
      target["device"].fail("device \"" + device +
                            "\" is not in this runtime, expected \"cpu\" or "
                            "\"cuda\"");
    m.precision = target.stringOr("precision", "");
    m.targetCpu = target.stringOr("cpu", "");
    m.targetFeatures = target.list<std::string>(
        "features", [](const JsonReader &f) { return f.string(); });
  }
  m.mesh = parseMesh(in["mesh"]);
  m.files = in.list<FileEntry>("files", [](const JsonReader &f) {
    return FileEntry{f["path"].fileName(), f["bytes"].size64(),
                     f["xxh3"].string()};
  });
  m.externalFiles =
      in.list<ExternalFile>("external_files", [](const JsonReader &f) {
        std::string path = f["path"].string();
        if (path.empty() || path[0] != '/' ||
            path.find('\0') != std::string::npos)
          f["path"].fail("expected an absolute path");
        return ExternalFile{path, f["bytes"].size64()};
      });
  m.program = in["program"].fileName();
  if (in.has("weights"))
    m.weights = in["weights"].fileName();
  m.parameters = in.list<Parameter>(
      "parameters", [&](const JsonReader &p) { return parseParameter(p, m); });
  auto global = [&](const JsonReader &t) { return parseGlobal(t, m.mesh); };
  m.inputs = in.list<GlobalTensor>("inputs", global);
  m.outputs = in.list<GlobalTensor>("outputs", global);
  m.kernels = in.list<KernelEntry>("kernels", [](const JsonReader &k) {
    KernelEntry entry{k["name"].string(),
                      k.stringOr("node", ""),
                      k.stringOr("phase", ""),
                      {}};
    if (k.has("cuda"))
      entry.cuda = parseCudaKernel(k["cuda"]);
    return entry;
  });
  m.library = in.list<LibraryDesc>("library", [&](const JsonReader &l) {
    LibraryDesc desc = parseLibrary(l, m.parameters, m.kernels);
    if (l.has("cuda"))
      desc.cuda = parseCudaKernel(l["cuda"]);
    return desc;
  });
  for (size_t i = 0; i < m.library.size(); ++i)
    m.library[i].index = static_cast<int64_t>(i);
  checkOffers(in, m.library);
  m.collectives =
      in.list<CollectiveDesc>("collectives", [&](const JsonReader &c) {
        return parseCollective(c, m.mesh);
      });
  m.shardIndices =
      in.list<AxisList>("shard_indices", [&](const JsonReader &list) {
        return parseAxes(list, m.mesh, /*allowTime=*/true);
      });
  m.channels = in.list<ChannelDesc>(
      "channels", [&](const JsonReader &c) { return parseChannel(c, m.mesh); });
  m.functions = in.list<FunctionDesc>("functions", parseFunction);
  m.stages = in.list<StageDesc>(
      "stages", [&](const JsonReader &s) { return parseStage(s, m); });
}
} // namespace

Manifest kerf::rt::parseManifest(const char *text, size_t bytes) {
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(text, text + bytes);
  } catch (const nlohmann::json::exception &error) {
    throw Error(KERF_BAD_PACKAGE, cat("manifest.json: ", error.what()));
  }
  Manifest manifest;
  JsonReader::Members asked;
  JsonReader in(root, "manifest.json: ", &asked);
  parseTop(in, manifest);
  checkStages(manifest);
  in.refuseUnknown();
  return manifest;
}
