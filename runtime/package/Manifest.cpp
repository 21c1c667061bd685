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
#include "Placement.h"
#include "kerf/Format/Schemas.h"
#include "kerf/rt/program.h"

#include <cmath>
#include <limits>

using namespace kerf::rt;

namespace {
SplatValue parseSplat(const JsonReader &in) {
  const JsonReader::json &value = in.raw();
  if (value.is_boolean())
    return {double(value.get<bool>()), value.get<bool>()};
  if (value.is_string()) {
    std::string text = in.string();
    double inf = std::numeric_limits<double>::infinity();
    if (text == "inf" || text == "-inf")
      return {text == "inf" ? inf : -inf, 0};
    if (text == "nan")
      return {std::nan(""), 0};
  }
  double number = in.number();
  if (value.is_number_unsigned())
    return {number, static_cast<int64_t>(value.get<uint64_t>())};
  if (value.is_number_integer())
    return {number, value.get<int64_t>()};
  bool fits = number >= -0x1p63 && number < 0x1p63;
  return {number, fits ? static_cast<int64_t>(number) : 0};
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

void parseBounds(const JsonReader &in, GlobalTensor &output) {
  output.isLength = in.has("length") && in["length"].boolean();
  if (output.isLength &&
      (output.dtype != KERF_I64 || !output.globalShape.empty()))
    in["length"].fail("expected an i64 without dimensions");
  auto rank = static_cast<int64_t>(output.globalShape.size());
  output.bounded = in.list<GlobalTensor::Bound>(
      "bounded", [&](const JsonReader &bound) -> GlobalTensor::Bound {
        return {bound["dim"].integer(0, rank - 1),
                bound["length"].integer(0, JsonReader::maxInteger)};
      });
}

void checkBounds(const JsonReader &in,
                 const std::vector<GlobalTensor> &outputs) {
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t b = 0; b < outputs[i].bounded.size(); ++b) {
      auto length = static_cast<size_t>(outputs[i].bounded[b].length);
      if (length >= outputs.size() || !outputs[length].isLength)
        in[i]["bounded"][b]["length"].fail("expected the number of a length");
    }
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
  m.outputs = in.list<GlobalTensor>("outputs", [&](const JsonReader &t) {
    GlobalTensor output = global(t);
    parseBounds(t, output);
    return output;
  });
  checkBounds(in["outputs"], m.outputs);
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
  } catch (const nlohmann::json::parse_error &error) {
    throw Error(KERF_BAD_PACKAGE,
                cat("manifest.json: is not valid JSON at byte ", error.byte));
  } catch (const nlohmann::json::exception &) { // a number without an end
    throw Error(KERF_BAD_PACKAGE, "manifest.json: is not valid JSON");
  }
  Manifest manifest;
  JsonReader::Members asked;
  JsonReader in(root, "manifest.json: ", &asked);
  parseTop(in, manifest);
  checkStages(manifest);
  in.refuseUnknown();
  return manifest;
}
