//===- Pairs.cpp - which outputs are inputs of the next step --------------===//
#include "kerf/Import/State.h"

#include "kerf/Format/ClosestName.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace kerf;
using namespace llvm;

bool kerf::parseState(StringRef text, StateOptions &options,
                      std::string &error) {
  if (text == "auto") {
    options.automatic = true;
    return true;
  }
  auto [output, input] = text.split('=');
  if (output.empty() || input.empty()) {
    error = ("\"" + text + "\", expected OUTPUT=INPUT or auto").str();
    return false;
  }
  options.pairs.push_back({output.str(), input.str()});
  return true;
}

/// The input that the output of a decoder is in the next step, as exporters
/// name the two; empty: none.
static std::string pastOf(StringRef output, const StringSet<> &inputs) {
  static constexpr std::pair<const char *, const char *> words[] = {
      {"present_key_values", "past_key_values"},
      {"present", "past_key_values"},
      {"present", "past"}};
  for (auto [present, past] : words) {
    size_t at = output.find(present);
    if (at == StringRef::npos)
      continue;
    std::string name = (output.take_front(at) + past +
                        output.drop_front(at + StringRef(present).size()))
                           .str();
    if (inputs.contains(name))
      return name;
  }
  return {};
}

std::vector<StatePair> kerf::findStatePairs(const StateOptions &options,
                                            ArrayRef<std::string> inputs,
                                            ArrayRef<std::string> outputs) {
  std::vector<StatePair> pairs = options.pairs;
  if (!options.automatic)
    return pairs;
  StringSet<> names, taken, given;
  for (const std::string &name : inputs)
    names.insert(name);
  for (const StatePair &pair : pairs) {
    taken.insert(pair.input);
    given.insert(pair.output);
  }
  for (const std::string &output : outputs) {
    std::string input = pastOf(output, names);
    if (!input.empty() && !given.contains(output) && taken.insert(input).second)
      pairs.push_back({output, input});
  }
  return pairs;
}

std::string kerf::checkStateNames(const StateOptions &options,
                                  ArrayRef<std::string> inputs,
                                  ArrayRef<std::string> outputs) {
  auto missing = [](const char *kind, const std::string &name,
                    ArrayRef<std::string> names,
                    ArrayRef<std::string> others) -> std::string {
    if (is_contained(names, name))
      return {};
    std::string message =
        std::string("option state: no ") + kind + " \"" + name + "\"";
    if (is_contained(others, name))
      return message + ": pairs are OUTPUT=INPUT";
    std::string close = closestName(name, names.vec());
    return close.empty() ? message
                         : message + ", did you mean \"" + close + "\"?";
  };
  for (const StatePair &pair : options.pairs) {
    std::string error = missing("output", pair.output, outputs, inputs);
    if (error.empty())
      error = missing("input", pair.input, inputs, outputs);
    if (!error.empty())
      return error;
  }
  return {};
}

namespace {
/// Sizes that are found, by symbol.
class Binder {
public:
  Binder(const std::map<std::string, int64_t> &dims, std::string &error)
      : sizes(dims), error(error) {}

  void bind(const ModelValue &value, size_t dim, int64_t size) {
    if (dim >= value.dims.size() || !error.empty())
      return;
    const ModelValue::Dim &known = value.dims[dim];
    int64_t own = known.size;
    if (own < 0 && !known.symbol.empty()) {
      auto [found, isNew] = sizes.try_emplace(known.symbol, size);
      own = found->second;
    }
    if (own >= 0 && own != size)
      error = "input \"" + value.name + "\": dimension " + std::to_string(dim) +
              " is " + std::to_string(own) + ", expected " +
              std::to_string(size);
  }

  std::map<std::string, int64_t> sizes;

private:
  std::string &error;
};
} // namespace

std::map<std::string, int64_t>
kerf::bindDecoder(ArrayRef<ModelValue> inputs, ArrayRef<StatePair> pairs,
                  const std::map<std::string, int64_t> &dims, int64_t tokens,
                  int64_t length, std::string &error) {
  auto find = [&](StringRef name) {
    return llvm::find_if(inputs, [&](const auto &v) { return v.name == name; });
  };
  if (find("input_ids") == inputs.end())
    error = "no input \"input_ids\": generation needs a decoder with a cache "
            "whose ids are called that";
  else if (pairs.empty())
    error = "no output is an input of the next step: generation needs a "
            "decoder that was exported with its cache (outputs present.N.key, "
            "inputs past_key_values.N.key; option state names others)";
  // A decoder that writes into its cache itself has it whole.
  bool isFixed = find("write_indices") != inputs.end();
  int64_t past = tokens == 1 && !isFixed ? length - 1 : length;
  if (error.empty() && past < 1)
    error = "a cache of " + std::to_string(length) +
            " positions, expected at least 2";
  if (!error.empty())
    return {};
  Binder binder(dims, error);
  // What a cache is long is the first open size behind the batch.
  for (const StatePair &pair : pairs) {
    const ModelValue *value = find(pair.input);
    if (value == inputs.end()) // checkStateNames() says so
      continue;
    for (auto [dim, known] : enumerate(value->dims))
      if (known.size < 0 && dim > 0) {
        binder.bind(*value, dim, past);
        break;
      }
  }
  for (const ModelValue &value : inputs) {
    binder.bind(value, 0, 1);
    if (value.name == "input_ids" || value.name == "position_ids")
      binder.bind(value, 1, tokens);
    else if (value.name == "attention_mask")
      binder.bind(value, 1, past + tokens);
  }
  return error.empty() ? binder.sizes : std::map<std::string, int64_t>();
}
