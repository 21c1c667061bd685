//===- Machine.cpp - machine files ----------------------------------------===//
//
// Reading is strict: a missing or unknown member, a wrong type or a value out
// of range is an error that names the place, because a typo in a bandwidth
// would otherwise silently change every plan.
//
//===----------------------------------------------------------------------===//
#include "kerf/Cost/Machine.h"
#include "kerf/Format/Schemas.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace kerf::cost;
namespace json = llvm::json;

llvm::StringRef kerf::cost::toString(ComputeClass kind) {
  switch (kind) {
  case ComputeClass::View:
    return "view";
  case ComputeClass::Elementwise:
    return "elementwise";
  case ComputeClass::Row:
    return "row";
  case ComputeClass::Matmul:
    return "matmul";
  case ComputeClass::Convolution:
    return "convolution";
  case ComputeClass::Gather:
    return "gather";
  }
  llvm_unreachable("bad ComputeClass");
}

llvm::StringRef kerf::cost::toString(ElementKind kind) {
  switch (kind) {
  case ElementKind::Other:
    return "other";
  case ElementKind::F64:
    return "f64";
  case ElementKind::F32:
    return "f32";
  case ElementKind::F16:
    return "f16";
  case ElementKind::BF16:
    return "bf16";
  case ElementKind::TF32:
    return "tf32";
  }
  llvm_unreachable("bad ElementKind");
}

Machine kerf::cost::roundProducts(Machine machine) {
  for (ComputeClass kind : {ComputeClass::Matmul, ComputeClass::Convolution}) {
    auto &rates =
        machine.throughput[static_cast<unsigned>(kind)].typedFlopsPerSecond;
    if (double own = rates[static_cast<unsigned>(ElementKind::TF32)]; own > 0)
      rates[static_cast<unsigned>(ElementKind::F32)] = own;
  }
  return machine;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// One JSON object with the path to it. The first error sticks; later calls do
/// nothing, so a reader is a plain list of members.
class Reader {
public:
  Reader(const json::Object *object, std::string path, std::string &error)
      : object(object), path(std::move(path)), error(error) {}

  void fail(const llvm::Twine &message) {
    if (error.empty())
      error = (path.empty() ? "" : path + ": ") + message.str();
  }

  const json::Value *find(llvm::StringRef member, bool required) {
    known.push_back(member);
    if (!object || !error.empty())
      return nullptr;
    const json::Value *value = object->get(member);
    if (!value && required)
      fail("missing member \"" + member + "\"");
    return value;
  }

  void string(llvm::StringRef member, std::string &out, bool required = false) {
    if (const json::Value *value = find(member, required)) {
      if (std::optional<llvm::StringRef> text = value->getAsString())
        out = text->str();
      else
        fail("\"" + member + "\" is not a string");
    }
  }

  void integer(llvm::StringRef member, int64_t &out, int64_t min,
               bool required = false) {
    if (const json::Value *value = find(member, required)) {
      std::optional<int64_t> number = value->getAsInteger();
      if (!number)
        return fail("\"" + member + "\" is not an integer");
      if (*number < min)
        return fail("\"" + member + "\" is " + llvm::Twine(*number) +
                    ", expected at least " + llvm::Twine(min));
      out = *number;
    }
  }

  /// A finite number >= 0, or > 0.
  void number(llvm::StringRef member, double &out, bool positive,
              bool required = false) {
    if (const json::Value *value = find(member, required)) {
      std::optional<double> number = value->getAsNumber();
      if (!number || !std::isfinite(*number))
        return fail("\"" + member + "\" is not a finite number");
      if (positive ? *number <= 0 : *number < 0) {
        std::string text;
        llvm::raw_string_ostream(text) << value[0];
        return fail("\"" + member + "\" is " + text + ", expected " +
                    (positive ? "more than 0" : "at least 0"));
      }
      out = *number;
    }
  }

  Reader object_(llvm::StringRef member, bool required = false) {
    const json::Object *inner = nullptr;
    if (const json::Value *value = find(member, required)) {
      inner = value->getAsObject();
      if (!inner)
        fail("\"" + member + "\" is not an object");
    }
    return Reader(
        inner, path.empty() ? member.str() : path + "." + member.str(), error);
  }

  const json::Array *array(llvm::StringRef member, bool required) {
    if (const json::Value *value = find(member, required)) {
      if (const json::Array *list = value->getAsArray())
        return list;
      fail("\"" + member + "\" is not an array");
    }
    return nullptr;
  }

  bool exists() const { return object != nullptr; }

  /// Refuses members that were not read.
  void finish() {
    if (!object)
      return;
    llvm::SmallVector<llvm::StringRef> names;
    for (const auto &entry : *object)
      names.push_back(entry.first);
    llvm::sort(names);
    for (llvm::StringRef name : names)
      if (!llvm::is_contained(known, name))
        fail("unknown member \"" + name + "\", expected one of " +
             llvm::join(known, ", "));
  }

private:
  const json::Object *object;
  std::string path;
  std::string &error;
  llvm::SmallVector<llvm::StringRef> known;
};

} // namespace

static void readLink(Reader reader, std::string &error, Link &link) {
  reader.number("latency_seconds", link.latencySeconds, /*positive=*/false,
                /*required=*/true);
  reader.number("bandwidth_bytes_per_second", link.bytesPerSecond,
                /*positive=*/true, /*required=*/true);
  Reader curve = reader.object_("all_reduce_curve");
  if (curve.exists()) {
    curve.integer("group_size", link.curveGroupSize, 2, true);
    const json::Array *points = curve.array("points", true);
    for (size_t i = 0; points && i < points->size(); ++i) {
      const json::Object *object = (*points)[i].getAsObject();
      Reader point(object, ("points[" + llvm::Twine(i) + "]").str(), error);
      if (!object)
        point.fail("not an object");
      Link::Point entry{0, 0};
      point.integer("buffer_bytes", entry.bufferBytes, 0, true);
      point.number("seconds", entry.seconds, /*positive=*/true, true);
      point.finish();
      if (!link.allReduceCurve.empty() &&
          (entry.bufferBytes <= link.allReduceCurve.back().bufferBytes ||
           entry.seconds < link.allReduceCurve.back().seconds))
        point.fail("expected more bytes and no fewer seconds than the point "
                   "before");
      link.allReduceCurve.push_back(entry);
    }
    if (points && points->size() < 2)
      curve.fail("has " + llvm::Twine(points->size()) +
                 " points, expected at least 2");
    curve.finish();
  }
  reader.finish();
}

llvm::Expected<Machine> kerf::cost::parseMachine(llvm::StringRef text,
                                                 llvm::StringRef source) {
  auto failure = [&](const llvm::Twine &message) {
    return llvm::createStringError(source + ": " + message);
  };
  llvm::Expected<json::Value> value = kerf::parseJson(text);
  if (!value)
    return failure("not JSON: " + llvm::toString(value.takeError()));
  const json::Object *root = value->getAsObject();
  if (!root)
    return failure("not a JSON object");

  std::string error;
  Machine machine;
  Reader reader(root, "", error);
  std::string schema;
  reader.string("schema", schema, /*required=*/true);
  if (std::string wrong = schemaMismatch(machineSchema, schema);
      error.empty() && !wrong.empty())
    return failure("schema " + wrong);
  reader.string("name", machine.name, /*required=*/true);
  reader.string("description", machine.description);
  reader.integer("nodes", machine.nodes, 1, /*required=*/true);
  reader.integer("devices_per_node", machine.devicesPerNode, 1,
                 /*required=*/true);
  reader.integer("memory_bytes_per_device", machine.memoryBytesPerDevice, 0);
  reader.integer("cores_per_node", machine.cores, 0);
  reader.integer("threads_per_device", machine.threadsPerDevice, 1);
  reader.number("ranks_that_saturate_memory", machine.ranksThatSaturateMemory,
                /*positive=*/false);
  reader.integer("ports_per_node", machine.portsPerNode, 0);

  Reader compute = reader.object_("compute", /*required=*/true);
  for (unsigned i = 0; i < kNumComputeClasses; ++i) {
    auto kind = static_cast<ComputeClass>(i);
    if (kind == ComputeClass::View)
      continue; // moves nothing
    Reader entry = compute.object_(toString(kind), /*required=*/true);
    Throughput &rate = machine.throughput[i];
    entry.number("flops_per_second", rate.flopsPerSecond, true, true);
    entry.number("bytes_per_second", rate.bytesPerSecond, true, true);
    entry.number("latency_seconds", rate.latencySeconds, false);
    if (schema != machineSchema.text(1)) {
      Reader typed = entry.object_("flops_per_second_by_type");
      for (unsigned j = 1; j < kNumElementKinds; ++j)
        typed.number(toString(static_cast<ElementKind>(j)),
                     rate.typedFlopsPerSecond[j], true);
      typed.finish();
    }
    entry.finish();
  }
  compute.finish();
  readLink(reader.object_("local", machine.devicesPerNode > 1), error,
           machine.local);
  readLink(reader.object_("network", machine.nodes > 1), error,
           machine.network);
  reader.finish();
  if (error.empty() &&
      machine.nodes > (int64_t(1) << 20) / machine.devicesPerNode)
    error = "nodes times devices_per_node is over 1048576";
  if (!error.empty())
    return failure(error);
  return machine;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static void writeLink(json::OStream &out, llvm::StringRef name,
                      const Link &link) {
  if (link.bytesPerSecond <= 0)
    return;
  out.attributeObject(name, [&] {
    out.attribute("latency_seconds", link.latencySeconds);
    out.attribute("bandwidth_bytes_per_second", link.bytesPerSecond);
    if (link.allReduceCurve.empty())
      return;
    out.attributeObject("all_reduce_curve", [&] {
      out.attribute("group_size", link.curveGroupSize);
      out.attributeArray("points", [&] {
        for (const Link::Point &point : link.allReduceCurve)
          out.object([&] {
            out.attribute("buffer_bytes", point.bufferBytes);
            out.attribute("seconds", point.seconds);
          });
      });
    });
  });
}

static bool hasTypes(const Throughput &rate) {
  return llvm::any_of(rate.typedFlopsPerSecond,
                      [](double flops) { return flops > 0; });
}

static void writeTypes(json::OStream &out, const Throughput &rate) {
  if (!hasTypes(rate))
    return;
  out.attributeObject("flops_per_second_by_type", [&] {
    for (unsigned j = 1; j < kNumElementKinds; ++j)
      if (rate.typedFlopsPerSecond[j] > 0)
        out.attribute(toString(static_cast<ElementKind>(j)),
                      rate.typedFlopsPerSecond[j]);
  });
}

std::string kerf::cost::writeMachine(const Machine &machine) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, /*IndentSize=*/2);
  out.object([&] {
    // Without rates by type it is what version 1 has.
    out.attribute("schema",
                  machineSchema.text(llvm::any_of(machine.throughput, hasTypes)
                                         ? machineSchema.version
                                         : 1));
    out.attribute("name", machine.name);
    if (!machine.description.empty())
      out.attribute("description", machine.description);
    out.attribute("nodes", machine.nodes);
    out.attribute("devices_per_node", machine.devicesPerNode);
    if (machine.memoryBytesPerDevice > 0)
      out.attribute("memory_bytes_per_device", machine.memoryBytesPerDevice);
    if (machine.cores > 0) {
      out.attribute("cores_per_node", machine.cores);
      out.attribute("threads_per_device", machine.threadsPerDevice);
    }
    if (machine.ranksThatSaturateMemory > 0)
      out.attribute("ranks_that_saturate_memory",
                    machine.ranksThatSaturateMemory);
    if (machine.portsPerNode > 0)
      out.attribute("ports_per_node", machine.portsPerNode);
    out.attributeObject("compute", [&] {
      for (unsigned i = 0; i < kNumComputeClasses; ++i) {
        if (static_cast<ComputeClass>(i) == ComputeClass::View)
          continue;
        const Throughput &rate = machine.throughput[i];
        out.attributeObject(toString(static_cast<ComputeClass>(i)), [&] {
          out.attribute("flops_per_second", rate.flopsPerSecond);
          out.attribute("bytes_per_second", rate.bytesPerSecond);
          out.attribute("latency_seconds", rate.latencySeconds);
          writeTypes(out, rate);
        });
      }
    });
    writeLink(out, "local", machine.local);
    writeLink(out, "network", machine.network);
  });
  text += '\n';
  return text;
}
