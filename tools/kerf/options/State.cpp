//===- State.cpp - --state and --cache-length -----------------------------===//
#include "../Setup.h"

#include "kerf/Import/ModelImage.h"

#include "llvm/Support/Regex.h"

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

/// The dimensions of --dim, and of a decoder with steps of `tokens` tokens.
static std::map<std::string, int64_t> decoderDims(const Options &options,
                                                  int64_t tokens) {
  ModelFacts facts;
  std::string error;
  std::map<std::string, int64_t> dims;
  for (const std::string &text : options.dims)
    dims.insert(parseBinding(text, "--dim"));
  if (!readModelFacts(options.model, facts, error))
    return dims; // import says more
  std::vector<StatePair> pairs =
      findStatePairs(stateOptions(options), facts.inputNames(), facts.outputs);
  std::map<std::string, int64_t> bound = bindDecoder(
      facts.inputs, pairs, dims, tokens, options.cacheLength, error);
  if (!error.empty())
    throw Failure{kUsage, options.model + ": " + error,
                  pairs.empty() ? std::vector<std::string>{"docs/Generate.md "
                                                           "exports one"}
                                : std::vector<std::string>{}};
  return bound;
}

/// A wrong name is why sizes stay open, so it is said first. (A sequence is
/// known behind import, as an output for each element, NAME.0.)
static void checkNames(const Options &options) {
  StateOptions state = stateOptions(options);
  ModelFacts facts;
  std::string error;
  if (state.pairs.empty() || !readModelFacts(options.model, facts, error))
    return; // import says more
  std::vector<std::string> outputs = facts.outputs;
  for (const StatePair &pair : state.pairs)
    if (llvm::any_of(facts.outputs, [&](const std::string &name) {
          return llvm::StringRef(pair.output).starts_with(name + ".");
        }))
      outputs.push_back(pair.output);
  if (error = checkStateNames(state, facts.inputNames(), outputs);
      !error.empty())
    throw Failure{kUsage, options.model + ": " + error, {}};
}

void kerf::tool::takeState(Options &options) {
  if (options.promptTokens && !options.cacheLength)
    throw Failure{kUsage, "--prompt-tokens needs --cache-length", {}};
  if (!options.train && !isPackage(options.model))
    checkNames(options);
  if (options.cacheLength == 0 || isPackage(options.model))
    return;
  if (options.states.empty())
    options.states = {"auto"};
  options.givenDims = options.dims;
  options.dims.clear();
  Options given = options;
  given.dims = options.givenDims;
  for (const auto &[symbol, size] : decoderDims(given, 1))
    options.dims.push_back(symbol + "=" + std::to_string(size));
}

/// "{}, {\"tp\"}" of a plan as --shard has it: "[{},{tp}]".
static std::string asHint(llvm::StringRef sharding) {
  std::string text = "[";
  for (char c : sharding)
    if (c != '"' && c != ' ')
      text += c;
  return text + "]";
}

/// The entry of a value in a plan.
static const llvm::json::Object *valueIn(const llvm::json::Object &plan,
                                         llvm::StringRef name) {
  if (const llvm::json::Array *values = plan.getArray("values"))
    for (const llvm::json::Value &value : *values)
      if (const llvm::json::Object *entry = value.getAsObject();
          entry && entry->getString("name") == name)
        return entry;
  return nullptr;
}

std::unique_ptr<Compilation>
kerf::tool::compilePrompt(const Options &options, const Compilation &decoder) {
  if (!options.promptTokens)
    return nullptr;
  if (parseDevices(options.devices).kind != "cpu")
    throw Failure{kUsage, "--prompt-tokens: for ranks on CPUs alone", {}};
  Options own = options;
  own.dims = options.givenDims;
  std::map<std::string, int64_t> dims = decoderDims(own, options.promptTokens);
  own.dims.clear();
  for (const auto &[symbol, size] : dims)
    own.dims.push_back(symbol + "=" + std::to_string(size));
  // Caches lie as the decoder's do.
  const llvm::json::Object &plan = decoder.getPlanJson();
  own.planFile.clear();
  own.dumpDir.clear();
  own.mesh.clear();
  for (const auto &[axis, size] : *plan.getObject("mesh"))
    own.mesh += (own.mesh.empty() ? "" : ",") + axis.str() + "=" +
                std::to_string(size.getAsInteger().value_or(1));
  own.shards.clear();
  std::vector<std::string> states;
  for (const std::string &name : decoder.getStates()) {
    const llvm::json::Object *value = valueIn(plan, name);
    if (!value)
      continue;
    states.push_back(name);
    std::optional<int64_t> stage = value->getInteger("stage");
    own.shards.push_back("^" + llvm::Regex::escape(name) + "$=" +
                         asHint(value->getString("sharding").value_or("")) +
                         (stage ? "@" + std::to_string(*stage) : ""));
  }
  CompilationOptions compile = compilationOptions(own);
  compile.weightsInPlace = options.weightsInPlace;
  auto prompt = std::make_unique<Compilation>(std::move(compile));
  require(*prompt, prompt->runUntil("lower"));
  for (const std::string &name : states) {
    const llvm::json::Object *here = valueIn(plan, name),
                             *there = valueIn(prompt->getPlanJson(), name);
    if (!there || here->getInteger("stage") != there->getInteger("stage") ||
        here->getString("sharding") != there->getString("sharding"))
      throw Failure{kNoPlan,
                    "--prompt-tokens: no plan has the cache \"" + name +
                        "\" where steps of one token have it",
                    {"another --prompt-tokens or --mesh may have one; without "
                     "--prompt-tokens a prompt is read token by token"}};
  }
  return prompt;
}
