//===- State.cpp - --state and --cache-length -----------------------------===//
#include "Setup.h"

#include "kerf/Import/ModelImage.h"

using namespace kerf;
using namespace kerf::tool;

StateOptions kerf::tool::stateOptions(const Options &options) {
  StateOptions result;
  std::string error;
  for (const std::string &text : options.states)
    if (!parseState(text, result, error))
      throw Failure{kUsage, "--state: " + error, {}};
  return result;
}

void kerf::tool::takeState(Options &options) {
  if (options.cacheLength == 0 || isPackage(options.model))
    return;
  if (options.states.empty())
    options.states = {"auto"};
  ModelFacts facts;
  std::string error;
  if (!readModelFacts(options.model, facts, error))
    return; // import says more
  std::vector<std::string> inputs;
  for (const ModelValue &value : facts.inputs)
    inputs.push_back(value.name);
  std::vector<StatePair> pairs =
      findStatePairs(stateOptions(options), inputs, facts.outputs);
  std::map<std::string, int64_t> dims;
  for (const std::string &text : options.dims)
    dims.insert(parseBinding(text, "--dim"));
  std::map<std::string, int64_t> bound = bindDecoder(
      facts.inputs, pairs, dims, /*tokens=*/1, options.cacheLength, error);
  if (!error.empty())
    throw Failure{kUsage, options.model + ": " + error, {}};
  for (const auto &[symbol, size] : bound)
    if (!dims.count(symbol))
      options.dims.push_back(symbol + "=" + std::to_string(size));
}
