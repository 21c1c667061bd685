//===- Inputs.cpp - what --input and --data say of a model ----------------===//
//
// The file of a model says which inputs it takes, so a wrong name or size is an
// error before anything is planned. A size that the file leaves open is taken
// from the array that is given as the input, or as the samples to train on.
//
//===----------------------------------------------------------------------===//
#include "../Setup.h"

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Format/ClosestName.h"
#include "kerf/Format/StepScalars.h"
#include "kerf/Import/ModelImage.h"
#include "kerf/Import/State.h"
#include "kerf/rt/inputs.h"
#include "kerf/rt/train.h"

#include <map>
#include <set>

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
  std::string file = {}; ///< of an input
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
    spec.isOfFile = !value.dims.empty() && value.dims[0].size >= 0;
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
    if (isStepScalar(text))
      add(text.substr(0, text.find('=')));
}

static std::map<std::string, Binding> boundByDim(const Options &options) {
  std::map<std::string, Binding> bound;
  for (const std::string &text : options.dims) {
    auto [name, size] = parseBinding(text, "--dim");
    if (size < 1)
      throw Failure{kUsage,
                    "--dim: \"" + name + "\" has size " + std::to_string(size) +
                        ", expected at least 1",
                    {}};
    bound.try_emplace(name, Binding{size, "--dim"});
  }
  return bound;
}

/// Binds sizes that are open to those of the arrays that are given, as by
/// --dim, but for the symbols in `except`. Arrays must agree with each other
/// and with what is `bound`.
static void takeSizesOf(const std::vector<std::optional<rt::GivenInput>> &given,
                        const std::vector<rt::InputSpec> &specs,
                        const std::set<std::string> &except,
                        std::map<std::string, Binding> &bound,
                        Options &options) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!given[i] || given[i]->file.empty() || specs[i].takesAny)
      continue;
    const rt::InputSpec &spec = specs[i];
    for (size_t d = 0; d < spec.shape.size(); ++d) {
      const std::string &symbol = spec.symbols[d];
      if (spec.shape[d] >= 0 || except.count(symbol))
        continue;
      int64_t size = given[i]->shape[d];
      if (size < 1)
        throw Failure{kUsage,
                      given[i]->file + ": dimension \"" + symbol +
                          "\" of input \"" + spec.name +
                          "\" is empty, expected at least 1",
                      {}};
      auto [known, isNew] = bound.try_emplace(
          symbol, Binding{size, "input \"" + spec.name + "\"", given[i]->file});
      const Binding &other = known->second;
      bool isElsewhere = !other.file.empty() && other.file != given[i]->file;
      if (other.size != size)
        throw Failure{kUsage,
                      given[i]->file + ": dimension \"" + symbol +
                          "\" of input \"" + spec.name + "\" is " +
                          std::to_string(size) + ", by " + other.source +
                          (isElsewhere ? " of " + other.file : "") + " it is " +
                          std::to_string(other.size),
                      {}};
      if (isNew)
        options.dims.push_back(symbol + "=" + std::to_string(size));
    }
  }
}

/// --constant must name inputs of the model, and none that --input gives by
/// name: of an archive that gives others the array is passed over.
static void checkConstants(const Options &options,
                           const std::vector<std::string> &inputs) {
  for (const std::string &text : options.constants) {
    std::string name = text.substr(0, text.find('='));
    if (!llvm::is_contained(inputs, name)) {
      std::string meant = closestInput(name, inputs);
      throw Failure{
          kUsage,
          "--constant: " + options.model + " has no input \"" + name + "\"" +
              (meant.empty() ? "" : ", did you mean \"" + meant + "\"?"),
          {}};
    }
    for (const std::string &input : options.inputs) {
      std::vector<std::string> arrays = rt::arraysOf(input);
      bool isOfFile = llvm::is_contained(arrays, name);
      bool givesOthers = llvm::any_of(arrays, [&](const std::string &array) {
        return array != name && llvm::is_contained(inputs, array);
      });
      if ((isOfFile && !givesOthers) ||
          llvm::StringRef(input).starts_with(name + "="))
        throw Failure{kUsage,
                      "input \"" + name + "\" is given by " +
                          (isOfFile ? rt::inputFile(input) : "--input") +
                          " and by --constant",
                      {}};
      if (isOfFile && !options.quiet)
        rt::say(stderr, rt::noteLine("input \"" + name +
                                     "\" is what --constant says, not what " +
                                     rt::inputFile(input) + " has"));
    }
  }
  // No input is left that a file without a name could be.
  if (!options.inputs.empty() && !inputs.empty() &&
      options.constants.size() == inputs.size())
    throw Failure{kUsage,
                  "--input=" + options.inputs.front() + ": all inputs of " +
                      options.model + " are given by --constant",
                  {}};
}

std::string kerf::tool::drawnBy(const Options &options) {
  return options.randomInputs                              ? "random-inputs"
         : options.seedGiven && options.solver != "random" ? "seed"
                                                           : "";
}

void kerf::tool::giveIdleInputs(Options &options) {
  ModelFacts facts;
  std::string error;
  if (isPackage(options.model) || options.cacheLength ||
      !options.states.empty() || options.seedGiven || options.randomInputs ||
      !readModelFacts(options.model, facts, error))
    return;
  for (const ModelValue &input : facts.inputs) {
    auto gives = [&](const std::string &flag) {
      return llvm::StringRef(flag).starts_with(input.name + "=") ||
             llvm::is_contained(rt::arraysOf(flag), input.name);
    };
    if (!input.isRead && llvm::none_of(options.inputs, gives) &&
        llvm::none_of(options.constants, gives))
      options.inputs.push_back(input.name + "=0");
  }
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
  std::map<std::string, Binding> bound = boundByDim(options);
  // Sizes that --dim binds stay open here: takeSizesOf() names it.
  auto specs = specsOf(facts, options, {});
  if (!specs)
    return;
  // States are no inputs, nor may those be that follow from a position: import
  // says more.
  bool takesState = !options.states.empty();
  std::vector<std::string> names = facts.inputNames();
  for (const StatePair &pair :
       findStatePairs(stateOptions(options), names, facts.outputs))
    llvm::erase_if(*specs,
                   [&](const auto &spec) { return spec.name == pair.input; });
  if (options.train)
    addInputsOfStep(options, *specs);
  checkConstants(options, names);
  std::vector<std::optional<rt::GivenInput>> given;
  if (!rt::matchInputs(options.inputs, *specs, options.model, given, error)) {
    if (takesState)
      return;
    throw Failure{kUsage, error, {}};
  }
  std::string drawn = options.train || takesState ? "" : drawnBy(options);
  if (!drawn.empty() &&
      llvm::all_of(given, [](const auto &input) { return input.has_value(); }))
    throw Failure{kUsage,
                  "--" + drawn +
                      (given.empty()
                           ? ": there is no input that could be drawn"
                           : ": every input is given, none is left to draw"),
                  {}};
  if (all && !takesState && !options.seedGiven && !options.randomInputs)
    if (error = rt::missingInputs(*specs, given, options.inputs, options.model);
        !error.empty())
      throw Failure{kUsage, error, {}};
  takeSizesOf(given, *specs, /*except=*/{}, bound, options);
}

/// Flat tokens have no size of a sample: how they are cut must be said.
static void requireWindow(const std::string &path,
                          const std::vector<rt::InputSpec> &specs,
                          const std::map<std::string, Binding> &bound,
                          const Options &options) {
  for (const rt::InputSpec &spec : specs)
    if (spec.shape.size() == 2 && spec.shape[1] < 0 &&
        !bound.count(spec.symbols[1]) && options.sequenceLength == 0)
      throw Failure{kUsage,
                    path +
                        ": flat tokens are cut into windows of dimension \"" +
                        spec.symbols[1] + "\" of input \"" + spec.name +
                        "\": give its size, as --sequence-length=S",
                    {}};
}

/// A decoder that was exported with its cache is for generation: what was
/// before is in the cache, which data of whole sequences do not have.
static void refuseCache(const std::string &path, const ModelFacts &facts,
                        const std::vector<rt::InputSpec> &specs,
                        const std::vector<std::optional<rt::GivenInput>> &given,
                        const std::string &model) {
  StateOptions exporters;
  exporters.automatic = true;
  std::vector<std::string> names;
  for (const rt::InputSpec &spec : specs)
    names.push_back(spec.name);
  for (const StatePair &pair : findStatePairs(exporters, names, facts.outputs))
    if (size_t i = llvm::find(names, pair.input) - names.begin();
        given.empty() || !given[i])
      throw Failure{kUsage,
                    model + ": input \"" + pair.input +
                        "\" is a cache, for generation, and " + path +
                        " has no array of that name",
                    {"training reads whole sequences: export the model "
                     "without its cache (in transformers use_cache=False)"}};
}

std::set<std::string> kerf::tool::sizesWithinSamples(
    const std::vector<std::vector<std::string>> &symbols) {
  std::set<std::string> inner;
  for (const std::vector<std::string> &ofInput : symbols)
    if (!ofInput.empty())
      inner.insert(ofInput.begin() + 1, ofInput.end());
  bool hasOthers = llvm::any_of(symbols, [&](const auto &ofInput) {
    return !ofInput.empty() && !ofInput[0].empty() && !inner.count(ofInput[0]);
  });
  return hasOthers ? inner : std::set<std::string>();
}

void kerf::tool::takeData(Options &options) {
  ModelFacts facts;
  std::string error;
  if (!readModelFacts(options.model, facts, error))
    return;
  // Sizes that --dim binds stay open here: data of another size is then refused
  // with a message that names --dim.
  auto specs = specsOf(facts, options, {});
  if (!specs)
    return;
  // How many samples a step takes is not for the data to say, wherever else the
  // model has that size.
  std::set<std::string> batches;
  std::vector<std::vector<std::string>> symbols;
  for (const rt::InputSpec &spec : *specs)
    symbols.push_back(spec.symbols);
  std::set<std::string> inner = sizesWithinSamples(symbols);
  bool isNamed = llvm::any_of(symbols, [](const auto &ofInput) {
    return llvm::any_of(ofInput, namesBatch);
  });
  auto shared = compilationOptions(options).import.batchDims;
  for (const rt::InputSpec &spec : *specs) {
    auto said = shared.find(spec.name);
    bool isShared = said != shared.end() && said->second < 0;
    for (size_t d = 0; d < spec.shape.size(); ++d)
      if ((d == 0 && !isNamed && !isShared && !inner.count(spec.symbols[d])) ||
          namesBatch(spec.symbols[d]))
        batches.insert(spec.symbols[d]);
  }
  bool isOpen = false;
  for (rt::InputSpec &spec : *specs)
    for (size_t d = 1; d < spec.shape.size(); ++d)
      isOpen |= spec.shape[d] < 0 && !batches.count(spec.symbols[d]);
  if (!isOpen)
    return;
  std::map<std::string, Binding> bound = boundByDim(options);
  for (const std::string &path : {options.data, options.evalData}) {
    if (path.empty())
      continue;
    std::vector<std::optional<rt::GivenInput>> given;
    if (!rt::matchData(path, *specs, given, error))
      throw Failure{kUsage, error, {}};
    refuseCache(path, facts, *specs, given, options.model);
    if (given.empty()) {
      requireWindow(path, *specs, bound, options);
      continue;
    }
    takeSizesOf(given, *specs, batches, bound, options);
    for (size_t i = 0; i < given.size(); ++i)
      for (const std::string &symbol : (*specs)[i].symbols)
        if (!given[i] && !symbol.empty() && !batches.count(symbol) &&
            !bound.count(symbol))
          throw Failure{kUsage,
                        path + ": has no array \"" + (*specs)[i].name +
                            "\", which would say how large dimension \"" +
                            symbol + "\" is: add it, or --dim " + symbol +
                            "=SIZE",
                        {}};
  }
}
