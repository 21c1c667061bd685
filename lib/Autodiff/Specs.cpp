//===- Specs.cpp - --loss and --optimizer as text -------------------------===//
#include "kerf/Autodiff/Autodiff.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace kerf::autodiff;
using llvm::StringRef;
using llvm::Twine;

static llvm::Error wrong(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static llvm::Error number(StringRef flag, StringRef key, StringRef text,
                          double least, double most, double &result) {
  if (text.getAsDouble(result) || !(result >= least) || !(result <= most))
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "%s: %s is '%s', expected a number from %g to %g", flag.str().c_str(),
        key.str().c_str(), text.str().c_str(), least, most);
  return llvm::Error::success();
}

static std::optional<LossSpec::Kind> lossKind(StringRef name) {
  using Kind = LossSpec::Kind;
  return llvm::StringSwitch<std::optional<Kind>>(name)
      .Case("cross_entropy", Kind::CrossEntropy)
      .Case("nll", Kind::NegativeLogLikelihood)
      .Case("mse", Kind::MeanSquaredError)
      .Case("l1", Kind::L1)
      .Case("bce_with_logits", Kind::BinaryCrossEntropy)
      .Case("output", Kind::Output)
      .Default(std::nullopt);
}

static llvm::Error lossOption(LossSpec &spec, StringRef key, StringRef text) {
  bool isOfClasses = spec.kind == LossSpec::Kind::CrossEntropy ||
                     spec.kind == LossSpec::Kind::NegativeLogLikelihood;
  if (key == "ignore_index" && isOfClasses) {
    if (text.getAsInteger(10, spec.ignoreIndex))
      return wrong("--loss: ignore_index is '" + text +
                   "', expected an integer");
    return llvm::Error::success();
  }
  if (key == "label_smoothing" && spec.kind == LossSpec::Kind::CrossEntropy)
    return number("--loss", key, text, 0, 1, spec.labelSmoothing);
  if (key == "reduction") {
    if (text != "mean" && text != "sum")
      return wrong("--loss: reduction is '" + text + "', expected mean or sum");
    spec.mean = text == "mean";
    return llvm::Error::success();
  }
  return wrong(
      "--loss: unknown option '" + key + "', expected reduction" +
      (isOfClasses ? ", ignore_index" : "") +
      (spec.kind == LossSpec::Kind::CrossEntropy ? ", label_smoothing" : ""));
}

llvm::Expected<LossSpec> kerf::autodiff::parseLoss(StringRef text) {
  LossSpec spec;
  text = text.trim();
  spec.text = text.str();
  if (text.empty())
    return wrong("--loss is missing, expected as cross_entropy(logits,labels)");
  size_t open = text.find('(');
  if (open == StringRef::npos) {
    spec.kind = LossSpec::Kind::Output;
    spec.prediction = text.str();
    return spec;
  }
  StringRef name = text.take_front(open).trim();
  std::optional<LossSpec::Kind> kind = lossKind(name);
  if (!kind)
    return wrong("--loss: unknown loss '" + name +
                 "', expected cross_entropy, nll, mse, l1, bce_with_logits or "
                 "output");
  spec.kind = *kind;
  if (!text.ends_with(")"))
    return wrong("--loss: '" + text + "' does not end with ')'");
  llvm::SmallVector<StringRef> arguments;
  text.drop_front(open + 1).drop_back().split(arguments, ',');
  size_t names = spec.kind == LossSpec::Kind::Output ? 1 : 2;
  for (size_t index = 0; index < names; ++index) {
    StringRef argument =
        index < arguments.size() ? arguments[index].trim() : StringRef();
    if (argument.empty() || argument.contains('='))
      return wrong(
          "--loss: '" + text + "', expected " +
          (names == 2 ? name + "(OUTPUT,TARGET)" : Twine("output(OUTPUT)")));
    (index ? spec.target : spec.prediction) = argument.str();
  }
  for (StringRef option : llvm::drop_begin(arguments, names)) {
    auto [key, value] = option.trim().split('=');
    if (llvm::Error error = spec.kind == LossSpec::Kind::Output
                                ? wrong("--loss: output takes one name")
                                : lossOption(spec, key, value))
      return error;
  }
  return spec;
}

static llvm::Error optimizerOption(OptimizerSpec &spec, StringRef name,
                                   StringRef key, StringRef value) {
  using Kind = OptimizerSpec::Kind;
  const char *flag = "--optimizer";
  bool isSgd = spec.kind == Kind::SGD;
  bool isAdam = spec.kind == Kind::Adam || spec.kind == Kind::AdamW;
  if (key == "lr")
    return number(flag, key, value, 0, 1e6, spec.learningRate);
  if (key == "wd" || key == "weight_decay")
    return number(flag, key, value, 0, 1e6, spec.weightDecay);
  if (key == "momentum" && isSgd)
    return number(flag, key, value, 0, 1, spec.momentum);
  if (key == "dampening" && isSgd)
    return number(flag, key, value, 0, 1, spec.dampening);
  if (key == "nesterov" && isSgd) {
    if (!value.empty() && value != "true" && value != "false")
      return wrong(Twine(flag) + ": nesterov is '" + value +
                   "', expected true or false");
    spec.nesterov = value != "false";
    return llvm::Error::success();
  }
  if ((key == "beta1" || key == "beta2") && isAdam)
    // 1 would divide by the zero of its own bias correction.
    return number(flag, key, value, 0, 0.999999,
                  key == "beta1" ? spec.beta1 : spec.beta2);
  if (key == "eps" && !isSgd)
    return number(flag, key, value, 0, 1e6, spec.epsilon);
  if (key == "initial" && spec.kind == Kind::Adagrad)
    return number(flag, key, value, 0, 1e6, spec.initialSum);
  return wrong(Twine(flag) + ": " + name + " has no option '" + key +
               "', expected lr, wd, no_decay" +
               (isSgd    ? ", momentum, dampening or nesterov"
                : isAdam ? ", beta1, beta2 or eps"
                         : ", eps or initial"));
}

llvm::Expected<OptimizerSpec> kerf::autodiff::parseOptimizer(StringRef text) {
  using Kind = OptimizerSpec::Kind;
  OptimizerSpec spec;
  spec.text = text.trim().str();
  llvm::StringSet<> given;
  auto [name, rest] = text.trim().split(',');
  if (name == "sgd") {
    spec.kind = Kind::SGD;
  } else if (name == "momentum") {
    spec.kind = Kind::SGD;
    spec.momentum = 0.9;
  } else if (name == "adam") {
    spec.kind = Kind::Adam;
  } else if (name == "adamw") {
    spec.kind = Kind::AdamW;
    spec.weightDecay = 0.01;
  } else if (name == "adagrad") {
    spec.kind = Kind::Adagrad;
    spec.learningRate = 0.01;
    spec.epsilon = 1e-10;
  } else {
    return wrong("--optimizer: unknown optimizer '" + name +
                 "', expected sgd, momentum, adam, adamw or adagrad");
  }
  if (rest.empty() && text.trim().ends_with(","))
    return wrong("--optimizer: nothing follows the last comma");
  while (!rest.empty()) {
    if (rest.consume_front("no_decay=")) {
      if (rest.empty())
        return wrong("--optimizer: no_decay= is empty, expected a pattern");
      spec.noDecay = rest.str();
      break;
    }
    auto [option, tail] = rest.split(',');
    auto [key, value] = option.trim().split('=');
    if (!given.insert(key == "weight_decay" ? "wd" : key).second)
      return wrong("--optimizer: " + key + " is given twice");
    if (llvm::Error error = optimizerOption(spec, name, key, value))
      return error;
    if (tail.empty() && rest.ends_with(","))
      return wrong("--optimizer: nothing follows the last comma");
    rest = tail;
  }
  if (spec.nesterov && spec.momentum == 0)
    return wrong("--optimizer: nesterov needs a momentum");
  if (spec.dampening != 0 && spec.momentum == 0)
    return wrong("--optimizer: dampening needs a momentum");
  if (spec.dampening != 0 && spec.nesterov)
    return wrong("--optimizer: nesterov knows no dampening");
  return spec;
}
