//===- OwnReads.cpp - who reads a parameter as its own --------------------===//
#include "OwnReads.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace kerf;
using namespace kerf::onnx_import;
using llvm::StringRef;

StringRef kerf::onnx_import::callOf(const onnx::NodeProto &node) {
  for (const auto &entry : node.metadata_props())
    if (entry.key() == "pkg.torch.onnx.fx_node")
      return entry.value();
  return "";
}

static bool isOfName(char c) { return llvm::isAlnum(c) || c == '_'; }

std::string kerf::onnx_import::parametersOf(StringRef call) {
  size_t begin = call.find("call_function");
  if (begin == StringRef::npos)
    return "";
  std::string text;
  bool any = false;
  for (StringRef rest = call.substr(begin); !rest.empty();) {
    if (rest.front() != '%') {
      text += rest.front();
      rest = rest.drop_front();
      continue;
    }
    StringRef name = rest.drop_front().take_while(isOfName);
    bool isStored = name.starts_with("p_") || name.starts_with("b_");
    any |= isStored;
    text += isStored ? "%" + name.str() : "%";
    rest = rest.drop_front(1 + name.size());
  }
  return any ? text : "";
}

StringRef kerf::onnx_import::scopeOf(const onnx::NodeProto &node) {
  StringRef name = node.name();
  return name.take_front(name.rfind('/') + 1);
}

/// "norm.bias" of its copy "norm.bias.2".
static StringRef withoutCopy(StringRef parameter) {
  StringRef stem = parameter.rtrim("0123456789");
  return stem.size() < parameter.size() && stem.ends_with(".")
             ? stem.drop_back()
             : parameter;
}

/// The name that torch.export gives to a parameter, without the prefix %p_.
static std::string argumentName(StringRef parameter) {
  std::string name;
  for (char c : parameter)
    name += llvm::isAlnum(c) ? llvm::toLower(c) : '_';
  return name;
}

/// Whether the call has an argument that torch.export calls after the
/// parameter or the buffer: %p_cell_bias for "cell.bias", %b_norm_running_mean
/// for "norm.running_mean".
static bool hasArgument(StringRef call, StringRef parameter) {
  for (const char *kind : {"%p_", "%b_"}) {
    std::string argument = kind + argumentName(parameter);
    for (size_t at = call.find(argument); at != StringRef::npos;
         at = call.find(argument, at + 1)) {
      size_t end = at + argument.size();
      if (end == call.size() || !isOfName(call[end]))
        return true;
    }
  }
  return false;
}

StringRef kerf::onnx_import::argumentLike(StringRef call, StringRef parameter) {
  parameter = withoutCopy(parameter);
  std::string last =
      "_" + argumentName(parameter.substr(parameter.rfind('.') + 1));
  StringRef found;
  for (size_t at = call.find("%p_"); at != StringRef::npos;
       at = call.find("%p_", at + 1)) {
    StringRef argument = call.substr(at).take_while(
        [](char c) { return c == '%' || isOfName(c); });
    if (!argument.ends_with(last) || argument == found)
      continue;
    if (!found.empty())
      return "";
    found = argument;
  }
  return found;
}

/// "cell_1" without the number that a second application gives it.
static StringRef withoutNumber(StringRef name) {
  StringRef stem = name.rtrim("0123456789");
  return stem.size() < name.size() && stem.size() > 1 && stem.ends_with("_")
             ? stem.drop_back()
             : name;
}

/// The module of "/layers/layers.0/norm/Mul": "layers.0.norm". Members of lists
/// repeat the list's name.
static std::string moduleOf(StringRef node, bool isNumbered) {
  llvm::SmallVector<StringRef> parts;
  node.drop_front().split(parts, '/');
  std::string module;
  StringRef before;
  for (StringRef part : llvm::ArrayRef(parts).drop_back()) {
    if (isNumbered)
      part = withoutNumber(part);
    bool isMember = !before.empty() && part.starts_with(before) &&
                    part.substr(before.size()).starts_with(".");
    module += isMember ? part.substr(before.size()).str()
                       : (module.empty() ? "" : ".") + part.str();
    before = part;
  }
  return module;
}

/// The module in PyTorch that a node is of: "layers.0.norm"; else empty.
static std::string readerOf(const onnx::NodeProto &node) {
  if (StringRef(node.name()).starts_with("/"))
    return moduleOf(node.name(), true);
  // "['', 'layers', 'layers.0', 'linear_1']": modules, then the call.
  for (const auto &entry : node.metadata_props())
    if (entry.key() == "pkg.torch.onnx.name_scopes") {
      llvm::SmallVector<StringRef> parts;
      StringRef(entry.value()).split(parts, '\'');
      return parts.size() < 5 ? "" : parts[parts.size() - 4].str();
    }
  return "";
}

/// Whether an exporter has folded the transposition of a module's weight, and
/// called what came out by a number: val_7, onnx::MatMul_12.
static bool isFolded(const onnx::NodeProto &node, StringRef reader,
                     StringRef input) {
  if (node.op_type() != "MatMul" || node.input_size() != 2 ||
      node.input(1) != input)
    return false;
  StringRef call = callOf(node);
  return call.empty() ? input.starts_with("onnx::MatMul_")
                      : input.starts_with("val_") &&
                            hasArgument(call, (reader + ".weight").str());
}

std::vector<std::pair<std::string, std::string>>
kerf::onnx_import::otherNamesOf(const onnx::GraphProto &graph) {
  llvm::StringSet<> stored;
  for (const auto &tensor : graph.initializer())
    stored.insert(tensor.name());
  std::vector<std::pair<std::string, std::string>> names;
  auto add = [&](const std::string &other, StringRef input) {
    std::pair<std::string, std::string> both = {other, input.str()};
    if (!stored.contains(other) && !llvm::is_contained(names, both))
      names.push_back(std::move(both));
  };
  for (const auto &node : graph.node()) {
    std::string reader = readerOf(node);
    for (StringRef input : node.input()) {
      if (reader.empty() || !stored.contains(input))
        continue;
      if (isFolded(node, reader, input)) {
        add(reader + ".weight", input);
        continue;
      }
      if (!input.contains('.'))
        continue;
      auto [owner, last] = withoutCopy(input).rsplit('.');
      // A module's code may read what is of a module in it.
      if (owner == reader || owner.starts_with(reader + ".") ||
          StringRef(reader).starts_with((owner + ".").str()))
        continue;
      add(reader + "." + last.str(), input);
    }
  }
  return names;
}

bool kerf::onnx_import::isOwnRead(const onnx::NodeProto &node,
                                  StringRef parameter) {
  if (StringRef call = callOf(node); !call.empty())
    return hasArgument(call, parameter);
  StringRef name = node.name();
  if (!name.starts_with("/") || node.op_type() == "Identity")
    return false;
  StringRef owner =
      parameter.contains('.') ? parameter.rsplit('.').first : StringRef();
  return moduleOf(name, false) == owner || moduleOf(name, true) == owner;
}

std::vector<std::string>
kerf::onnx_import::sharedByModel(const onnx::GraphProto &graph) {
  struct Reads {
    int count = 0;
    bool areOwn = true, areOfOne = true;
    StringRef argument = {};
    std::string parameters = {};
  };
  llvm::MapVector<StringRef, Reads> reads;
  for (const auto &tensor : graph.initializer())
    reads[tensor.name()];
  for (const auto &node : graph.node()) {
    llvm::StringSet<> seen;
    for (const std::string &input : node.input())
      if (auto read = reads.find(input);
          read != reads.end() && seen.insert(input).second) {
        Reads &all = read->second;
        StringRef argument = argumentLike(callOf(node), input);
        std::string parameters = parametersOf(callOf(node));
        bool isSame = all.count == 0 ||
                      (!argument.empty() && argument == all.argument) ||
                      parameters == all.parameters;
        all.areOfOne &= isSame && !(argument.empty() && parameters.empty());
        all.argument = argument;
        all.parameters = std::move(parameters);
        all.areOwn &= isOwnRead(node, input);
        ++all.count;
      }
  }
  std::vector<std::string> names;
  for (const auto &[name, read] : reads)
    if (read.count > 1 && (read.areOwn || read.areOfOne))
      names.push_back(name.str());
  return names;
}

std::vector<std::string>
kerf::onnx_import::leftOut(const onnx::GraphProto &graph) {
  llvm::StringMap<StringRef> stored; // by the name of the argument
  llvm::StringSet<> initializers;
  for (const auto &tensor : graph.initializer()) {
    stored[argumentName(tensor.name())] = tensor.name();
    initializers.insert(tensor.name());
  }
  // What the nodes of each call read.
  llvm::MapVector<StringRef, llvm::StringSet<>> reads;
  for (const auto &node : graph.node())
    if (StringRef call = callOf(node); !call.empty())
      for (const std::string &input : node.input())
        if (llvm::StringSet<> &read = reads[call]; initializers.contains(input))
          read.insert(input);
  std::vector<std::string> names;
  for (const auto &[call, read] : reads) {
    llvm::SmallVector<StringRef> missing;
    size_t found = 0;
    std::string owner; // "fc." of "fc.weight"
    for (size_t at = call.find("%p_"); at != StringRef::npos;
         at = call.find("%p_", at + 1)) {
      StringRef argument = call.substr(at + 3).take_while(isOfName);
      auto known = stored.find(argument);
      if (known == stored.end()) {
        missing.push_back(argument);
        continue;
      }
      if (!read.contains(known->second))
        continue;
      ++found;
      if (size_t dot = known->second.rfind('.'); dot != StringRef::npos)
        owner = known->second.take_front(dot + 1).str();
    }
    // Another tensor may stand in the place of a parameter: a transpose, or one
    // of equal numbers.
    if (found == 0 || found != read.size())
      continue;
    for (StringRef argument : missing) {
      StringRef rest = argument;
      std::string name = rest.consume_front(argumentName(owner))
                             ? owner + rest.str()
                             : argument.str();
      if (!llvm::is_contained(names, name)) // of a module applied again
        names.push_back(std::move(name));
    }
  }
  return names;
}
