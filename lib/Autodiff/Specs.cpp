//===- Specs.cpp - --loss and --optimizer as text -------------------------===//
#include "Specs.h"

#include "LossRules.h"
#include "Optimizers.h"
#include "OtherFrameworks.h"

#include "kerf/Format/ClosestName.h"
#include "kerf/Format/Decimal.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"

using namespace kerf::autodiff;
using llvm::StringRef;
using llvm::Twine;

static llvm::Error wrong(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static llvm::Error number(StringRef flag, StringRef key, StringRef text,
                          double min, double max, double &result) {
  if (!kerf::isDecimal(text) || text.getAsDouble(result) || !(result >= min) ||
      !(result <= max))
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "%s: %s is '%s', expected a number from %g to %g", flag.str().c_str(),
        key.str().c_str(), text.str().c_str(), min, max);
  return llvm::Error::success();
}

static llvm::Error read(StringRef flag, const NumberOption &option,
                        StringRef text, double &result) {
  if (!option.isSwitch)
    return number(flag, option.key, text, option.min, option.max, result);
  // As shells, Python and configurations write it.
  bool isOn = text.empty() || text == "true" || text == "True" || text == "1";
  if (!isOn && text != "false" && text != "False" && text != "0")
    return wrong(flag + ": " + option.key + " is '" + text +
                 "', expected true or false (or True, False, 1, 0)");
  result = isOn;
  return llvm::Error::success();
}

/// The option of this name, or null.
static const NumberOption *find(llvm::ArrayRef<NumberOption> options,
                                StringRef key) {
  auto found = llvm::find_if(
      options, [&](const NumberOption &option) { return option.key == key; });
  return found == options.end() ? nullptr : found;
}

/// "a, b or c".
template <typename Range> static std::string anyOf(const Range &names) {
  std::string text;
  for (auto [index, name] : llvm::enumerate(names))
    text += (index == 0                  ? ""
             : index + 1 == names.size() ? " or "
                                         : ", ") +
            std::string(name);
  return text;
}

/// "did you mean 'adam'?", else "expected " and all names. A name that other
/// frameworks have is no slip.
template <typename Range>
static std::string meantOrAny(StringRef wanted, const Range &names,
                              std::optional<Meant> elsewhere) {
  std::vector<std::string> list;
  for (const auto &name : names)
    list.push_back(std::string(name));
  std::string close;
  if (!elsewhere)
    close = kerf::closestName(wanted.str(), list);
  else if (!elsewhere->name.empty())
    close = elsewhere->name.str();
  if (close.empty())
    return "expected " + anyOf(names);
  return "did you mean '" + close + "'" +
         (elsewhere ? elsewhere->remark.str() : "") + "?";
}

std::string kerf::autodiff::lossNames() {
  return anyOf(llvm::map_to_vector(
      lossRules(), [](const LossRule &rule) { return rule.name; }));
}

std::string kerf::autodiff::optimizerNames() {
  return anyOf(llvm::map_to_vector(
      optimizerRules(), [](const OptimizerRule &rule) { return rule.name; }));
}

/// What is said of an option that means nearly what was asked for.
static std::string nearest(StringRef option, bool isThere) {
  return option.empty() || !isThere
             ? ""
             : ("; the nearest to it is " + option).str();
}

static llvm::Error lossOption(const LossRule &rule, LossSpec &spec,
                              StringRef key, StringRef text) {
  if (key == "ignore_index" && rule.isOfClasses()) {
    if (text.getAsInteger(10, spec.ignoreIndex))
      return wrong("option loss: ignore_index is '" + text +
                   "', expected an integer");
    return llvm::Error::success();
  }
  if (key == "dim" && rule.isOfClasses()) {
    if (text.getAsInteger(10, spec.classDim) || spec.classDim == 0)
      return wrong("option loss: dim is '" + text +
                   "', expected the dimension of the classes: 1 or more, or "
                   "-1 for the last (0 is the batch)");
    return llvm::Error::success();
  }
  if (key == "weight" && rule.isOfClasses()) {
    llvm::SmallVector<StringRef> numbers;
    text.split(numbers, ':');
    for (StringRef each : numbers)
      if (llvm::Error error = number("option loss", key, each.trim(), 0, 1e30,
                                     spec.classWeights.emplace_back()))
        return error;
    return llvm::Error::success();
  }
  if (const NumberOption *option = find(rule.options, key))
    return read("option loss", *option, text, spec.options[key.str()]);
  if (key == "reduction") {
    if (text != "mean" && text != "sum")
      return wrong("option loss: reduction is '" + text +
                   "', expected mean or sum");
    spec.mean = text == "mean";
    return llvm::Error::success();
  }
  // weight=1,2 is written as a list is elsewhere.
  double weight;
  if (!spec.classWeights.empty() && !key.getAsDouble(weight))
    return wrong("option loss: '" + key +
                 "' is no option: weights of classes "
                 "have colons between them, weight=1:2:0.5");
  std::string known =
      rule.isOfClasses() ? ", dim, ignore_index, weight=W0:W1:..." : "";
  for (const NumberOption &option : rule.options)
    known += ", " + option.key.str();
  StringRef near = nearLossOption(key);
  return wrong("option loss: unknown option '" + key + "', expected reduction" +
               known + nearest(near, StringRef(known).contains(near)));
}

/// What was read, or an error that says where commas belong.
template <typename Spec>
static llvm::Expected<Spec> orCommas(llvm::Expected<Spec> spec,
                                     StringRef text) {
  std::string meant = spec ? "" : kerf::withCommas(text.trim().str());
  if (meant.empty())
    return spec;
  return wrong(llvm::toString(spec.takeError()) +
               "; options have commas between them: " + meant);
}

static llvm::Expected<LossSpec> readLoss(StringRef text) {
  LossSpec spec;
  text = text.trim();
  spec.text = text.str();
  if (text.empty())
    return wrong(
        "option loss is missing, expected as cross_entropy(logits,labels)");
  size_t open = text.find('(');
  if (open == StringRef::npos) {
    spec.name = kOutputLoss.str();
    spec.prediction = text.str();
    return spec;
  }
  StringRef name = text.take_front(open).trim();
  const LossRule *rule = findLoss(name);
  if (!rule) {
    std::string meant = meantOrAny(
        name,
        llvm::map_to_vector(lossRules(),
                            [](const LossRule &each) { return each.name; }),
        lossElsewhere(name));
    // Written as a function is, of nothing.
    if (!name.empty() && text.drop_front(open + 1).ltrim().starts_with(")"))
      meant += (meant.back() == '?' ? " An" : "; an") +
               (" output of the model that is its loss is trained by its name "
                "alone: option loss=" +
                name)
                   .str();
    else if (meant.back() != '?')
      meant += "; one that the model computes is an output of it: option "
               "loss=NAME";
    return wrong("option loss: unknown loss '" + name + "', " + meant);
  }
  spec.name = name.str();
  for (const NumberOption &option : rule->options)
    spec.options[option.key.str()] = option.usual;
  for (const LossRule &other : lossRules())
    if (text.find((other.name + "(").str(), open) != StringRef::npos)
      return wrong("option loss: '" + text +
                   "' is more than one loss: add them in the model, and train "
                   "the output that is their sum by output(OUTPUT)");
  if (!text.ends_with(")"))
    return wrong("option loss: '" + text + "' does not end with ')'");
  llvm::SmallVector<StringRef> arguments;
  text.drop_front(open + 1).drop_back().split(arguments, ',');
  bool isOutput = name == kOutputLoss;
  size_t names = isOutput ? 1 : 2;
  for (size_t index = 0; index < names; ++index) {
    StringRef argument =
        index < arguments.size() ? arguments[index].trim() : StringRef();
    if (argument.empty() || argument.contains('='))
      return wrong(
          "option loss: '" + text + "', expected " +
          (isOutput ? Twine("output(OUTPUT)") : name + "(OUTPUT,TARGET)"));
    (index ? spec.target : spec.prediction) = argument.str();
  }
  for (StringRef option : llvm::drop_begin(arguments, names)) {
    auto [key, value] = option.trim().split('=');
    if (llvm::Error error = isOutput
                                ? wrong("option loss: output takes one name")
                                : lossOption(*rule, spec, key, value))
      return error;
  }
  return spec;
}

static llvm::Error optimizerOption(const OptimizerRule &rule,
                                   OptimizerSpec &spec, StringRef key,
                                   StringRef value) {
  const char *flag = "option optimizer";
  StringRef asked = key;
  key = optimizerOptionOf(asked);
  if (key == "lr")
    return number(flag, key, value, 0, 1e6, spec.learningRate);
  if (key == "wd")
    return number(flag, key, value, 0, 1e6, spec.weightDecay);
  if (const NumberOption *option = find(rule.options, key))
    return read(flag, *option, value, spec.options[key.str()]);
  llvm::SmallVector<StringRef> known{"lr", "wd (or weight_decay)", "no_decay"};
  for (const NumberOption &option : rule.options)
    known.push_back(option.key);
  StringRef near = nearOptimizerOption(key);
  return wrong(Twine(flag) + ": " + rule.name + " has no option '" + asked +
               "', expected " + anyOf(known) +
               nearest(near, near == "wd" || near == "lr" ||
                                 near == "no_decay" ||
                                 find(rule.options, near)) +
               (key == "warmup" || key == "steps" || key == "min"
                    ? "; option learning-rate has schedules, as in "
                      "cosine,warmup=100"
                    : ""));
}

llvm::Expected<LossSpec> kerf::autodiff::parseLoss(StringRef text) {
  return orCommas(readLoss(text), text);
}

static llvm::Expected<OptimizerSpec> readOptimizer(StringRef text) {
  OptimizerSpec spec;
  spec.text = text.trim().str();
  llvm::StringSet<> given;
  auto [name, rest] = text.trim().split(',');
  const OptimizerRule *rule = findOptimizer(name);
  if (!rule)
    return wrong("option optimizer: unknown optimizer '" + name + "', " +
                 meantOrAny(name,
                            llvm::map_to_vector(optimizerRules(),
                                                [](const OptimizerRule &each) {
                                                  return each.name;
                                                }),
                            optimizerElsewhere(name)));
  spec.name = name.str();
  spec.learningRate = rule->learningRate;
  spec.weightDecay = rule->weightDecay;
  for (const NumberOption &option : rule->options)
    spec.options[option.key.str()] = option.usual;
  if (rest.empty() && text.trim().ends_with(","))
    return wrong("option optimizer: nothing follows the last comma");
  while (!rest.empty()) {
    if (rest.consume_front("no_decay=")) {
      if (rest.empty())
        return wrong(
            "option optimizer: no_decay= is empty, expected a pattern");
      spec.noDecay = rest.str();
      break;
    }
    auto [option, tail] = rest.split(',');
    auto [key, value] = option.trim().split('=');
    StringRef own = optimizerOptionOf(key);
    if (!given.insert(own).second)
      return wrong("option optimizer: " + key + " is given twice" +
                   (own == key ? "" : " (as " + own + ", too)"));
    if (llvm::Error error = optimizerOption(*rule, spec, key, value))
      return error;
    if (tail.empty() && rest.ends_with(","))
      return wrong("option optimizer: nothing follows the last comma");
    rest = tail;
  }
  if (!spec.noDecay.empty() && spec.weightDecay == 0)
    return wrong("option optimizer: no_decay needs a wd");
  if (StringRef reason = rule->check ? rule->check(spec) : ""; !reason.empty())
    return wrong("option optimizer: " + reason);
  return spec;
}

llvm::Expected<OptimizerSpec> kerf::autodiff::parseOptimizer(StringRef text) {
  return orCommas(readOptimizer(text), text);
}
