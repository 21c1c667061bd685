//===- Inputs.cpp - what --input says of a model --------------------------===//
//
// The file of a model says what it takes, so a wrong name or size is an error
// before anything is planned, and a size that the file leaves open is that of
// the array which is given.
//
//===----------------------------------------------------------------------===//
#include "Setup.h"

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Import/ModelImage.h"
#include "kerf/Import/State.h"
#include "kerf/rt/inputs.h"

#include <map>

using namespace kerf;
using namespace kerf::tool;

/// By ONNX's names; none for types that no file of NumPy holds.
static std::optional<kerf_dtype_t> typeOf(const std::string &name) {
  static const std::map<std::string, kerf_dtype_t> types = {
      {"float", KERF_F32},
      {"double", KERF_F64},
      {"float16", KERF_F16},
      {"int8", KERF_I8},
      {"bfloat16", KERF_BF16},
      {"int16", KERF_I16},
      {"int32", KERF_I32},
      {"int64", KERF_I64},
      {"uint8", KERF_U8},
      {"uint16", KERF_U16},
      {"uint32", KERF_U32},
      {"uint64", KERF_U64},
      {"bool", KERF_BOOL},
      {"float8e4m3fn", KERF_F8E4M3FN},
      {"float8e4m3fnuz", KERF_F8E4M3FNUZ},
      {"float8e5m2", KERF_F8E5M2},
      {"float8e5m2fnuz", KERF_F8E5M2FNUZ},
      {"float8e8m0", KERF_F8E8M0FNU},
      {"float4e2m1", KERF_F4E2M1FN},
      {"int4", KERF_I4},
      {"uint4", KERF_U4},
      {"int2", KERF_I2},
      {"uint2", KERF_U2}};
  auto found = types.find(name);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

namespace {
/// A size that is known, and who said so.
struct Binding {
  int64_t size;
  std::string source;
};
} // namespace

/// The model's inputs but for those that --constant binds; none where one is no
/// plain tensor, of which import says more.
static std::optional<std::vector<rt::InputSpec>>
specsOf(const ModelFacts &facts, const Options &options,
        const std::map<std::string, Binding> &bound) {
  std::vector<rt::InputSpec> specs;
  for (const ModelValue &value : facts.inputs) {
    bool isConstant = false;
    for (const std::string &text : options.constants)
      isConstant |= text.substr(0, text.find('=')) == value.name;
    if (isConstant)
      continue;
    std::optional<kerf_dtype_t> type = typeOf(value.elementType);
    if (!type || !value.hasShape)
      return std::nullopt;
    rt::InputSpec &spec = specs.emplace_back();
    spec.name = value.name;
    spec.dtype = *type;
    for (const ModelValue::Dim &dim : value.dims) {
      auto found = bound.find(dim.symbol);
      spec.shape.push_back(dim.size >= 0          ? dim.size
                           : found != bound.end() ? found->second.size
                                                  : -1);
      spec.symbols.push_back(dim.symbol);
    }
  }
  return specs;
}

/// A training step takes the loss's labels besides, and numbers that may be
/// given: of which kind they are, autodiff decides.
static void addInputsOfStep(const Options &options,
                            std::vector<rt::InputSpec> &specs) {
  auto add = [&](const std::string &name) {
    if (llvm::any_of(specs,
                     [&](const auto &spec) { return spec.name == name; }))
      return;
    rt::InputSpec &spec = specs.emplace_back();
    spec.name = name;
    spec.takesAny = true;
  };
  llvm::Expected<autodiff::LossSpec> loss = autodiff::parseLoss(options.loss);
  if (!loss)
    llvm::consumeError(loss.takeError()); // reported where the step is made
  else if (!loss->target.empty())
    add(loss->target);
  for (const std::string &text : options.inputs)
    if (llvm::StringRef(text).starts_with("train."))
      add(text.substr(0, text.find('=')));
}

void kerf::tool::takeInputs(Options &options, bool all) {
  ModelFacts facts;
  std::string error;
  // What a decoder with a cache takes is known behind import, and all its sizes
  // are.
  if (options.model.empty() || isPackage(options.model) ||
      options.cacheLength || (options.inputs.empty() && !all) ||
      !readModelFacts(options.model, facts, error))
    return;
  std::map<std::string, Binding> bound;
  for (const std::string &text : options.dims) {
    auto [name, size] = parseBinding(text, "--dim");
    bound.try_emplace(name, Binding{size, "--dim"});
  }
  auto specs = specsOf(facts, options, bound);
  if (!specs)
    return;
  // States are no inputs, nor may those be that follow from a position: import
  // says more.
  bool takesState = !options.states.empty();
  std::vector<std::string> names;
  for (const ModelValue &value : facts.inputs)
    names.push_back(value.name);
  for (const StatePair &pair :
       findStatePairs(stateOptions(options), names, facts.outputs))
    llvm::erase_if(*specs,
                   [&](const auto &spec) { return spec.name == pair.input; });
  if (options.train)
    addInputsOfStep(options, *specs);
  std::vector<std::optional<rt::GivenInput>> given;
  if (!rt::matchInputs(options.inputs, *specs, options.model, given, error)) {
    if (takesState)
      return;
    throw Failure{kUsage, error, {}};
  }
  if (all && !takesState && !options.seedGiven && !options.randomInputs)
    if (error = rt::missingInputs(*specs, given, options.model); !error.empty())
      throw Failure{kUsage, error, {}};
  for (size_t i = 0; i < specs->size(); ++i) {
    if (!given[i] || given[i]->file.empty() || (*specs)[i].takesAny)
      continue;
    const rt::InputSpec &spec = (*specs)[i];
    for (size_t d = 0; d < spec.shape.size(); ++d) {
      if (spec.shape[d] >= 0)
        continue;
      int64_t size = given[i]->shape[d];
      const std::string &symbol = spec.symbols[d];
      if (size < 1)
        throw Failure{kUsage,
                      given[i]->file + ": dimension \"" + symbol +
                          "\" of input \"" + spec.name +
                          "\" is empty, expected at least 1",
                      {}};
      auto [known, isNew] = bound.try_emplace(
          symbol, Binding{size, "input \"" + spec.name + "\""});
      if (known->second.size != size)
        throw Failure{kUsage,
                      given[i]->file + ": dimension \"" + symbol +
                          "\" of input \"" + spec.name + "\" is " +
                          std::to_string(size) + ", by " +
                          known->second.source + " it is " +
                          std::to_string(known->second.size),
                      {}};
      if (isNew)
        options.dims.push_back(symbol + "=" + std::to_string(size));
    }
  }
}
